//! What a command asks for: the jobs that it would have if it ran alone, known from what it does.
//!
//! A *job* is what a command uses between two sleeps. Alone, on a cpu of its own, it would end each at once
//! and sleep as long as it sleeps here: so it asks for its next job when it wakes, less all the time that it
//! has waited so far. A command that sleeps *to* a time and not *for* a time (a player, a server) asks for
//! it when it wakes. The two are told apart by what varies less: how long it sleeps, or how long it is
//! from one wake-up to the next.
//!
//! The ideal may be ahead of the command, and needs jobs then that nobody has seen. They are taken to be as
//! the last one was, for as long as the command does not disprove it: if it runs for longer it asks for
//! all that it can get, and if it sleeps for longer it asks for nothing.
//!
//! That is so while one thread of it at most is runnable. With more the ideal follows its threads.

use prorata::Nanos;

/// How much the latest change of a sleep counts for in the mean of all: one of so many parts.
const MEMORY: Nanos = 64;
/// A job that is so many times as long as the last one is another program, if the ideal is ahead.
const FORESEEN: Nanos = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Job {
    /// Counted from 1.
    number: u64,
    /// Known when the command has done it.
    work_ns: Option<Nanos>,
}

/// From the beginning of a job to that of the next one.
#[derive(Clone, Copy, Debug)]
struct Cycle {
    sleep_ns: Nanos,
    period_ns: Nanos,
}

/// The jobs of a command, as it does them and as the ideal does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    /// Jobs that the command has begun. It does the last one, or sleeps after it.
    begun: u64,
    woke_ns: Nanos,
    /// When it ended the last one.
    blocked_ns: Option<Nanos>,
    /// What it had used before.
    used_before_ns: Nanos,
    /// How much later it is than it would be alone.
    delay_ns: Nanos,
    /// Of the last job that it has done.
    work_ns: Option<Nanos>,
    cycle: Option<Cycle>,
    /// Means of how much sleeps, and periods, differ from the ones before.
    sleep_change_ns: Nanos,
    period_change_ns: Nanos,
    /// It does what nobody foresaw, and asks for all it can get.
    open: bool,
    /// It has slept for longer than foreseen.
    overslept: bool,
    /// Its runnable threads, if it has had more than one since it woke.
    threads: Option<u32>,

    /// Jobs that it has asked for, the last one at this time.
    asked: u64,
    asked_ns: Nanos,
    /// The ideal does this one. At most one waits behind it: others are missed.
    serving: Option<Job>,
    waiting: Option<Job>,
    /// The last one that the ideal did before the command: foreseen, with this work.
    foreseen: Option<(u64, Nanos)>,
    /// What the ideal gives it for the jobs before that in service.
    served_ns: Nanos,
}

impl Demand {
    /// The cpus that it can use in the ideal.
    pub(crate) fn width(&self) -> u32 {
        u32::from(self.serving.is_some()).max(self.threads.unwrap_or(0))
    }

    /// What the ideal has given the command in all when it is done with what it does; `None` if nobody
    /// knows.
    pub(crate) fn due_ns(&self) -> Option<Nanos> {
        let work_ns = self.serving?.work_ns.or(self.work_ns.filter(|_| !self.open))?;
        Some(self.served_ns + work_ns)
    }

    /// The ideal has done that.
    pub(crate) fn complete(&mut self) {
        let due_ns = self.due_ns().expect("the job has an end");
        if let Some(Job { number, work_ns: None }) = self.serving {
            self.foreseen = Some((number, due_ns - self.served_ns));
        }
        self.served_ns = due_ns;
        self.serving = self.waiting.take();
    }

    /// When the command asks for its next job; `None` if nobody knows.
    pub(crate) fn next_ns(&self) -> Option<Nanos> {
        if self.open || self.overslept {
            return None;
        }
        if self.asked < self.begun {
            return Some(self.begun_ns());
        }
        let Cycle { sleep_ns, period_ns } = self.cycle?;
        let for_a_time = self.sleeps_for_a_time();
        let length_ns = if for_a_time { self.work_ns? + sleep_ns } else { period_ns };
        Some(match self.blocked_ns {
            _ if self.asked > self.begun => self.asked_ns + length_ns.max(1),
            Some(blocked_ns) if for_a_time => (blocked_ns + sleep_ns).saturating_sub(self.delay_ns),
            _ => self.begun_ns() + length_ns,
        })
    }

    /// When the command, which sleeps, is foreseen to wake, if that has lately differed by less than
    /// `within_ns`.
    pub(crate) fn wakes_ns(&self, within_ns: Nanos) -> Option<Nanos> {
        let (Some(blocked_ns), Some(cycle)) = (self.blocked_ns, self.cycle) else { return None };
        let wakes_ns = if self.sleeps_for_a_time() {
            blocked_ns + cycle.sleep_ns
        } else {
            self.woke_ns + cycle.period_ns
        };
        let change_ns = self.sleep_change_ns.min(self.period_change_ns);
        (change_ns < within_ns).then_some(wakes_ns)
    }

    /// When the command would have begun its job if it were alone.
    fn begun_ns(&self) -> Nanos {
        self.woke_ns.saturating_sub(self.delay_ns)
    }

