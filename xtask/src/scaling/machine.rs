//! The simulated machine (`crates/scx/tests/scaling.c`): built for a policy, and run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::trace::Traffic;
use crate::{instructions, shell};

/// A policy of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// For people.
    pub(crate) name: &'static str,
    header: &'static str,
    /// gdq's T.
    interval: Option<Interval>,
    /// Without the framework.
    alone: bool,
    /// With that for policies whose queues have locks of their own.
    apart: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interval {
    Quanta(u32),
    QuantaEachCpu(u32),
    /// So many, or one for each cpu if that is more.
    AtLeast(u32),
    MoreThanCpus,
}

/// gdq's δ.
const DELTA: u32 = 4;

impl Policy {
    const fn new(name: &'static str, header: &'static str) -> Policy {
        Policy { name, header, interval: None, alone: false, apart: false }
    }

    const fn gdq(name: &'static str, interval: Interval) -> Policy {
        Policy { interval: Some(interval), ..Policy::new(name, "gdq") }
    }

    const fn alone(self) -> Policy {
        Policy { alone: true, ..self }
    }

    fn options(self, cpus: u32) -> Vec<u32> {
        match self.interval {
            None => Vec::new(),
            Some(Interval::Quanta(quanta)) => vec![quanta, DELTA],
            Some(Interval::QuantaEachCpu(quanta)) => vec![quanta * cpus, DELTA],
            Some(Interval::AtLeast(quanta)) => vec![quanta.max(cpus), DELTA],
            Some(Interval::MoreThanCpus) => vec![cpus + 1, DELTA],
        }
    }
}

pub(crate) const GR3: Policy = Policy::new("gr3", "gr3");
pub(crate) const GDQ: Policy = Policy::gdq("gdq", Interval::Quanta(1));
/// More quanta in an interval than there are cpus, so that they seldom look around at a time.
pub(crate) const GDQ_LONG: Policy = Policy::gdq("gdq, T = 2P", Interval::QuantaEachCpu(2));
/// As in the papers' figures.
pub(crate) const GDQ_OF_PAPER: Policy = Policy::gdq("gdq, T = 20", Interval::Quanta(20));

/// GDQ with locks of its own for its queues.
pub(crate) const DISTRIBUTED: Policy = Policy {
    interval: Some(Interval::AtLeast(20)),
    ..Policy::new("gdq-distributed", "gdq_distributed")
}
.alone();
/// The same in the kernel, where T is one more than there are cpus.
pub(crate) const APART: Policy = Policy {
    interval: Some(Interval::MoreThanCpus),
    apart: true,
    ..Policy::new("gdq-distributed", "gdq_distributed")
};
/// Side by side without the framework, gdq as the library has it by default.
pub(crate) const ALONE: [Policy; 3] =
    [GR3.alone(), Policy::gdq("gdq", Interval::AtLeast(20)).alone(), DISTRIBUTED];

/// All of them as they are by default, and gdq as the paper would have it.
pub(crate) const POLICIES: [Policy; 7] = [
    GR3,
    Policy::new("vtrr", "vtrr"),
    GDQ,
    GDQ_LONG,
    Policy::new("dfs-fa", "dfs_fa"),
    Policy::new("wfq", "wfq"),
    APART,
];

/// What runs on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) cpus: u32,
    pub(crate) hogs: u32,
    pub(crate) sleepers: u32,
    /// Nice values of tasks.
    pub(crate) nices: u32,
    /// For each cpu, counted after as many that are not.
    pub(crate) decisions: u32,
    pub(crate) seed: u64,
}

impl Load {
    /// Three hogs and a sleeper a cpu, of nice values from −5 to 10.
    pub(crate) fn mix(cpus: u32, decisions: u32, seed: u64) -> Load {
        Load { name: "mix", cpus, hogs: 3 * cpus, sleepers: cpus, nices: 16, decisions, seed }
    }

    /// So many tasks of one weight that always run.
    pub(crate) fn hogs(cpus: u32, tasks: u32, decisions: u32, seed: u64) -> Load {
        Load { name: "hogs", cpus, hogs: tasks, sleepers: 0, nices: 1, decisions, seed }
    }

    fn arguments(self, policy: Policy) -> Vec<String> {
        let Load { name: _, cpus, hogs, sleepers, nices, decisions, seed } = self;
        let counts = [cpus, hogs, sleepers, nices, decisions].map(|count| count.to_string());
        let rest = [seed.to_string(), QUANTUM_NS.to_string()];
        let options = policy.options(cpus).into_iter().map(|option| option.to_string());
        counts.into_iter().chain(rest).chain(options).collect()
    }
}

pub(crate) const QUANTUM_NS: u64 = 5_000_000;

