//! Workload files of rt-app (its `doc/tutorial.txt` describes the format).
//!
//! Understood: threads and phases with `loop`, `instance`, `delay`, nice levels (`priority`), and
//! the events `run`, `runtime`, `sleep`, `timer`, `suspend`, `resume`, `lock`, `unlock`, `wait`,
//! `signal`, `broad`, `sync`, `barrier`, `sem_wait`, `sem_post` and `yield`; keys may repeat, and
//! an event may have a suffix (`run0`, `run1`), as workgen writes them. What says where rt-app logs
//! is passed over. Everything else (cpu affinity, real-time policies, memory and i/o, …) cannot be
//! expressed and is an error that names the key, unless the caller ignores that key.

use std::collections::{BTreeMap, BTreeSet};

use prorata::{Nanos, Weight};

use super::json::Json;
use super::resources::{Names, check_name};
use super::toml::{A_PERIOD_TAKES_TIME, NOTHING_TAKES_TIME};
use super::{Group, LONGEST_NS, Length, Missed, Op, Program, Tasks, WorkloadError, weight_of_nice};

type Result<T> = std::result::Result<T, WorkloadError>;

/// Keys of `global` that say nothing about who runs when.
const GLOBAL_WITHOUT_EFFECT: &[&str] = &[
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "frag",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];

/// Events by the beginning of their key; a longer one before one that it begins with.
const EVENTS: &[&str] = &[
    "runtime", "run", "sleep", "timer", "suspend", "resume", "lock", "unlock", "wait", "signal",
    "broad", "sync", "barrier", "sem_wait", "sem_post", "yield",
];

/// The tasks in `text`. Keys in `ignored` are passed over, wherever they stand.
///
/// # Errors
/// What is wrong or cannot be expressed, with the path of the key.
pub fn parse_rt_app(text: &str, ignored: &[String]) -> Result<Tasks> {
    let json = Json::parse(text).map_err(|error| {
        let message = format!("this is no JSON as rt-app reads it: {error}: mend it there");
        WorkloadError::new("", message)
    })?;
    let mut parser = Parser {
        ignored,
        default_policy: SchedPolicy::Fair,
        names: Names::default(),
        timers: BTreeMap::new(),
    };
    let mut duration_ns = None;
    let mut groups = Vec::new();
    let pairs = object(&json, "")?;
    // Wherever it stands, it says what the tasks are by default.
    if let Some((_, global)) = pairs.iter().rfind(|(key, _)| key == "global") {
        duration_ns = parser.global(global)?;
    }
    for (key, value) in pairs {
        match key.as_str() {
            "tasks" => groups.extend(parser.tasks(value)?),
            // Resources are kept by rt-app for old files; they are made when they are first used.
            "global" | "resources" => {}
            _ if parser.ignores(key) => {}
            _ => return Err(inexpressible(key, key)),
        }
    }
    if groups.is_empty() {
        let message =
            "there is no task: give at least one, as \"tasks\": {\"NAME\": {\"run\": 1000}}";
        return Err(WorkloadError::new("tasks", message));
    }
    let path_of = |index: usize| format!("tasks.{}", groups[index].name);
    let resources = parser.names.into_resources(&groups, path_of)?;
    Ok(Tasks { duration_ns, groups, resources })
}

struct Parser<'i> {
    ignored: &'i [String],
    /// Of threads that name none.
    default_policy: SchedPolicy,
    names: Names,
    /// The thread that uses each timer which is not unique.
    timers: BTreeMap<String, String>,
}

/// A thread while it is parsed.
struct Thread<'t> {
    name: &'t str,
    instances: u32,
    /// As of the phase that is parsed.
    policy: SchedPolicy,
    program: Program,
    /// Slots of its timers.
    timers: BTreeMap<String, u32>,
    /// Names of all threads.
    threads: &'t BTreeSet<&'t str>,
}

