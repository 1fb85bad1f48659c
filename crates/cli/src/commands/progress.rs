//! How far a long computation is, for who watches, and on how many threads it runs.

use std::io::IsTerminal as _;
use std::num::NonZeroUsize;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use prorata_sim::Progress;

/// A thread a cpu.
pub(super) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// A bar with the time left, if a person watches.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// Of what is called `name`; its pace is told in `unit`s of `size`.
    pub(super) fn new(name: &str, unit: &'static str, size: f64) -> Bar {
        if !std::io::stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let pace = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = write!(out, "{:.0} {unit}", state.per_sec() / size);
        };
        let style = ProgressStyle::with_template(
            "{prefix} {wide_bar} {percent:>3} % · {per_sec} · {eta} left",
        )
        .expect("a valid template")
        .with_key("per_sec", pace);
        Bar(ProgressBar::new(0).with_style(style).with_prefix(name.to_string()))
    }

    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn start(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
        self.0.reset_eta();
        self.0.enable_steady_tick(std::time::Duration::from_millis(250));
    }

    fn advance(&self, work: u64) {
        self.0.inc(work);
    }
}
