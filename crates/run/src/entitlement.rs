//! What every command was entitled to: the ideal of [`prorata::hierarchy`], fed with what each asks for and
//! with real readings.

use std::num::NonZeroU64;

use prorata::hierarchy::{Hierarchy, HierarchyErrors, Place};
use prorata::ideal::Extremes;
use prorata::{Nanos, TaskId, Weight};

use crate::demand::Demand;

#[derive(Debug)]
struct Command {
    place: Place,
    demand: Demand,
    error_ns: Extremes<i64>,
}

/// Fluid GMS beside the run, fed with [what the commands ask for](Demand).
///
/// Its machine is as fast as the real one was for all commands together: what prorata, the rest of the
/// machine, and a cpu that idles take is no command's service error. So e = w − W·φ/Φ as the papers
/// define it (GR3 §2), and the errors of all add up to 0 while the ideal has something to do.
#[derive(Debug)]
pub(crate) struct Entitlement {
    ideal: HierarchyErrors,
    /// By task.
    commands: Vec<Command>,
    cpus: usize,
    /// The ideal has come to this time of the wall's clock, and of its own.
    now_ns: Nanos,
    clock_ns: Nanos,
    /// Delivered to all tasks up to then.
    delivered_ns: Nanos,
    /// Of that, what the ideal has not given out yet: nobody wanted it, or it did not make a whole ns of the
    /// clock on each usable cpu.
    rest_ns: Nanos,
}

impl Entitlement {
    pub(crate) fn new(cpus: usize, weights: &[Weight], now_ns: Nanos) -> Entitlement {
        let mut ideal = HierarchyErrors::new(cpus);
        let commands = weights.iter().map(|&weight| Command {
            place: ideal.add(Hierarchy::ROOT, weight),
            demand: Demand::default(),
            error_ns: Extremes { min: 0, max: 0 },
        });
        let commands = commands.collect();
        Entitlement { ideal, commands, cpus, now_ns, clock_ns: 0, delivered_ns: 0, rest_ns: 0 }
    }

    /// All tasks together have received `delivered_ns` up to `now_ns`. Estimates may be taken back: the
    /// ideal then waits.
    pub(crate) fn advance(&mut self, now_ns: Nanos, delivered_ns: Nanos) {
        let mut left_ns = delivered_ns.saturating_sub(self.delivered_ns);
        self.delivered_ns += left_ns;
        loop {
            let next = self.next_to_ask();
            let until_ns = next.map_or(now_ns, |(at_ns, _)| at_ns.clamp(self.now_ns, now_ns));
            let all_ns = now_ns - self.now_ns;
            let part_ns = part(left_ns, until_ns - self.now_ns, all_ns);
            if let Some((index, used_ns)) = self.serve(part_ns) {
                if used_ns > 0 {
                    self.now_ns += part(all_ns, used_ns, left_ns);
                    left_ns -= used_ns;
                }
                self.change(index, Demand::complete);
                continue;
            }
            left_ns -= part_ns;
            self.now_ns = until_ns;
            match next {
                Some((at_ns, index)) if at_ns <= now_ns => self.change(index, Demand::ask),
                _ => break,
            }
        }
    }

    /// The command that asks for something next, and when.
    fn next_to_ask(&self) -> Option<(Nanos, usize)> {
        let times = self.commands.iter().map(|command| command.demand.next_ns());
        times.zip(0..).filter_map(|(at_ns, index)| Some((at_ns?, index))).min()
    }

    /// The ideal gives out `share_ns`. If it is done with what a command asked for before that, which one,
    /// and what it has given out until then.
    fn serve(&mut self, share_ns: Nanos) -> Option<(usize, Nanos)> {
        let wanted = u64::from(self.ideal.tree().leaves(Hierarchy::ROOT));
        let budget_ns = self.rest_ns + share_ns;
        let Some(usable) = NonZeroU64::new(wanted.min(self.cpus as u64)) else {
            // Somebody has used what it will be known to have asked for.
            self.rest_ns = budget_ns;
            return None;
        };
        let until_ns = self.clock_ns + budget_ns / usable;
        if let Some((done_ns, index)) = self.next_to_complete().filter(|next| next.0 <= until_ns) {
            let spent_ns = (done_ns - self.clock_ns) * usable.get();
            let used_ns = spent_ns.saturating_sub(self.rest_ns);
            self.rest_ns = (self.rest_ns + used_ns) - spent_ns;
            self.clock_ns = done_ns;
            return Some((index, used_ns));
        }
        self.rest_ns = budget_ns % usable;
        self.clock_ns = until_ns;
        None
    }

