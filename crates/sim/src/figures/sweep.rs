//! Runs a figure's experiments: in parallel, resumable, deterministic.
//!
//! The sets of every point are cut into *chunks* of about a second's work. A finished chunk is
//! one line at the end of a journal in the output directory; whatever happens, all but the chunks
//! in flight is on disk, and the next run with the same figure, sets and seed reads the journal
//! and goes on. Where the cuts are depends on the figure alone, and chunks are merged in order:
//! the result has the same bytes whatever the number of threads and interruptions.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::{Figure, FigureError, Report, Study, Tally, files, sets};
use crate::Progress;
use crate::journal::{Foreign, Journal};

/// Decisions in a chunk, about: a second or less of work under most policies.
const CHUNK_DECISIONS: u64 = 1 << 24;

/// What to compute.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The figure.
    pub figure: &'static Figure,
    /// Policies in the place of the figure's own, if any.
    pub policies: &'a [String],
    /// Random sets at every point; `None` for as many as the paper ran. A figure without chance
    /// takes one.
    pub sets: Option<u32>,
    /// Seed of the random sets.
    pub seed: u64,
    /// Number of threads.
    pub jobs: usize,
    /// Where results and the journal go. It is created if need be.
    pub directory: &'a Path,
}

impl Request<'_> {
    /// What its files are called: as the figure, and with its policies if they are other ones.
    #[must_use]
    pub fn name(&self) -> String {
        self.figure.name_with(self.policies)
    }

    /// Random sets at every point.
    #[must_use]
    pub fn sets(&self) -> u32 {
        self.figure.sets_for(self.sets)
    }
}

impl Figure {
    fn name_with(&self, policies: &[String]) -> String {
        match policies {
            [] => self.name.to_string(),
            policies => format!("{}-with-{}", self.name, policies.join("+")),
        }
    }

    fn study_with(&self, policies: &[String]) -> Result<Box<dyn Study>, FigureError> {
        let study = (self.study)();
        if policies.is_empty() {
            return Ok(study);
        }
        study.with(policies).map_err(|source| FigureError::Policies {
            figure: self.name,
            policies: policies.join(", "),
            source,
        })
    }

    /// Random sets at every point, if so many are asked for: one where there is no chance.
    fn sets_for(&self, asked: Option<u32>) -> u32 {
        if self.sets == 1 { 1 } else { asked.unwrap_or(self.sets) }
    }
}

/// Computes a figure's data and writes its files: CSV, JSON and picture.
///
/// # Errors
/// When a number of the request is out of range, the journal is in use, or a file cannot be
/// written.
///
/// # Panics
/// When a policy breaks the set-up of a figure (an idle cpu, a schedule that does not repeat).
pub fn produce(request: &Request<'_>, progress: &dyn Progress) -> Result<Report, FigureError> {
    let plan = Plan::new(request.figure, request.policies, request.sets, request.seed)?;
    let (report, journal) = sweep(request, &plan, progress)?;
    plan.write(&report, request.directory)?;
    journal.delete()?;
    Ok(report)
}