impl Parser<'_> {
    fn ignores(&self, key: &str) -> bool {
        self.ignored.iter().any(|ignored| ignored == key)
    }

    fn global(&mut self, json: &Json) -> Result<Option<Nanos>> {
        let mut duration_ns = None;
        for (key, value) in object(json, "global")? {
            let path = format!("global.{key}");
            match key.as_str() {
                _ if self.ignores(key) => {}
                "duration" if *value == Json::Integer(-1) => {}
                "duration" => duration_ns = Some(length(value, 1_000_000_000, &path)?),
                "default_policy" => self.default_policy = policy(value, key, &path)?,
                "pi_enabled" if *value == Json::Bool(false) => {}
                _ if GLOBAL_WITHOUT_EFFECT.contains(&key.as_str()) => {}
                _ => return Err(inexpressible(&path, key)),
            }
        }
        Ok(duration_ns)
    }

    fn tasks(&mut self, json: &Json) -> Result<Vec<Group>> {
        let tasks = object(json, "tasks")?;
        let threads: BTreeSet<&str> = tasks.iter().map(|(name, _)| name.as_str()).collect();
        tasks.iter().map(|(name, thread)| self.thread(name, thread, &threads)).collect()
    }

    fn thread(&mut self, name: &str, json: &Json, threads: &BTreeSet<&str>) -> Result<Group> {
        check_name(name).map_err(|error| WorkloadError::new("tasks", error))?;
        let path = format!("tasks.{name}");
        let pairs = object(json, &path)?;
        let find = |key: &str| pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value);
        let (policy, nice) = self.scheduling(pairs, &path)?;
        let mut thread = Thread {
            name,
            policy: policy.unwrap_or(self.default_policy),
            instances: match find("instance") {
                None => 1,
                Some(value) => count(value, &format!("{path}.instance"))?,
            },
            program: Program::default(),
            timers: BTreeMap::new(),
            threads,
        };
        let delay_ns = match find("delay") {
            None => 0,
            Some(value) => length(value, 1_000, &format!("{path}.delay"))?,
        };
        let weight = thread.policy.weight(nice);
        for (key, value) in pairs {
            let path = format!("{path}.{key}");
            match key.as_str() {
                "instance" | "delay" | "loop" | "priority" | "policy" => {}
                "phases" => {
                    for (name, phase) in object(value, &path)? {
                        self.phase(phase, &format!("{path}.{name}"), &mut thread)?;
                    }
                }
                _ => self.event(key, value, &path, &mut thread)?,
            }
        }
        if !thread.program.takes_time() {
            return Err(WorkloadError::new(path, NOTHING_TAKES_TIME));
        }
        thread.repeat(find("loop"), -1, 0, &path)?;
        Ok(Group {
            name: name.to_string(),
            count: thread.instances,
            weight,
            arrival: Length::Fixed(delay_ns),
            program: thread.program,
        })
    }

    fn phase(&mut self, json: &Json, path: &str, thread: &mut Thread<'_>) -> Result<()> {
        let pairs = object(json, path)?;
        let begin = thread.program.here();
        let (policy, nice) = self.scheduling(pairs, path)?;
        // A phase that names none has the policy of the one before.
        thread.policy = policy.unwrap_or(thread.policy);
        if policy.is_some() || nice.is_some() {
            thread.push(Op::SetWeight(thread.policy.weight(nice)));
        }
        for (key, value) in pairs {
            match key.as_str() {
                "loop" | "priority" | "policy" => {}
                _ => self.event(key, value, &format!("{path}.{key}"), thread)?,
            }
        }
        let times = pairs.iter().find(|(key, _)| key == "loop").map(|(_, value)| value);
        thread.repeat(times, 1, begin, path)
    }

    /// What `policy` and `priority` say, whichever comes first.
    fn scheduling(
        &self,
        pairs: &[(String, Json)],
        path: &str,
    ) -> Result<(Option<SchedPolicy>, Option<Weight>)> {
        let find = |key: &str| {
            let pair = pairs.iter().rfind(|(known, _)| known == key && !self.ignores(key));
            pair.map(|(_, value)| (value, format!("{path}.{key}")))
        };
        let policy = find("policy").map(|(value, path)| policy(value, "policy", &path));
        let nice = find("priority").map(|(value, path)| nice(value, &path));
        Ok((policy.transpose()?, nice.transpose()?))
    }

    fn event(
        &mut self,
        key: &str,
        value: &Json,
        path: &str,
        thread: &mut Thread<'_>,
    ) -> Result<()> {
        if self.ignores(key) {
            return Ok(());
        }
        let event = EVENTS.iter().find(|&&event| key.starts_with(event)).copied();
        match event.unwrap_or_default() {
            "run" | "runtime" => thread.push(Op::Run(Length::Fixed(length(value, 1_000, path)?))),
            "sleep" => thread.push(Op::Sleep(Length::Fixed(length(value, 1_000, path)?))),
            "timer" => self.timer(value, path, thread)?,
            "yield" => thread.push(Op::Yield),
            "" => return Err(inexpressible(path, key)),
            event => self.wait_or_wake(event, value, path, thread)?,
        }
        Ok(())
    }

    /// Events between threads. rt-app names locks, conditions, … apart from each other.
    fn wait_or_wake(
        &mut self,
        event: &str,
        value: &Json,
        path: &str,
        thread: &mut Thread<'_>,
    ) -> Result<()> {
        let error = |message: String| WorkloadError::new(path, message);
        let names = &mut self.names;
        match event {
            "suspend" => {
                let name = format!("thread {}", thread.name);
                thread.push(Op::Wait(names.condition(&name).map_err(error)?));
            }
            "resume" => {
                let name = string(value, path)?;
                if !thread.threads.contains(name) {
                    return Err(error(format!(
                        "no task is called '{name}': name one of those under \"tasks\""
                    )));
                }
                let condition = names.condition(&format!("thread {name}")).map_err(error)?;
                thread.push(Op::PostAll(condition));
            }
            "lock" | "unlock" => {
                let lock = lock(names, named(value, path)?, path)?;
                thread.push(if event == "lock" { Op::Wait(lock) } else { Op::Post(lock) });
            }
            "wait" | "sync" => {
                let condition = condition(names, named(member(value, "ref", path)?, path)?, path)?;
                let mutex = lock(names, named(member(value, "mutex", path)?, path)?, path)?;
                let sync = event == "sync";
                if sync {
                    thread.push(Op::Wait(mutex));
                    thread.push(Op::Post(condition));
                }
                thread.push(Op::Post(mutex));
                thread.push(Op::Wait(condition));
                thread.push(Op::Wait(mutex));
                if sync {
                    thread.push(Op::Post(mutex));
                }
            }
            "signal" => thread.push(Op::Post(condition(names, named(value, path)?, path)?)),
            "broad" => thread.push(Op::PostAll(condition(names, named(value, path)?, path)?)),
            "sem_wait" | "sem_post" => {
                let name = format!("semaphore {}", named(value, path)?);
                let semaphore = names.semaphore(&name, 0).map_err(error)?;
                let waits = event == "sem_wait";
                thread.push(if waits { Op::Wait(semaphore) } else { Op::Post(semaphore) });
            }
            _ => {
                let name = format!("barrier {}", named(value, path)?);
                let barrier = names.barrier(&name, thread.instances).map_err(error)?;
                thread.push(Op::Wait(barrier));
            }
        }
        Ok(())
    }

    fn timer(&mut self, value: &Json, path: &str, thread: &mut Thread<'_>) -> Result<()> {
        let name = string(member(value, "ref", path)?, &format!("{path}.ref"))?;
        let period_ns = length(member(value, "period", path)?, 1_000, &format!("{path}.period"))?;
        if period_ns == 0 {
            return Err(WorkloadError::new(format!("{path}.period"), A_PERIOD_TAKES_TIME));
        }
        let missed = match value_of(value, "mode") {
            None => Missed::CountFromNow,
            Some(mode) => match string(mode, &format!("{path}.mode"))? {
                "relative" => Missed::CountFromNow,
                "absolute" => Missed::CatchUp,
                mode => {
                    let message = format!("a timer is relative or absolute, not {mode}: write one");
                    return Err(WorkloadError::new(format!("{path}.mode"), message));
                }
            },
        };
        if !name.starts_with("unique") {
            let owner = self.timers.entry(name.to_string()).or_insert_with(|| thread.name.into());
            if owner != thread.name || thread.instances > 1 {
                let message = "a timer that several threads share cannot be expressed: make \
                               its ref begin with \"unique\"";
                return Err(WorkloadError::new(format!("{path}.ref"), message));
            }
        }
        let program = &mut thread.program;
        let slot = *thread.timers.entry(name.to_string()).or_insert_with(|| program.new_slot());
        thread.push(Op::Every { period_ns, slot, missed });
        Ok(())
    }
}

