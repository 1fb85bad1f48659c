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
        match self.policies {
            [] => self.figure.name.to_string(),
            policies => format!("{}-with-{}", self.figure.name, policies.join("+")),
        }
    }

    pub(super) fn study(&self) -> Result<Box<dyn Study>, FigureError> {
        let study = (self.figure.study)();
        if self.policies.is_empty() {
            return Ok(study);
        }
        study.with(self.policies).map_err(|source| FigureError::Policies {
            figure: self.figure.name,
            policies: self.policies.join(", "),
            source,
        })
    }

    /// Random sets at every point.
    #[must_use]
    pub fn sets(&self) -> u32 {
        if self.figure.sets == 1 { 1 } else { self.sets.unwrap_or(self.figure.sets) }
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
    let study = request.study()?;
    let (report, journal) = sweep(request, &*study, progress)?;
    files::write(request, &*study, &report)?;
    journal.delete()?;
    Ok(report)
}

fn sweep(
    request: &Request<'_>,
    study: &dyn Study,
    progress: &dyn Progress,
) -> Result<(Report, Journal), FigureError> {
    let sets = request.sets();
    if sets == 0 || sets > sets::LIMIT {
        return Err(FigureError::Sets(sets));
    }
    if request.jobs == 0 {
        return Err(FigureError::Jobs);
    }
    let chunks = chunks_of(study, sets);
    let header = Header::new(request, chunks.len());
    let path = request.directory.join(header.file_name());
    let (log, mut done) = Log::open(path, &header)?;
    let left: Vec<&Chunk> = chunks.iter().filter(|chunk| !done.contains(chunk.index)).collect();
    progress.start(
        chunks.iter().map(|c| c.cost).sum::<u64>() - left.iter().map(|c| c.cost).sum::<u64>(),
        chunks.iter().map(|chunk| chunk.cost).sum(),
    );
    let work = Work { study, seed: request.seed, left, next: AtomicUsize::new(0) };
    let log = Mutex::new(log);
    let outcomes: Vec<Result<Vec<Entry>, FigureError>> = std::thread::scope(|scope| {
        let run = || work.run(&log, progress);
        let threads: Vec<_> = (0..request.jobs).map(|_| scope.spawn(run)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    for outcome in outcomes {
        outcome?.into_iter().for_each(|entry| done.insert(entry));
    }
    let log = log.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let report = report(request, study, &chunks, &done, log.elapsed());
    Ok((report, log.journal))
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
    fn new(request: &Request<'_>, chunks: usize) -> Header {
        Header {
            figure: request.name(),
            sets: request.sets(),
            seed: request.seed,
            chunks,
            version: env!("CARGO_PKG_VERSION").to_string(),
        }
    }

    fn file_name(&self) -> String {
        format!(".{}.sets-{}.seed-{}.journal", self.figure, self.sets, self.seed)
    }
}

/// Any other line of a journal: a finished chunk.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    chunk: usize,
    decisions: u64,
    values: Vec<i64>,
    cpu_ns: u64,
    /// Time since the sweep began, without interruptions.
    elapsed_ns: u64,
}

/// Finished chunks, by index.
#[derive(Default)]
struct Done(Vec<Option<Entry>>);

impl Done {
    fn contains(&self, chunk: usize) -> bool {
        self.0[chunk].is_some()
    }

    fn insert(&mut self, entry: Entry) {
        let chunk = entry.chunk;
        self.0[chunk] = Some(entry);
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
        let (journal, entries) = Journal::open(path, header, Foreign::Discard)?;
        let mut done = Done((0..header.chunks).map(|_| None).collect());
        let known = |entry: &Entry| entry.chunk < header.chunks;
        entries.into_iter().filter(known).for_each(|entry| done.insert(entry));
        let elapsed = done.0.iter().flatten().map(|entry| entry.elapsed_ns).max().unwrap_or(0);
        let before = Duration::from_nanos(elapsed);
        Ok((Log { journal, started: Instant::now(), before }, done))
    }

    fn elapsed(&self) -> Duration {
        self.before + self.started.elapsed()
    }

    fn append(&mut self, entry: &mut Entry) -> Result<(), FigureError> {
        entry.elapsed_ns = nanoseconds(self.elapsed());
        Ok(self.journal.append(entry)?)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What the threads share.
struct Work<'a> {
    study: &'a dyn Study,
    seed: u64,
    left: Vec<&'a Chunk>,
    next: AtomicUsize,
}

impl Work<'_> {
    /// Runs chunks until none is left, or one cannot be written.
    fn run(&self, log: &Mutex<Log>, progress: &dyn Progress) -> Result<Vec<Entry>, FigureError> {
        let mut entries = Vec::new();
        while let Some(chunk) = self.left.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let before = thread_cpu_time();
            let mut tally = self.study.measure(chunk.point, chunk.first, self.seed);
            for set in chunk.first + 1..chunk.end {
                let other = self.study.measure(chunk.point, set, self.seed);
                self.study.merge(&mut tally.values, &other.values);
                tally.decisions += other.decisions;
            }
            let mut entry = Entry {
                chunk: chunk.index,
                decisions: tally.decisions,
                values: tally.values,
                cpu_ns: nanoseconds(thread_cpu_time().saturating_sub(before)),
                elapsed_ns: 0,
            };
            let mut log = log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Err(error) = log.append(&mut entry) {
                self.next.store(self.left.len(), Ordering::Relaxed);
                return Err(error);
            }
            drop(log);
            entries.push(entry);
            progress.advance(chunk.cost);
        }
        Ok(entries)
    }
}

pub(super) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let whole = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(whole, u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn report(
    request: &Request<'_>,
    study: &dyn Study,
    chunks: &[Chunk],
    done: &Done,
    elapsed: Duration,
) -> Report {
    let mut tallies = vec![Tally::default(); study.points()];
    let mut cpu_ns = 0;
    for (chunk, entry) in chunks.iter().zip(&done.0) {
        let entry = entry.as_ref().expect("every chunk was run");
        let tally = &mut tallies[chunk.point];
        tally.decisions += entry.decisions;
        cpu_ns += entry.cpu_ns;
        if chunk.first == 0 {
            tally.values.clone_from(&entry.values);
        } else {
            study.merge(&mut tally.values, &entry.values);
        }
    }
    Report {
        figure: request.name(),
        sets: request.sets(),
        seed: request.seed,
        seconds: elapsed.as_secs_f64(),
        cpu_seconds: Duration::from_nanos(cpu_ns).as_secs_f64(),
        decisions: tallies.iter().map(|tally| tally.decisions).sum(),
        rows: study.rows(&tallies, request.sets()),
    }
}
