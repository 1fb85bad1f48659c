//! `cargo xtask vm-test`: what must hold in a real kernel, in the test machine.
//!
//! Where something is measured, time in the machine is executed instructions, so that a busy host changes
//! nothing. Each check is a command; a machine that ends with another code than 0, or whose kernel warns,
//! fails.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::guest::services;
use crate::vm::{self, Check};
use crate::vm_stress;

/// Shares may be so far from the entitled ones, in per mille, after [`SECONDS`]; a quantum is 28 per
/// mille of what the lightest hog is entitled to.
const SHARE_ERROR: u32 = 40;
const SECONDS: u32 = 4;
/// A cgroup may be so far from its due in a second, in per mille, and four quanta more.
const GROUP_ERROR: u32 = 10;
/// The same beside a storm of forks, in two seconds; under vtrr, which has no bound within a round, in five.
/// Found: up to 26 per mille, and under vtrr, in two seconds, 58.
const STORM_ERROR: u32 = 30;
/// A hog with a mask may be so far from its due in three seconds, in per mille, or two quanta. Found: up to
/// 26 per mille; a quantum is 10 of what the lightest hog is due.
const BOUND_ERROR: u32 = 40;
/// More hogs than slots; one that has a slot may be so far from its share, in per mille, of which a quantum
/// is 5.
const HOGS: u32 = 80;
const CROWD_ERROR: u32 = 30;
/// How far a hog may be behind its ideal at any time. Found: up to 7 ms; Theorem 2 allows 20. (A
/// loader that records has taken 32 ms from a hog that is entitled to a whole cpu.)
const LAG_MS: u32 = 15;
/// For how long cpus may idle in all beside hogs that wait. Found: up to .6 ms; 15 to 50 where a quantum was
/// lost about once a second.
const IDLE_MS: u32 = 5;
/// Tasks that sleep and need clearly less than their share run in so many of their periods, and but for
/// one in a hundred wait no longer. Found: 100 %, and up to 1.2 ms. (As the papers have it: 40 %, 49 ms.) In
/// two seconds that is the third of 200 waits, and once was 4.1 ms.
const SLEEPER_SECONDS: u32 = 4;
const SERVED_PERCENT: u32 = 98;
const P99_MS: u32 = 3;
/// The same where queues have locks of their own: who wakes where two run on credit waits for its turn.
/// Found: .1 to 3.6 ms. (As the paper has it: 63 ms.)
const P99_APART_MS: u32 = 10;
/// The policy under random disturbances, in virtual seconds; `vm-stress` has the long form.
const STRESS_SECONDS: u64 = 3;
/// Hogs' shares of so many seconds after each change of cpus, in per mille; or three quanta, if that is more.
const HOTPLUG_SECONDS: u32 = 4;
const HOTPLUG_ERROR: u32 = 20;
/// GDQ serves the heavy ones in bunches of several quanta, of which they are due 100 to 200 in that time.
const APART_HOTPLUG_ERROR: u32 = 60;
/// An instruction takes 64 ns, so that the kernel's threads for a cpu that comes run for longer than slices.
const SLOW_ICOUNT: u32 = 6;
/// It took .19 s, and 4.2 while their slices could end (`prorata_tick`).
const COMING_MS: u64 = 1000;
/// An instruction takes 4 ns: the emulated cpus are slow, and the host is done the sooner.
const ICOUNT: u32 = 2;

/// Hogs on two sockets change sockets so often in a second. Found: 1.7 times, and 20 where nobody looks at
/// caches.
const FAR_MOVES: u32 = 5;
/// And are so far from their shares after a second, in per mille, of which a quantum is 25.
const FAR_ERROR: u32 = 60;

/// Attempts of each attack that is a race; `cargo xtask vm -- xtask guest attack` makes as many as one
/// likes.
const RACES: u32 = 50;

const FLOOD_SECONDS: u64 = 2;

/// The oldest kernel that a policy must load on: the beginning of its version.
const OLDEST_KERNEL: &str = "6.16";
/// Policies, and for how long their decisions are recorded: one second is too short for shares to
/// settle, but long enough to see whose the decisions are. One has other options than usual, which the
/// recording tells.
const POLICIES: &[(&str, u32)] = &[GR3, ("vtrr", 1), ("gdq:delta=2", 1), ("dfs-fa", 1), ("wfq", 1)];
const GR3: (&str, u32) = ("gr3", SECONDS);

