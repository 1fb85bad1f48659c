//! Recordings of real machines, as text: `perf sched script` (or `perf script` with the
//! `sched_switch` and `sched_wakeup` events) and `perf sched timehist`.
//!
//! What a recording tells is when each thread ran, when it blocked and when it woke up. That is
//! replayed as a program: run as long as it did, then block as long as it did. How long it waited
//! for a cpu is left out, since that is for the policy to decide. A thread arrives when it is first
//! seen (at once if it was running then) and leaves after what was recorded. Its weight is that of
//! its nice level; a real-time thread counts as nice −20.
//!
//! `timehist` says less: without `--state` a thread that waited with a scheduling delay of 0 is
//! taken for preempted and otherwise for woken, and every thread has nice 0.

use std::collections::BTreeMap;

use prorata::{Nanos, Weight};

use super::resources::is_unprintable;
use super::{
    Group, LONGEST_H, LONGEST_NS, Length, Op, Program, Tasks, WorkloadError, weight_of_nice,
};

/// The threads in a recording; it lasts as long as the recording.
///
/// # Errors
/// When `text` is no recording, or a line of it is damaged.
pub fn parse_recording(text: &str) -> Result<Tasks, WorkloadError> {
    let mut threads = Threads::default();
    if text.contains("sched_switch:") {
        threads.script(text)?;
    } else {
        threads.timehist(text)?;
    }
    threads.tasks()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runnable,
    RunningSince(Nanos),
    BlockedSince(Nanos),
    Gone,
}

struct Thread {
    /// As it was mentioned last.
    mentioned: String,
    /// The same, for print.
    name: String,
    weight: Weight,
    arrival_ns: Nanos,
    state: State,
    /// Running that has not been pushed yet.
    run_ns: Nanos,
    program: Program,
}

#[derive(Default)]
struct Threads {
    by_id: BTreeMap<u32, Thread>,
    /// The first and the last time in the recording.
    span_ns: Option<(Nanos, Nanos)>,
}

/// A thread as one line names it.
struct Mention<'l> {
    name: &'l str,
    id: u32,
    /// The kernel's: 100 to 139 for nice −20 to 19, less for real-time threads.
    priority: Option<i64>,
}

impl Mention<'_> {
    fn weight(&self) -> Weight {
        let nice = self.priority.map_or(0, |priority| priority.clamp(100, 139) - 120);
        weight_of_nice(nice).unwrap_or(Weight::ONE)
    }
}

impl Threads {
    fn script(&mut self, text: &str) -> Result<(), WorkloadError> {
        for (number, line) in (1..).zip(text.lines()) {
            let damaged = || damaged(number, line);
            if let Some((head, fields)) = line.split_once("sched_switch:") {
                let at_ns = time_before(head).ok_or_else(damaged)?;
                let (prev, state, next) = switch(fields).ok_or_else(damaged)?;
                self.see(at_ns);
                self.leaves(&prev, state, at_ns)?;
                self.gets_cpu(&next, at_ns);
            } else if let Some((head, fields)) = wakeup_event(line) {
                let at_ns = time_before(head).ok_or_else(damaged)?;
                let woken = wakeup(fields).ok_or_else(damaged)?;
                self.see(at_ns);
                self.wakes(&woken, at_ns);
            }
        }
        Ok(())
    }

    fn see(&mut self, at_ns: Nanos) {
        let (first_ns, last_ns) = self.span_ns.unwrap_or((at_ns, at_ns));
        self.span_ns = Some((first_ns.min(at_ns), last_ns.max(at_ns)));
    }

    fn start_ns(&self) -> Nanos {
        self.span_ns.map_or(0, |(first_ns, _)| first_ns)
    }

    /// The thread that `mention` names; in `state` if it was not known. The idle task is nobody.
    fn thread(&mut self, mention: &Mention<'_>, at_ns: Nanos, state: State) -> Option<&mut Thread> {
        if mention.id == 0 {
            return None;
        }
        let arrival_ns = at_ns.saturating_sub(self.start_ns());
        let thread = self.by_id.entry(mention.id).or_insert_with(|| Thread {
            mentioned: String::new(),
            name: String::new(),
            weight: mention.weight(),
            arrival_ns,
            state,
            run_ns: 0,
            program: Program::default(),
        });
        // A program that a process turns into (exec) names it from then on.
        if thread.mentioned != mention.name {
            thread.mentioned = mention.name.to_string();
            thread.name = mention.name.replace(is_unprintable, "?");
        }
        Some(thread)
    }