impl Thread<'_> {
    fn push(&mut self, op: Op) {
        self.program.push(op);
    }

    /// Goes back to `to` as often as `times` says, −1 for ever.
    fn repeat(&mut self, times: Option<&Json>, default: i64, to: u32, path: &str) -> Result<()> {
        match times.unwrap_or(&Json::Integer(default)) {
            Json::Integer(-1) => self.push(Op::Goto { to }),
            Json::Integer(1) => {}
            Json::Integer(times) if *times > 1 => {
                let slot = self.program.new_slot();
                self.push(Op::Repeat { slot, times: times.unsigned_abs(), to });
            }
            other => {
                let message = format!(
                    "{} is no number of times: write 1 or more, or -1 for ever",
                    describe(other)
                );
                return Err(WorkloadError::new(format!("{path}.loop"), message));
            }
        }
        Ok(())
    }
}

/// The weight of nice level 0.
const NICE_0: Weight = match Weight::new(1024) {
    Some(weight) => weight,
    None => Weight::ONE,
};
/// The weight of SCHED_IDLE.
const IDLE: Weight = match Weight::new(3) {
    Some(weight) => weight,
    None => Weight::ONE,
};

/// Policies that share by weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchedPolicy {
    Fair,
    Idle,
}

impl SchedPolicy {
    /// The weight of a thread whose nice level stands for `nice`.
    fn weight(self, nice: Option<Weight>) -> Weight {
        match self {
            SchedPolicy::Fair => nice.unwrap_or(NICE_0),
            SchedPolicy::Idle => IDLE,
        }
    }
}

