//! `prorata verify`: what the kernel decided, against what the policy decides.
//!
//! A recording (`scx_prorata --record FILE`) holds every event that the kernel's policy was told
//! and every decision that it took. The events are told to the core library's policy of the same
//! name, which must decide the same. Quanta outside the policy (tasks rescued, or bound to other
//! cpus than the one that picked them) are events like any other: what they change is explained,
//! and they are counted. Where cpus came or went, a policy begins anew that knows nothing.

mod steps;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use prorata::ideal::ServiceErrors;
use prorata::{Nanos, Policy, Setup, TaskId, Weight, central};
use prorata_sim::workload::LONGEST_NS;
use serde_json::{Map, Value, json};
use steps::Steps;

use super::{cannot_read, print};

/// Numbers of tasks in a recording are below this.
const MAX_TASKS: u32 = 1 << 20;
/// Times are at most this, 146 years, and so is what all tasks used: sums of them fit.
const MAX_NS: Nanos = 1 << 62;
/// What a cgroup is late by at most, in quanta (`crates/scx/src/bpf/late.h`).
const LATE_QUANTA: u64 = 8;

/// Compare the kernel's recorded decisions with the policy's.
///
/// The exit status is 1 if one differs, 2 if the file is no recording.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recording.
    file: PathBuf,
    /// What to print.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// Lines, for people.
    Table,
    /// One JSON object, for programs.
    Json,
}

/// What a replay found.
enum Found {
    /// A line that tells what the policy does not do.
    Difference(Difference),
    /// None.
    Same(Summary),
}

/// The line with this number tells what the policy does not do, in words.
struct Difference(u64, String);

/// What a recording holds: for people, and by name.
struct Summary {
    text: String,
    values: Map<String, Value>,
}

impl Args {
    /// Exit code 1 if a decision differs.
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let name = self.file.display().to_string();
        let found = verify(&name, &self.file)?;
        print(&match self.format {
            Format::Table => found.text(&name),
            Format::Json => found.object(&name).to_string() + "\n",
        })?;
        Ok(match found {
            Found::Difference(_) => ExitCode::FAILURE,
            Found::Same(_) => ExitCode::SUCCESS,
        })
    }
}

impl Found {
    fn text(&self, name: &str) -> String {
        match self {
            Found::Difference(Difference(line, wrong)) => format!("{name}, line {line}: {wrong}\n"),
            Found::Same(summary) => summary.text.clone(),
        }
    }

    fn object(&self, name: &str) -> Value {
        let mut object = json!({ "recording": name, "same": matches!(self, Found::Same(_)) });
        let more = match self {
            Found::Difference(Difference(line, wrong)) => {
                Map::from_iter([("line".into(), json!(line)), ("difference".into(), json!(wrong))])
            }
            Found::Same(summary) => summary.values.clone(),
        };
        object.as_object_mut().expect("it is one").extend(more);
        object
    }
}

fn verify(name: &str, path: &Path) -> Result<Found> {
    let file = File::open(path).map_err(|error| unreadable(path, error))?;
    let lines = BufReader::new(file).lines();
    let mut lines = (1..).zip(lines.map(|line| line.map_err(|error| unreadable(path, error))));
    let empty = || format!("{name} is empty: name {A_RECORDING}");
    let (_, first) = lines.next().with_context(empty)?;
    let first = first?;
    let head = Head::parse(&first).with_context(|| place(name, 1, &first))?;
    if steps::are_recorded(&head) {
        let steps = Steps::start(head).map_err(|error| damaged(name, 1, &first, &error))?;
        return verify_steps(name, steps, lines);
    }
    let mut replay = Replay::start(head).map_err(|error| damaged(name, 1, &first, &error))?;
    for (number, line) in lines {
        let line = line?;
        let found = replay.event(&line).map_err(|error| damaged(name, number, &line, &error))?;
        if let Some(difference) = found {
            return Ok(Found::Difference(Difference(number, difference)));
        }
    }
    Ok(Found::Same(replay.report()))
}

