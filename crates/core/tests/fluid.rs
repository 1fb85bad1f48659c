//! The fluid ideal against its definition in rational numbers, with everything found anew for
//! every event.

use std::collections::VecDeque;

use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};
use proptest::prelude::*;
use prorata::fluid::{Completion, Fluid};
use prorata::ideal::{Extremes, Rates, ServiceError, ServiceErrors};
use prorata::{Nanos, TaskId, Weight};

type Number = BigRational;

const FOREVER: Nanos = Fluid::FOREVER;
const MS: Nanos = 1_000_000;

fn number(above: u64, below: u64) -> Number {
    Number::new(above.into(), below.into())
}

/// Less than this of a job is nothing.
fn nothing() -> Number {
    number(1, 1 << 20)
}

fn weight(of: u32) -> Weight {
    Weight::new(of).expect("positive")
}

struct Job {
    /// `None`: for ever.
    left: Option<Number>,
    asked_ns: Nanos,
}

struct Task {
    weight: Weight,
    service: Number,
    /// The one in service, then the one that waits.
    jobs: VecDeque<Job>,
    missed: u64,
}

impl Task {
    fn pending(&self) -> u64 {
        let over = |job: &Job| job.left.as_ref().is_some_and(|left| *left < nothing());
        self.jobs.len() as u64 - u64::from(self.jobs.front().is_some_and(over))
    }
}

struct Twin {
    cpus: usize,
    now: Number,
    tasks: Vec<Task>,
    completed: Vec<Completion>,
}

impl Twin {
    fn new(cpus: usize, tasks: usize) -> Twin {
        let task =
            || Task { weight: Weight::ONE, service: Number::zero(), jobs: [].into(), missed: 0 };
        let tasks = std::iter::repeat_with(task).take(tasks).collect();
        Twin { cpus, now: Number::zero(), tasks, completed: vec![] }
    }

    fn rates(&self) -> Vec<Number> {
        let backlogged = || self.tasks.iter().filter(|task| !task.jobs.is_empty());
        let weights: Vec<Weight> = backlogged().map(|task| task.weight).collect();
        let rates = Rates::new(&weights, self.cpus);
        let mut numerators = rates.numerator.into_iter();
        let rate = |task: &Task| match task.jobs.is_empty() {
            true => Number::zero(),
            false => number(numerators.next().expect("one for each"), rates.denominator),
        };
        self.tasks.iter().map(rate).collect()
    }

    fn advance(&mut self, now_ns: Nanos) {
        let end = number(now_ns, 1);
        loop {
            let rates = self.rates();
            let ends = self
                .tasks
                .iter()
                .zip(&rates)
                .filter_map(|(task, rate)| Some(task.jobs.front()?.left.as_ref()? / rate));
            let step = ends.chain([&end - &self.now]).min().expect("one at least");
            self.now += &step;
            for (task, rate) in self.tasks.iter_mut().zip(&rates) {
                let done = &step * rate;
                if let Some(Job { left: Some(left), .. }) = task.jobs.front_mut() {
                    *left -= &done;
                }
                task.service += done;
            }
            self.end_jobs(&Number::zero());
            if self.now == end {
                return;
            }
        }
    }

    /// Rates change now: what would end now, but for rounding, ends before they do.
    fn settle(&mut self) {
        loop {
            let rates = self.rates();
            let ends_now = |(task, rate): (&Task, &Number)| {
                let left = task.jobs.front().and_then(|job| job.left.as_ref());
                left.is_some_and(|left| left / rate < nothing())
            };
            let Some(id) = self.tasks.iter().zip(&rates).position(ends_now) else { return };
            self.end_job(id, &nothing());
        }
    }

    /// Ends the job of `id` if nothing is left of it but what rounding left.
    fn end_what_is_done(&mut self, id: usize) {
        let left = self.tasks[id].jobs.front().and_then(|job| job.left.as_ref());
        if left.is_some_and(|left| *left < nothing()) {
            self.settle();
            self.end_job(id, &nothing());
        }
    }

    fn set_weight(&mut self, id: usize, weight: Weight) {
        if !self.tasks[id].jobs.is_empty() {
            self.settle();
        }
        self.tasks[id].weight = weight;
    }

    fn stop(&mut self, id: usize) {
        self.end_what_is_done(id);
        if !self.tasks[id].jobs.is_empty() {
            self.settle();
        }
        self.tasks[id].jobs.clear();
    }

