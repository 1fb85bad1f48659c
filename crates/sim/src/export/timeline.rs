//! Who ran where and when.

use prorata::{CpuId, Nanos, TaskId};

use crate::observer::{End, Observer, Run};

/// Most segments that a timeline keeps (48 bytes each).
pub const MAX_SEGMENTS: usize = 20_000_000;

/// A task on a cpu until another task, or nothing, follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The task.
    pub task: TaskId,
    /// The cpu.
    pub cpu: CpuId,
    /// From then …
    pub start_ns: Nanos,
    /// … until then.
    pub end_ns: Nanos,
    /// Since it last left a cpu; 0 if it never had one.
    pub off_cpu_ns: Nanos,
    /// Since it woke up, if it did since it last left a cpu.
    pub delay_ns: Nanos,
    /// Why it ended.
    pub end: End,
}

#[derive(Clone, Copy, Debug, Default)]
struct Past {
    left_ns: Option<Nanos>,
    woke_ns: Option<Nanos>,
}

/// Keeps every [`Segment`].
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// In the order of their ends.
    segments: Vec<Segment>,
    /// What runs on each cpu, still growing.
    open: Vec<Option<Segment>>,
    past: Vec<Past>,
    truncated: bool,
}

impl Timeline {
    /// The segments in the order of their starts, those of one instant by cpu, and whether there
    /// were more than [`MAX_SEGMENTS`].
    #[must_use]
    pub fn into_segments(mut self) -> (Vec<Segment>, bool) {
        let open: Vec<Segment> = self.open.iter_mut().filter_map(Option::take).collect();
        open.into_iter().for_each(|segment| self.push(segment));
        self.segments.sort_by_key(|segment| (segment.start_ns, segment.cpu));
        (self.segments, self.truncated)
    }

    fn push(&mut self, segment: Segment) {
        if self.segments.len() == MAX_SEGMENTS {
            self.truncated = true;
        } else {
            self.segments.push(segment);
        }
    }

    fn past(&mut self, task: TaskId) -> &mut Past {
        if self.past.len() <= task.index() {
            self.past.resize(task.index() + 1, Past::default());
        }
        &mut self.past[task.index()]
    }
}

impl Observer for Timeline {
    fn woke(&mut self, task: TaskId, now_ns: Nanos) {
        self.past(task).woke_ns = Some(now_ns);
    }

    fn ran(&mut self, run: Run) {
        if run.start_ns == run.end_ns {
            return;
        }
        if self.open.len() <= run.cpu {
            self.open.resize(run.cpu + 1, None);
        }
        let past = std::mem::replace(
            self.past(run.task),
            Past { left_ns: Some(run.end_ns), woke_ns: None },
        );
        if let Some(open) = &mut self.open[run.cpu]
            && open.task == run.task
            && open.end_ns == run.start_ns
            && open.end == End::Preempted
        {
            open.end_ns = run.end_ns;
            open.end = run.end;
            return;
        }
        let since = |then: Option<Nanos>| then.map_or(0, |then_ns| run.start_ns - then_ns);
        let segment = Segment {
            task: run.task,
            cpu: run.cpu,
            start_ns: run.start_ns,
            end_ns: run.end_ns,
            off_cpu_ns: since(past.left_ns),
            delay_ns: since(past.woke_ns),
            end: run.end,
        };
        if let Some(closed) = self.open[run.cpu].replace(segment) {
            self.push(closed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cpu: CpuId, task: u32, start_ns: Nanos, end_ns: Nanos, end: End) -> Run {
        Run { cpu, task: TaskId(task), start_ns, end_ns, end }
    }

    #[test]
    fn quanta_of_one_task_in_a_row_are_one_segment() {
        let mut timeline = Timeline::default();
        timeline.woke(TaskId(0), 0);
        timeline.woke(TaskId(1), 0);
        timeline.ran(run(0, 0, 0, 10, End::Preempted));
        timeline.ran(run(0, 0, 10, 15, End::Blocked));
        timeline.ran(run(0, 1, 15, 25, End::Preempted));
        timeline.woke(TaskId(0), 20);
        timeline.ran(run(0, 0, 25, 30, End::Exited));
        let (segments, truncated) = timeline.into_segments();
        let short: Vec<_> = segments
            .iter()
            .map(|s| (s.task.0, s.start_ns, s.end_ns, s.off_cpu_ns, s.delay_ns))
            .collect();
        assert_eq!(short, [(0, 0, 15, 0, 0), (1, 15, 25, 0, 15), (0, 25, 30, 10, 5)]);
        assert!(!truncated);
    }
}