/// The same for each cpu's steps.
fn verify_steps(
    name: &str,
    mut steps: Steps,
    lines: impl Iterator<Item = (u64, Result<String>)>,
) -> Result<Found> {
    for (number, line) in lines {
        let line = line?;
        let found =
            steps.line(number, &line).map_err(|error| damaged(name, number, &line, &error))?;
        if let Some(difference) = found {
            return Ok(Found::Difference(difference));
        }
    }
    Ok(match steps.end() {
        Some(difference) => Found::Difference(difference),
        None => Found::Same(steps.report()),
    })
}

/// What this command reads.
const A_RECORDING: &str = "a file that 'scx_prorata --record FILE' wrote";

fn unreadable(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData => {
            anyhow!("{} is no text: name {A_RECORDING}", path.display())
        }
        _ => anyhow!("{:#}; this reads {A_RECORDING}", cannot_read(path, error)),
    }
}

/// A line, as messages name it.
fn place(name: &str, number: u64, line: &str) -> String {
    let printable = |sign: char| if sign.is_control() { '?' } else { sign };
    let shown: String = line.chars().take(100).map(printable).collect();
    format!("{name}, line {number}: '{shown}'")
}

/// What is wrong with a line, and what to do about it.
fn damaged(name: &str, number: u64, line: &str, error: &Error) -> Error {
    let place = place(name, number, line);
    anyhow!(
        "{place}: {error:#}: the recording is damaged, or of another version of scx_prorata: record again"
    )
}

/// What the first line says.
struct Head {
    policy: String,
    cpus: usize,
    quantum_ns: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Blocked,
    Waiting,
    Running,
}

/// Of its credit a task loses ...
#[derive(Clone, Copy)]
enum Loss {
    Some,
    /// all, and has ended.
    HasEnded,
    /// all, and waits for its turn.
    WaitsOn,
}

struct Task {
    state: State,
    /// It runs outside the policy: blocked for the policy, not for the service error.
    away: bool,
    /// It was added, and nothing else has been told of it.
    new: bool,
    /// Extremes of its service error, over all that had its number: in ns.
    worst: (f64, f64),
}

/// The core's policy beside the recording.
struct Replay {
    /// As the recording names it.
    spec: String,
    policy: Box<dyn Policy + Send>,
    errors: ServiceErrors,
    quantum_ns: Nanos,
    now_ns: Nanos,
    /// What all tasks used.
    used_ns: Nanos,
    /// What lapsed, as far as it was gathered, and no turn was lengthened by.
    lapsed_ns: Nanos,
    /// The most that tasks could leave for others, and these have not had.
    left_ns: Nanos,
    /// By task: what it was charged with and did not run then, less what it forwent.
    unrun_ns: Vec<Nanos>,
    tasks: Vec<Task>,
    /// The task on each cpu.
    cpus: Vec<Option<u32>>,
    picks: u64,
    paid: u64,
    away: u64,
    cpu_changes: u64,
}

impl Head {
    fn parse(line: &str) -> Result<Head> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["prorata-record", "1", "policy", policy, "cpus", cpus, "quantum_ns", quantum_ns] =
            words[..]
        else {
            bail!("this does not begin a recording of ours: name {A_RECORDING}, of this version");
        };
        let cpus = number_of(cpus, "cpus", 1..=Setup::MAX_CPUS as u64)?;
        let cpus = usize::try_from(cpus)?;
        let quantum_ns = number_of(quantum_ns, "nanoseconds of a quantum", 1..=LONGEST_NS)?;
        Ok(Head { policy: policy.to_owned(), cpus, quantum_ns })
    }
}

impl Replay {
    fn start(head: Head) -> Result<Replay> {
        let Head { policy: spec, cpus, quantum_ns } = head;
        Ok(Replay {
            policy: build(&spec, cpus, quantum_ns)?,
            spec,
            errors: ServiceErrors::new(cpus),
            quantum_ns,
            now_ns: 0,
            lapsed_ns: 0,
            left_ns: 0,
            unrun_ns: Vec::new(),
            used_ns: 0,
            tasks: Vec::new(),
            cpus: vec![None; cpus],
            picks: 0,
            paid: 0,
            away: 0,
            cpu_changes: 0,
        })
    }

