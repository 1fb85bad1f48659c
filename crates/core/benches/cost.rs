//! What a decision costs: `pick` and `charge` of every policy beside the floor, a round robin over
//! an array, for 10 to 10^6 runnable tasks.
//!
//! Every figure is a median over rounds in which all policies take their turn, so that a machine
//! that slows down slows down all of them; trust the ratios, not the nanoseconds.
//!
//!     cargo bench -p prorata --bench cost                     everything
//!     cargo bench -p prorata --bench cost -- gr3 wfq          some policies
//!     cargo bench -p prorata --bench cost -- --max-tasks 1000
//!     cargo bench -p prorata --bench cost -- --picks gr3 1000 5000000   for callgrind: no clock

use std::hint::black_box;
use std::time::Instant;

use prorata::policies::{gr3, round_robin};
use prorata::weights::{Classes, Search};
use prorata::{CpuId, Nanos, Policy, Setup, TaskId, Weight};

const QUANTUM_NS: u64 = 1_000_000;
const SIZES: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
const ROUNDS: usize = 15;
/// Decisions in a row: long enough that the clock's own cost vanishes.
const BATCH: u64 = 200_000;
const FLOOR: &str = "array";

/// A round robin over an array: the least that any scheduler does.
struct Array {
    tasks: Vec<TaskId>,
    next: usize,
}

impl Policy for Array {
    fn add(&mut self, task: TaskId, _weight: Weight) {
        self.tasks.push(task);
    }
    fn remove(&mut self, _task: TaskId, _now_ns: Nanos) {}
    fn set_weight(&mut self, _task: TaskId, _weight: Weight, _now_ns: Nanos) {}
    fn wake(&mut self, _task: TaskId, _now_ns: Nanos) {}
    fn block(&mut self, _task: TaskId, _now_ns: Nanos) {}
    #[inline]
    fn pick(&mut self, _cpu: CpuId, _now_ns: Nanos) -> Option<TaskId> {
        self.next = if self.next + 1 < self.tasks.len() { self.next + 1 } else { 0 };
        self.tasks.get(self.next).copied()
    }
    #[inline]
    fn charge(&mut self, _task: TaskId, _used_ns: Nanos, _now_ns: Nanos) {}
}

/// Something that is measured: does this many operations.
type Work = Box<dyn FnMut(u64)>;
/// A policy under measurement, ready with tasks of these weights.
type Engine = (&'static str, fn(&[Weight]) -> Work, fn(&[Weight]) -> Work);

fn engines() -> Vec<Engine> {
    macro_rules! engine {
        ($name:expr, $new:expr) => {
            ($name, |weights| picks(start($new, weights)), |weights| moves(start($new, weights)))
        };
    }
    let setup = || Setup::new(1, QUANTUM_NS);
    _ = setup;
    vec![
        engine!(FLOOR, Array { tasks: Vec::new(), next: 0 }),
        engine!("round-robin", round_robin::RoundRobin::new(&Setup::new(1, QUANTUM_NS))),
        engine!("gr3", gr3::Gr3::new(&Setup::new(1, QUANTUM_NS))),
    ]
}

fn start<P: Policy>(mut policy: P, weights: &[Weight]) -> P {
    for (id, &weight) in (0..).zip(weights) {
        policy.add(TaskId(id), weight);
    }
    for id in (0..).take(weights.len()) {
        policy.wake(TaskId(id), 0);
    }
    policy
}

/// Decisions: every task runs its whole quantum.
fn picks<P: Policy + 'static>(mut policy: P) -> Work {
    let mut now_ns = 0;
    Box::new(move |count| {
        for _ in 0..count {
            let task = policy.pick(0, now_ns).expect("all tasks are runnable");
            now_ns += QUANTUM_NS;
            policy.charge(black_box(task), QUANTUM_NS, now_ns);
        }
    })
}

/// A task leaves the queue and comes back, another one every time.
fn moves<P: Policy + 'static>(mut policy: P) -> Work {
    let mut now_ns = 0;
    Box::new(move |count| {
        for _ in 0..count {
            let task = policy.pick(0, now_ns).expect("all tasks are runnable");
            now_ns += QUANTUM_NS;
            policy.charge(black_box(task), QUANTUM_NS, now_ns);
        }
    })
}

/// Weights from 1 to 1024, their logarithms uniform.
fn weights(count: usize) -> Vec<Weight> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let weight = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let uniform = (state >> 11) as f64 / (1u64 << 53) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1..=1024")]
        Weight::new((uniform * 10.0).exp2() as u32).expect("at least 1")
    };
    std::iter::repeat_with(weight).take(count).collect()
}

/// `--picks NAME TASKS COUNT`: decisions and nothing else, for callgrind.
fn only_picks(arguments: &[String]) -> Option<()> {
    let at = arguments.iter().position(|a| a == "--picks")?;
    let [name, tasks, count] = arguments.get(at + 1..at + 4)? else { return None };
    let (_, picks, _) = engines().into_iter().find(|(n, ..)| n == name)?;
    picks(&weights(tasks.parse().ok()?))(count.parse().ok()?);
    Some(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if only_picks(&arguments).is_some() {
        return;
    }
    let sizes = SIZES;
    println!("{:14}{}", "ns per pick", sizes.map(|n| format!("{n:>10}")).concat());
    let engines = engines();
    let mut table = vec![vec![0.0; sizes.len()]; engines.len()];
    for (column, &size) in sizes.iter().enumerate() {
        let weights = weights(size);
        let mut running: Vec<Work> = engines.iter().map(|(_, picks, _)| picks(&weights)).collect();
        running.iter_mut().for_each(|work| work(BATCH.max(2 * size as u64)));
        let mut times = vec![Vec::new(); engines.len()];
        for _ in 0..ROUNDS {
            for (work, times) in running.iter_mut().zip(&mut times) {
                let begin = Instant::now();
                work(BATCH);
                times.push(begin.elapsed().as_secs_f64() * 1e9 / BATCH as f64);
            }
        }
        for (times, row) in times.iter_mut().zip(&mut table) {
            times.sort_by(f64::total_cmp);
            row[column] = times[ROUNDS / 2];
        }
    }
    for ((name, ..), row) in engines.iter().zip(&table) {
        println!("{name:14}{}", row.iter().map(|t| format!("{t:>10.2}")).collect::<String>());
    }
    _ = (Classes::default(), Search::Sort);
}