/// Policies with the rule for tasks that sleep which is not their default; the largest first.
const OTHER_FORMS: &[&str] = &[
    "gr3:sleepers=corrected",
    "vtrr:sleepers=turns",
    "gdq:delta=2,sleepers=turns",
    "dfs-fa:sleepers=corrected",
    "wfq:sleepers=corrected",
];

/// The policy whose queues have locks of their own.
const APART: (&str, u32) = ("gdq-distributed --groups off", 1);

#[derive(clap::Args)]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        run()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs all checks: on two cpus, on one what may differ there, and on other machines; and loads every policy
/// on the oldest kernel that it must load on, and on the newest that there is.
///
/// On an emulated cpu loading takes ten seconds, and three times as long where time is executed instructions:
/// checks that need the same scheduler share one, and those that measure nothing are run in the host's time.
pub(crate) fn run() -> Result<()> {
    eprintln!("xtask: in the kernel, 1 cpu");
    let machine = Check { cpus: 1, ..Check::default() };
    let scripts = [loaded(&[shares(), storm(), weights()]), decisions(&[GR3]), storm_of_rounds()];
    boot_and_check(&machine, &scripts)?;
    eprintln!("xtask: 2 cpus that run at once");
    let machine = Check { cpus: 2, ..Check::default() };
    let policies: Vec<_> = POLICIES.iter().copied().chain([APART]).collect();
    let scripts = [
        refusals(),
        loaded(&[refusals_while_loaded(), attacks()]),
        contained(),
        decisions(&policies),
        decisions_in_cgroups(),
        loaded_as_a_cpu_goes(),
        not_yet_begun_anew(),
        vm_stress::stress("gr3", STRESS_SECONDS, 1),
        vm_stress::stress("gdq-distributed", STRESS_SECONDS, 1),
    ];
    boot_and_check_at_once(&machine, &scripts)?;
    eprintln!("xtask: in the kernel, 2 cpus");
    // Who has flooded is answered late.
    let checks = [shares(), groups(), storm(), watch(), bound(), weights(), flood()];
    let scripts = [
        explained(),
        loaded(&checks),
        run_command(),
        other_policies(),
        corrected(),
        hotplug(),
        hotplug_apart(),
    ];
    boot_and_check(&machine, &scripts)?;
    eprintln!("xtask: in the kernel, 2 cpus, recorded");
    let scripts = [sleepers_and_naps(), sleepers_apart(), naps_that_pass(), recorded(), crowd()];
    boot_and_check(&machine, &scripts)?;
    eprintln!("xtask: a slow cpu goes and comes");
    let machine = Check { cpus: 2, icount: Some(SLOW_ICOUNT), ..Check::default() };
    boot_and_check(&machine, &[slow_hotplug()])?;
    eprintln!("xtask: in the kernel, 2 of 4 cpus offline");
    let machine = Check { cpus: 4, boot: "maxcpus=2", ..Check::default() };
    boot_and_check_at_once(&machine, &[bound_to_offline_cpus()])?;
    eprintln!("xtask: in the kernel, 2 sockets of 4 cpus");
    let machine = Check { cpus: 8, smt: true, sockets: 2, ..Check::default() };
    boot_and_check(&machine, &[sockets()])?;
    eprintln!("xtask: 8 cpus that run at once, and that the host stops at any time");
    boot_and_check_at_once(&machine, &[at_once()])?;
    eprintln!("xtask: services and a session of systemd's, 2 cpus");
    let debian = vm::debian(services::PACKAGES)?;
    let machine = Check { cpus: 2, debian: Some(&debian), ..Check::default() };
    boot_and_check(&machine, &[units()])?;
    let newest = vm::kernel_releases()?.pop();
    let machines = [(Some(OLDEST_KERNEL), OTHER_FORMS), (newest.as_deref(), &OTHER_FORMS[..1])];
    for (kernel, others) in machines {
        eprintln!("xtask: in kernel {}", kernel.unwrap_or_default());
        // With siblings there is more to verify.
        let machine = Check { kernel, cpus: 2, smt: true, ..Check::default() };
        match boot_and_check_at_once(&machine, &[loads(others)]) {
            Err(error) if error.is::<vm::NoSuchKernel>() => eprintln!("xtask: skipped: {error}"),
            result => result?,
        }
    }
    Ok(())
}