    /// Replays a line. The first decision that differs, in words.
    fn event(&mut self, line: &str) -> Result<Option<String>> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[time, verb, ref arguments @ ..] = &words[..] else { bail!("not an event") };
        let now_ns = time.parse().with_context(|| format!("'{time}' is no time"))?;
        ensure!(now_ns >= self.now_ns, "time goes back");
        ensure!(now_ns <= MAX_NS, "there is no such time");
        self.now_ns = now_ns;
        match (verb, arguments) {
            ("pick", [cpu, picked]) => return self.pick(number(cpu)?, picked),
            ("interrupt", [cpu]) => return self.interrupt(cpu),
            ("add", [task, weight, _pid]) => self.add(number(task)?, weight)?,
            ("remove", [task]) => self.remove(number(task)?)?,
            ("weight", [task, weight]) => self.weight(number(task)?, weight)?,
            ("wake", [task]) => self.wake(number(task)?)?,
            ("block", [task]) => self.block(number(task)?)?,
            ("aside", [task]) => self.stand_aside(number(task)?)?,
            ("charge", [task, charged, used]) => {
                self.charge(number(task)?, charged.parse()?, used.parse()?)?;
            }
            ("cpus", [cpus]) => {
                self.begin_anew(number(cpus)? as usize)?;
                self.cpu_changes += 1;
            }
            ("endow", [task, advance]) => self.endow(number(task)?, advance.parse()?)?,
            ("take", [task, credit]) => {
                return self.take_credit(number(task)?, credit.parse()?, Loss::Some);
            }
            ("retire", [task, credit]) => {
                return self.take_credit(number(task)?, credit.parse()?, Loss::HasEnded);
            }
            ("forfeit", [task, credit]) => {
                return self.take_credit(number(task)?, credit.parse()?, Loss::WaitsOn);
            }
            ("pass", []) => self.policy.pass(self.now_ns),
            ("keep", [task, kept]) => {
                let task = number(task)?;
                self.task(task, &[State::Blocked])?;
                self.policy.keep(TaskId(task), *kept == "1");
            }
            ("forgo", [task, turns]) => self.forgo(number(task)?, turns.parse()?)?,
            ("leave", [task, left]) => self.leave_spare(number(task)?, left.parse()?)?,
            ("lengthen", [task, charged, more]) => {
                return self.lengthen(number(task)?, charged.parse()?, more.parse()?);
            }
            ("away", [task, "cpus"]) => self.go_on_away(number(task)?)?,
            ("paid", [task, used]) => self.run_paid(number(task)?, used.parse()?)?,
            ("away", [task, _why]) => self.leave(number(task)?)?,
            ("return", [task, blocked, used]) => {
                self.return_from_away(number(task)?, *blocked == "1", used.parse()?)?;
            }
            _ => bail!("there is no such event"),
        }
        Ok(None)
    }

    fn task(&mut self, task: u32, states: &[State]) -> Result<&mut Task> {
        let known = self.tasks.get_mut(task as usize).filter(|t| t.state != State::Unknown);
        let known = known.with_context(|| format!("there is no task {task}"))?;
        ensure!(states.contains(&known.state), "task {task} is {:?} then", known.state);
        Ok(known)
    }

    fn pick(&mut self, cpu: u32, picked: &str) -> Result<Option<String>> {
        let cpu = cpu as usize;
        let current = self.cpus.get(cpu).with_context(|| format!("there is no cpu {cpu}"))?;
        ensure!(current.is_none(), "cpu {cpu} runs a task that was not charged");
        let kernel = number_or_none(picked)?;
        let core = self.policy.pick(cpu, self.now_ns).map(|task| task.0);
        self.picks += 1;
        if core != kernel {
            return Ok(Some(self.difference("picks", "task", kernel, core)));
        }
        if let Some(task) = kernel {
            self.task(task, &[State::Waiting])?.state = State::Running;
            self.cpus[cpu] = Some(task);
            self.errors.start(TaskId(task), self.now_ns);
        }
        Ok(None)
    }

    fn difference(&self, verb: &str, what: &str, kernel: Option<u32>, core: Option<u32>) -> String {
        let name = |choice: Option<u32>| choice.map_or("none".into(), |n| format!("{what} {n}"));
        let (kernel, core) = (name(kernel), name(core));
        format!("decision {}: the kernel {verb} {kernel}, the policy {core}", self.picks)
    }

    fn interrupt(&mut self, cpu: &str) -> Result<Option<String>> {
        let kernel = number_or_none(cpu)?;
        let core = self.policy.interrupt(self.now_ns);
        let core = core.map(|cpu| u32::try_from(cpu).expect("cpus are few"));
        Ok((core != kernel).then(|| self.difference("interrupts", "cpu", kernel, core)))
    }

    fn add(&mut self, task: u32, weight: &str) -> Result<()> {
        let weight = parse_weight(weight)?;
        ensure!(task < MAX_TASKS, "there is no task {task}");
        while self.tasks.len() <= task as usize {
            self.tasks.push(Task {
                state: State::Unknown,
                away: false,
                new: true,
                worst: (0.0, 0.0),
            });
        }
        let new = &mut self.tasks[task as usize];
        ensure!(new.state == State::Unknown, "task {task} is there already");
        new.state = State::Blocked;
        new.away = false;
        new.new = true;
        self.policy.add(TaskId(task), weight);
        self.errors.add(TaskId(task), weight);
        Ok(())
    }

    fn remove(&mut self, task: u32) -> Result<()> {
        self.task(task, &[State::Blocked, State::Waiting])?.state = State::Unknown;
        self.lapsed_ns += self.policy.take_lapsed(TaskId(task));
        self.policy.remove(TaskId(task), self.now_ns);
        self.errors.remove(TaskId(task), self.now_ns);
        self.note(task);
        Ok(())
    }

    fn weight(&mut self, task: u32, weight: &str) -> Result<()> {
        let weight = parse_weight(weight)?;
        self.task(task, &[State::Blocked, State::Waiting, State::Running])?;
        self.policy.set_weight(TaskId(task), weight, self.now_ns);
        self.errors.set_weight(TaskId(task), weight, self.now_ns);
        Ok(())
    }

    fn wake(&mut self, task: u32) -> Result<()> {
        let woken = self.task(task, &[State::Blocked])?;
        woken.state = State::Waiting;
        woken.new = false;
        let was_away = std::mem::take(&mut woken.away);
        self.policy.wake(TaskId(task), self.now_ns);
        if !was_away {
            self.errors.wake(TaskId(task), self.now_ns);
        }
        Ok(())
    }

    fn endow(&mut self, task: u32, advance_ns: Nanos) -> Result<()> {
        ensure!(advance_ns <= self.quantum_ns, "more than a quantum in advance");
        let new = self.task(task, &[State::Blocked])?;
        ensure!(std::mem::take(&mut new.new), "task {task} is not new");
        self.policy.endow(TaskId(task), advance_ns);
        Ok(())
    }

    fn take_credit(&mut self, task: u32, credit_ns: i64, loss: Loss) -> Result<Option<String>> {
        let states: &[State] = match loss {
            Loss::Some => &[State::Blocked, State::Waiting, State::Running],
            Loss::HasEnded => &[State::Blocked],
            Loss::WaitsOn => &[State::Waiting],
        };
        self.task(task, states)?.new = false;
        let core_ns = match loss {
            Loss::Some => {
                let most_ns = Nanos::try_from(credit_ns).context("less than no credit")?;
                self.policy.take_credit(TaskId(task), most_ns).cast_signed()
            }
            Loss::HasEnded => self.retire(task),
            Loss::WaitsOn => self.policy.forfeit(TaskId(task), self.now_ns).cast_signed(),
        };
        Ok((core_ns != credit_ns).then(|| {
            let picks = self.picks;
            format!(
                "before decision {picks}: task {task} has credit of {credit_ns} ns in the kernel, \
                 {core_ns} ns in the policy"
            )
        }))
    }

    /// It leaves its credit, what it was charged with and did not run, and what its cgroup is late by.
    fn retire(&mut self, task: u32) -> i64 {
        let credit_ns = self.policy.retire(TaskId(task), self.now_ns);
        let unrun_ns = std::mem::take(self.unrun_of(task));
        let left_ns = credit_ns.max(0).cast_unsigned().saturating_add(self.most_late_ns());
        self.left_ns = self.left_ns.saturating_add(unrun_ns).saturating_add(left_ns);
        credit_ns
    }

    /// What a cgroup is late by at most.
    fn most_late_ns(&self) -> Nanos {
        self.quantum_ns.saturating_mul(LATE_QUANTA)
    }

    /// Others of its cgroup use what that is late by, or what those who ended left there.
    fn leave_spare(&mut self, task: u32, spare_ns: Nanos) -> Result<()> {
        self.task(task, &[State::Blocked])?;
        let left_ns = self.left_ns.saturating_add(self.most_late_ns()).checked_sub(spare_ns);
        self.left_ns =
            left_ns.with_context(|| format!("there were no {spare_ns} ns to be left"))?;
        self.lapsed_ns = self.lapsed_ns.saturating_add(spare_ns);
        Ok(())
    }

    /// A turn is over and goes on, for no longer than others had no use for theirs.
    fn lengthen(&mut self, task: u32, used_ns: Nanos, more_ns: Nanos) -> Result<Option<String>> {
        ensure!(used_ns <= self.quantum_ns, "more than a quantum is about to be charged");
        ensure!(more_ns <= MAX_NS, "nothing goes on for {more_ns} ns");
        self.task(task, &[State::Running])?;
        if more_ns > self.lapsed_ns {
            self.gather();
        }
        let goes_on = self.policy.lengthen(TaskId(task), used_ns, more_ns) == Some(more_ns);
        if !goes_on || more_ns > self.lapsed_ns {
            let (picks, lapsed_ns) = (self.picks, self.lapsed_ns);
            return Ok(Some(format!(
                "before decision {picks}: a turn of task {task} goes on for {more_ns} ns in the kernel; in \
                 the policy {}",
                if goes_on { format!("only {lapsed_ns} ns lapsed") } else { "it does not".into() }
            )));
        }
        self.lapsed_ns -= more_ns;
        Ok(None)
    }

    /// What lapsed of the turns of all tasks.
    fn gather(&mut self) {
        let ids = (0..).map(TaskId).take(self.tasks.len());
        let known = ids.filter(|id| self.tasks[id.index()].state != State::Unknown);
        self.lapsed_ns += known.map(|id| self.policy.take_lapsed(id)).sum::<Nanos>();
    }

    fn block(&mut self, task: u32) -> Result<()> {
        let blocked = self.task(task, &[State::Waiting])?;
        blocked.state = State::Blocked;
        let away = blocked.away;
        self.policy.block(TaskId(task), self.now_ns);
        if !away {
            self.errors.block(TaskId(task), self.now_ns);
        }
        Ok(())
    }

    /// It wants a cpu as before.
    fn stand_aside(&mut self, task: u32) -> Result<()> {
        let waiting = self.task(task, &[State::Waiting])?;
        waiting.state = State::Blocked;
        waiting.away = true;
        self.policy.stand_aside(TaskId(task), self.now_ns);
        Ok(())
    }

    fn charge(&mut self, task: u32, charged_ns: Nanos, used_ns: Nanos) -> Result<()> {
        ensure!(charged_ns <= self.quantum_ns, "more than a quantum is charged");
        self.task(task, &[State::Running])?.state = State::Waiting;
        let cpu = self.cpus.iter_mut().find(|cpu| **cpu == Some(task));
        *cpu.with_context(|| format!("task {task} runs nowhere"))? = None;
        self.receive(task, used_ns)?;
        self.policy.ran(TaskId(task), used_ns);
        self.policy.charge(TaskId(task), charged_ns, self.now_ns);
        let unrun_ns = self.unrun_of(task);
        *unrun_ns = unrun_ns.saturating_add(charged_ns.saturating_sub(used_ns));
        Ok(())
    }

    /// Cpus come and go, and turns that were paid stay: this does too.
    fn unrun_of(&mut self, task: u32) -> &mut Nanos {
        let index = task as usize;
        if self.unrun_ns.len() <= index {
            self.unrun_ns.resize(index + 1, 0);
        }
        &mut self.unrun_ns[index]
    }

    /// Others of its cgroup use what a task was charged with, and has no use for.
    fn forgo(&mut self, task: u32, turns_ns: Nanos) -> Result<()> {
        self.task(task, &[State::Waiting, State::Blocked])?;
        let left_ns = self.unrun_of(task).checked_sub(turns_ns);
        *self.unrun_of(task) = left_ns
            .with_context(|| format!("task {task} was not charged with {turns_ns} ns before"))?;
        self.lapsed_ns += turns_ns;
        Ok(())
    }

    fn receive(&mut self, task: u32, used_ns: Nanos) -> Result<()> {
        let total_ns = self.used_ns.checked_add(used_ns).filter(|&total_ns| total_ns <= MAX_NS);
        self.used_ns = total_ns.with_context(|| format!("nobody uses {used_ns} ns"))?;
        self.errors.charge(TaskId(task), used_ns, self.now_ns);
        Ok(())
    }

    /// The task has run elsewhere for turns that it was charged for when it had them.
    fn run_paid(&mut self, task: u32, used_ns: Nanos) -> Result<()> {
        self.task(task, &[State::Blocked, State::Waiting])?;
        self.errors.charge(TaskId(task), used_ns, self.now_ns);
        self.paid += 1;
        Ok(())
    }

    /// The block that follows is one for the policy only.
    fn leave(&mut self, task: u32) -> Result<()> {
        self.task(task, &[State::Waiting])?.away = true;
        self.away += 1;
        Ok(())
    }

    /// The task was running when cpus came or went: the policy does not know that it does.
    fn go_on_away(&mut self, task: u32) -> Result<()> {
        let running = self.task(task, &[State::Blocked])?;
        ensure!(!running.away, "task {task} was away");
        running.away = true;
        self.errors.wake(TaskId(task), self.now_ns);
        self.away += 1;
        Ok(())
    }

    fn return_from_away(&mut self, task: u32, blocked: bool, used_ns: Nanos) -> Result<()> {
        let returned = self.task(task, &[State::Blocked])?;
        ensure!(returned.away, "task {task} was not away");
        self.receive(task, used_ns)?;
        if blocked {
            self.tasks[task as usize].away = false;
            self.errors.block(TaskId(task), self.now_ns);
        }
        Ok(())
    }

    fn begin_anew(&mut self, cpus: usize) -> Result<()> {
        self.note_all();
        self.gather();
        self.policy = build(&self.spec, cpus, self.quantum_ns)?;
        self.errors = ServiceErrors::new(cpus);
        self.cpus = vec![None; cpus];
        self.tasks.iter_mut().for_each(|task| task.state = State::Unknown);
        Ok(())
    }

    /// Keeps the extremes of a task's service error.
    fn note(&mut self, task: u32) {
        let extremes = self.errors.extremes(TaskId(task));
        let worst = &mut self.tasks[task as usize].worst;
        worst.0 = worst.0.min(extremes.min.in_ns());
        worst.1 = worst.1.max(extremes.max.in_ns());
    }

    fn note_all(&mut self) {
        for task in 0..self.tasks.len() {
            let task = u32::try_from(task).expect("there are at most MAX_TASKS");
            if self.tasks[task as usize].state != State::Unknown {
                self.note(task);
            }
        }
    }

    fn report(&mut self) -> Summary {
        self.note_all();
        let least = self.tasks.iter().map(|task| task.worst.0).fold(0.0, f64::min);
        let most = self.tasks.iter().map(|task| task.worst.1).fold(0.0, f64::max);
        let quanta = |ns: f64| ns / self.quantum_ns as f64;
        let mut text = format!("{} decisions, all as the policy decides\n", self.picks);
        if self.cpu_changes > 0 {
            let _ = writeln!(text, "cpus came or went {} times", self.cpu_changes);
        }
        let _ = writeln!(
            text,
            "{} runs for turns on cpus where the task must not run\n\
             {} quanta outside the policy (rescued, or bound to other cpus)\n\
             service error against GMS: {:.2} to {:.2} ms ({:.2} to {:.2} quanta)",
            self.paid,
            self.away,
            least / 1e6,
            most / 1e6,
            quanta(least),
            quanta(most)
        );
        let values = [
            ("policy", json!(self.spec)),
            ("decisions", json!(self.picks)),
            ("cpu_changes", json!(self.cpu_changes)),
            ("paid", json!(self.paid)),
            ("away", json!(self.away)),
            ("error_min_quanta", json!(quanta(least))),
            ("error_max_quanta", json!(quanta(most))),
        ];
        Summary::new(text, values)
    }
}