    /// The command asks for its next job.
    pub(crate) fn ask(&mut self) {
        self.asked_ns = self.next_ns().expect("it asks");
        self.asked += 1;
        self.queue(Job { number: self.asked, work_ns: None });
    }

    /// It asks for `work_ns` that it has had already.
    fn ask_for(&mut self, work_ns: Nanos) {
        let last = self.waiting.as_mut().or(self.serving.as_mut());
        if let Some(Job { work_ns: Some(known_ns), .. }) = last {
            *known_ns += work_ns;
        } else {
            self.queue(Job { number: self.begun, work_ns: Some(work_ns) });
        }
    }

    /// For who looks too seldom to know jobs: at `now_ns` the command has used `used_ns` in all, and wants a
    /// cpu or not.
    pub(crate) fn observe(&mut self, now_ns: Nanos, used_ns: Nanos, wants: bool) {
        let awake = self.begun > 0 && self.blocked_ns.is_none();
        let more_ns = used_ns - self.used_before_ns;
        if wants && !awake {
            self.wake(now_ns);
        } else if awake && !wants {
            self.block(now_ns, used_ns, 0);
            self.work_ns = None;
        } else if !awake && more_ns > 0 {
            self.used_before_ns = used_ns;
            self.ask_for(more_ns);
        }
    }

    fn queue(&mut self, job: Job) {
        if self.serving.is_none() {
            self.serving = Some(job);
        } else if self.waiting.is_none() {
            self.waiting = Some(job);
        }
    }

    /// The command has woken.
    pub(crate) fn wake(&mut self, woke_ns: Nanos) {
        let blocked_ns = self.blocked_ns.take();
        if let Some(blocked_ns) = blocked_ns.filter(|_| self.work_ns.is_some()) {
            self.learn(Cycle {
                sleep_ns: woke_ns.saturating_sub(blocked_ns),
                period_ns: woke_ns.saturating_sub(self.woke_ns),
            });
        }
        if !self.sleeps_for_a_time() {
            self.delay_ns = 0;
            self.end_predictions();
            self.asked = self.asked.min(self.begun);
        }
        self.begun += 1;
        self.woke_ns = woke_ns;
        self.overslept = false;
        if self.work_ns.is_none() {
            self.open();
        }
    }

    fn learn(&mut self, cycle: Cycle) {
        if let Some(last) = self.cycle.replace(cycle) {
            let mean = |mean_ns: Nanos, now_ns: Nanos, last_ns: Nanos| {
                mean_ns - mean_ns / MEMORY + now_ns.abs_diff(last_ns) / MEMORY
            };
            self.sleep_change_ns = mean(self.sleep_change_ns, cycle.sleep_ns, last.sleep_ns);
            self.period_change_ns = mean(self.period_change_ns, cycle.period_ns, last.period_ns);
        }
    }

    fn sleeps_for_a_time(&self) -> bool {
        self.sleep_change_ns <= self.period_change_ns
    }

    /// The command, which is awake, has used `used_ns` in all.
    pub(crate) fn run(&mut self, used_ns: Nanos) {
        let Some(work_ns) = self.work_ns.filter(|_| self.blocked_ns.is_none() && !self.open) else {
            return;
        };
        // An ideal that is ahead does as much too little for one job as too much for another.
        let most_ns = if self.asked > self.begun { work_ns * FORESEEN } else { work_ns };
        if used_ns > self.used_before_ns + most_ns {
            self.open();
        }
    }

    /// Its job lasts for longer than foreseen.
    fn open(&mut self) {
        self.open = true;
        if self.asked > self.begun {
            self.delay_ns = 0;
        }
        self.asked = self.begun;
        self.served_ns -= self.take_foreseen();
        self.foreseen = None;
        let job = Job { number: self.begun, work_ns: None };
        self.waiting = None;
        match self.serving {
            Some(serving) if serving.number < self.begun => self.waiting = Some(job),
            _ => self.serving = Some(job),
        }
    }

    /// What the ideal has given for the command's job before that was known to be its work.
    fn take_foreseen(&mut self) -> Nanos {
        let foreseen = self.foreseen.take_if(|&mut (number, _)| number == self.begun);
        foreseen.map_or(0, |(_, work_ns)| work_ns)
    }

    /// So many threads of the command, which is awake, are runnable.
    pub(crate) fn set_threads(&mut self, threads: u32) {
        if threads > 1 && !self.open {
            self.open();
        }
        if threads > 1 || self.threads.is_some() {
            self.threads = Some(threads);
        }
    }

