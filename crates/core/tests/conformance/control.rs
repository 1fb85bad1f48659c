//! Negative controls: policies that cheat, which the suite must reject.

use std::panic::{AssertUnwindSafe, catch_unwind};

use prorata::policies::wfq::{Finish, Wfq};
use prorata::policies::{Entry, Ties, find};
use prorata::queue::Heap;
use prorata::{CpuId, Nanos, Policy, Setup, TaskId, Weight};

use crate::{fixed, turmoil};

/// WFQ with a vice.
struct Cheat {
    honest: Wfq<Heap<Finish>>,
    vice: fn(&mut Cheat, Option<TaskId>) -> Option<TaskId>,
    picks: u64,
    /// What the last pick said.
    last: Option<TaskId>,
}

impl Cheat {
    fn new(setup: &Setup, vice: fn(&mut Cheat, Option<TaskId>) -> Option<TaskId>) -> Cheat {
        Cheat { honest: Wfq::new(setup, Ties::LeastRecent), vice, picks: 0, last: None }
    }
}

impl Policy for Cheat {
    fn add(&mut self, task: TaskId, weight: Weight) {
        self.honest.add(task, weight);
    }
    fn remove(&mut self, task: TaskId, now_ns: Nanos) {
        self.honest.remove(task, now_ns);
    }
    fn set_weight(&mut self, task: TaskId, weight: Weight, now_ns: Nanos) {
        self.honest.set_weight(task, weight, now_ns);
    }
    fn wake(&mut self, task: TaskId, now_ns: Nanos) {
        self.honest.wake(task, now_ns);
    }
    fn block(&mut self, task: TaskId, now_ns: Nanos) {
        self.honest.block(task, now_ns);
    }
    fn pick(&mut self, cpu: CpuId, now_ns: Nanos) -> Option<TaskId> {
        self.picks += 1;
        let honest = self.honest.pick(cpu, now_ns);
        self.last = (self.vice)(self, honest);
        self.last
    }
    fn charge(&mut self, task: TaskId, used_ns: Nanos, now_ns: Nanos) {
        // Task 0 pays only for nine tenths of what it uses.
        let paid_ns = if task.0 == 0 { used_ns - used_ns / 10 } else { used_ns };
        self.honest.charge(task, paid_ns, now_ns);
    }
}

fn entry(build: prorata::policies::Builder) -> Entry {
    Entry { name: "cheat", build, ..*find("wfq").expect("it is registered") }
}

fn is_rejected(entry: Entry, by: fn(&[Entry])) -> bool {
    catch_unwind(AssertUnwindSafe(|| by(&[entry]))).is_err()
}

fn turmoil(entries: &[Entry]) {
    turmoil::all_mixes(entries, 300);
}

#[test]
fn a_policy_that_favours_a_task_by_a_tenth() {
    let cheat = entry(|setup, _| Ok(Box::new(Cheat::new(setup, |_, honest| honest))));
    assert!(is_rejected(cheat, fixed::papers));
}

#[test]
fn a_policy_that_idles_now_and_then() {
    let cheat = entry(|setup, _| {
        let vice = |cheat: &mut Cheat, honest: Option<TaskId>| {
            honest.filter(|_| !cheat.picks.is_multiple_of(50))
        };
        Ok(Box::new(Cheat::new(setup, vice)))
    });
    assert!(is_rejected(cheat, turmoil));
}

#[test]
fn a_policy_that_repeats_itself() {
    let cheat = entry(|setup, _| {
        let vice = |cheat: &mut Cheat, honest| cheat.last.or(honest);
        Ok(Box::new(Cheat::new(setup, vice)))
    });
    assert!(is_rejected(cheat, fixed::papers));
    assert!(is_rejected(cheat, turmoil));
}

#[test]
fn the_honest_one_passes() {
    let wfq = *find("wfq").expect("it is registered");
    assert!(!is_rejected(wfq, fixed::papers));
    assert!(!is_rejected(wfq, turmoil));
}