    fn leaves(
        &mut self,
        mention: &Mention<'_>,
        state: char,
        at_ns: Nanos,
    ) -> Result<(), WorkloadError> {
        // Who is first seen leaving a cpu has run since the recording began.
        let start_ns = self.start_ns();
        let Some(thread) = self.thread(mention, start_ns, State::RunningSince(start_ns)) else {
            return Ok(());
        };
        if let State::RunningSince(since_ns) = thread.state {
            thread.run(at_ns.saturating_sub(since_ns))?;
        }
        thread.state = match state {
            'R' => State::Runnable,
            'X' | 'Z' | 'x' => State::Gone,
            _ => State::BlockedSince(at_ns),
        };
        Ok(())
    }

    fn gets_cpu(&mut self, mention: &Mention<'_>, at_ns: Nanos) {
        let Some(thread) = self.thread(mention, at_ns, State::Runnable) else { return };
        thread.wake(at_ns);
        thread.state = State::RunningSince(at_ns);
    }

    fn wakes(&mut self, mention: &Mention<'_>, at_ns: Nanos) {
        if let Some(thread) = self.thread(mention, at_ns, State::Runnable) {
            thread.wake(at_ns);
        }
    }

    fn timehist(&mut self, text: &str) -> Result<(), WorkloadError> {
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let timed = line.split_whitespace().next().is_some_and(|word| time(word).is_some());
            if timed && line.contains('[') {
                lines.push(Hist::parse(line).ok_or_else(|| damaged(number, line))?);
            }
        }
        for line in &lines {
            self.see(line.end_ns.saturating_sub(line.run_ns + line.delay_ns));
            self.see(line.end_ns);
        }
        let mut preempted: BTreeMap<u32, bool> = BTreeMap::new();
        for line in &lines {
            let begin_ns = line.end_ns.saturating_sub(line.run_ns);
            let arrival_ns = begin_ns.saturating_sub(line.delay_ns);
            let waited = preempted.insert(line.thread.id, line.state == Some('R'));
            let was_preempted = match line.state {
                Some(_) => waited == Some(true),
                None => line.delay_ns == 0,
            };
            let sleep_ns = line.wait_ns.saturating_sub(line.delay_ns);
            let Some(thread) = self.thread(&line.thread, arrival_ns, State::Runnable) else {
                continue;
            };
            if waited.is_some() && !was_preempted {
                thread.sleep(sleep_ns);
            }
            thread.run(line.run_ns)?;
        }
        Ok(())
    }

    fn tasks(self) -> Result<Tasks, WorkloadError> {
        let Some((start_ns, end_ns)) = self.span_ns else {
            return Err(WorkloadError::new(
                "",
                "this is no recording: export one with 'perf sched record' and then 'perf sched \
                 script' or 'perf sched timehist' (a workload of ours ends in .toml, one of \
                 rt-app in .json)",
            ));
        };
        let groups: Vec<Group> = self
            .by_id
            .into_iter()
            .filter_map(|(id, mut thread)| {
                if let State::RunningSince(since_ns) = thread.state {
                    thread.run_ns += end_ns.saturating_sub(since_ns);
                }
                thread.push_run();
                (!thread.program.ops.is_empty()).then(|| Group {
                    name: format!("{}[{id}]", thread.name),
                    count: 1,
                    weight: thread.weight,
                    arrival: Length::Fixed(thread.arrival_ns),
                    program: thread.program,
                })
            })
            .collect();
        if groups.is_empty() {
            let message = "no thread runs in this recording: record again while something does";
            return Err(WorkloadError::new("", message));
        }
        Ok(Tasks { duration_ns: Some((end_ns - start_ns).max(1)), groups, resources: Vec::new() })
    }
}

impl Thread {
    fn wake(&mut self, at_ns: Nanos) {
        if let State::BlockedSince(since_ns) = self.state {
            self.sleep(at_ns.saturating_sub(since_ns));
            self.state = State::Runnable;
        }
    }

    /// # Errors
    /// When damaged times let it run for longer than anything lasts.
    fn run(&mut self, length_ns: Nanos) -> Result<(), WorkloadError> {
        self.run_ns += length_ns;
        if self.run_ns <= LONGEST_NS {
            return Ok(());
        }
        let message = format!("'{}' runs for more than {LONGEST_H}h: record it again", self.name);
        Err(WorkloadError::new("", message))
    }

    fn sleep(&mut self, length_ns: Nanos) {
        if length_ns > 0 {
            self.push_run();
            self.program.push(Op::Sleep(Length::Fixed(length_ns)));
        }
    }

    fn push_run(&mut self) {
        if self.run_ns > 0 {
            self.program.push(Op::Run(Length::Fixed(std::mem::take(&mut self.run_ns))));
        }
    }
}

fn damaged(number: usize, line: &str) -> WorkloadError {
    let shown: String = line.trim().chars().take(100).collect();
    let shown = shown.replace(is_unprintable, "?");
    let message = format!(
        "'{shown}' cannot be understood: leave the line out, or export the recording again with 'perf \
         sched script'"
    );
    WorkloadError::new(format!("line {number}"), message)
}

