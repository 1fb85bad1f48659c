//! A Gantt chart as SVG: a row for each cpu, a bar for every segment, a colour for each group.

use std::io::{self, Write};

use prorata::Nanos;
use svg::Document;
use svg::node::element::{Group, Line, Rectangle, Text, Title};

use super::timehist::Names;
use super::timeline::Segment;
use crate::workload::{Workload, format_duration};

const LEFT: f64 = 70.0;
const WIDTH: f64 = 1100.0;
const TOP: f64 = 40.0;
const ROW: f64 = 26.0;
const BAR: f64 = 20.0;
/// Bars beyond these would make a file that no browser opens.
const MAX_BARS: usize = 20_000;
/// Groups that the legend names.
const LEGEND: usize = 12;
/// Marks on the axis of time.
const MARKS: u32 = 10;

/// Writes the first 20,000 of `segments`, which are in the order of their starts, to `out`.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_svg(workload: &Workload, segments: &[Segment], mut out: impl Write) -> io::Result<()> {
    let shown = &segments[..segments.len().min(MAX_BARS)];
    let end_ns = shown.iter().map(|segment| segment.end_ns).max().unwrap_or(1);
    let rows = count(workload.machine.cpus);
    let below = TOP + rows * ROW;
    let height = below + 60.0 + 18.0 * count(workload.groups.len().min(LEGEND));
    let mut document = Document::new()
        .set("viewBox", (0, 0, LEFT + WIDTH + 30.0, height))
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white"));
    for cpu in 0..workload.machine.cpus {
        let y = TOP + count(cpu) * ROW + 0.7 * BAR;
        document = document.add(label(LEFT - 8.0, y, "end", format!("cpu {cpu}")));
    }
    document = document.add(axis(end_ns, below)).add(bars(workload, shown, end_ns));
    if shown.len() < segments.len() {
        let note = format!("the first {MAX_BARS} of {} segments", segments.len());
        document = document.add(label(LEFT, TOP - 16.0, "start", note));
    }
    document = document.add(legend(workload, below + 50.0));
    writeln!(out, "{document}")
}

#[allow(clippy::cast_precision_loss)]
fn count(number: usize) -> f64 {
    number as f64
}

/// Where a time is from left to right, to a hundredth of a pixel.
#[allow(clippy::cast_precision_loss)]
fn x(at_ns: Nanos, end_ns: Nanos) -> f64 {
    LEFT + hundredths(WIDTH * at_ns as f64 / end_ns as f64)
}

fn hundredths(length: f64) -> f64 {
    (length * 100.0).round() / 100.0
}

fn label(x: f64, y: f64, anchor: &str, text: String) -> Text {
    Text::new(text).set("x", x).set("y", y).set("text-anchor", anchor)
}

fn axis(end_ns: Nanos, below: f64) -> Group {
    let mut axis = Group::new().set("stroke-width", 1);
    for mark in 0..=MARKS {
        let at_ns = end_ns / u64::from(MARKS) * u64::from(mark);
        let x = x(at_ns, end_ns);
        let line = Line::new()
            .set("x1", x)
            .set("x2", x)
            .set("y1", TOP - 4.0)
            .set("y2", below)
            .set("stroke", "#ddd");
        let text = label(x, below + 16.0, "middle", format_duration(at_ns));
        axis = axis.add(line).add(text);
    }
    axis
}

fn bars(workload: &Workload, segments: &[Segment], end_ns: Nanos) -> Group {
    let names = Names::new(workload);
    let ids: Vec<_> = workload.ids().collect();
    let mut bars = Group::new();
    for segment in segments {
        let group = ids.partition_point(|ids| ids.end <= segment.task.0);
        let number = segment.task.0 - ids[group].start;
        let left = x(segment.start_ns, end_ns);
        let length = format_duration(segment.end_ns - segment.start_ns);
        let title = format!("{}, {length}", names.of(segment.task.0));
        bars = bars.add(
            Rectangle::new()
                .set("x", left)
                .set("y", TOP + count(segment.cpu) * ROW)
                .set("width", hundredths((x(segment.end_ns, end_ns) - left).max(0.2)))
                .set("height", BAR)
                .set("fill", colour(group, number))
                .add(Title::new(title)),
        );
    }
    bars
}

/// Hues of groups are a golden angle apart; tasks of a group differ in lightness.
fn colour(group: usize, number: u32) -> String {
    let hue = (group * 137 + 210) % 360;
    let lightness = 42 + number % 5 * 8;
    format!("hsl({hue},60%,{lightness}%)")
}

fn legend(workload: &Workload, top: f64) -> Group {
    let mut legend = Group::new();
    for (row, group) in workload.groups.iter().enumerate().take(LEGEND) {
        let y = top + 18.0 * count(row);
        let tasks =
            if group.count == 1 { String::new() } else { format!(", {} tasks", group.count) };
        let text = format!("{} (weight {}{tasks})", group.name, group.weight);
        let swatch = Rectangle::new()
            .set("x", LEFT)
            .set("y", y - 10.0)
            .set("width", 12)
            .set("height", 12)
            .set("fill", colour(row, 0));
        legend = legend.add(swatch).add(label(LEFT + 20.0, y, "start", text));
    }
    legend
}