fn sweep(
    request: &Request<'_>,
    plan: &Plan,
    progress: &dyn Progress,
) -> Result<(Report, Journal), FigureError> {
    if request.jobs == 0 {
        return Err(FigureError::Jobs);
    }
    let header = Header::new(plan);
    let path = request.directory.join(header.file_name());
    let (log, mut done) = Log::open(path, &header)?;
    let left: Vec<&Chunk> =
        plan.chunks.iter().filter(|chunk| !done.contains(chunk.index)).collect();
    progress.start(
        plan.chunks.iter().map(|c| c.cost).sum::<u64>() - left.iter().map(|c| c.cost).sum::<u64>(),
        plan.chunks.iter().map(|chunk| chunk.cost).sum(),
    );
    let threads = request.jobs.min(left.len());
    let work = Work { plan, left, next: AtomicUsize::new(0) };
    let log = Mutex::new(log);
    let outcomes: Vec<Result<Vec<Part>, FigureError>> = std::thread::scope(|scope| {
        let run = || work.run(&log, progress);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    for outcome in outcomes {
        outcome?.into_iter().for_each(|part| done.insert(part));
    }
    let log = log.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let report = plan.report(done.0.into_iter().flatten(), log.elapsed())?;
    Ok((report, log.journal))
}

/// A figure's work, cut into chunks that can be done anywhere and in any order.
pub struct Plan {
    figure: &'static Figure,
    /// What its files are called.
    name: String,
    sets: u32,
    seed: u64,
    study: Box<dyn Study>,
    chunks: Vec<Chunk>,
}

/// What a chunk found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Part {
    chunk: usize,
    decisions: u64,
    values: Vec<i64>,
    cpu_ns: u64,
}

impl Plan {
    /// `figure`, with other `policies` if there are any, and with as many random sets at every point
    /// as the paper ran unless it is told.
    ///
    /// # Errors
    /// When the number of sets is out of range, or the figure has no place for such policies.
    pub fn new(
        figure: &'static Figure,
        policies: &[String],
        sets: Option<u32>,
        seed: u64,
    ) -> Result<Plan, FigureError> {
        let sets = figure.sets_for(sets);
        if sets == 0 || sets > sets::LIMIT {
            return Err(FigureError::Sets(sets));
        }
        let study = figure.study_with(policies)?;
        let chunks = chunks_of(&*study, sets);
        Ok(Plan { figure, name: figure.name_with(policies), sets, seed, study, chunks })
    }

    /// The number of chunks.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// True if it measures time, so that its results are of the machine that executes it.
    #[must_use]
    pub fn is_measurement(&self) -> bool {
        self.study.is_measurement()
    }

    /// Executes the chunk of index `chunk`.
    ///
    /// # Panics
    /// When there is no such chunk, or a policy breaks the set-up of the figure.
    #[must_use]
    pub fn execute(&self, chunk: usize) -> Part {
        let Chunk { point, first, end, .. } = self.chunks[chunk];
        let before = thread_cpu_time();
        let mut tally = self.study.measure(point, first, self.seed);
        for set in first + 1..end {
            let other = self.study.measure(point, set, self.seed);
            self.study.merge(&mut tally.values, &other.values);
            tally.decisions += other.decisions;
        }
        let cpu_ns = nanoseconds(thread_cpu_time().saturating_sub(before));
        Part { chunk, decisions: tally.decisions, values: tally.values, cpu_ns }
    }

    /// The figure's data, of which `parts` are the chunks in any order.
    ///
    /// # Errors
    /// When a chunk is missing, there twice, or none of this figure.
    pub fn report(
        &self,
        parts: impl IntoIterator<Item = Part>,
        elapsed: Duration,
    ) -> Result<Report, FigureError> {
        let mut places: Vec<Option<Part>> = self.chunks.iter().map(|_| None).collect();
        for part in parts {
            let chunk = part.chunk;
            let Some(place) = places.get_mut(chunk) else {
                return Err(FigureError::Parts(format!("chunk {chunk} is none of its chunks")));
            };
            if place.replace(part).is_some() {
                return Err(FigureError::Parts(format!("chunk {chunk} is there twice")));
            }
        }
        let mut tallies = vec![Tally::default(); self.study.points()];
        let mut cpu_ns = 0;
        for (chunk, part) in self.chunks.iter().zip(places) {
            let missing = || FigureError::Parts(format!("chunk {} is missing", chunk.index));
            let part = part.ok_or_else(missing)?;
            let tally = &mut tallies[chunk.point];
            tally.decisions += part.decisions;
            cpu_ns += part.cpu_ns;
            if chunk.first == 0 {
                tally.values = part.values;
            } else {
                self.study.merge(&mut tally.values, &part.values);
            }
        }
        Ok(Report {
            figure: self.name.clone(),
            sets: self.sets,
            seed: self.seed,
            seconds: elapsed.as_secs_f64(),
            cpu_seconds: Duration::from_nanos(cpu_ns).as_secs_f64(),
            decisions: tallies.iter().map(|tally| tally.decisions).sum(),
            rows: self.study.rows(&tallies, self.sets),
        })
    }

    /// Writes the figure's files: CSV, JSON and picture.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, report: &Report, directory: &Path) -> Result<(), FigureError> {
        files::write(self.figure, &*self.study, report, directory)
    }
}