    /// Ends the jobs of which no more than `left` is left.
    fn end_jobs(&mut self, left: &Number) {
        for id in 0..self.tasks.len() {
            self.end_job(id, left);
        }
    }

    fn end_job(&mut self, id: usize, enough: &Number) {
        let task = &mut self.tasks[id];
        let Some(Job { left: Some(left), asked_ns }) = task.jobs.front() else { return };
        if left <= enough {
            task.service += left;
            let done = (&self.now - nothing()).ceil().to_integer();
            let done_ns = done.to_u64().expect("small");
            self.completed.push(Completion { task: id_of(id), asked_ns: *asked_ns, done_ns });
            task.jobs.pop_front();
        }
    }

    fn extend(&mut self, id: usize, work_ns: Nanos, now_ns: Nanos) {
        self.end_what_is_done(id);
        match self.tasks[id].jobs.back_mut() {
            None => assert!(self.arrive(id, work_ns, now_ns)),
            Some(Job { left: Some(left), .. }) => *left += number(work_ns, 1),
            Some(_) => {}
        }
    }

    fn arrive(&mut self, id: usize, work_ns: Nanos, now_ns: Nanos) -> bool {
        self.end_what_is_done(id);
        if self.tasks[id].jobs.is_empty() {
            self.settle();
        }
        let task = &mut self.tasks[id];
        if task.jobs.len() == 2 {
            task.missed += 1;
            return false;
        }
        let left = (work_ns != FOREVER).then(|| number(work_ns, 1));
        task.jobs.push_back(Job { left, asked_ns: now_ns });
        true
    }
}

fn id_of(id: usize) -> TaskId {
    TaskId(u32::try_from(id).expect("small"))
}

/// |service − error| as a fraction of a nanosecond, for a task that received nothing.
fn distance(service: &Number, error: ServiceError) -> f64 {
    let exact = service.to_f64().expect("finite");
    (exact + error.in_ns()).abs()
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Arrive(Nanos),
    Extend(Nanos),
    SetWeight(u32),
    Stop,
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        8 => (1u64..40).prop_map(Verb::Arrive),
        1 => Just(Verb::Arrive(FOREVER)),
        2 => (1u64..40).prop_map(Verb::Extend),
        2 => (1u32..40).prop_map(Verb::SetWeight),
        1 => (0u32..32, any::<u32>()).prop_map(|(shift, w)| Verb::SetWeight((w >> shift).max(1))),
        1 => Just(Verb::Stop),
    ]
}

