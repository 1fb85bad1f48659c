//! What a decision costs, in one run that gives every policy its turn in every round: `pick` and
//! `charge` with 10 to 10^6 runnable tasks of random weight beside the floor, a round robin over an
//! array; a task that leaves and comes back beside an indexed heap; weight readjustment.
//!
//! Trust the ratios, not the nanoseconds: a machine that slows down slows all of them down. Each
//! figure is the median of the rounds.
//!
//!     cargo bench -p prorata --bench cost                     every policy
//!     cargo bench -p prorata --bench cost -- gr3 wfq          some
//!     cargo bench -p prorata --bench cost -- --max-tasks 1000
//!     cargo bench -p prorata --bench cost -- --picks gr3 1000 5000000   for callgrind: no clock
//!     cargo bench -p prorata --bench cost -- --picks-on-4 dfs-fa 1000 5000000
//!     cargo bench -p prorata --bench cost -- --moves gr3 1000 5000000

use std::hint::black_box;
use std::time::Instant;

use prorata::policies::{self, REGISTRY, gr3, round_robin, vtrr};
use prorata::queue::Heap;
use prorata::weights::{Classes, Search};
use prorata::{CpuId, Nanos, Policy, Setup, TaskId, Weight};

const QUANTUM_NS: u64 = 1_000_000;
const SIZES: [usize; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
const ROUNDS: usize = 15;
/// Decisions in a row: long enough that the clock's own cost vanishes.
const BATCH: u64 = 100_000;
const FLOOR: &str = "array";
const HEAP: &str = "indexed-heap";
/// The most tasks that a policy whose decisions cost O(N) is tried with.
const MOST_FOR_LINEAR: usize = 1_000;

/// A round robin over an array: the least that any scheduler does.
#[derive(Default)]
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
/// Makes work of a policy that is ready with these tasks.
type Make = Box<dyn Fn(&[Weight]) -> Work>;

/// What is measured of one policy.
struct Engine {
    name: &'static str,
    /// The most tasks to try.
    most: usize,
    picks: Make,
    /// The same on four cpus.
    picks_on_4: Make,
    /// Leaving and coming back.
    moves: Make,
}

impl Engine {
    fn new<P: Policy + 'static>(
        name: &'static str,
        new: impl Fn(&Setup) -> P + Copy + 'static,
    ) -> Engine {
        let on = |cpus| Setup::new(cpus, QUANTUM_NS);
        Engine {
            name,
            most: usize::MAX,
            picks: Box::new(move |weights| picks(start(new(&on(1)), weights))),
            picks_on_4: Box::new(move |weights| picks_on_4(start(new(&on(4)), weights))),
            moves: Box::new(move |weights| moves(start(new(&on(1)), weights), weights.to_vec())),
        }
    }
}

/// The floor, policies whose type is known here (no call is indirect, as in the floor), and then
/// all others of the registry.
fn engines() -> Vec<Engine> {
    let mut engines = vec![
        Engine::new(FLOOR, |_| Array::default()),
        Engine::new("round-robin", round_robin::RoundRobin::new),
        Engine::new("gr3", gr3::Gr3::new),
        Engine::new("vtrr", vtrr::Vtrr::new),
    ];
    for entry in REGISTRY {
        if engines.iter().all(|engine| engine.name != entry.name) {
            let build =
                |setup: &Setup| policies::build(entry.name, setup).expect("a registered policy");
            let most = if entry.cost.pick == "N" { MOST_FOR_LINEAR } else { usize::MAX };
            engines.push(Engine { most, ..Engine::new(entry.name, build) });
        }
    }
    engines
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

/// Decisions on four cpus in turn, each of which holds its task until its own next turn.
fn picks_on_4<P: Policy + 'static>(mut policy: P) -> Work {
    let (mut now_ns, mut running) = (0, [None; 4]);
    Box::new(move |count| {
        for step in 0..count {
            let cpu = (step % 4) as usize;
            now_ns += QUANTUM_NS / 4;
            if let Some(task) = running[cpu] {
                policy.charge(task, QUANTUM_NS, now_ns);
            }
            running[cpu] = black_box(policy.pick(cpu, now_ns));
        }
    })
}

/// The next of `count` tasks in an order without pattern.
fn stride(at: usize, count: usize) -> usize {
    (at + 514_229) % count
}

/// Tasks that leave the queue for good and come back as new ones, one after another, in a queue
/// that has been running.
fn moves<P: Policy + 'static>(mut policy: P, weights: Vec<Weight>) -> Work {
    for _ in 0..weights.len() {
        let task = policy.pick(0, 0).expect("all tasks are runnable");
        policy.charge(task, QUANTUM_NS, 0);
    }
    let mut at = 0;
    Box::new(move |count| {
        for _ in 0..count {
            at = stride(at, weights.len());
            let task = TaskId(u32::try_from(at).expect("at most 10^6 tasks"));
            policy.remove(task, 0);
            policy.add(task, weights[at]);
            policy.wake(task, 0);
        }
    })
}

