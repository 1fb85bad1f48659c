//! Text in the columns of `perf sched timehist`.

use std::io::{self, Write};

use prorata::Nanos;

use super::timeline::Segment;
use crate::workload::Workload;

/// Writes one line a segment to `out`, in the order in which they end, as perf does.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_timehist(
    workload: &Workload,
    segments: &[Segment],
    mut out: impl Write,
) -> io::Result<()> {
    writeln!(
        out,
        "{:>15} {:<6}  {:<30}  {:>9}  {:>9}  {:>9}",
        "time", "cpu", "task name", "wait time", "sch delay", "run time"
    )?;
    writeln!(
        out,
        "{:>15} {:<6}  {:<30}  {:>9}  {:>9}  {:>9}",
        "", "", "[tid/pid]", "(msec)", "(msec)", "(msec)"
    )?;
    writeln!(out, "{0:->15} {0:->6}  {0:->30}  {0:->9}  {0:->9}  {0:->9}", "")?;
    let names = Names::new(workload);
    let mut by_end: Vec<&Segment> = segments.iter().collect();
    by_end.sort_by_key(|segment| (segment.end_ns, segment.cpu));
    for segment in by_end {
        let Segment { task, cpu, start_ns, end_ns, off_cpu_ns, delay_ns, .. } = *segment;
        writeln!(
            out,
            "{:>8}.{:06} [{cpu:04}]  {:<30}  {:>9}  {:>9}  {:>9}",
            end_ns / 1_000_000_000,
            end_ns / 1_000 % 1_000_000,
            // Ids of threads are counted from 1: 0 is the idle task.
            format!("{}[{}]", names.of(task.0), task.0 + 1),
            milliseconds(off_cpu_ns),
            milliseconds(delay_ns),
            milliseconds(end_ns - start_ns),
        )?;
    }
    Ok(())
}

fn milliseconds(length_ns: Nanos) -> String {
    format!("{}.{:03}", length_ns / 1_000_000, length_ns / 1_000 % 1_000)
}

/// The names of all tasks.
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn new(workload: &Workload) -> Names {
        let names = |group: &crate::workload::Group| {
            (0..group.count).map(|i| group.task_name(i)).collect::<Vec<_>>()
        };
        Names(workload.groups.iter().flat_map(names).collect())
    }

    pub(super) fn of(&self, task: u32) -> &str {
        &self.0[task as usize]
    }
}