/// What a policy does there, for each decision.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) policy: &'static str,
    pub(crate) load: Load,
    pub(crate) traffic: Traffic,
    /// What lines belong to.
    pub(crate) names: BTreeMap<u32, String>,
    /// Executed with the lock held, for each decision.
    pub(crate) held_instructions: f64,
    /// Executed without it, where that is counted: if the policy is alone.
    pub(crate) free_instructions: Option<f64>,
    /// On one cpu.
    pub(crate) between_decisions_ns: f64,
}

impl Measured {
    /// A count of all decisions for each of them.
    #[allow(clippy::cast_precision_loss)] // counts are small
    pub(crate) fn each(&self, count: u64) -> f64 {
        count as f64 / self.traffic.decisions as f64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Build {
    /// Writes its accesses.
    Traced,
    /// Callgrind counts with the lock held.
    Counted,
    /// Callgrind counts all that the policy does.
    CountedWhole,
    Plain,
}

/// The machine's programs, in a directory.
pub(crate) struct Machine {
    directory: PathBuf,
    built: RefCell<BTreeSet<(&'static str, &'static str, Build)>>,
}

impl Machine {
    pub(crate) fn new(directory: PathBuf) -> Result<Machine> {
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(Machine { directory, built: RefCell::default() })
    }

    pub(crate) fn measure(&self, policy: Policy, load: Load) -> Result<Measured> {
        let (traffic, said) = self.trace(policy, load)?;
        let held_instructions = self.count(policy, load, Build::Counted, traffic.decisions)?;
        let free_instructions = if policy.alone {
            let whole = self.count(policy, load, Build::CountedWhole, traffic.decisions)?;
            Some(whole - held_instructions)
        } else {
            None
        };
        let between = said.rest.iter().find_map(|line| line.strip_prefix("ns between decisions "));
        let between = between.and_then(|ns| ns.parse().ok());
        Ok(Measured {
            policy: policy.name,
            load,
            traffic,
            names: said.names,
            held_instructions,
            free_instructions,
            between_decisions_ns: between
                .context("the machine did not tell how often it decides")?,
        })
    }

    /// Instructions for each of so many decisions.
    fn count(&self, policy: Policy, load: Load, build: Build, decisions: u64) -> Result<f64> {
        let mut counted = Command::new(self.build(policy, build)?);
        counted.args(load.arguments(policy));
        let instructions = instructions::executed(&counted, &["--collect-atstart=no"])?;
        #[allow(clippy::cast_precision_loss)] // far from 2^53
        Ok(instructions as f64 / decisions as f64)
    }

    /// What an instruction takes when one real cpu does all of it, and finds its lines in its cache.
    pub(crate) fn instruction_ns(&self) -> Result<f64> {
        let load = Load::mix(2, 20_000, 1);
        let program = self.build(GR3, Build::Plain)?;
        let mut plain = Command::new(program);
        plain.args(load.arguments(GR3)).stderr(Stdio::null());
        let instructions = instructions::executed(&plain, &[])?;
        let mut least_ns = f64::INFINITY;
        for _ in 0..5 {
            let begin = Instant::now();
            shell::run(&mut plain)?;
            least_ns = least_ns.min(begin.elapsed().as_secs_f64() * 1e9);
        }
        #[allow(clippy::cast_precision_loss)] // far from 2^53
        Ok(least_ns / instructions as f64)
    }

    fn trace(&self, policy: Policy, load: Load) -> Result<(Traffic, Said)> {
        let program = self.build(policy, Build::Traced)?;
        let mut command = Command::new(&program);
        command.args(load.arguments(policy)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| program.display().to_string())?;
        let stderr = child.stderr.take().context("it was asked for")?;
        let listener = thread::spawn(move || Said::read(stderr));
        let traffic =
            Traffic::read(child.stdout.take().context("it was asked for")?, load.cpus as usize);
        let said = listener.join().expect("it does not panic")?;
        ensure!(child.wait()?.success(), "{command:?}: {}", said.rest.join("\n"));
        Ok((traffic?, said))
    }

    fn build(&self, policy: Policy, build: Build) -> Result<PathBuf> {
        let (name, flags, traced) = match build {
            Build::Traced => ("traced", &["-fsanitize=thread"][..], &["-DTRACED"][..]),
            Build::Counted => ("counted", &["-DCOUNT_INSTRUCTIONS"][..], &[][..]),
            Build::CountedWhole => ("whole", &["-DCOUNT_INSTRUCTIONS", "-DCOUNT_ALL"][..], &[][..]),
            Build::Plain => ("plain", &[][..], &[][..]),
        };
        let (source, folder) =
            if policy.alone { ("scaling_alone.c", "../src/bpf/") } else { ("scaling.c", "") };
        let program = self.directory.join(format!("{source}-{}-{name}", policy.header));
        if !self.built.borrow_mut().insert((source, policy.header, build)) {
            return Ok(program);
        }
        let object =
            |of: &str| program.with_file_name(format!("{source}-{}-{name}-{of}.o", policy.header));
        let header = format!("-DPOLICY_HEADER=\"{folder}policies/{}.h\"", policy.header);
        let framework: &[&str] = if policy.apart { &["-DAPART"] } else { &[] };
        compile(source, &object("scaling"), &[flags, &[&header], framework].concat())?;
        // What is called for each access must not be watched itself.
        compile("accesses.c", &object("accesses"), traced)?;
        let mut link = compiler();
        link.arg(object("scaling")).arg(object("accesses")).arg("-o").arg(&program);
        shell::run(&mut link)?;
        Ok(program)
    }
}

fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

fn compile(source: &str, object: &Path, flags: &[&str]) -> Result<()> {
    let tests = shell::workspace().join("crates/scx/tests");
    let mut compile = compiler();
    // Tests ask for no exact numbers, and to compile every policy is most of them.
    let optimise = if cfg!(test) { ["-Og", "-g1"] } else { ["-O2", "-g"] };
    compile.args(optimise).args(["-Wall", "-Werror", "-Wno-unused"]).args(flags);
    compile.arg("-I").arg(tests.join("machine")).arg("-c").arg(tests.join(source));
    shell::run(compile.arg("-o").arg(object))
}

/// What the machine told beside its accesses.
#[derive(Default)]
struct Said {
    names: BTreeMap<u32, String>,
    rest: Vec<String>,
}

impl Said {
    fn read(from: impl Read) -> Result<Said> {
        let mut said = Said::default();
        for line in BufReader::new(from).lines() {
            let line = line?;
            let named = line.strip_prefix("line ").and_then(|named| named.split_once(' '));
            match named.and_then(|(first, name)| Some((first.parse().ok()?, name))) {
                Some((first, name)) => {
                    said.names.insert(first, name.to_string());
                }
                None => said.rest.push(line),
            }
        }
        Ok(said)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{LazyLock, Mutex};

    use super::*;

    /// One for all tests, which share its programs.
    static MACHINE: LazyLock<Mutex<Machine>> = LazyLock::new(|| {
        let machine = Machine::new(shell::target_dir().join("scaling-tests"));
        Mutex::new(machine.expect("the directory can be made"))
    });

    fn trace(policy: Policy, load: Load) -> (Traffic, Said) {
        MACHINE.lock().expect("no test has failed").trace(policy, load).expect("it runs")
    }

    #[test]
    fn one_cpu_gets_nothing_from_others() {
        for policy in POLICIES {
            let (traffic, _) = trace(policy, Load::mix(1, 100, 1));
            assert_eq!(traffic.all.moved(), 0, "{}", policy.name);
        }
    }

    #[test]
    fn cpus_meet_at_the_lock_and_the_same_seed_does_the_same() {
        for policy in POLICIES.into_iter().filter(|policy| !policy.apart) {
            let run = |seed| trace(policy, Load::mix(4, 50, seed));
            let ((traffic, said), (again, _), (other, _)) = (run(1), run(1), run(2));
            assert_eq!(traffic, again, "{}", policy.name);
            assert_ne!(traffic, other, "{}", policy.name);
            assert!((200..210).contains(&traffic.decisions), "{}", policy.name);
            assert!(traffic.locks >= traffic.decisions, "{}", policy.name);
            // At a decision somebody else has had it, nearly always.
            let at_lock = traffic.by_name(&said.names)["lock"];
            assert!(2 * at_lock > traffic.decisions, "{}: {at_lock}", policy.name);
        }
    }

    #[test]
    fn queues_with_locks_of_their_own_seldom_meet() {
        for load in [Load::mix, |cpus, decisions, seed| Load::hogs(cpus, 4 * cpus, decisions, seed)]
        {
            for cpus in [2, 16, 64] {
                let (own, _) = trace(DISTRIBUTED, load(cpus, 100, 1));
                assert!(own.all.fetched <= 3 * own.decisions, "{cpus} cpus: {own:?}");
                assert!(3 * own.locks < own.decisions, "{cpus} cpus: {} locks", own.locks);
                let (central, _) = trace(GR3.alone(), load(cpus, 100, 1));
                assert!(central.locks >= central.decisions);
                assert!(own.all.moved() < central.all.moved(), "{cpus} cpus");
            }
        }
    }

    #[test]
    fn callbacks_without_the_one_lock_seldom_meet() {
        for cpus in [2, 16, 64] {
            let (traffic, _) = trace(APART, Load::mix(cpus, 100, 1));
            assert!(traffic.all.fetched <= 3 * traffic.decisions, "{cpus} cpus: {traffic:?}");
            assert!(2 * traffic.locks < traffic.decisions, "{cpus} cpus: {} locks", traffic.locks);
        }
    }

    #[test]
    fn the_lock_is_held_for_some_instructions_and_not_for_the_whole_program() {
        let machine = MACHINE.lock().expect("no test has failed");
        let measured = machine.measure(GR3, Load::mix(2, 50, 1)).expect("it runs");
        assert!((50.0..50_000.0).contains(&measured.held_instructions), "{measured:?}");
    }
}