    /// The command sleeps since `blocked_ns`, when it had used `used_ns` in all and the ideal had given it
    /// `ideal_ns`.
    pub(crate) fn block(&mut self, blocked_ns: Nanos, used_ns: Nanos, ideal_ns: Nanos) {
        let work_ns = used_ns.saturating_sub(self.used_before_ns);
        let awake_ns = blocked_ns.saturating_sub(self.woke_ns);
        self.delay_ns += awake_ns.saturating_sub(work_ns);
        self.blocked_ns = Some(blocked_ns);
        self.used_before_ns = used_ns;
        self.open = false;
        if self.threads.take().is_some() {
            self.follow(ideal_ns);
            return;
        }
        self.work_ns = Some(work_ns);
        if let Some((number, foreseen_ns)) = self.foreseen
            && number == self.begun
        {
            self.served_ns = self.served_ns - foreseen_ns + work_ns;
            self.foreseen = None;
        }
        for job in [&mut self.serving, &mut self.waiting].into_iter().flatten() {
            if job.number == self.begun {
                job.work_ns = Some(work_ns);
            }
        }
    }

    /// It asks for no more than it has received, and nobody knows what it asks for next.
    pub(crate) fn follow(&mut self, ideal_ns: Nanos) {
        (self.serving, self.waiting) = (None, None);
        (self.work_ns, self.cycle, self.foreseen) = (None, None, None);
        self.served_ns = ideal_ns;
        self.delay_ns = 0;
        self.asked = self.begun;
    }

    /// The command was seen asleep at `now_ns`; it would not be seen that it wakes for `unseen_ns`.
    pub(crate) fn sleep(&mut self, now_ns: Nanos, unseen_ns: Nanos) {
        let (Some(blocked_ns), Some(cycle)) = (self.blocked_ns, self.cycle) else { return };
        if self.overslept || now_ns <= blocked_ns + cycle.sleep_ns + unseen_ns {
            return;
        }
        self.end_predictions();
    }

    /// The command asks for no job that it has not begun.
    pub(crate) fn end_predictions(&mut self) {
        self.overslept = true;
        for job in [&mut self.waiting, &mut self.serving] {
            if job.is_some_and(|job| job.number > self.begun) {
                *job = None;
                self.asked = self.begun.max(self.asked - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Uses 5 ms and sleeps as `slept` tells, from 100 ms on, each job being late by as many ms as `waits`
    /// tell.
    fn observed(slept: impl Fn(u64, Nanos) -> Nanos, waits: &[u64]) -> Demand {
        let mut demand = Demand::default();
        let mut now_ns = 100 * MS;
        for (number, wait_ms) in (1..).zip(waits) {
            demand.wake(now_ns);
            while demand.next_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                demand.ask();
            }
            now_ns += (5 + wait_ms) * MS;
            demand.block(now_ns, number * 5 * MS, 0);
            while demand.due_ns().is_some() {
                demand.complete();
            }
            now_ns = slept(number, now_ns);
        }
        demand
    }

    #[test]
    fn who_sleeps_for_a_time_asks_when_it_would_alone() {
        let demand = observed(|_, now_ns| now_ns + 20 * MS, &[0, 3, 1, 0, 7, 0]);
        // The last of six jobs ended 11 ms late: the seventh would have begun at 100 + 6·25 ms alone.
        assert_eq!(demand.next_ns(), Some(250 * MS));
    }

    #[test]
    fn who_sleeps_to_a_time_asks_when_it_wakes() {
        let mut demand = observed(|number, _| (100 + number * 25) * MS, &[0, 3, 1, 0, 7, 0]);
        assert_eq!(demand.next_ns(), Some(250 * MS));
        demand.wake(250 * MS);
        assert_eq!(demand.next_ns(), Some(250 * MS));
        demand.ask();
        assert_eq!(demand.next_ns(), Some(275 * MS));
    }

    #[test]
    fn a_job_that_is_longer_than_foreseen_has_no_end() {
        let mut demand = observed(|_, now_ns| now_ns + 20 * MS, &[0; 4]);
        demand.ask();
        assert_eq!(demand.due_ns(), Some(25 * MS));
        demand.complete();
        demand.wake(200 * MS);
        demand.run(26 * MS);
        assert_eq!((demand.due_ns(), demand.next_ns(), demand.width()), (None, None, 1));
        // Nothing of what the ideal gave it before is lost.
        demand.block(230 * MS, 50 * MS, 0);
        assert_eq!(demand.due_ns(), Some(50 * MS));
    }

    #[test]
    fn who_sleeps_for_longer_than_foreseen_asks_for_nothing() {
        let mut demand = observed(|_, now_ns| now_ns + 20 * MS, &[0; 4]);
        demand.ask();
        demand.sleep(205 * MS, 10 * MS);
        assert_eq!((demand.due_ns(), demand.next_ns()), (Some(25 * MS), Some(225 * MS)));
        demand.sleep(211 * MS, 10 * MS);
        assert_eq!((demand.due_ns(), demand.next_ns()), (None, None));
        demand.wake(300 * MS);
        assert_eq!(demand.next_ns(), Some(300 * MS));
    }

    #[test]
    fn threads_are_followed() {
        let mut demand = observed(|_, now_ns| now_ns + 20 * MS, &[0; 4]);
        demand.wake(200 * MS);
        demand.set_threads(3);
        assert_eq!((demand.due_ns(), demand.width()), (None, 3));
        demand.set_threads(1);
        assert_eq!((demand.due_ns(), demand.width()), (None, 1));
        demand.block(230 * MS, 50 * MS, 40 * MS);
        assert_eq!((demand.width(), demand.next_ns()), (0, None));
    }
}
