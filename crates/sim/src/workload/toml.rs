//! Our own workload files.
//!
//! ```toml
//! duration = "10s"
//! seed = 1
//!
//! [machine]
//! cpus = 2
//! quantum = "4ms"
//! quanta = "asynchronous"     # or synchronised (default), staggered, variable
//! tick = "1ms"                # timers expire at multiples of this; default 1ns
//! switch_cost = "2us"         # default 0; both costs together are below a quantum
//! migration_cost = "5us"      # default 0
//!
//! [[task]]
//! name = "browser"
//! count = 3
//! weight = 200                # 1 unless it is given; or nice = -5, where nice 0 weighs 1024
//! arrival = { uniform = ["0s", "1s"] }
//! phases = [
//!     { run = { exponential = "2ms" } },
//!     { sleep = "14ms" },
//! ]
//! ```
//!
//! Tasks may be in cgroups, which share cpus by weight as a whole:
//!
//! ```toml
//! [[cgroup]]
//! name = "user"
//! weight = 300                # 100 unless it is given
//! parent = "sessions"         # the root unless it is given
//!
//! [[task]]
//! cgroup = "user"
//! ```
//!
//! A task without `phases` runs for ever. Phases are done in order, again and again (`repeat = N`:
//! N times, then the task leaves). A phase is one of `{ run = L }`, `{ sleep = L }`,
//! `{ every = "20ms" }` (wait for a periodic timer), `{ loop = N, phases = […] }`, `{ weight = W }`
//! (of the task; with `of = "NAME"`, of that cgroup), `{ cgroup = "NAME" }` (the task moves there;
//! `"/"` is the root), `{ wait = "NAME" }` and `{ post = "NAME" }` (a semaphore), `{ lock = "NAME" }`
//! and `{ unlock = "NAME" }`, `"yield"`, `"exit"`. A length L is `"5ms"`, `"forever"`,
//! `{ uniform = ["1ms", "5ms"] }`, `{ exponential = MEAN }` or `{ normal = [MEAN, DEVIATION] }`.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use prorata::hierarchy::NodeId;
use prorata::{Nanos, Weight};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::cgroups::{CgroupNames, CgroupTable, cgroups};
use super::numbers::{Whole, weight_of};
use super::resources::{Names, check_name};
use super::{
    Cgroups, Group, Length, Missed, Op, Program, Workload, WorkloadError, parse_duration,
    weight_of_nice,
};
use crate::machine::{IdleLook, Machine, Quanta};

/// The workload in `text`.
///
/// # Errors
/// What is wrong, with the line and column or the path of the key.
pub fn parse_toml(text: &str) -> Result<Workload, WorkloadError> {
    let file: File = toml::from_str(text).map_err(|error| told(&error))?;
    file.workload()
}

/// The workload in `table`: what [`parse_toml`] reads, parsed before.
///
/// # Errors
/// What is wrong, with the path of the key where it is known.
pub fn from_table(table: toml::Table) -> Result<Workload, WorkloadError> {
    let file: File = table.try_into().map_err(|error| told(&error))?;
    file.workload()
}

/// What the parser says: with the line if it read a text, with the key if it read a table.
fn told(error: &toml::de::Error) -> WorkloadError {
    let text = error.to_string();
    match text.trim_end().rsplit_once("\nin `") {
        Some((message, key)) => WorkloadError::new(key.trim_end_matches('`'), message),
        None => WorkloadError::new("", text.trim_end()),
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "ten_seconds")]
    duration: Duration,
    #[serde(default)]
    seed: Whole<u64>,
    #[serde(default)]
    machine: MachineTable,
    #[serde(default, deserialize_with = "tables")]
    task: Vec<TaskTable>,
    #[serde(default, deserialize_with = "tables")]
    cgroup: Vec<CgroupTable>,
}

fn ten_seconds() -> Duration {
    Duration(10_000_000_000)
}