/// The time in front of an event: the last word but for the event's `sched:`.
fn time_before(head: &str) -> Option<Nanos> {
    let head = head.trim_end().strip_suffix("sched:").unwrap_or(head);
    time(head.split_whitespace().next_back()?.strip_suffix(':')?)
}

/// Seconds with up to nine decimals, as nanoseconds.
fn time(word: &str) -> Option<Nanos> {
    let (seconds, fraction) = word.split_once('.')?;
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction_ns: u64 = format!("{fraction:0<9}").parse().ok()?;
    let total_ns =
        seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)?;
    (total_ns <= LONGEST_NS).then_some(total_ns)
}

/// `prev_comm=A prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=B next_pid=2 next_prio=120`,
/// or the short form `A:1 [120] S ==> B:2 [120]`.
fn switch(fields: &str) -> Option<(Mention<'_>, char, Mention<'_>)> {
    let (prev, next) = fields.split_once(" ==> ")?;
    if prev.contains("prev_comm=") {
        let state = prev.rsplit_once("prev_state=")?.1.chars().next()?;
        return Some((named(prev, "prev_")?, state, named(next, "next_")?));
    }
    let (mention, state) = prev.trim().rsplit_once(' ')?;
    Some((short(mention)?, state.chars().next()?, short(next)?))
}

fn wakeup_event(line: &str) -> Option<(&str, &str)> {
    line.split_once("sched_wakeup:").or_else(|| line.split_once("sched_wakeup_new:"))
}

/// `comm=A pid=1 prio=120 target_cpu=000`, or `A:1 [120] success=1 CPU:000`.
fn wakeup(fields: &str) -> Option<Mention<'_>> {
    if fields.contains("comm=") { named(fields, "") } else { short(fields) }
}

/// Names may hold spaces: a field ends where the next one begins.
fn named<'l>(fields: &'l str, prefix: &str) -> Option<Mention<'l>> {
    let after = |key: &str| Some(fields.split_once(&format!("{prefix}{key}="))?.1);
    let name = after("comm")?.split_once(&format!(" {prefix}pid="))?.0;
    let number = |key| after(key)?.split_whitespace().next()?.parse::<i64>().ok();
    let id = u32::try_from(number("pid")?).ok()?;
    Some(Mention { name, id, priority: number("prio") })
}

/// `A:1 [120] …`
fn short(text: &str) -> Option<Mention<'_>> {
    let (thread, rest) = text.trim().split_once(" [")?;
    let (name, id) = thread.rsplit_once(':')?;
    let priority = rest.split_once(']')?.0.parse().ok()?;
    Some(Mention { name, id: id.parse().ok()?, priority: Some(priority) })
}

/// One line of `perf sched timehist`.
struct Hist<'l> {
    end_ns: Nanos,
    thread: Mention<'l>,
    wait_ns: Nanos,
    delay_ns: Nanos,
    run_ns: Nanos,
    state: Option<char>,
}

impl Hist<'_> {
    fn parse(line: &str) -> Option<Hist<'_>> {
        let (end, rest) = line.trim().split_once(char::is_whitespace)?;
        let (_cpu, rest) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
        let (name, rest) = rest.trim_start().rsplit_once(']')?;
        let (name, ids) = name.rsplit_once('[').unwrap_or((name, "0"));
        // A thread that perf lost sight of has the id −1: it is nobody, as the idle task.
        let id = ids.split('/').next()?.parse::<i64>().ok()?.try_into().unwrap_or(0);
        let mut words = rest.split_whitespace();
        let [wait_ns, delay_ns, run_ns] = [
            milliseconds(words.next()?)?,
            milliseconds(words.next()?)?,
            milliseconds(words.next()?)?,
        ];
        let state = words.next().and_then(|word| word.chars().next());
        let thread = Mention { name, id, priority: None };
        Some(Hist { end_ns: time(end)?, thread, wait_ns, delay_ns, run_ns, state })
    }
}