fn policy(value: &Json, key: &str, path: &str) -> Result<SchedPolicy> {
    match string(value, path)? {
        "SCHED_OTHER" | "SCHED_BATCH" => Ok(SchedPolicy::Fair),
        "SCHED_IDLE" => Ok(SchedPolicy::Idle),
        name => Err(WorkloadError::new(
            path,
            format!(
                "{name} is no proportional-share policy and cannot be expressed (to leave it out: \
                 --ignore {key})"
            ),
        )),
    }
}

/// The weight that a nice level stands for.
fn nice(value: &Json, path: &str) -> Result<Weight> {
    let Json::Integer(nice) = value else { return Err(wrong(value, "an integer", path)) };
    weight_of_nice(*nice).ok_or_else(|| {
        let message = format!("{nice} is no nice level: they go from -20 to 19");
        WorkloadError::new(path, message)
    })
}

fn condition(names: &mut Names, name: &str, path: &str) -> Result<u32> {
    let error = |message: String| WorkloadError::new(path, message);
    names.condition(&format!("condition {name}")).map_err(error)
}

fn lock(names: &mut Names, name: &str, path: &str) -> Result<u32> {
    let error = |message: String| WorkloadError::new(path, message);
    names.semaphore(&format!("lock {name}"), 1).map_err(error)
}

fn object<'j>(json: &'j Json, path: &str) -> Result<&'j [(String, Json)]> {
    match json {
        Json::Object(pairs) => Ok(pairs),
        other => Err(wrong(other, "an object, in { },", path)),
    }
}

fn value_of<'j>(json: &'j Json, key: &str) -> Option<&'j Json> {
    let Json::Object(pairs) = json else { return None };
    pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value)
}

