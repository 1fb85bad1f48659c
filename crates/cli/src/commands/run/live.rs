//! Bars on a terminal while commands run. Drawn by a thread of its own, so that a slow terminal
//! does not hold up the scheduler.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use prorata_run::{Report, TaskReport};

use super::print;

/// Bars count in thousandths of all cpu time.
const WHOLE: u64 = 1000;

/// The bars. Dropped: gone from the terminal.
pub(super) struct Live {
    drawer: Option<(Sender<Report>, JoinHandle<()>)>,
}

impl Live {
    pub(super) fn new() -> Live {
        Live { drawer: None }
    }

    /// Starts the drawing thread; not before the run has forked its helpers.
    pub(super) fn begin(&mut self) {
        let (sender, reports) = channel::<Report>();
        let thread = std::thread::spawn(move || {
            let bars = MultiProgress::new();
            let mut lines: Vec<ProgressBar> = Vec::new();
            for report in reports {
                while lines.len() <= report.tasks.len() {
                    lines.push(bars.add(ProgressBar::new(WHOLE)));
                    lines[lines.len() - 1].set_style(style(lines.len() == 1));
                }
                draw(&lines, &report);
            }
            let _ = bars.clear();
        });
        self.drawer = Some((sender, thread));
    }

    pub(super) fn show(&self, report: Report) {
        if let Some((sender, _)) = &self.drawer {
            // An error: the thread is gone, and with it the bars; the run goes on.
            let _ = sender.send(report);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.drawer.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

fn style(heading: bool) -> ProgressStyle {
    let template = if heading { "{msg}" } else { "{prefix:>10} {bar:30.green/dim} {wide_msg}" };
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─")
}

fn draw(lines: &[ProgressBar], report: &Report) {
    lines[0].set_message(format!(
        "{:>10} {:30} {:>7} {:>8}  {:>13}  {} on {}, {:.1} s",
        "weight",
        "share received",
        "due",
        "received",
        "error, quanta",
        report.policy,
        print::cpus(report.cpus),
        report.duration_s,
    ));
    for (line, task) in lines[1..].iter().zip(&report.tasks) {
        line.set_prefix(task.weight.to_string());
        line.set_position(thousandths(task.received_share));
        line.set_message(message(task));
    }
}

fn message(task: &TaskReport) -> String {
    let error = format!("{:.1}..{:.1}", task.error_min_quanta, task.error_max_quanta);
    let end = if task.exit.is_some() { "  (ended)" } else { "" };
    format!(
        "{:>6.2}% {:>7.2}%  {error:>13}  {}{end}",
        task.entitled_share * 100.0,
        task.received_share * 100.0,
        task.command,
    )
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn thousandths(share: f64) -> u64 {
    (share * WHOLE as f64).round() as u64
}