impl Summary {
    fn new(text: String, values: impl IntoIterator<Item = (&'static str, Value)>) -> Summary {
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Summary { text, values }
    }
}

fn build(policy: &str, cpus: usize, quantum_ns: Nanos) -> Result<Box<dyn Policy + Send>> {
    ensure!((1..=Setup::MAX_CPUS).contains(&cpus), "{cpus} cpus");
    // WFQ for several cpus, which is what the kernel has, is called MFQ in the core.
    let policy = match policy.strip_prefix("wfq") {
        Some(options) => &format!("mfq{options}"),
        None => policy,
    };
    Ok(central::build(policy, &Setup::new(cpus, quantum_ns).as_in_papers())?)
}

fn number_of(word: &str, what: &str, range: RangeInclusive<u64>) -> Result<u64> {
    word.parse().ok().filter(|number| range.contains(number)).with_context(|| {
        let (least, most) = (range.start(), range.end());
        format!("'{word}' is no number of {what}, which is {least} to {most}: name {A_RECORDING}")
    })
}

fn number(word: &str) -> Result<u32> {
    word.parse().with_context(|| format!("'{word}' is no number"))
}

fn number_or_none(word: &str) -> Result<Option<u32>> {
    if word == "-" { Ok(None) } else { number(word).map(Some) }
}

fn parse_weight(word: &str) -> Result<Weight> {
    Weight::new(number(word)?).context("a weight of 0")
}

/// Replays a whole recording, as far as it is one.
#[cfg(test)]
pub(crate) fn replay(text: &str) -> Result<()> {
    let mut lines = text.lines();
    let head = Head::parse(lines.next().context("it is empty")?)?;
    if steps::are_recorded(&head) {
        let mut steps = Steps::start(head)?;
        for (line, number) in lines.zip(0..) {
            if steps.line(number, line)?.is_some() {
                break;
            }
        }
        return Ok(());
    }
    let mut replay = Replay::start(head)?;
    for line in lines {
        if replay.event(line)?.is_some() {
            break;
        }
    }
    replay.note_all();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "prorata-record 1 policy gr3 cpus 1 quantum_ns 10";

    fn replay(lines: &[&str]) -> Result<Option<String>> {
        let mut replay = Replay::start(Head::parse(HEAD)?)?;
        for line in lines {
            if let Some(difference) = replay.event(line)? {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    const TWO: [&str; 4] = ["1 add 0 2 100", "1 add 1 1 101", "2 wake 0", "2 wake 1"];

    #[test]
    fn the_policys_own_decisions_are_accepted() {
        let picks = ["3 pick 0 0", "13 charge 0 10 10", "13 pick 0 0", "23 charge 0 10 10"];
        let lines = [&TWO[..], &picks, &["23 pick 0 1", "30 charge 1 7 7", "30 block 1"]].concat();
        assert_eq!(replay(&lines).unwrap(), None);
    }

    #[test]
    fn a_decision_that_differs_is_named() {
        let difference = replay(&[&TWO[..], &["3 pick 0 1"]].concat()).unwrap().unwrap();
        assert!(difference.contains("the kernel picks task 1, the policy task 0"), "{difference}");
    }

    #[test]
    fn a_quantum_outside_the_policy_is_explained() {
        let away = ["3 away 0 rescue", "3 block 0", "3 pick 0 1", "13 charge 1 10 10"];
        let back = ["13 return 0 0 4", "13 wake 0", "13 pick 0 0"];
        assert_eq!(replay(&[&TWO[..], &away, &back].concat()).unwrap(), None);
    }

    #[test]
    fn a_policy_that_begins_anew_knows_nothing() {
        let before = ["3 pick 0 0", "9 cpus 2", "9 add 0 1 100", "9 add 7 1 107", "9 wake 7"];
        let after = ["10 wake 0", "10 pick 1 7", "11 pick 0 0", "12 charge 7 2 2"];
        assert_eq!(replay(&[&TWO[..], &before, &after].concat()).unwrap(), None);
        assert!(replay(&[&TWO[..], &["9 cpus 1", "9 wake 0"]].concat()).is_err());
        let other = replay(&[&TWO[..], &["9 cpus 1", "9 pick 0 0"]].concat()).unwrap().unwrap();
        assert!(other.contains("the policy none"), "{other}");
    }

    #[test]
    fn where_cpus_came_who_ran_goes_on_outside_a_new_policy() {
        let before = ["3 pick 0 0", "9 cpus 2", "9 add 0 2 100", "9 away 0 cpus", "9 add 1 1 101"];
        let after = ["9 wake 1", "9 pick 1 1", "13 return 0 0 10", "13 wake 0", "13 pick 0 0"];
        assert_eq!(replay(&[&TWO[..], &before, &after].concat()).unwrap(), None);
        let [again, early] = ["10 away 0 cpus", "9 pick 0 0"];
        assert!(replay(&[&TWO[..], &before, &[again]].concat()).is_err());
        let difference = replay(&[&TWO[..], &before, &[early]].concat()).unwrap().unwrap();
        assert!(difference.contains("the policy none"), "{difference}");
    }

    #[test]
    fn a_turn_goes_on_for_what_those_who_ended_left() {
        let lines = |left: &'static str| {
            let head =
                Head::parse("prorata-record 1 policy gr3:sleepers=turns cpus 1 quantum_ns 640")
                    .unwrap();
            let before = ["1 add 0 2 7", "1 add 1 1 8", "2 wake 0", "2 wake 1", "3 pick 0 0"];
            let ends = ["13 charge 0 10 10", "13 block 0", "13 retire 0 630", left, "13 pick 0 1"];
            let mut replay = Replay::start(head).unwrap();
            let lines = [&before[..], &ends, &["653 lengthen 1 640 20"]].concat();
            let mut found = lines
                .iter()
                .map(|line| replay.event(line))
                .skip_while(|found| matches!(found, Ok(None)));
            found.next().unwrap_or(Ok(None))
        };
        assert_eq!(lines("13 leave 0 20").unwrap(), None);
        let difference = lines("13 leave 0 19").unwrap().unwrap();
        assert!(difference.contains("only 19 ns lapsed"), "{difference}");
        let all = lines("13 leave 0 10870").unwrap();
        assert_eq!(all, None, "its credit, and what its cgroup was late by then and is now");
        assert!(lines("13 leave 0 10871").is_err(), "that is more");
    }

    #[test]
    fn nonsense_is_an_error_and_no_panic() {
        for wrong in [
            "",
            "x",
            "1 fly 0",
            "1 wake 7",
            "1 add 0 0 1",
            "1 pick 9 -",
            "1 add 9999999999 1 1",
            "1 charge 0 1 1",
            "1 block",
            "1 cpus 0",
            "1 cpus 9999999",
            "1 return 0 0 0",
            "18446744073709551615 add 0 1 1",
        ] {
            assert!(replay(&[wrong]).is_err(), "{wrong}");
        }
        assert!(replay(&["5 add 0 1 1", "4 wake 0"]).is_err());
        let used = "13 charge 0 10 18446744073709551615";
        assert!(replay(&[&TWO[..], &["3 pick 0 0", used]].concat()).is_err());
        let start = |line: &str| Head::parse(line).and_then(Replay::start);
        assert!(start("prorata-record 2").is_err());
        assert!(start(&HEAD.replace("10", "9223372036854775807")).is_err());
        assert!(start("prorata-record 1 policy gr4 cpus 1 quantum_ns 10").is_err());
    }
}