/// The same in an indexed heap, with keys that a virtual time would have.
fn heap_moves(weights: &[Weight]) -> Work {
    let mut heap = Heap::default();
    heap.reserve(weights.len());
    let weights = weights.to_vec();
    let key = |round: u64, weight: Weight| (round << 32) / u64::from(weight.get());
    for (id, &weight) in (0..).zip(&weights) {
        heap.insert(TaskId(id), key(1, weight));
    }
    let (mut at, mut round) = (0, 1);
    Box::new(move |count| {
        for _ in 0..count {
            at = stride(at, weights.len());
            round += 1;
            let task = TaskId(u32::try_from(at).expect("at most 10^6 tasks"));
            heap.remove(task);
            heap.insert(task, key(1 + round / weights.len() as u64, weights[at]));
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

/// Nanoseconds per operation of each kind of work: medians over rounds in which all take turns.
fn measure(works: &mut [Option<Work>], batch: u64) -> Vec<Option<f64>> {
    let mut times = vec![Vec::new(); works.len()];
    works.iter_mut().flatten().for_each(|work| work(batch));
    for _ in 0..ROUNDS {
        for (work, times) in works.iter_mut().zip(&mut times) {
            if let Some(work) = work {
                let begin = Instant::now();
                work(batch);
                times.push(begin.elapsed().as_secs_f64() * 1e9 / batch as f64);
            }
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    };
    times.into_iter().map(median).collect()
}

/// One row a kind of work: ns at each size, and in brackets the ratio to the first row.
fn table(title: &str, sizes: &[usize], rows: &[(&str, Vec<Option<f64>>)]) {
    println!("\n{title}");
    println!("{:18}{}", "tasks", sizes.iter().map(|n| format!("{n:>17}")).collect::<String>());
    for (name, row) in rows {
        let cells = row.iter().zip(&rows[0].1).map(|(time, first)| match (time, first) {
            (Some(time), Some(first)) => format!("{time:>9.2} ({:>5.2})", time / first),
            _ => format!("{:>17}", "-"),
        });
        println!("{name:18}{}", cells.collect::<String>());
    }
}

/// `--picks NAME TASKS COUNT`, `--picks-on-4` and `--moves NAME TASKS COUNT`: that and nothing else,
/// for callgrind.
fn only(flag: &str, make: fn(Engine) -> Make, arguments: &[String]) -> Option<()> {
    let at = arguments.iter().position(|a| a == flag)?;
    let [name, tasks, count] = arguments.get(at + 1..at + 4)? else { return None };
    let engine = engines().into_iter().find(|engine| engine.name == name)?;
    make(engine)(&weights(tasks.parse().ok()?))(count.parse().ok()?);
    Some(())
}

/// Readjustment when the infeasible tasks fill whole groups: half of the cpus' worth of tasks weigh
/// more than all others together.
fn readjustment() {
    println!("\nreadjustment, ns (infeasible tasks fill whole groups)");
    for cpus in [4usize, 16, 64, 256, 1024] {
        let mut classes = Classes::default();
        (0..cpus / 2).for_each(|_| classes.insert(Weight::new(1 << 20).expect("positive")));
        (0..4 * cpus).for_each(|_| classes.insert(Weight::new(8).expect("positive")));
        let mut scratch = Vec::new();
        let work: Work = Box::new(move |count| {
            for _ in 0..count {
                let classes = black_box(&classes);
                black_box(classes.cap(cpus, Search::fastest(cpus), &mut scratch, |_, _| {}));
            }
        });
        let time = measure(&mut [Some(work)], BATCH)[0].unwrap_or(f64::NAN);
        println!("{cpus:>6} cpus {time:>8.2}");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let only = only("--picks", |engine| engine.picks, &arguments)
        .or_else(|| only("--picks-on-4", |engine| engine.picks_on_4, &arguments))
        .or_else(|| only("--moves", |engine| engine.moves, &arguments));
    if only.is_some() {
        return;
    }
    let value = |flag: &str| arguments.iter().position(|a| a == flag).map(|at| &arguments[at + 1]);
    let most = value("--max-tasks").and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
    let named = |name: &str| arguments.iter().any(|a| a == name);
    let mut engines = engines();
    if engines.iter().any(|engine| named(engine.name)) {
        engines.retain(|engine| engine.name == FLOOR || named(engine.name));
    }
    let sizes: Vec<usize> = SIZES.into_iter().filter(|&size| size <= most).collect();
    let mut picks = vec![Vec::new(); engines.len()];
    let mut moves = vec![Vec::new(); engines.len()];
    for &size in &sizes {
        let weights = weights(size);
        let fits = |engine: &&Engine| size <= engine.most;
        let works = |make: fn(&Engine) -> &Make| {
            let work = |engine: &Engine| Some(engine).filter(fits).map(|e| make(e)(&weights));
            engines.iter().map(work).collect::<Vec<_>>()
        };
        let batch = BATCH.max(size as u64);
        for (row, time) in picks.iter_mut().zip(measure(&mut works(|e| &e.picks), batch)) {
            row.push(time);
        }
        let mut works = works(|e| &e.moves);
        works[0] = Some(heap_moves(&weights));
        for (row, time) in moves.iter_mut().zip(measure(&mut works, BATCH / 10)) {
            row.push(time);
        }
    }
    let names = engines.iter().map(|engine| engine.name);
    let rows: Vec<_> = names.clone().zip(picks).collect();
    table("pick + charge, ns (times the floor)", &sizes, &rows);
    let names = std::iter::once(HEAP).chain(names.skip(1));
    let rows: Vec<_> = names.zip(moves).collect();
    table("remove + add + wake, ns (times the indexed heap)", &sizes, &rows);
    readjustment();
}