/// Runs scripts one after the other in a machine, of which cpus and kernel are told.
fn boot_and_check(machine: &Check<'_>, scripts: &[String]) -> Result<()> {
    boot_and_check_at_once(&Check { icount: machine.icount.or(Some(ICOUNT)), ..*machine }, scripts)
}

/// The same, but where the machine does not say otherwise, its cpus run at once and time is the host's.
fn boot_and_check_at_once(machine: &Check<'_>, scripts: &[String]) -> Result<()> {
    let what = Check { timeout: Duration::from_secs(1800), ..*machine };
    let script = format!("set -e\n{BEGIN_END}\n{}", scripts.join("\n"));
    vm::check(&what, &script, &mut vm::print)
}

/// Shell functions that load the scheduler with these flags, and unload it.
const BEGIN_END: &str = "
begin() {
    scx_prorata \"$@\" & LOADER=$!
    while ! [ -e /run/scx_prorata.sock ]; do sleep 0.1; done
}
end() {
    kill -$1 $LOADER
    wait $LOADER || true
    while ! grep -q disabled /sys/kernel/sched_ext/state; do sleep 0.1; done
    # Those of a loader that was killed: any other has removed its own by now.
    rm -f /run/scx_prorata.sock /run/scx_prorata-root.sock
}
refused() {
    CODE=0
    \"$@\" 2>/tmp/refusal || CODE=$?
    cat /tmp/refusal
    if [ $CODE != 2 ]; then echo \"ended with code $CODE: $*\"; exit 1; fi
}
as() { xtask guest as \"$@\"; }
counted() { [ \"$(scx_prorata metrics | sed -n \"s/^scx_prorata_$1_total //p\")\" -gt 0 ]; }
burn() { while :; do :; done; }
";

/// Mixes of hogs get their shares.
fn shares() -> String {
    format!(
        "xtask guest mix --seconds {SECONDS} --share-error {SHARE_ERROR} --lag {LAG_MS} --idle {IDLE_MS} \
         --under loaded"
    )
}

/// cgroups get their shares, three levels deep, and when a task moves. (A loader that records takes from a
/// hog that is entitled to a whole cpu.)
fn groups() -> String {
    format!(
        "xtask guest groups --seconds 2 --error {GROUP_ERROR} --case '100x1, 100x4' --case '100{{300x2' \
         --case '200x3' --under loaded"
    )
}

/// A cgroup keeps its half beside a storm of forks.
fn storm() -> String {
    format!(
        "xtask guest groups --seconds 4 --error {STORM_ERROR} --case '100x1, 100 forks' --under loaded"
    )
}

/// The same where none has a cpu of its own, which is harder to those whose rounds are long.
fn storm_of_rounds() -> String {
    format!(
        "xtask guest groups --seconds 10 --error {STORM_ERROR} --case '100x1, 100 forks' \
         --under 'scx_prorata --policy vtrr:sleepers=turns'"
    )
}

/// A cgroup keeps its share while some of its tasks nap.
fn naps(cases: &str) -> String {
    format!("xtask guest groups --seconds 4 --error {GROUP_ERROR} {cases} --under loaded")
}

/// What holds of gr3 holds of another policy whose turns are kept.
fn other_policies() -> String {
    under("--policy wfq", &[storm(), naps("--case '100x2 and'")])
}

/// Tasks that sleep get what they need, and but for one in a hundred wait no longer.
fn probes(p99_ms: u32) -> String {
    format!(
        "xtask guest probes --seconds {SLEEPER_SECONDS} --served {SERVED_PERCENT} --p99 {p99_ms} \
         --under loaded"
    )
}

/// Also where queues have locks of their own.
fn sleepers_apart() -> String {
    under_and_verified(&format!("--policy {}", APART.0), &[probes(P99_APART_MS)])
}

/// Tasks that sleep get what they need, at once; a cgroup keeps its share while some of its tasks nap; a
/// hundred hogs of one that wake at once take no more than its weight gives them, whatever each was paid
/// while it slept. The policy decides as the core's, which knows neither cgroups nor masks, and lets no turn
/// go on for longer than others had no use for theirs.
fn sleepers_and_naps() -> String {
    let bursts = format!(
        "xtask guest groups --seconds 2 --error {GROUP_ERROR} --case '100x1, 100x10, 100x100' \
         --under loaded"
    );
    let moves = "xtask guest groups --seconds 1 --case '200x3' --under loaded";
    let bound = "xtask guest bound --seconds 1 --case '3, 2, 1 on cpu 1; 3, 3' --under loaded";
    let naps = naps("--case '100x2 and' --case '50x2 and'");
    under_and_verified("", &[probes(P99_MS), naps, bursts, moves.into(), bound.into()])
        + &["lengthen", "keep", "forfeit", "paid"].map(is_recorded).concat()
}

/// The same with corrected turns.
fn naps_that_pass() -> String {
    under_and_verified("--policy gdq", &[naps("--case '100x2 and'")]) + &is_recorded("pass")
}

/// What is told of cgroups is what the kernel counts of them, and what they are due, also as text.
fn watch() -> String {
    "xtask guest watch --seconds 1 --under loaded".to_string()
}

/// Where turns are corrected a cgroup keeps its half beside a storm of forks.
fn corrected() -> String {
    format!(
        "xtask guest groups --seconds 2 --error {GROUP_ERROR} --case '100x1, 100 forks' \
         --under 'scx_prorata --policy gr3:sleepers=corrected' --under 'scx_prorata --policy vtrr'"
    )
}

/// The policies decide as the core does beside a storm of forks, and in cgroups with corrected turns.
fn decisions_in_cgroups() -> String {
    let forks = "xtask guest groups --seconds 2 --case '100x1, 100 forks' --under loaded";
    let moves = "xtask guest groups --seconds 1 --case '200x3' --under loaded";
    under_and_verified("--policy dfs-fa", &[forks.into()])
        + &is_recorded("retire")
        + &under_and_verified("--policy gr3:sleepers=corrected", &[moves.into()])
}

/// Hogs that may not run on every cpu get what they are due, also where a cpu is left idle.
fn bound() -> String {
    format!(
        "xtask guest bound --seconds 3 --error {BOUND_ERROR} --case '3, 2, 1 on cpu 1; 1, 1' \
         --case '8, 1, 1 on cpu 1' --under loaded"
    )
}

/// Cpus go and come under load: the scheduler is not unloaded, keeps the weights that were set, shares out
/// the cpus that are left, and records all of it.
fn hotplug() -> String {
    format!("xtask guest hotplug --policy gr3 --seconds {HOTPLUG_SECONDS} --error {HOTPLUG_ERROR}")
}

/// The same where no lock keeps others out of the policy while it begins anew.
fn hotplug_apart() -> String {
    format!(
        "xtask guest hotplug --policy gdq-distributed:sleepers=paper --seconds 2 \
         --error {APART_HOTPLUG_ERROR}"
    )
}

/// Until the policy begins anew, for which its loader has to go on, tasks come, sleep, wake and end on the
/// cpus that have a seat in it, and on one that has none.
fn not_yet_begun_anew() -> String {
    format!(
        "begin --policy {} --record /tmp/recording
burn & HOG=$!
fork_and_sleep() {{ for process in $(seq 20); do sleep 0.01; done; }}
changes() {{ until [ $(grep -c '^[0-9]* cpus ' /tmp/recording) = $1 ]; do sleep 0.1; done; }}
echo 0 >/sys/devices/system/cpu/cpu1/online
changes 1
kill -STOP $LOADER
echo 1 >/sys/devices/system/cpu/cpu1/online
fork_and_sleep & SHELL=$!
# These come on the cpu that has none, and run on the other.
taskset 2 sh -c 'for process in $(seq 20); do taskset 1 sleep 0.01; done'
wait $SHELL
kill -CONT $LOADER
changes 2
kill -STOP $LOADER
echo 0 >/sys/devices/system/cpu/cpu1/online
fork_and_sleep
kill -CONT $LOADER
changes 3
# It is of real time only in between.
until [ $(cut -d' ' -f41 /proc/$LOADER/stat) = 0 ]; do sleep 0.1; done
fork_and_sleep
end INT
kill $HOG
echo 1 >/sys/devices/system/cpu/cpu1/online
prorata verify /tmp/recording",
        APART.0
    )
}

/// It begins with the cpus that are online when it is attached, whichever went while it was loaded.
fn loaded_as_a_cpu_goes() -> String {
    "scx_prorata --record /tmp/recording & LOADER=$!
sleep 1
! grep -qx enabled /sys/kernel/sched_ext/state
echo 0 >/sys/devices/system/cpu/cpu1/online
until grep -qx enabled /sys/kernel/sched_ext/state; do sleep 0.1; done
echo 1 >/sys/devices/system/cpu/cpu1/online
until grep -q ' cpus 2$' /tmp/recording; do sleep 0.1; done
end INT
head -n 1 /tmp/recording | grep -q ' cpus 1 '
prorata verify /tmp/recording"
        .to_string()
}

/// The policies decide as the core does, in all mixes of hogs.
fn decisions(policies: &[(&str, u32)]) -> String {
    let check = |(policy, seconds): &(&str, u32)| {
        format!(
            "xtask guest mix --seconds {seconds} \
             --under 'scx_prorata --policy {policy} --record /tmp/recording'\n\
             prorata verify /tmp/recording"
        )
    };
    policies.iter().map(check).collect::<Vec<_>>().join("\n")
}

/// What a cgroup and a process of it are due is explained by what runs on the machine.
fn explained() -> String {
    "HOGS=
for cgroup in a b; do
    mkdir /sys/fs/cgroup/$cgroup
    for hog in 1 2; do
        sh -c \"echo \\$\\$ >/sys/fs/cgroup/$cgroup/cgroup.procs; while :; do :; done\" & HOGS=\"$HOGS $!\"
    done
done
echo 300 >/sys/fs/cgroup/a/cpu.weight
sleep 0.5
prorata explain --cgroup /a
prorata explain --cgroup /a --format json >/tmp/explained
grep -q '\"name\":\"a/\",[^}]*\"is_asked\":true,[^}]*\"due\":\"3/2\"' /tmp/explained
prorata explain --pid ${HOGS##* } --format json >/tmp/explained
grep -q '\"is_asked\":true,[^}]*\"due\":\"1/4\"' /tmp/explained
grep -q 'schedules this machine' /tmp/explained
refused prorata explain --cgroup /nowhere
grep -q 'there is no cgroup /nowhere' /tmp/refusal
kill $HOGS
wait $HOGS || true
rmdir /sys/fs/cgroup/a /sys/fs/cgroup/b"
        .to_string()
}

/// As many hogs as cores have one each; more stay near to their caches, and receive what they are due; the
/// policy decides as the core's, which knows of neither.
fn sockets() -> String {
    format!(
        "xtask guest topology --whole-cores --hogs 40 --seconds 1 --share-error {FAR_ERROR} \
         --far {FAR_MOVES} --under 'scx_prorata --record /tmp/recording'
prorata verify /tmp/recording
grep -q ' paid ' /tmp/recording"
    )
}

/// Hogs go on where cpus are stopped at any time, also while they hold the lock or wait for it.
fn at_once() -> String {
    "xtask guest topology --hogs 40 --seconds 1 --under scx_prorata --under 'scx_prorata --policy dfs-fa'"
        .to_string()
}

/// More hogs than slots.
fn crowd() -> String {
    format!(
        "xtask guest crowd --hogs {HOGS} --seconds 4 --share-error {CROWD_ERROR} \
         --under 'scx_prorata --max-tasks 115 --quantum 1ms --record /tmp/recording'
prorata verify /tmp/recording"
    )
}

/// Services and users' sessions receive what systemd's weights say, at once when they change.
fn units() -> String {
    format!("xtask guest services --seconds 1 --error {GROUP_ERROR} --under scx_prorata")
}

/// Every policy loads as it is by default, and these do; and hogs run under it.
fn loads(others: &[&str]) -> String {
    let specs = POLICIES.iter().map(|(policy, _)| *policy);
    let load = |arguments| format!("begin --policy {arguments}\n{}\nend INT", hogs_run());
    let all = specs.chain([APART.0]).chain(others.iter().copied());
    all.map(load).collect::<Vec<_>>().join("\n")
}

fn hogs_run() -> &'static str {
    "burn & HOGS=$!
burn & HOGS=\"$HOGS $!\"
sleep 1
test \"$(cat /sys/kernel/sched_ext/state)\" = enabled
kill $HOGS"
}

/// One scheduler for checks that need no other; its loader is killed, and leaves the machine to the kernel.
fn loaded(checks: &[String]) -> String {
    format!("begin\n{}\nend KILL", checks.join("\n"))
}

/// One scheduler, with these arguments, for checks.
fn under(arguments: &str, checks: &[String]) -> String {
    format!("begin {arguments}\nrenice -n -20 -p $LOADER\n{}\nend INT\n", checks.join("\n"))
}

/// The same; what it decided is what the core decides.
fn under_and_verified(arguments: &str, checks: &[String]) -> String {
    under(&format!("{arguments} --record /tmp/recording"), checks)
        + "prorata verify /tmp/recording\n"
}

fn is_recorded(event: &str) -> String {
    format!("grep -qE ' {event}( |$)' /tmp/recording\n")
}

/// What is not a policy is refused, and what needs a scheduler while there is none.
fn refusals() -> String {
    "test \"$(cat /sys/kernel/sched_ext/state)\" = disabled
refused scx_prorata --policy none
refused scx_prorata --policy gdq:t=0
refused scx_prorata --policy gdq-distributed:sleepers=corrected
refused scx_prorata --policy gdq-distributed
grep -q 'add --groups off' /tmp/refusal
refused scx_prorata --quantum 5
grep -q 'write it as 5ms' /tmp/refusal
refused scx_prorata --record /nowhere/recording
grep -q 'in a directory that exists' /tmp/refusal
refused as 1000 scx_prorata
grep -q 'needs root' /tmp/refusal
refused scx_prorata weight set --pid 1 5
grep -q 'start it first' /tmp/refusal
refused scx_prorata metrics
grep -q 'start scx_prorata first' /tmp/refusal
# One whose configuration nobody knows is none the worse.
mv /boot /tmp/boot"
        .to_string()
}

/// A kernel that is scheduled already is refused.
fn refusals_while_loaded() -> String {
    "mv /tmp/boot /boot
refused scx_prorata
grep -q 'is loaded: stop it first' /tmp/refusal
refused prorata run --backend kernel 1:true
grep -q 'is loaded' /tmp/refusal
scx_prorata metrics | grep -q scx_prorata_picks_total"
        .to_string()
}

/// `weight set` and `weight get`: inheritance, permissions as setpriority has them, what is received.
fn weights() -> String {
    "scx_prorata weight set --pid 1 2048
test \"$(scx_prorata weight get --pid 1)\" = '1 2048'
refused scx_prorata weight set --pid 999999 5
xtask guest as 1000 sleep 1000 & SLEEPER=$!
sleep 0.5
as 1000 scx_prorata weight set --pid $SLEEPER 500
test \"$(as 1001 scx_prorata weight get --pid $SLEEPER)\" = \"$SLEEPER 500\"
refused as 1000 scx_prorata weight set --pid $SLEEPER 501
refused as 1000 scx_prorata weight set --pid $SLEEPER nice
refused as 1000 scx_prorata weight set --pid 1 5
refused as 1001 scx_prorata weight set --pid $SLEEPER 5
xtask guest as 1000 sleep 1000 & OTHER=$!
sleep 0.5
scx_prorata weight set --pid $OTHER 9
refused as 1000 scx_prorata weight set --user 1000 20
grep -q 'raising a weight (of thread '$OTHER', now 9)' /tmp/refusal
grep -q 'keep the weights that they had' /tmp/refusal
test \"$(scx_prorata weight get --pid $SLEEPER)\" = \"$SLEEPER 20\"
test \"$(scx_prorata weight get --pid $OTHER)\" = \"$OTHER 9\"
kill $OTHER
wait $OTHER || true
scx_prorata weight set --user 1000 700
test \"$(scx_prorata weight get --user 1000)\" = \"$SLEEPER 700\"
renice 5 $SLEEPER
test \"$(scx_prorata weight get --pid $SLEEPER)\" = \"$SLEEPER 700\"
scx_prorata weight set --pid $SLEEPER nice
test \"$(scx_prorata weight get --pid $SLEEPER)\" = \"$SLEEPER 335\"
kill $SLEEPER
setsid sh -c 'scx_prorata weight set --pgrp $$ 77
sleep 1000 & echo $! >/tmp/child; exec sleep 1000' &
sleep 1
test \"$(scx_prorata weight get --pid $(cat /tmp/child))\" = \"$(cat /tmp/child) 77\"
kill $(cat /tmp/child)
for cpu in $(seq $(nproc)); do
    burn & scx_prorata weight set --pid $! 3000; HEAVY=\"$HEAVY $!\"
    burn & scx_prorata weight set --pid $! 1000; LIGHT=\"$LIGHT $!\"
done
ran() {
    awk '{ sum += $1 / 1e6 } END { printf \"%d\", sum }' $(printf '/proc/%s/schedstat ' $*)
}
sleep 1
HEAVY_MS=$(ran $HEAVY) LIGHT_MS=$(ran $LIGHT)
sleep 6
HEAVY_MS=$(($(ran $HEAVY) - HEAVY_MS)) LIGHT_MS=$(($(ran $LIGHT) - LIGHT_MS))
kill $HEAVY $LIGHT
echo \"weights of 3000 and 1000 received $HEAVY_MS and $LIGHT_MS ms\"
[ $((HEAVY_MS * 100)) -gt $((LIGHT_MS * 294)) ]
[ $((HEAVY_MS * 100)) -lt $((LIGHT_MS * 306)) ]"
        .to_string()
}

/// The loader in a pid namespace of its own, as in a container: numbers are those that it has there.
fn contained() -> String {
    "sleep 1000 & OUTSIDE=$!
unshare -p -f --mount-proc sh -ec '
    scx_prorata & LOADER=$!
    until [ -S /run/scx_prorata.sock ]; do kill -0 $LOADER; sleep 0.1; done
    sleep 1000 & INSIDE=$!
    sleep 2
    [ $INSIDE -lt $1 ]
    test \"$(scx_prorata weight get --pid $INSIDE)\" = \"$INSIDE 1024\"
    scx_prorata weight set --pid $INSIDE 77
    test \"$(scx_prorata weight get --pid $INSIDE)\" = \"$INSIDE 77\"
    ! scx_prorata weight get --pid $1
    kill $INSIDE
    kill -INT $LOADER
    wait $LOADER
' sh $OUTSIDE
test \"$(cat /sys/kernel/sched_ext/state)\" = disabled
kill $OUTSIDE"
        .to_string()
}

/// An ordinary user does not get at the weights of root's processes: by a user namespace, a set-uid
/// program, or a number that was another process's.
fn attacks() -> String {
    format!(
        "sleep 1000 & ROOTS=$!
as 1000 unshare -U -r true
refused as 1000 unshare -U -r scx_prorata weight set --pid $ROOTS 5
refused as 1000 unshare -U -r scx_prorata weight set --user 0 5
xtask guest as 1000 unshare -U -r sleep 1000 & SLEEPER=$!
sleep 2
as 1000 scx_prorata weight set --pid $SLEEPER 500
refused as 1000 unshare -U -r scx_prorata weight set --pid $SLEEPER 501
refused as 1001 unshare -U -r scx_prorata weight set --pid $SLEEPER 5
refused unshare -U scx_prorata weight set --pid $SLEEPER 499
as 1000 xtask guest attack core
cp /bin/xtask /tmp/set-uid
chmod 4755 /tmp/set-uid
as 1000 xtask guest attack exec /tmp/set-uid --times {RACES}
test \"$(scx_prorata weight get --pid 1)\" = '1 1024'
xtask guest attack reuse --times {RACES}
test \"$(scx_prorata weight get --pid $ROOTS)\" = \"$ROOTS 1024\"
kill $ROOTS $SLEEPER
wait $ROOTS $SLEEPER || true"
    )
}

/// A flood of the loader's socket takes no cpu from others. Beside a task of real time that keeps its cpu,
/// no timer of ours fires oftener than the tick.
fn flood() -> String {
    format!(
        "xtask guest flood --seconds {FLOOD_SECONDS} --loader $LOADER
[ $(nproc) = 1 ] || xtask guest spinner"
    )
}

/// A cpu that comes is not forgotten by the kernel while its threads for it run.
fn slow_hotplug() -> String {
    format!("xtask guest hotplug --policy gr3 --seconds 1 --coming-ms {COMING_MS}")
}

/// What a recording tells. Who has ended is forgotten, and its slot is free again.
fn recorded() -> String {
    format!(
        "begin --rescue 100ms --record /tmp/recording
for process in $(seq 20); do sleep 0.01; done
# What RCU protects is freed later.
sleep 0.5
{}
{}
end INT
prorata verify /tmp/recording
[ $(grep -c ' remove ' /tmp/recording) -ge 20 ]
{CHARGED_AS_RUN}",
        outside(),
        sleeper()
    )
}

/// Tasks that wait too long are rescued, tasks bound to a cpu run there: both are explained.
fn outside() -> String {
    "burn & HOGS=$!
burn & HOGS=\"$HOGS $!\"
burn & HOGS=\"$HOGS $!\"; scx_prorata weight set --pid $! 1
taskset 1 sh -c 'while :; do :; done' & HOGS=\"$HOGS $!\"
sleep 1.5
counted rescues
[ $(nproc) = 1 ] || counted confined
kill $HOGS"
        .to_string()
}

/// A task that sleeps between two ticks …
fn sleeper() -> String {
    "xtask guest worker sleeper 1 & WORKER=$!
sleep 2
kill -STOP $WORKER
sleep 0.1
RAN=$(cut -d' ' -f1 /proc/$WORKER/schedstat)
kill -KILL $WORKER"
        .to_string()
}

/// … is charged for what it runs.
const CHARGED_AS_RUN: &str = "awk -v pid=$WORKER -v ran=$RAN '
    $2 == \"add\" && $5 == pid { id = $3 }
    ($2 == \"charge\" || $2 == \"return\") && $3 == id { used += $5 }
    END { print \"a sleeper ran\", ran, \"ns, recorded\", used; exit used < 0.95 * ran || used > 1.05 * ran }
' /tmp/recording";

/// Anybody may bind tasks to cpus that are offline, beside one that is not.
fn bound_to_offline_cpus() -> String {
    "begin
for hog in 1 2 3; do as 1000 taskset 0xd sh -c 'while :; do :; done' & HOGS=\"$HOGS $!\"; done
sleep 2
test \"$(cat /sys/kernel/sched_ext/state)\" = enabled
kill $HOGS
end INT"
        .to_string()
}

/// `prorata run --backend kernel`, and why it cannot where it cannot. Found: .2 % off on one cpu; on two the
/// command that is due a whole cpu gets .3 % less of what all receive: prorata goes before it when it looks.
fn run_command() -> String {
    "LOOP='while :; do :; done'
prorata run --backend kernel --quantum 5ms --duration 3s --format json \
    2:\"$LOOP\" 1:\"$LOOP\" 1:\"$LOOP\" >/tmp/report
cat /tmp/report
grep -q '\"backend\":\"kernel\"' /tmp/report
grep -o '\"received_share\":[0-9.]*' /tmp/report | cut -d: -f2 |
    awk -v most=$([ $(nproc) = 1 ] && echo 0.02 || echo 0.03) '
    { due = NR == 1 ? 0.5 : 0.25; wrong += $1 < (1 - most) * due || $1 > (1 + most) * due }
    END { exit wrong || NR != 3 }'
grep -q disabled /sys/kernel/sched_ext/state
refused prorata run --backend kernel --policy none 1:true
grep -q 'no policy' /tmp/refusal
refused prorata run --backend kernel 1000001:true
grep -q 'weights end at 1000000' /tmp/refusal
refused as 1000 prorata run --backend kernel 1:true
grep -q 'needs root' /tmp/refusal"
        .to_string()
}