const TASKS: usize = 7;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Service, jobs done, when they were done, and jobs missed.
    #[test]
    fn the_ideal_is_that_of_the_definition(
        cpus in 1usize..5,
        steps in proptest::collection::vec((0usize..TASKS, verb(), 0u64..30), 1..40),
    ) {
        let (mut fluid, mut twin) = (Fluid::new(cpus), Twin::new(cpus, TASKS));
        (0..TASKS).for_each(|id| fluid.add(id_of(id), Weight::ONE));
        let (mut now_ns, mut completed) = (0, vec![]);
        for (id, verb, elapsed_ns) in steps {
            now_ns += elapsed_ns;
            // Looking at the ideal in between makes no difference.
            fluid.advance(now_ns - elapsed_ns / 2);
            fluid.advance(now_ns);
            twin.advance(now_ns);
            match verb {
                Verb::Arrive(work_ns) => {
                    let accepted = fluid.arrive(id_of(id), work_ns);
                    prop_assert_eq!(accepted, twin.arrive(id, work_ns, now_ns));
                }
                Verb::Extend(work_ns) => {
                    fluid.extend(id_of(id), work_ns);
                    twin.extend(id, work_ns, now_ns);
                }
                Verb::SetWeight(of) => {
                    fluid.set_weight(id_of(id), weight(of));
                    twin.set_weight(id, weight(of));
                }
                Verb::Stop => {
                    fluid.stop(id_of(id));
                    twin.stop(id);
                }
            }
            for (id, task) in twin.tasks.iter().enumerate() {
                let far = distance(&task.service, fluid.error(id_of(id)));
                prop_assert!(far < 1e-5, "task {} by {} ns at {}", id, far, now_ns);
                prop_assert_eq!(fluid.jobs_pending(id_of(id)), task.pending());
                prop_assert_eq!(fluid.jobs_missed(id_of(id)), task.missed);
            }
            completed.extend(std::iter::from_fn(|| fluid.completed()));
        }
        fluid.finish();
        twin.end_jobs(&nothing());
        completed.extend(std::iter::from_fn(|| fluid.completed()));
        let key = |job: &Completion| (job.task, job.asked_ns, job.done_ns);
        completed.sort_unstable_by_key(key);
        twin.completed.sort_unstable_by_key(key);
        prop_assert_eq!(completed, twin.completed);
    }

    /// For tasks that are runnable or not, whatever they get, it is GMS.
    #[test]
    fn tasks_that_never_block_are_due_what_gms_gives_them(
        cpus in 1usize..9,
        steps in proptest::collection::vec((0usize..12, any::<u32>(), 0u32..32, 0u64..MS), 1..60),
    ) {
        let (mut fluid, mut errors) = (Fluid::new(cpus), ServiceErrors::new(cpus));
        let (mut now_ns, mut runs) = (0, [false; 12]);
        for id in (0..12).map(id_of) {
            fluid.add(id, Weight::ONE);
            errors.add(id, Weight::ONE);
        }
        for (id, bits, shift, elapsed_ns) in steps {
            now_ns += elapsed_ns;
            fluid.advance(now_ns);
            let (task, weight) = (id_of(id), weight((bits >> shift).max(1)));
            fluid.set_weight(task, weight);
            errors.set_weight(task, weight, now_ns);
            if runs[id] {
                fluid.stop(task);
                errors.block(task, now_ns);
            } else {
                prop_assert!(fluid.arrive(task, FOREVER));
                errors.wake(task, now_ns);
            }
            runs[id] ^= true;
            for id in (0..12).map(id_of) {
                let (ours, theirs) = (fluid.error(id), errors.error(id, now_ns));
                prop_assert!((ours.in_ns() - theirs.in_ns()).abs() < 1e-5, "{:?} {:?}", ours, theirs);
            }
        }
    }

    /// Samples before and after the runs find what looking at every nanosecond finds.
    #[test]
    fn extremes_lie_at_the_ends_of_runs(
        jobs in proptest::collection::vec((0usize..3, 1u64..20, 0u64..20), 1..30),
        runs in proptest::collection::vec((0usize..3, 1u64..15), 1..40),
        of in (1u32..9, 1u32..9, 1u32..9),
    ) {
        let mut fluid = Fluid::new(1);
        for (id, of) in [of.0, of.1, of.2].into_iter().enumerate() {
            fluid.add(id_of(id), weight(of));
        }
        let mut seen = [Extremes { min: ServiceError::default(), max: ServiceError::default() }; 3];
        let mut jobs = jobs.into_iter().scan(0, |at_ns, (id, work_ns, gap_ns)| {
            *at_ns += gap_ns;
            Some((*at_ns, id, work_ns))
        }).peekable();
        let (mut now_ns, mut used) = (0, [0; 3]);
        for (id, length_ns) in runs {
            fluid.start(id_of(id));
            for ran_ns in 0..=length_ns {
                fluid.advance(now_ns + ran_ns);
                while let Some((_, id, work_ns)) = jobs.next_if(|job| job.0 == now_ns + ran_ns) {
                    fluid.arrive(id_of(id), work_ns);
                }
                for (other, seen) in seen.iter_mut().enumerate() {
                    let mut probe = fluid.clone();
                    probe.charge(id_of(id), ran_ns);
                    let error = probe.error(id_of(other));
                    seen.min = seen.min.min(error);
                    seen.max = seen.max.max(error);
                }
            }
            now_ns += length_ns;
            used[id] += length_ns;
            fluid.charge(id_of(id), length_ns);
        }
        fluid.finish();
        for (id, seen) in seen.iter().enumerate() {
            prop_assert_eq!(fluid.used_ns(id_of(id)), used[id]);
            let found = fluid.extremes(id_of(id));
            // What rounding left of a job counts as served at the end.
            prop_assert!((found.min.in_ns() - seen.min.in_ns()).abs() < 1e-5);
            prop_assert!((found.max.in_ns() - seen.max.in_ns()).abs() < 1e-5);
        }
    }
}