    fn next_to_complete(&mut self) -> Option<(Nanos, usize)> {
        let ideal = &mut self.ideal;
        let done = |(index, command): (usize, &Command)| {
            let done_ns = ideal.time_of(command.place, command.demand.due_ns()?)?;
            Some((done_ns.max(self.clock_ns), index))
        };
        self.commands.iter().enumerate().filter_map(done).min()
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&mut Demand)) {
        let Command { place, demand, .. } = &mut self.commands[index];
        let before = demand.width();
        change(demand);
        let width = demand.width();
        if width != before {
            self.ideal.change(self.clock_ns, |tree| tree.set_width(*place, width));
        }
    }

    /// `task` has woken at `woke_ns`.
    pub(crate) fn wake(&mut self, task: TaskId, woke_ns: Nanos) {
        self.change(task.index(), |demand| demand.wake(woke_ns));
    }

    /// So many threads of `task`, which is awake, are runnable.
    pub(crate) fn set_threads(&mut self, task: TaskId, threads: u32) {
        self.change(task.index(), |demand| demand.set_threads(threads));
    }

    /// `task` has gone to sleep, having used `used_ns` in all.
    pub(crate) fn block(&mut self, task: TaskId, used_ns: Nanos) {
        let (now_ns, ideal_ns) = (self.now_ns, self.ideal_ns(task));
        self.change(task.index(), |demand| demand.block(now_ns, used_ns, ideal_ns));
    }

    /// `task` sleeps, and if it woke that would not be seen for `unseen_ns`.
    pub(crate) fn sleep(&mut self, task: TaskId, unseen_ns: Nanos) {
        let now_ns = self.now_ns;
        self.change(task.index(), |demand| demand.sleep(now_ns, unseen_ns));
    }

    /// When `task`, which sleeps, is foreseen to wake, if its sleeps differ by less than `within_ns`.
    pub(crate) fn wakes_ns(&self, task: TaskId, within_ns: Nanos) -> Option<Nanos> {
        self.commands[task.index()].demand.wakes_ns(within_ns)
    }

    /// `task` has used `used_ns` in all and wants a cpu, or not: for who looks too seldom to know more.
    pub(crate) fn observe(&mut self, task: TaskId, used_ns: Nanos, wants: bool) {
        let now_ns = self.now_ns;
        self.change(task.index(), |demand| demand.observe(now_ns, used_ns, wants));
    }

    /// `task` has ended.
    pub(crate) fn forget(&mut self, task: TaskId) {
        self.change(task.index(), Demand::end_predictions);
    }

    /// `task` has received `used_ns` in all: now that a turn of it begins, or has ended.
    pub(crate) fn sample(&mut self, task: TaskId, used_ns: Nanos) {
        self.change(task.index(), |demand| demand.run(used_ns));
        let error_ns = used_ns.cast_signed() - self.ideal_ns(task).cast_signed();
        self.commands[task.index()].error_ns.sample(error_ns);
    }

    /// What the ideal has given `task`.
    pub(crate) fn ideal_ns(&mut self, task: TaskId) -> Nanos {
        self.ideal.finish(self.clock_ns);
        self.ideal.ideal_ns(self.commands[task.index()].place)
    }

    /// The least and the greatest service error of `task`, in quanta.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn error_quanta(&self, task: TaskId, quantum_ns: Nanos) -> Extremes<f64> {
        let Extremes { min, max } = self.commands[task.index()].error_ns;
        let quanta = |ns: i64| ns as f64 / quantum_ns as f64;
        Extremes { min: quanta(min), max: quanta(max) }
    }
}

/// ⌊`whole_ns`·`of_ns`/`all_ns`⌋, `of_ns` being a part of `all_ns`, or the whole.
fn part(whole_ns: Nanos, of_ns: Nanos, all_ns: Nanos) -> Nanos {
    if of_ns == all_ns {
        return whole_ns;
    }
    let product = u128::from(whole_ns) * u128::from(of_ns);
    Nanos::try_from(product / u128::from(all_ns)).expect("a part")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u32 = 1_000_000;

    /// splitmix64.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u32) -> u32 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            u32::try_from((z ^ (z >> 31)) % u64::from(limit)).expect("below a limit of 32 bits")
        }

        fn below_ns(&mut self, limit_ns: u32) -> Nanos {
            Nanos::from(self.below(limit_ns))
        }
    }

    /// Whatever commands do, the ideal gives out what they received, and no more.
    #[test]
    fn the_ideal_gives_out_what_was_delivered() {
        for seed in 0..200 {
            let mut random = Random(seed);
            let weights: Vec<Weight> =
                (0..4).filter_map(|_| Weight::new(1 + random.below(9))).collect();
            let mut entitlement = Entitlement::new(2, &weights, 0);
            let mut used_ns = [0; 4];
            let mut awake = [false; 4];
            let mut now_ns = 0;
            for _ in 0..2_000 {
                let task = TaskId(random.below(4));
                let (used, awake) = (&mut used_ns[task.index()], &mut awake[task.index()]);
                now_ns += random.below_ns(4 * MS);
                if *awake {
                    *used += random.below_ns(3 * MS);
                }
                let used = *used;
                entitlement.advance(now_ns, used_ns.iter().sum());
                entitlement.sample(task, used);
                match (*awake, random.below(4)) {
                    (true, 0) => entitlement.set_threads(task, 1 + random.below(3)),
                    (true, 1) => {
                        entitlement.block(task, used);
                        *awake = false;
                    }
                    (false, 0) => {
                        entitlement.wake(task, now_ns - random.below_ns(MS).min(now_ns));
                        *awake = true;
                    }
                    (false, _) => entitlement.sleep(task, MS.into()),
                    _ => {}
                }
            }
            let ideal_ns: Nanos = (0..4).map(|task| entitlement.ideal_ns(TaskId(task))).sum();
            let given_ns = ideal_ns + entitlement.rest_ns;
            assert!(given_ns.abs_diff(used_ns.iter().sum()) < 10, "seed {seed}: {given_ns}");
        }
    }
}