/// Milliseconds with up to six decimals, as nanoseconds.
fn milliseconds(word: &str) -> Option<Nanos> {
    let (whole, fraction) = word.split_once('.')?;
    if fraction.len() > 6 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction_ns: u64 = format!("{fraction:0<6}").parse().ok()?;
    let total_ns = whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction_ns)?;
    (total_ns <= LONGEST_NS).then_some(total_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(us: u64) -> Op {
        Op::Run(Length::Fixed(us * 1000))
    }

    fn sleep(us: u64) -> Op {
        Op::Sleep(Length::Fixed(us * 1000))
    }

    /// By name: arrival in µs, and what it does.
    fn programs(text: &str) -> Vec<(String, u64, Vec<Op>)> {
        let us = |length| if let Length::Fixed(ns) = length { ns / 1000 } else { 0 };
        let groups = parse_recording(text).expect(text).groups;
        groups.into_iter().map(|g| (g.name, us(g.arrival), g.program.ops)).collect()
    }

    /// Of real-time threads, and of damaged lines.
    #[test]
    fn any_priority_has_a_weight() {
        let weight = |priority| Mention { name: "a", id: 1, priority }.weight().get();
        assert_eq!([None, Some(120)].map(weight), [1024; 2]);
        assert_eq!([Some(100), Some(0), Some(i64::MIN)].map(weight), [88761; 3]);
        assert_eq!([Some(139), Some(i64::MAX)].map(weight), [15; 2]);
    }

    /// Task 1 runs 100 µs, is preempted for 50, runs 20 more, sleeps 30, runs 10.
    #[test]
    fn a_script_is_replayed_without_its_waits() {
        let text = "\
            swapper 0 [000] 10.000000: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 \
              prev_prio=120 prev_state=R ==> next_comm=a b next_pid=1 next_prio=115\n\
            a b 1 [000] 10.000100: sched:sched_switch: prev_comm=a b prev_pid=1 prev_prio=115 \
              prev_state=R+ ==> next_comm=c next_pid=2 next_prio=120\n\
            c 2 [000] 10.000150: sched:sched_switch: prev_comm=c prev_pid=2 prev_prio=120 \
              prev_state=X ==> next_comm=a b next_pid=1 next_prio=115\n\
            a b 1 [000] 10.000170: sched:sched_switch: prev_comm=a b prev_pid=1 prev_prio=115 \
              prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n\
            swapper 0 [000] 10.000200: sched:sched_wakeup: comm=a b pid=1 prio=115 target_cpu=000\n\
            swapper 0 [000] 10.000205: sched:sched_switch: swapper/0:0 [120] R ==> a b:1 [115]\n\
            a b 1 [000] 10.000215: sched:sched_switch: a b:1 [115] S ==> swapper/0:0 [120]\n";
        assert_eq!(
            programs(text),
            [
                ("a b[1]".to_string(), 0, vec![run(120), sleep(30), run(10)]),
                ("c[2]".to_string(), 100, vec![run(50)])
            ]
        );
        let tasks = parse_recording(text).expect(text);
        assert_eq!(tasks.duration_ns, Some(215_000));
        assert_eq!(tasks.groups[0].weight, weight_of_nice(-5).expect("a nice level"));
    }

    #[test]
    fn timehist_tells_waking_from_preemption_by_the_delay() {
        let text = "           time    cpu  task name  wait time  sch delay   run time\n\
             1.000100 [0000]  a b[1/1]     0.000      0.000      0.100\n\
             1.000170 [0000]  a b[1/1]     0.050      0.000      0.020\n\
             1.000215 [0000]  a b[1/1]     0.035      0.005      0.010\n\
             1.000300 [0000]  <idle>       0.000      0.000      0.085\n";
        // An idle line has no id and counts as nobody.
        let text =
            text.replace("<idle>", "<idle>[0]  ") + "1.000310 [0001] :-1[-1/7] 0.000 0.000 0.010\n";
        assert_eq!(
            programs(&text),
            [("a b[1]".to_string(), 0, vec![run(120), sleep(30), run(10)])]
        );
    }

    #[test]
    fn names_can_be_printed() {
        let line = "1.000100 [0000] \u{1b}[31mred\u{1}[1/1] 0.000 0.000 0.100\n";
        assert_eq!(programs(line)[0].0, "?[31mred?[1]");
    }

    #[test]
    fn anything_else_is_an_error() {
        for text in ["", "hello", "{}"] {
            assert!(parse_recording(text).expect_err(text).to_string().contains("no recording"));
        }
        let error = parse_recording("x 1.0: sched_switch: y").expect_err("damaged");
        let message = "line 1: 'x 1.0: sched_switch: y' cannot be understood: leave the line out";
        assert!(error.to_string().starts_with(message), "{error}");
        let line = "1.000100 [0000] a[1/1] 0.000 0.000 18446744073709.0\n";
        let error = parse_recording(line).expect_err("too long").to_string();
        assert!(error.starts_with("line 1: '1.000100") && error.contains("cannot be"), "{error}");
        let most = line.replace("18446744073709.0", "72057594037.0").repeat(2);
        let error = parse_recording(&most).expect_err("too long in all").to_string();
        assert!(error.contains("'a' runs for more than 20015h"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([ \\[\\]:=>.0-9aRS\n]|sched_switch:|==>|prev_comm=| prev_pid=){0,40}") {
            let _ = parse_recording(&text);
        }
    }
}