/// Jobs of `work_ns` at every multiple of `period_ns` before `end_ns`, for task 0, beside hogs.
fn periodic(cpus: usize, of: u32, hogs: &[u32], work_ns: Nanos, period_ns: Nanos) -> Fluid {
    let mut fluid = Fluid::new(cpus);
    fluid.add(TaskId(0), weight(of));
    for (id, &of) in hogs.iter().enumerate() {
        fluid.add(id_of(id + 1), weight(of));
        fluid.arrive(id_of(id + 1), FOREVER);
    }
    let end_ns = 20_000 * MS;
    for now_ns in (0..end_ns / period_ns).map(|k| k * period_ns) {
        fluid.advance(now_ns);
        fluid.arrive(TaskId(0), work_ns);
    }
    fluid.advance(end_ns);
    fluid.finish();
    fluid
}

fn responses(fluid: &mut Fluid) -> Vec<Nanos> {
    std::iter::from_fn(|| fluid.completed()).map(|job| job.response_ns()).collect()
}

/// Every job takes a whole period, and ends when the next one comes.
#[test]
fn who_needs_exactly_its_share_gets_all_of_it() {
    let mut fluid = periodic(1, 1, &[1; 9], MS / 2, 5 * MS);
    assert_eq!(fluid.service_ns(TaskId(0)), 2_000 * MS);
    assert_eq!((fluid.jobs_done(TaskId(0)), fluid.jobs_missed(TaskId(0))), (4_000, 0));
    assert_eq!(responses(&mut fluid), vec![5 * MS; 4_000]);
    (1..10).for_each(|hog| assert_eq!(fluid.service_ns(TaskId(hog)), 2_000 * MS));
}

/// A third of the cpu for who wants half of it: the job in service, one behind it, the rest missed.
#[test]
fn who_asks_for_more_than_its_share_gets_its_share() {
    let mut fluid = periodic(1, 1, &[1, 1], 10 * MS, 20 * MS);
    let third_ns = 20_000 * MS / 3;
    assert_eq!(fluid.service_ns(TaskId(0)), third_ns + 1);
    let (done, missed) = (fluid.jobs_done(TaskId(0)), fluid.jobs_missed(TaskId(0)));
    assert_eq!((done, missed, fluid.jobs_pending(TaskId(0))), (666, 332, 2));
    // Of the jobs asked for at 0, 20, …, 140 ms, those of 80 and 140 find one that waits.
    let first = [30, 40, 50, 60, 50, 60].map(|ms| ms * MS);
    assert_eq!(responses(&mut fluid)[..6], first);
}

/// 9 of 12 on 2 cpus is a whole cpu: nobody's hogs delay it.
#[test]
fn who_is_entitled_to_a_cpu_works_as_if_alone() {
    for work_ns in [5 * MS, 4 * MS, 1] {
        let mut fluid = periodic(2, 9, &[1, 1, 1], work_ns, 5 * MS);
        assert_eq!(fluid.service_ns(TaskId(0)), 4_000 * work_ns);
        assert_eq!(responses(&mut fluid), vec![work_ns; 4_000]);
        let hog_ns = (40_000 * MS - 4_000 * work_ns) / 3;
        assert!(fluid.service_ns(TaskId(1)).abs_diff(hog_ns) <= 1);
    }
}

#[test]
fn with_a_cpu_for_each_everybody_works_as_if_alone() {
    let mut fluid = periodic(3, 1, &[1_000, 100_000], 3 * MS, 7 * MS);
    assert_eq!(responses(&mut fluid)[..], vec![3 * MS; 2_857]);
    assert_eq!(fluid.service_ns(TaskId(1)), 20_000 * MS);
}

/// The same under weights whose shares are no finite binary fractions, at all of the share.
#[test]
fn rounding_makes_nobody_miss_a_job() {
    for hogs in [2u32, 6, 12, 30, 96] {
        let weights: Vec<u32> = (0..hogs).map(|hog| 1 + hog % 3).collect();
        let total: u32 = 7 + weights.iter().sum::<u32>();
        let mut fluid = periodic(1, 7, &weights, 7 * 10_000, u64::from(total) * 10_000);
        assert_eq!(fluid.jobs_missed(TaskId(0)), 0, "{hogs} hogs");
        let period_ns = u64::from(total) * 10_000;
        assert!(responses(&mut fluid).iter().all(|&ns| ns == period_ns), "{hogs} hogs");
    }
}

#[test]
#[should_panic(expected = "task 3 asks for nothing")]
fn a_job_is_something_to_do() {
    let mut fluid = Fluid::new(1);
    fluid.add(TaskId(3), Weight::ONE);
    fluid.arrive(TaskId(3), 0);
}
