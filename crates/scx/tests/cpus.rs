//! The framework on a machine whose cpus come and go, with tasks that may run on some of them only, and with
//! two caches if it has four cpus or more.
//!
//! `cpus.c` drives the callbacks as the kernel would, at random, under the address and undefined-behaviour
//! sanitizers, and prints what the policy was told and decided. The core library's policy, told the same,
//! must decide the same; and no task is put where it must not run, or waits for long.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use prorata::{Policy, Setup, Sleepers, TaskId, Weight, central};

mod native;

const QUANTUM_NS: u64 = 5_000_000;
const STEPS: usize = 10_000;

fn compile(policy: &str) -> PathBuf {
    let machine = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests/machine");
    let here = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests");
    let lax = ["-Wno-unused", "-Wno-unused-parameter", "-Wno-sign-compare"];
    let flags = [native::SANITIZERS, &lax, &["-DMACHINE_HAS_MASKS", machine, here]].concat();
    native::compile("cpus.c", policy, &flags)
}

/// What happened on a machine of so many cpus, in the words of `scx_prorata --record`.
fn history(program: &Path, sleepers: usize, cpus: usize, tasks: usize, seed: usize) -> String {
    let arguments = [sleepers, cpus, tasks, STEPS].map(|number| number.to_string());
    let output = Command::new(program).args(arguments).arg(seed.to_string()).output();
    let output = output.expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let case = format!("sleepers {sleepers}, {cpus} cpus, {tasks} tasks, seed {seed}");
    assert!(output.status.success(), "{case}, {}:\n{said}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// The core's policy beside the kernel's.
struct Replay {
    name: String,
    setup: Setup,
    policy: Box<dyn Policy + Send>,
    known: BTreeSet<TaskId>,
    /// Tasks that wait, or run.
    awake: BTreeSet<TaskId>,
    /// What tasks had no use for, as far as it was gathered, and no turn was lengthened by.
    spare_ns: u64,
    left: usize,
    changes_of_cpus: usize,
    ended: usize,
    forfeits: usize,
    lengthened: usize,
}

impl Replay {
    fn new(name: &str, sleepers: usize, cpus: usize) -> Replay {
        let sleepers = [Sleepers::Paper, Sleepers::Turns, Sleepers::Corrected][sleepers];
        let setup = Setup { sleepers, ..Setup::new(cpus, QUANTUM_NS) };
        let policy = central::build(name, &setup).expect("a policy");
        Replay {
            name: name.to_owned(),
            setup,
            policy,
            known: BTreeSet::new(),
            awake: BTreeSet::new(),
            spare_ns: 0,
            left: 0,
            changes_of_cpus: 0,
            ended: 0,
            forfeits: 0,
            lengthened: 0,
        }
    }

    fn gather_spare(&mut self) {
        self.spare_ns += self.known.iter().map(|&task| self.policy.take_lapsed(task)).sum::<u64>();
    }

    /// What a turn is lengthened by was spare before.
    fn use_spare(&mut self, line: &str, more_ns: u64) {
        if more_ns > self.spare_ns {
            self.gather_spare();
        }
        assert!(more_ns <= self.spare_ns, "{line}: only {} ns are spare", self.spare_ns);
        self.spare_ns -= more_ns;
    }

    /// Panics if the kernel decided otherwise.
    fn event(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let index = |at: usize| words[at].parse::<usize>().expect("a number");
        let task = || TaskId(words[2].parse().expect("a task's number"));
        let weight = || Weight::new(words[3].parse().expect("a weight")).expect("it is not 0");
        let now_ns = number(0);
        match words[1] {
            "wake" => assert!(self.awake.insert(task()), "{line}: it is awake"),
            "block" | "aside" | "remove" => drop(self.awake.remove(&task())),
            "away" => assert!(self.awake.contains(&task()), "{line}: it does not wait"),
            "cpus" => self.awake.clear(),
            _ => {}
        }
        match words[1] {
            "add" => {
                self.known.insert(task());
                self.policy.add(task(), weight());
            }
            "remove" => {
                self.known.remove(&task());
                self.spare_ns += self.policy.take_lapsed(task());
                self.policy.remove(task(), now_ns);
            }
            "weight" => self.policy.set_weight(task(), weight(), now_ns),
            "wake" => self.policy.wake(task(), now_ns),
            "block" => self.policy.block(task(), now_ns),
            "aside" => self.policy.stand_aside(task(), now_ns),
            "charge" => {
                self.policy.ran(task(), number(4));
                self.policy.charge(task(), number(3), now_ns);
            }
            "pick" => {
                let picked = self.policy.pick(index(2), now_ns);
                assert_eq!(
                    picked.map_or("-".to_owned(), |task| task.0.to_string()),
                    words[3],
                    "{line}"
                );
            }
            "interrupt" => {
                let cpu = self.policy.interrupt(now_ns);
                assert_eq!(cpu.map_or("-".to_owned(), |cpu| cpu.to_string()), words[2], "{line}");
            }
            "endow" => self.policy.endow(task(), number(3)),
            "take" => assert_eq!(self.policy.take_credit(task(), number(3)), number(3), "{line}"),
            "forgo" => self.spare_ns += number(3),
            "leave" => {
                self.spare_ns += number(3);
                self.left += 1;
            }
            "away" => {}
            "pass" => self.policy.pass(now_ns),
            "keep" => self.policy.keep(task(), number(3) == 1),
            "lengthen" => {
                let more = self.policy.lengthen(task(), number(3), number(4));
                assert_eq!(more, Some(number(4)), "{line}");
                self.use_spare(line, number(4));
                self.lengthened += 1;
            }
            "forfeit" => {
                assert_eq!(self.policy.forfeit(task(), now_ns), number(3), "{line}");
                self.forfeits += 1;
            }
            "retire" => {
                assert_eq!(self.policy.retire(task(), now_ns).to_string(), words[3], "{line}");
                self.ended += 1;
            }
            "cpus" => {
                self.gather_spare();
                self.known.clear();
                self.setup.cpus = index(2);
                self.policy = central::build(&self.name, &self.setup).expect("a policy");
                self.changes_of_cpus += 1;
            }
            _ => panic!("no event: {line}"),
        }
    }
}

/// The least of what their weights give them that two hogs receive in any 2000 quanta, in percent, beside
/// light tasks that nap, and that somebody binds to one cpu and another all the time.
fn least_of_hogs(program: &Path, sleepers: usize, cpus: usize, seed: usize) -> u64 {
    let [least, _] = found(program, [sleepers, cpus, 64, 10_000, seed], "bind");
    least
}

/// The same beside light tasks that are bound to one of three random sets of cpus, on four with two caches.
fn least_beside_masks(program: &Path, sleepers: usize, seed: usize) -> u64 {
    let [least, _] = found(program, [sleepers, 4, 64, 10_000, seed], "masks");
    least
}

/// The same of a third of all, in a cgroup of weight 100, beside tasks in four cgroups of one of 200, which
/// somebody moves and binds, as he does with the four, whose weights he changes.
fn least_beside_owner(program: &Path, sleepers: usize, seed: usize) -> u64 {
    let [least, _] = found(program, [sleepers, 4, 64, 10_000, seed], "owner");
    least
}

/// The same beside the same cgroup, of which one or two tasks, bound to a cpu, yield again and again for a
/// while; and how many quanta the hogs, which are alike, are apart at most in 200.
fn beside_yields(program: &Path, sleepers: usize, seed: usize) -> (u64, u64) {
    let [least, apart] = found(program, [sleepers, 4, 20, 10_000, seed], "yields");
    (least, apart)
}

/// Beside four tasks that are bound, and nap.
struct Beside {
    /// How far hogs, of which some are bound, too, are off their shares of 1000 quanta at most, in
    /// thousandths of a quantum.
    furthest: u64,
    /// How many of a hundred runs of those that nap begin later than a quarter of a quantum.
    late: u64,
}

fn beside(program: &Path, sleepers: usize, seed: usize) -> Beside {
    let [furthest, late] = found(program, [sleepers, 2, 13, 3000, seed], "beside");
    Beside { furthest, late }
}

fn printed(program: &Path, arguments: [usize; 5], words: &[&str]) -> String {
    let arguments = arguments.map(|number| number.to_string());
    let output = Command::new(program).args(&arguments).args(words).output();
    let output = output.expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} {words:?}, {}:\n{said}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// The numbers that a machine of this kind prints.
fn found<const N: usize>(program: &Path, arguments: [usize; 5], what: &str) -> [u64; N] {
    let printed = printed(program, arguments, &[what]);
    let numbers = printed.split_whitespace().map(|number| number.parse().expect("a number"));
    numbers.collect::<Vec<u64>>().try_into().expect("as many as are asked for")
}

fn hogs_keep_their_weights(program: &Path, sleepers: &[usize]) {
    for &sleepers in sleepers {
        for (cpus, seed) in [(2, 2), (4, 3)] {
            let least = least_of_hogs(program, sleepers, cpus, seed);
            assert!(least >= 97, "sleepers {sleepers}, {cpus} cpus, seed {seed}: {least} %");
        }
        // Of 149 under gr3, wfq and dfs-fa with kept turns none was below 100. (Seed 6 is 91 under wfq, 46
        // is 95 under dfs-fa, if as much is paid in advance to who is restless as to others, and 12 is 93
        // under gr3 if tasks stay near their cache until they have been paid enough.)
        for seed in [6, 8, 10, 12, 46] {
            let least = least_beside_masks(program, sleepers, seed);
            assert!(least >= 97, "sleepers {sleepers}, masks, seed {seed}: {least} %");
        }
    }
}

/// What tasks count for is told when it is known what cpus are worth, and who may run anywhere, and was paid
/// turns, does not lose those that are due to him: 97 %. (Of 12 seeds 99; else 87 to 97 of these.)
fn hogs_keep_what_their_cgroup_weighs(program: &Path, sleepers: &[usize]) {
    for &sleepers in sleepers {
        for seed in 1..4 {
            let least = least_beside_owner(program, sleepers, seed);
            assert!(least >= 97, "sleepers {sleepers}, seed {seed}: {least} %");
        }
    }
}

/// However often somebody yields, there are no more turns than time: 97 %, and 45 quanta of 200 apart. (Of 48
/// seeds 101 and 45 under gr3, 99 and 16 under the others. Under gr3 82 if who yields loses the rest of his
/// turn: hogs are granted hundreds of quanta each, for later, and one has them while the other waits.)
fn hogs_keep_their_share_beside_who_yields(program: &Path, sleepers: &[usize]) {
    for &sleepers in sleepers {
        for seed in 1..3 {
            let (least, apart) = beside_yields(program, sleepers, seed);
            let case = format!("sleepers {sleepers}, seed {seed}");
            assert!(least >= 97, "{case}: {least} %");
            assert!(apart <= 45, "{case}: {apart} quanta of 200");
        }
    }
}

/// As policies have them by default: 1.5 % with turns that are kept, 1 % with corrected ones. (Found in 40
/// seeds: .9 %, under wfq 1.1 %; .8 %.) Who naps waits for nobody's quantum to end, though bound to one cpu.
fn bound_tasks_keep_their_shares(program: &Path, corrected: bool) {
    let (sleepers, limit) = if corrected { (2, 10_000) } else { (1, 15_000) };
    for seed in 0..2 {
        let Beside { furthest, late } = beside(program, sleepers, seed);
        let case = format!("sleepers {sleepers}, seed {seed}");
        assert!(furthest <= limit, "{case}: {furthest} of a million");
        assert!(late <= 15, "{case}: {late} of a hundred runs are late");
    }
}

/// A cgroup in which tasks nap keeps its half within 6 quanta of 1000: turns of those are others' of
/// it, or the ideal is kept to. (Found in 40 seeds: 5.5, median of the worst policy 2.2. gdq with turns
/// that are kept is off by 46 on 2 cpus. Four have two caches: 10 to 450 if turns there wait for one.)
/// Within 15 if its hogs are bound to one cpu each. (12; 370 if what naps leave counts for those and
/// for others' weight.) Within 8 of 667 if all of it may run on one cpu. (Of 12 seeds: 5.8, and 4.3
/// where turns are corrected. 30 to 160 if who was paid enough lost what is due to him meanwhile; up to
/// 19 if who runs such turns counts in his cgroup, and has no part of the ideal; up to 13 if his
/// siblings are told later than he.) Within 30 of 2000 with one there that naps, is bound, and worth a
/// whole cpu; within 60 under wfq where turns are kept. (Of 12 seeds: 3.1, wfq 51, corrected 11. 150 to
/// 210 under dfs-fa, and up to 104 under gr3, if it is paid for runs that nobody is charged for;
/// corrected up to 26 if it counts there while the ideal has it asleep.)
fn cgroups_keep_their_shares(policy: &str, program: &Path, sleepers: &[usize]) {
    for &sleepers in sleepers {
        for (cpus, tasks, seed) in [(1, 10, 1), (2, 10, 2), (4, 12, 1)] {
            let [furthest, late] = found(program, [sleepers, cpus, tasks, 3000, seed], "within");
            let case = format!("sleepers {sleepers}, {cpus} cpus, seed {seed}");
            assert!(furthest <= 6000, "{case}: {furthest} thousandths of a quantum");
            assert!(late <= 5, "{case}: {late} of a hundred runs are late");
        }
        for seed in 1..3 {
            let [furthest, _] = found(program, [sleepers, 2, 10, 3000, seed], "pinned");
            let case = format!("sleepers {sleepers}, pinned, seed {seed}");
            assert!(furthest <= 15_000, "{case}: {furthest} thousandths of a quantum");
        }
        for seed in 1..3 {
            let [furthest, _] = found(program, [sleepers, 2, 10, 3000, seed], "narrow");
            let case = format!("sleepers {sleepers}, narrow, seed {seed}");
            assert!(furthest <= 8_000, "{case}: {furthest} thousandths of a quantum");
        }
        for seed in 1..4 {
            let [furthest, _] = found(program, [sleepers, 4, 7, 3000, seed], "heavy");
            let case = format!("sleepers {sleepers}, heavy, seed {seed}");
            let most = if policy == "wfq" && sleepers == 1 { 60_000 } else { 30_000 };
            assert!(furthest <= most, "{case}: {furthest} thousandths of a quantum");
        }
    }
}

/// Where the others of its tasks are four that nap, are bound to a cpu each, and weigh 88 times as much as
/// its hogs, a cgroup is within 100 quanta of its half of 2000 under gr3, 220 under others, 40 where turns
/// are corrected. (Of 16 seeds 79, wfq 210, dfs-fa 153, of 6 corrected 28. 229 to 418 where turns are kept if
/// hogs lose those that go on for what naps leave when they have been paid enough.)
fn cgroups_keep_what_heavy_naps_leave(policy: &str, program: &Path, sleepers: &[usize]) {
    for &sleepers in sleepers {
        let most = match (policy, sleepers) {
            ("gr3", 1) => 100_000,
            (_, 1) => 220_000,
            _ => 40_000,
        };
        for seed in 1..3 {
            let [furthest, _] = found(program, [sleepers, 4, 10, 3000, seed], "heavy");
            let case = format!("sleepers {sleepers}, seed {seed}");
            assert!(furthest <= most, "{case}: {furthest} thousandths of a quantum");
        }
    }
}

/// Hogs of unlike weights keep their shares of a cpu beside who weighs the most and wakes twice a second:
/// where turns are kept, a hog is off by at most 13 quanta of 1000, on average of four machines, and by 3
/// where turns are corrected. (Of 40: gr3 9.4, wfq 6.6, dfs-fa 9.4, the median; corrected 1.5. Under gr3 15,
/// up to 37, if what is enough is reckoned as if no cpus were short.)
fn unlike_hogs_keep_their_shares(program: &Path, sleepers: &[usize]) {
    for &sleepers in sleepers {
        let furthest = |seed| found::<1>(program, [sleepers, 2, 6, 6000, seed], "unlike");
        let sum: u64 = (1..5).map(|seed| furthest(seed)[0]).sum();
        let most = if sleepers == 1 { 13_000 } else { 3_000 };
        assert!(sum <= 4 * most, "sleepers {sleepers}: {sum} thousandths of a quantum in four");
    }
}

/// Weights of the cgroup above x and y, of these, and of the others beside it: y is due a third of a cpu to a
/// whole one, and x a whole one in the third tree.
const TREES: [&str; 9] = [
    "300,100,100,100",
    "300,50,100,100",
    "300,200,100,100",
    "200,100,100,100",
    "200,50,100,100",
    "200,200,100,100",
    "100,100,100,100",
    "100,50,100,100",
    "100,200,100,100",
];

/// For how many microseconds a shell runs, and its process runs, sleeps and runs again.
const SCRIPTS: [&str; 6] = [
    "400,800,10000,100",
    "1600,3000,10000,100",
    "1000,2000,30000,20000",
    "1000,5000,50000,10000",
    "3000,12000,5000,3000",
    "200,500,1000,500",
];

/// A process of this one sleeps for 20 s, in which nothing happens to the hogs.
const SELDOM: &str = "script:300,100,100,100:1000,2000,20000000,20000";

/// A cgroup of a hog and a script receives what it is due, within 2 % where turns are kept, .8 % where they
/// are corrected: what processes were paid and did not use is the hog's, what they were due and the policy
/// did not serve their cgroup's, and what they were behind the next ones'. (Of 3 seeds gr3 .990 to 1.016, of
/// 4 wfq .989 to 1.004, dfs-fa .987 to 1.008, of 2 corrected .998 to 1.006. If nothing is reckoned of what
/// tasks are due, gr3 gives .83 to 1.09; gdq and vtrr with turns that are kept give .61 to 1.04 and .97 to
/// 1.01.) In any 1000 quanta it is within 2 to 8 under gr3, script by script, under others within 6 where
/// processes are short, and 15 where they run for longer, 4 and 6 where turns are corrected. (Of 16 seeds
/// 6.9, 3.4, 8.6, 6.3, 3.1 and 7.3 under gr3, and 5.6, 6.6, 9.0, 5.8, 3.9 and 12.6 where who moves as the cap
/// changes does so as an arrival; 3.1 and 8.6 under others, corrected 1.8 and 2.0.) Where nobody comes or
/// goes for long it is within 6. (5.2 under dfs-fa; 7.1 under gr3 if hogs are taken to be early by all that
/// they were charged meanwhile.)
fn cgroups_keep_what_processes_leave(policy: &str, program: &Path, sleepers: &[usize]) {
    for &sleepers in sleepers {
        let limits = if sleepers == 1 { 980..=1020 } else { 995..=1008 };
        for (seed, tree) in TREES.into_iter().enumerate() {
            for script in SCRIPTS {
                let scene = format!("script:{tree}:{script}");
                let [_, share] = found(program, [sleepers, 2, 7, 3000, seed], &scene);
                let case = format!("{policy}, sleepers {sleepers}, {scene}, seed {seed}");
                assert!(limits.contains(&share), "{case}: {share} thousandths");
            }
        }
        let limits: &[u64] = match (policy, sleepers) {
            ("gr3", 1) => &[7_000, 4_000, 7_000, 4_000, 2_000, 8_000],
            (_, 1) => &[6_000, 15_000],
            _ => &[4_000, 6_000],
        };
        for (script, &limit) in SCRIPTS.into_iter().zip(limits) {
            let scene = format!("script:{}:{script}", TREES[0]);
            for seed in 1..3 {
                let [furthest, _] = found(program, [sleepers, 2, 7, 3000, seed], &scene);
                let case = format!("{policy}, sleepers {sleepers}, {scene}, seed {seed}");
                assert!(furthest <= limit, "{case}: {furthest} thousandths of a quantum of 1000");
            }
        }
        let [furthest, _] = found(program, [sleepers, 2, 7, 20_000, 1], SELDOM);
        let case = format!("{policy}, sleepers {sleepers}, {SELDOM}");
        assert!(furthest <= 6000, "{case}: {furthest} thousandths of a quantum of 1000");
    }
}

/// Two hogs keep their share beside a cgroup one of whose tasks gives up a cpu that is all its own, to light
/// ones, while the other cpus run turns that were paid, and do not ask the policy: within 3 % in any 400
/// quanta, dfs-fa within 8. (Of 8 seeds .977 to 1.002 and .932 to 1.044. If who may run anywhere is paid more
/// before he stands aside, up to 1.3, and .76 to 1.63 under gr3 if who was granted turns has 64 quanta,
/// whatever he weighs; with 20 quanta for all .920 to 1.010.)
fn hogs_keep_their_share_beside_a_cpu_that_is_given_up(policy: &str, program: &Path) {
    let limits = if policy == "dfs_fa" { 920..=1050 } else { 970..=1005 };
    for seed in [4, 7, 9] {
        let shares: [u64; 2] = found(program, [1, 3, 13, 12_000, seed], "gives");
        let are_near = shares.iter().all(|share| limits.contains(share));
        assert!(are_near, "{policy}, seed {seed}: {shares:?} thousandths");
    }
}

/// With corrected turns a cgroup whose weight changes every one and a half quanta keeps to what it is due in
/// between. (Found .4 to 3.7 quanta of 583 for each cpu. With kept ones gr3 is 28, 56 and 92 off on 1, 2 and
/// 4 cpus, on one the full 4.8 % that such steps can make of it; wfq 3, 16, 24.)
fn a_cgroup_keeps_its_share_whose_weight_sways(policy: &str, program: &Path) {
    for cpus in [1, 2, 4] {
        let [furthest] = found(program, [2, cpus, 13, 4000, 1], "sways");
        assert!(furthest <= 5000, "{policy}, {cpus} cpus: {furthest} thousandths of a quantum");
    }
}

/// A cgroup whose tasks nap keeps its half of what a heavy task leaves that is in none, and wakes all the
/// time: within 25 quanta of 1000, 8 of which are half of what that runs. (Of 8 seeds 19. 46 to 124 if it is
/// not known that he has no use for what he is due; 52 to 66 if it is not where he may run on one cpu only.)
fn cgroups_keep_their_shares_beside_who_wakes_all_the_time(program: &Path, sleepers: &[usize]) {
    for &sleepers in sleepers {
        for scene in ["loaded", "loaded-here"] {
            let [furthest, _] = found(program, [sleepers, 2, 11, 3000, 1], scene);
            let case = format!("sleepers {sleepers}, {scene}");
            assert!(furthest <= 25_000, "{case}: {furthest} thousandths of a quantum");
        }
    }
}

/// Where turns are kept, by what others had no use for, and what processes leave beyond what their cgroup
/// keeps. (If that is not told, more than is spare is used under each policy.)
fn turns_are_lengthened_by_what_was_left(program: &Path, core: &str) {
    let printed = printed(
        program,
        [1, 2, 7, 3000, 1],
        &["script:300,100,100,100:1600,3000,10000,100", "record"],
    );
    let mut replay = Replay::new(core, 1, 2);
    printed.lines().skip(1).for_each(|line| replay.event(line));
    assert!(replay.left > 0 && replay.lengthened > 0, "nothing was left, or nobody had it");
}

/// A tenth of one of eight cpus idles at most while somebody waits who may run there, though the policy keeps
/// tasks for other cpus. (.16 to .38 if who idles takes nobody's seat.)
fn cpus_do_not_idle_beside_who_waits(program: &Path) {
    for (sleepers, seed) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        let [idle] = found(program, [sleepers, 8, 20, 1000, seed], "idle");
        assert!(idle <= 100, "sleepers {sleepers}, seed {seed}: {idle} thousandths of a cpu");
    }
}

/// One that was picked and did not come is found by the cpu that picked it, where nothing else happens.
fn lost_tasks_are_found(program: &Path) {
    for sleepers in 0..3 {
        let [after_ms] = found(program, [sleepers, 2, 1, 0, 0], "lost");
        assert!(after_ms <= 60, "sleepers {sleepers}: after {after_ms} ms");
    }
}

fn holds(policy: &str, core: &str) {
    let program = compile(policy);
    lost_tasks_are_found(&program);
    cpus_do_not_idle_beside_who_waits(&program);
    hogs_keep_their_weights(&program, if policy == "vtrr" { &[2] } else { &[1, 2] });
    let corrected = ["gdq", "vtrr"].contains(&policy);
    let sleepers: &[usize] = if corrected { &[2] } else { &[1, 2] };
    hogs_keep_what_their_cgroup_weighs(&program, sleepers);
    hogs_keep_their_share_beside_who_yields(&program, sleepers);
    bound_tasks_keep_their_shares(&program, corrected);
    cgroups_keep_their_shares(policy, &program, if policy == "gdq" { &[2] } else { &[1, 2] });
    unlike_hogs_keep_their_shares(&program, sleepers);
    cgroups_keep_what_heavy_naps_leave(policy, &program, sleepers);
    cgroups_keep_their_shares_beside_who_wakes_all_the_time(&program, sleepers);
    cgroups_keep_what_processes_leave(policy, &program, sleepers);
    a_cgroup_keeps_its_share_whose_weight_sways(policy, &program);
    if !corrected {
        hogs_keep_their_share_beside_a_cpu_that_is_given_up(policy, &program);
        turns_are_lengthened_by_what_was_left(&program, core);
    }
    let (mut changes_of_cpus, mut ended, mut forfeits, mut lengthened) = (0, 0, 0, 0);
    for seed in 0..12 {
        let sleepers = seed % 3;
        let cpus = [2, 4, 3, 8][seed % 4];
        let tasks = [5, 10, 30][seed / 4];
        let mut replay = Replay::new(core, sleepers, cpus);
        history(&program, sleepers, cpus, tasks, seed).lines().for_each(|line| replay.event(line));
        changes_of_cpus += replay.changes_of_cpus;
        ended += replay.ended;
        forfeits += replay.forfeits;
        lengthened += replay.lengthened;
    }
    assert!(lengthened > 0, "no turn was lengthened");
    assert!(forfeits > 10, "only {forfeits} tasks forfeited what they had");
    assert!(ended > 100, "only {ended} tasks ended");
    assert!(changes_of_cpus > 100, "cpus changed only {changes_of_cpus} times");
}

#[test]
fn gr3_goes_on_as_cpus_come_and_go() {
    holds("gr3", "gr3");
}

#[test]
fn gdq_goes_on_as_cpus_come_and_go() {
    holds("gdq", "gdq:t=1,delta=1");
}

#[test]
fn vtrr_goes_on_as_cpus_come_and_go() {
    holds("vtrr", "vtrr");
}

/// The control, and why VTRR has corrected turns unless the user asks for others: where weights change all
/// the time it passes by who becomes heavier.
#[test]
fn vtrr_with_turns_that_are_kept_lets_hogs_wait() {
    let program = compile("vtrr");
    let least = (2..4).map(|seed| least_of_hogs(&program, 1, 4, seed)).min();
    assert!(least < Some(90), "{least:?} %");
    let furthest = (0..5).map(|seed| beside(&program, 1, seed).furthest).max();
    assert!(furthest > Some(25_000), "{furthest:?} of a million");
}

#[test]
fn dfs_fa_goes_on_as_cpus_come_and_go() {
    holds("dfs_fa", "dfs-fa");
}

#[test]
fn wfq_goes_on_as_cpus_come_and_go() {
    holds("wfq", "mfq");
}