fn member<'j>(json: &'j Json, key: &str, path: &str) -> Result<&'j Json> {
    value_of(json, key).ok_or_else(|| {
        WorkloadError::new(path, format!("an object with \"{key}\" belongs here: write it"))
    })
}

fn string<'j>(json: &'j Json, path: &str) -> Result<&'j str> {
    match json {
        Json::String(text) => Ok(text),
        other => Err(wrong(other, "a string", path)),
    }
}

/// The name of a resource.
fn named<'j>(json: &'j Json, path: &str) -> Result<&'j str> {
    let name = string(json, path)?;
    check_name(name).map_err(|error| WorkloadError::new(path, error))?;
    Ok(name)
}

/// An integer number of units.
fn length(json: &Json, unit_ns: u64, path: &str) -> Result<Nanos> {
    let number = match json {
        Json::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    number
        .and_then(|number| number.checked_mul(unit_ns))
        .filter(|&length_ns| length_ns <= LONGEST_NS)
        .ok_or_else(|| {
            let units = if unit_ns == 1_000 { "microseconds" } else { "seconds" };
            wrong(json, &format!("a length of time, a whole number of {units},"), path)
        })
}

fn count(json: &Json, path: &str) -> Result<u32> {
    match json {
        Json::Integer(number) => u32::try_from(*number).ok(),
        _ => None,
    }
    .ok_or_else(|| wrong(json, "a number of threads, a whole number,", path))
}

fn wrong(json: &Json, expected: &str, path: &str) -> WorkloadError {
    WorkloadError::new(path, format!("{expected} belongs here, not {}", describe(json)))
}

fn describe(json: &Json) -> String {
    match json {
        Json::Integer(number) => number.to_string(),
        Json::Float(number) => number.to_string(),
        Json::String(text) => format!("\"{text}\""),
        other => other.kind().to_string(),
    }
}

fn inexpressible(path: &str, key: &str) -> WorkloadError {
    let message = format!(
        "cannot be expressed in a simulation of proportional shares (to leave it out: --ignore {key})"
    );
    WorkloadError::new(path, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Op = Op::Run(Length::Fixed(10_000));

    fn ops(tasks: &str) -> Vec<Op> {
        let text = format!("{{ \"tasks\": {{ \"a\": {{ {tasks} }} }} }}");
        parse_rt_app(&text, &[]).expect(tasks).groups[0].program.ops.clone()
    }

    fn error(text: &str) -> String {
        parse_rt_app(text, &[]).expect_err(text).to_string()
    }

    #[test]
    fn events_run_in_the_order_of_their_keys() {
        let sleep = |ns| Op::Sleep(Length::Fixed(ns));
        assert_eq!(
            ops(r#""run": 10, "sleep": 20, "run": 10, "sleep1": 5"#),
            [RUN, sleep(20_000), RUN, sleep(5_000), Op::Goto { to: 0 }]
        );
        let timer = Op::Every { period_ns: 30_000, slot: 0, missed: Missed::CountFromNow };
        assert_eq!(
            ops(r#""loop": 1, "phases": { "p": { "loop": 3, "priority": 19, "run": 10,
                   "timer": { "ref": "unique", "period": 30 } } }"#),
            [
                Op::SetWeight(Weight::new(15).expect("not 0")),
                RUN,
                timer,
                Op::Repeat { slot: 1, times: 3, to: 0 }
            ]
        );
    }

    #[test]
    fn a_wait_gives_up_its_mutex() {
        assert_eq!(
            ops(r#""lock": "m", "wait": { "ref": "c", "mutex": "m" }, "unlock": "m", "run": 10,
                   "signal": "c""#),
            [
                Op::Wait(0),
                Op::Post(0),
                Op::Wait(1),
                Op::Wait(0),
                Op::Post(0),
                RUN,
                Op::Post(1),
                Op::Goto { to: 0 }
            ]
        );
    }

    #[test]
    fn what_cannot_be_expressed_is_an_error_with_its_path() {
        let thread = |inside: &str| format!("{{ \"tasks\": {{ \"a\": {{ {inside} }} }} }}");
        let path = |inside: &str| error(&thread(inside)).split(':').next().map(String::from);
        assert_eq!(path(r#""run": 1, "cpus": [0]"#).as_deref(), Some("tasks.a.cpus"));
        assert_eq!(
            path(r#""phases": { "p": { "iorun": 5 } }"#).as_deref(),
            Some("tasks.a.phases.p.iorun")
        );
        assert_eq!(path(r#""run": "x""#).as_deref(), Some("tasks.a.run"));
        assert_eq!(path(r#""run": -5"#).as_deref(), Some("tasks.a.run"));
        assert_eq!(path(r#""run": 5, "loop": 0"#).as_deref(), Some("tasks.a.loop"));
        assert_eq!(path(r#""run": 5, "resume": "b""#).as_deref(), Some("tasks.a.resume"));
        assert_eq!(path(r#""run": 5, "policy": "SCHED_FIFO""#).as_deref(), Some("tasks.a.policy"));
        assert_eq!(path(r#""run": 5, "priority": 99"#).as_deref(), Some("tasks.a.priority"));
        assert!(error("{}").contains("there is no task"));
        assert!(error("[]").contains("an object, in { }, belongs here, not an array"));
        let told = error(&thread(r#""run": 1, "cpus": [0]"#));
        assert!(told.ends_with("(to leave it out: --ignore cpus)"), "{told}");
        let fifo = r#""policy": "SCHED_FIFO", "phases": { "p": { "run": 1, "cpus": [0] } }"#;
        let global = r#"{ "global": { "default_policy": "SCHED_RR" }, "#;
        let text = thread(fifo).replacen('{', global, 1);
        let ignored = ["cpus", "policy", "default_policy"].map(String::from);
        assert_eq!(parse_rt_app(&text, &ignored).expect("all is ignored").groups.len(), 1);
        for missing in 0..ignored.len() {
            let mut others = ignored.to_vec();
            let key = others.remove(missing);
            let told = parse_rt_app(&text, &others).expect_err("one is not").to_string();
            assert!(told.ends_with(&format!("--ignore {key})")), "{told}");
        }
    }

    #[test]
    fn weights_are_as_rt_app_means_them() {
        let weights = |global: &str, thread: &str| -> Vec<u32> {
            let text =
                format!(r#"{{ "tasks": {{ "a": {{ {thread} }} }}, "global": {{ {global} }} }}"#);
            let group = &parse_rt_app(&text, &[]).expect(&text).groups[0];
            let later = group.program.ops.iter().filter_map(|op| match op {
                Op::SetWeight(weight) => Some(weight.get()),
                _ => None,
            });
            std::iter::once(group.weight.get()).chain(later).collect()
        };
        let of = |thread: &str| weights("", &format!(r#"{thread} "run": 10"#));
        assert_eq!(of(""), [1024]);
        assert_eq!(of(r#""priority": -5, "policy": "SCHED_IDLE","#), [3]);
        assert_eq!(of(r#""policy": "SCHED_IDLE", "priority": -5,"#), [3]);
        assert_eq!(of(r#""priority": 19, "policy": "SCHED_OTHER","#), [15]);
        let idle = r#""default_policy": "SCHED_IDLE""#;
        assert_eq!(weights(idle, r#""run": 10"#), [3]);
        assert_eq!(weights(idle, r#""run": 10, "priority": -20"#), [3]);
        assert_eq!(weights(idle, r#""run": 10, "policy": "SCHED_OTHER""#), [1024]);
        let phases = r#""policy": "SCHED_IDLE", "phases": {
            "as it was": { "run": 10 },
            "still idle": { "run": 10, "priority": 5 },
            "other": { "run": 10, "policy": "SCHED_OTHER" },
            "nice": { "run": 10, "priority": 19 } }"#;
        assert_eq!(weights("", phases), [3, 3, 1024, 15]);
    }
}