#[derive(Clone, Copy, Debug)]
struct Duration(Nanos);

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        struct DurationVisitor;
        impl Visitor<'_> for DurationVisitor {
            type Value = Duration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time in quotes, as \"5ms\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
                parse_duration(text).map(Duration).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(DurationVisitor)
    }
}

/// A list, which messages call what is expected.
struct ListVisitor<T>(&'static str, PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = list.next_element()? {
            all.push(one);
        }
        Ok(all)
    }
}

fn tables<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let expected = "tables under [[task]] or [[cgroup]], in double brackets";
    deserializer.deserialize_any(ListVisitor(expected, PhantomData))
}

fn phases<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Phase>>, D::Error> {
    let expected = "a list of phases, as [{ run = \"5ms\" }, { sleep = \"5ms\" }]";
    deserializer.deserialize_any(ListVisitor(expected, PhantomData)).map(Some)
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MachineTable {
    cpus: Whole<usize>,
    quantum: Duration,
    quanta: QuantaName,
    shortest_quantum: Option<Duration>,
    tick: Duration,
    switch_cost: Duration,
    migration_cost: Duration,
    idle_look: IdleLookName,
}

impl Default for MachineTable {
    fn default() -> MachineTable {
        MachineTable {
            cpus: Whole(1),
            quantum: Duration(10_000_000),
            quanta: QuantaName::Synchronised,
            shortest_quantum: None,
            tick: Duration(1),
            switch_cost: Duration(0),
            migration_cost: Duration(0),
            idle_look: IdleLookName::Quantum,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum QuantaName {
    Synchronised,
    Staggered,
    Asynchronous,
    Variable,
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum IdleLookName {
    Quantum,
    Tick,
}

impl MachineTable {
    fn machine(&self) -> Result<Machine, WorkloadError> {
        if self.shortest_quantum.is_some() && self.quanta != QuantaName::Variable {
            return Err(WorkloadError::new(
                "machine.shortest_quantum",
                "only variable quanta have a shortest one: set quanta = \"variable\"",
            ));
        }
        let shortest_ns = self.shortest_quantum.unwrap_or(self.tick).0;
        let machine = Machine {
            cpus: self.cpus.0,
            quantum_ns: self.quantum.0,
            quanta: match self.quanta {
                QuantaName::Synchronised => Quanta::Synchronised,
                QuantaName::Staggered => Quanta::Staggered,
                QuantaName::Asynchronous => Quanta::Asynchronous,
                QuantaName::Variable => Quanta::Variable { shortest_ns },
            },
            tick_ns: self.tick.0,
            switch_cost_ns: self.switch_cost.0,
            migration_cost_ns: self.migration_cost.0,
            idle_look: match self.idle_look {
                IdleLookName::Quantum => IdleLook::Quantum,
                IdleLookName::Tick => IdleLook::Tick,
            },
        };
        machine.check().map_err(|message| WorkloadError::new("machine", message))?;
        Ok(machine)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskTable {
    name: Option<String>,
    #[serde(default = "one")]
    count: Whole<u32>,
    weight: Option<Whole<i64>>,
    nice: Option<Whole<i64>>,
    #[serde(default = "at_once")]
    arrival: Length,
    cgroup: Option<String>,
    repeat: Option<Whole<i64>>,
    #[serde(default, deserialize_with = "phases")]
    phases: Option<Vec<Phase>>,
}

fn one() -> Whole<u32> {
    Whole(1)
}

fn at_once() -> Length {
    Length::Fixed(0)
}

/// A phase as it was written.
enum Phase {
    /// `"yield"` or `"exit"`.
    Word(Op),
    Table(Box<PhaseTable>),
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseTable {
    run: Option<Length>,
    sleep: Option<Length>,
    every: Option<Duration>,
    #[serde(rename = "loop")]
    times: Option<Whole<i64>>,
    #[serde(default, deserialize_with = "phases")]
    phases: Option<Vec<Phase>>,
    weight: Option<Whole<i64>>,
    of: Option<String>,
    cgroup: Option<String>,
    wait: Option<String>,
    post: Option<String>,
    lock: Option<String>,
    unlock: Option<String>,
}

impl PhaseTable {
    /// True if the keys are those of one phase.
    fn is_one(&self) -> bool {
        self.keys() == 1
            && self.times.is_some() == self.phases.is_some()
            && (self.of.is_none() || self.weight.is_some())
    }

    /// How many of the keys are there of which there must be one.
    fn keys(&self) -> usize {
        [
            self.run.is_some(),
            self.sleep.is_some(),
            self.every.is_some(),
            self.times.is_some(),
            self.weight.is_some(),
            self.cgroup.is_some(),
            self.wait.is_some(),
            self.post.is_some(),
            self.lock.is_some(),
            self.unlock.is_some(),
        ]
        .into_iter()
        .filter(|&there| there)
        .count()
    }
}

impl<'de> Deserialize<'de> for Phase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Phase, D::Error> {
        struct PhaseVisitor;
        impl<'de> Visitor<'de> for PhaseVisitor {
            type Value = Phase;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a phase such as { run = \"5ms\" }, \"yield\" or \"exit\"")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Phase, E> {
                match word {
                    "yield" => Ok(Phase::Word(Op::Yield)),
                    "exit" => Ok(Phase::Word(Op::Exit)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Phase, A::Error> {
                let table = PhaseTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Phase::Table(Box::new(table)))
            }
        }
        deserializer.deserialize_any(PhaseVisitor)
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Length, D::Error> {
        struct LengthVisitor;
        impl<'de> Visitor<'de> for LengthVisitor {
            type Value = Length;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a length such as \"5ms\", \"forever\", { uniform = [\"1ms\", \"5ms\"] }, \
                     { exponential = \"5ms\" } or { normal = [\"5ms\", \"1ms\"] }",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Length, E> {
                if text == "forever" {
                    return Ok(Length::Forever);
                }
                parse_duration(text).map(Length::Fixed).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Length, A::Error> {
                let random = Random::deserialize(de::value::MapAccessDeserializer::new(map))?;
                random.length().map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(LengthVisitor)
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Random {
    Uniform(Pair),
    Exponential(Duration),
    Normal(Pair),
}

/// Two lengths of time in a list.
struct Pair(Duration, Duration);

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pair, D::Error> {
        let expected = "two lengths of time, as [\"1ms\", \"5ms\"]";
        let list = deserializer.deserialize_any(ListVisitor(expected, PhantomData))?;
        match list[..] {
            [first, second] => Ok(Pair(first, second)),
            _ => Err(de::Error::invalid_length(list.len(), &expected)),
        }
    }
}

impl Random {
    fn length(self) -> Result<Length, String> {
        match self {
            Random::Uniform(Pair(Duration(from_ns), Duration(to_ns))) if from_ns > to_ns => {
                Err("a uniform length goes from the shorter to the longer: change their order"
                    .into())
            }
            Random::Uniform(Pair(Duration(from_ns), Duration(to_ns))) => {
                Ok(Length::Uniform(from_ns, to_ns))
            }
            Random::Exponential(Duration(mean_ns)) => Ok(Length::Exponential(mean_ns)),
            Random::Normal(Pair(Duration(mean_ns), Duration(deviation_ns))) => {
                Ok(Length::Normal(mean_ns, deviation_ns))
            }
        }
    }
}

impl File {
    fn workload(self) -> Result<Workload, WorkloadError> {
        let mut names = Names::default();
        let (mut cgroups, nodes) = cgroups(&self.cgroup)?;
        let mut groups: Vec<Group> = Vec::with_capacity(self.task.len());
        let mut known = BTreeSet::new();
        for (index, task) in self.task.into_iter().enumerate() {
            let path = format!("task[{index}]");
            let home = nodes.find(task.cgroup.as_deref().unwrap_or(Cgroups::ROOT));
            let home = home.map_err(|error| WorkloadError::new(format!("{path}.cgroup"), error))?;
            cgroups.homes.push(home);
            let group = task.group(index, &path, &mut names, &nodes)?;
            if !known.insert(group.name.clone()) {
                let message = format!(
                    "another task is called '{}' already: give each a name of its own",
                    group.name
                );
                return Err(WorkloadError::new(format!("{path}.name"), message));
            }
            groups.push(group);
        }
        let resources = names.into_resources(&groups, |index| format!("task[{index}]"))?;
        let workload = Workload {
            machine: self.machine.machine()?,
            duration_ns: self.duration.0,
            seed: self.seed.0,
            groups,
            resources,
            cgroups,
        };
        workload.check().map_err(|message| WorkloadError::new("", message))?;
        Ok(workload)
    }
}

impl TaskTable {
    fn group(
        self,
        index: usize,
        path: &str,
        names: &mut Names,
        nodes: &CgroupNames,
    ) -> Result<Group, WorkloadError> {
        let weight = match (self.weight, self.nice) {
            (Some(_), Some(_)) => {
                return Err(WorkloadError::new(
                    path,
                    "a task has a weight or a nice level, not both: leave one out",
                ));
            }
            (None, Some(Whole(nice))) => weight_of_nice(nice).ok_or_else(|| {
                let message = format!("{nice} is no nice level: they go from -20 to 19");
                WorkloadError::new(format!("{path}.nice"), message)
            })?,
            (weight, None) => {
                weight_of(weight.map_or(1, |weight| weight.0), &format!("{path}.weight"))?
            }
        };
        if self.arrival == Length::Forever {
            let message = "a task arrives at some time, not \"forever\": give a length as \"5ms\", or leave \
                           the task out";
            return Err(WorkloadError::new(format!("{path}.arrival"), message));
        }
        let program = match self.phases {
            None if self.repeat.is_some() => {
                let message = "there are no phases to repeat: write some, or leave repeat out";
                return Err(WorkloadError::new(format!("{path}.repeat"), message));
            }
            None => Program::hog(),
            Some(phases) => program(&phases, self.repeat, path, names, nodes)?,
        };
        let name = self.name.unwrap_or_else(|| format!("task {index}"));
        check_name(&name).map_err(|error| WorkloadError::new(format!("{path}.name"), error))?;
        Ok(Group { name, count: self.count.0, weight, arrival: self.arrival, program })
    }
}

/// How often something is done.
fn times_of(number: Whole<i64>, path: &str) -> Result<u64, WorkloadError> {
    u64::try_from(number.0).ok().filter(|&times| times > 0).ok_or_else(|| {
        WorkloadError::new(
            path,
            format!("{} times are not possible: do it at least once", number.0),
        )
    })
}

pub(super) const NOTHING_TAKES_TIME: &str = "nothing in here takes time: let it run or sleep";
pub(super) const A_PERIOD_TAKES_TIME: &str = "a period takes time: make it longer than 0";

fn program(
    phases: &[Phase],
    repeat: Option<Whole<i64>>,
    path: &str,
    names: &mut Names,
    nodes: &CgroupNames,
) -> Result<Program, WorkloadError> {
    let mut compiler = Compiler { program: Program::default(), names, nodes };
    compiler.phases(phases, path)?;
    let mut program = compiler.program;
    if !program.takes_time() {
        return Err(WorkloadError::new(format!("{path}.phases"), NOTHING_TAKES_TIME));
    }
    match repeat {
        None => program.push(Op::Goto { to: 0 }),
        Some(times) => {
            let times = times_of(times, &format!("{path}.repeat"))?;
            let slot = program.new_slot();
            program.push(Op::Repeat { slot, times, to: 0 });
        }
    }
    Ok(program)
}

struct Compiler<'n> {
    program: Program,
    names: &'n mut Names,
    nodes: &'n CgroupNames,
}

impl Compiler<'_> {
    fn phases(&mut self, phases: &[Phase], path: &str) -> Result<(), WorkloadError> {
        for (index, phase) in phases.iter().enumerate() {
            let path = format!("{path}.phases[{index}]");
            match phase {
                Phase::Word(op) => self.program.push(*op),
                Phase::Table(table) => self.phase(table, &path)?,
            }
        }
        Ok(())
    }

    fn phase(&mut self, phase: &PhaseTable, path: &str) -> Result<(), WorkloadError> {
        if !phase.is_one() {
            return Err(WorkloadError::new(
                path,
                "a phase has exactly one of run, sleep, every, weight (perhaps with of), cgroup, \
                 wait, post, lock, unlock, or loop together with phases",
            ));
        }
        let named = |error: String| WorkloadError::new(path, error);
        let op = match phase {
            PhaseTable { run: Some(length), .. } => Op::Run(*length),
            PhaseTable { sleep: Some(length), .. } => Op::Sleep(*length),
            PhaseTable { every: Some(Duration(period_ns)), .. } => {
                if *period_ns == 0 {
                    return Err(WorkloadError::new(path, A_PERIOD_TAKES_TIME));
                }
                let slot = self.program.new_slot();
                Op::Every { period_ns: *period_ns, slot, missed: Missed::CountFromNow }
            }
            PhaseTable { weight: Some(weight), of, .. } => {
                let weight = weight_of(weight.0, &format!("{path}.weight"))?;
                match of {
                    None => Op::SetWeight(weight),
                    Some(name) => self.set_cgroup_weight(name, weight).map_err(named)?,
                }
            }
            PhaseTable { cgroup: Some(name), .. } => {
                Op::Join(self.nodes.find(name).map_err(named)?)
            }
            PhaseTable { wait: Some(name), .. } => {
                Op::Wait(self.names.semaphore(name, 0).map_err(named)?)
            }
            PhaseTable { post: Some(name), .. } => {
                Op::Post(self.names.semaphore(name, 0).map_err(named)?)
            }
            PhaseTable { lock: Some(name), .. } => {
                Op::Wait(self.names.semaphore(name, 1).map_err(named)?)
            }
            PhaseTable { unlock: Some(name), .. } => {
                Op::Post(self.names.semaphore(name, 1).map_err(named)?)
            }
            PhaseTable { times, phases, .. } => {
                let times = times_of(times.unwrap_or_default(), &format!("{path}.loop"))?;
                return self.repeat(times, phases.as_deref().unwrap_or(&[]), path);
            }
        };
        self.program.push(op);
        Ok(())
    }

    fn set_cgroup_weight(&self, name: &str, weight: Weight) -> Result<Op, String> {
        match self.nodes.find(name)? {
            NodeId::ROOT => Err("the root has no weight: name a cgroup below it".into()),
            node => Ok(Op::SetCgroupWeight(node, weight)),
        }
    }

    fn repeat(&mut self, times: u64, phases: &[Phase], path: &str) -> Result<(), WorkloadError> {
        let to = self.program.here();
        self.phases(phases, path)?;
        let slot = self.program.new_slot();
        self.program.push(Op::Repeat { slot, times, to });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse_toml(text).expect_err(text).to_string()
    }

    #[test]
    fn a_whole_file() {
        let workload = parse_toml(
            r#"
            duration = "1s"
            [machine]
            cpus = 2
            quanta = "staggered"
            [[task]]
            name = "a"
            count = 3
            weight = 7
            phases = [{ run = "1ms" }, { loop = 2, phases = [{ sleep = { exponential = "2ms" } }] }]
            repeat = 5
            [[task]]
            nice = 0
            "#,
        )
        .expect("a workload");
        assert_eq!(workload.tasks(), 4);
        assert_eq!(workload.machine.quanta, Quanta::Staggered);
        let ops = [
            Op::Run(Length::Fixed(1_000_000)),
            Op::Sleep(Length::Exponential(2_000_000)),
            Op::Repeat { slot: 0, times: 2, to: 1 },
            Op::Repeat { slot: 1, times: 5, to: 0 },
        ];
        assert_eq!(workload.groups[0].program, Program { ops: ops.to_vec(), slots: 2 });
        assert_eq!(workload.groups[1].weight.get(), 1024);
        assert_eq!(workload.groups[1].name, "task 1");
    }

    /// As the documentation has them, here, in the README and in help.
    #[test]
    fn weights_by_default() {
        let text = "[[task]]\ncgroup = 'a'\n[[task]]\nnice = 0\n[[cgroup]]\nname = 'a'";
        let workload = parse_toml(text).expect("a workload");
        let weights: Vec<u32> = workload.groups.iter().map(|group| group.weight.get()).collect();
        assert_eq!((weights, workload.cgroups.nodes[0].weight.get()), (vec![1, 1024], 100));
        let rt_app = crate::workload::parse_rt_app(r#"{"tasks": {"a": {"run": 1}}}"#, &[]);
        assert_eq!(rt_app.expect("tasks").groups[0].weight.get(), 1024);
        let recording = "a 1 [000] 1.000000: sched:sched_switch: swapper/0:0 [120] S ==> a:1 [120]\n\
                         a 1 [000] 2.000000: sched:sched_switch: a:1 [120] S ==> swapper/0:0 [120]";
        let recording = crate::workload::parse_recording(recording).expect("tasks");
        assert_eq!(recording.groups[0].weight.get(), 1024);
    }

    #[test]
    fn errors_say_where_and_what() {
        assert!(error("").contains("there is no task: give"));
        assert!(error("task = []").contains("there is no task"));
        assert!(error("[[task]]\nweigth = 1").contains("weigth"));
        assert!(error("[[task]]\nweight = 0").starts_with("task[0].weight: 0 is no weight"));
        assert!(error("[[task]]\nweight = 4294967296").contains("4294967296"));
        assert!(error("[[task]]\nphases = [{ run = \"5\" }]").contains("line 2"));
        assert!(error("[[task]]\nphases = [{ run = 5 }]").contains("line 2"));
        assert!(error("[[task]]\nphases = [\"stop\"]").contains("stop"));
        assert!(error("[[task]]\nphases = [{}]").starts_with("task[0].phases[0]: a phase has"));
        assert!(error("[[task]]\nphases = [\"yield\"]").contains("takes time"));
        assert!(error("[[task]]\ncount = 1000000000").contains("1000000000 tasks would need"));
        assert!(error("[machine]\ncpus = 0\n[[task]]").contains("machine: 0 cpus"));
        assert!(error("[machine]\ntick = \"3ns\"\n[[task]]").contains("multiple of the tick"));
        let cost = error("[machine]\nquantum = '1ms'\nswitch_cost = '1ms'\n[[task]]");
        let nothing = "which leaves nothing of a quantum of";
        let all =
            format!("machine: a switch costs 1000000 ns, {nothing} 1000000 ns: make switch_cost");
        assert!(cost.starts_with(&all), "{cost}");
        let cost = "[machine]\nquantum='5us'\nswitch_cost='2us'\nmigration_cost='3us'\n[[task]]";
        let both =
            format!("costs 5000 ns (switch_cost 2000 + migration_cost 3000), {nothing} 5000");
        assert!(error(cost).contains(&both), "{}", error(cost));
        assert!(parse_toml(&cost.replace("3us", "2999ns")).is_ok());
        assert!(error("[[task]]\nname='a'\n[[task]]\nname='a'").starts_with("task[1].name"));
        let twice = "[[task]]\nphases = [{ lock = \"x\" }, { post = \"x\" }, { run = \"1ms\" }]";
        assert!(error(twice).starts_with("task[0].phases[1]: 'x'"));
    }
}