/// Some sets of one point.
struct Chunk {
    index: usize,
    point: usize,
    first: u32,
    end: u32,
    cost: u64,
}

fn chunks_of(study: &dyn Study, sets: u32) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for point in 0..study.points() {
        let cost = study.cost(point).max(1);
        let size = u32::try_from((CHUNK_DECISIONS / cost).max(1)).unwrap_or(u32::MAX);
        let mut first = 0;
        while first < sets {
            let end = first.saturating_add(size).min(sets);
            let cost = cost * u64::from(end - first);
            chunks.push(Chunk { index: chunks.len(), point, first, end, cost });
            first = end;
        }
    }
    chunks
}

/// The first line of a journal: what it belongs to.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    figure: String,
    sets: u32,
    seed: u64,
    chunks: usize,
    version: String,
}

impl Header {
    fn new(plan: &Plan) -> Header {
        Header {
            figure: plan.name.clone(),
            sets: plan.sets,
            seed: plan.seed,
            chunks: plan.chunks.len(),
            version: env!("CARGO_PKG_VERSION").to_string(),
        }
    }

    fn file_name(&self) -> String {
        format!(".{}.sets-{}.seed-{}.journal", self.figure, self.sets, self.seed)
    }
}

/// Any other line of a journal: a finished chunk.
#[derive(Debug, Serialize, Deserialize)]
struct Entry<P> {
    #[serde(flatten)]
    part: P,
    /// Time since the sweep began, without interruptions.
    elapsed_ns: u64,
}

/// Finished chunks, by index.
#[derive(Default)]
struct Done(Vec<Option<Part>>);

impl Done {
    fn contains(&self, chunk: usize) -> bool {
        self.0[chunk].is_some()
    }

    fn insert(&mut self, part: Part) {
        let chunk = part.chunk;
        self.0[chunk] = Some(part);
    }
}

/// The journal, and the time that it took so far.
struct Log {
    journal: Journal,
    started: Instant,
    /// Time that earlier runs took.
    before: Duration,
}

impl Log {
    fn open(path: PathBuf, header: &Header) -> Result<(Log, Done), FigureError> {
        let (journal, mut entries) =
            Journal::open::<_, Entry<Part>>(path, header, Foreign::Discard)?;
        entries.retain(|entry| entry.part.chunk < header.chunks);
        let elapsed = entries.iter().map(|entry| entry.elapsed_ns).max().unwrap_or(0);
        let mut done = Done((0..header.chunks).map(|_| None).collect());
        entries.into_iter().for_each(|entry| done.insert(entry.part));
        let before = Duration::from_nanos(elapsed);
        Ok((Log { journal, started: Instant::now(), before }, done))
    }

    fn elapsed(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    fn append(&mut self, part: &Part) -> Result<(), FigureError> {
        let elapsed_ns = nanoseconds(self.elapsed());
        Ok(self.journal.append(&Entry { part, elapsed_ns })?)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What the threads share.
struct Work<'a> {
    plan: &'a Plan,
    left: Vec<&'a Chunk>,
    next: AtomicUsize,
}

impl Work<'_> {
    /// Runs chunks until none is left, or one cannot be written.
    fn run(&self, log: &Mutex<Log>, progress: &dyn Progress) -> Result<Vec<Part>, FigureError> {
        let mut parts = Vec::new();
        while let Some(chunk) = self.left.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let part = self.plan.execute(chunk.index);
            let mut log = log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Err(error) = log.append(&part) {
                self.next.store(self.left.len(), Ordering::Relaxed);
                return Err(error);
            }
            drop(log);
            parts.push(part);
            progress.advance(chunk.cost);
        }
        Ok(parts)
    }
}

pub(super) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let whole = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(whole, u32::try_from(time.tv_nsec).unwrap_or(0))
}
