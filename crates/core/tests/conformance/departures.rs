//! With corrected turns nobody who stays is ahead for what those who went away were behind.

use prorata::policies::find;
use prorata::{Corrected, Nanos, Policy, Setup, TaskId, Weight};

use crate::sleepers::{QUANTUM_NS, paid};

const PLAYERS: [TaskId; 2] = [TaskId(0), TaskId(1)];

/// A hundred hogs run beside two tasks that wake twice, and run for as long as they may before others each
/// time; and go away.
fn play_beside_hogs(policy: &mut impl Policy, now_ns: &mut Nanos) {
    for task in (0..102).map(TaskId) {
        policy.add(task, Weight::ONE);
        if !PLAYERS.contains(&task) {
            policy.wake(task, *now_ns);
        }
    }
    for turn in 0..120 {
        if turn == 110 {
            PLAYERS.into_iter().for_each(|task| policy.block(task, *now_ns));
        }
        if turn >= 100 && turn % 10 == 0 {
            PLAYERS.into_iter().for_each(|task| policy.wake(task, *now_ns));
        }
        let task = policy.pick(0, *now_ns).expect("hogs wait");
        let used_ns = policy.slice_ns(task).unwrap_or(QUANTUM_NS);
        *now_ns += used_ns;
        policy.charge(task, used_ns, *now_ns);
    }
    for hog in (2..102).map(TaskId) {
        policy.block(hog, *now_ns);
        policy.remove(hog, *now_ns);
    }
}

/// Two tasks wake each other in turn. How many of a thousand wake-ups interrupt who woke.
fn interrupts_of_ping_pong(policy: &mut impl Policy, now_ns: &mut Nanos) -> u32 {
    let mut awake = [true; 2];
    let mut interrupts = 0;
    for _ in 0..1000 {
        let player = policy.pick(0, *now_ns).expect("one is awake");
        let (own, other) = (player.index(), 1 - player.index());
        *now_ns += QUANTUM_NS / 1000;
        let mut interrupted = false;
        if !awake[other] {
            policy.wake(PLAYERS[other], *now_ns);
            awake[other] = true;
            interrupted = policy.interrupt(*now_ns).is_some();
            interrupts += u32::from(interrupted);
        }
        policy.charge(player, QUANTUM_NS / 1000, *now_ns);
        if !interrupted {
            policy.block(player, *now_ns);
            awake[own] = false;
        }
    }
    interrupts
}

#[test]
fn who_stays_is_ahead_of_nobody_who_went() {
    for name in ["gr3", "gdq", "mfq", "dfs-fa", "vtrr", "wfq"] {
        let setup = Setup::new(1, QUANTUM_NS);
        let mut policy = Corrected::new(paid(find(name).expect("a policy"), &setup), &setup);
        let mut now_ns = 0;
        play_beside_hogs(&mut policy, &mut now_ns);
        let interrupts = interrupts_of_ping_pong(&mut policy, &mut now_ns);
        assert!(interrupts > 400, "{name}: {interrupts} of 1000 wake-ups interrupt");
    }
}
