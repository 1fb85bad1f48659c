//! A Gantt chart as SVG: a row for each cpu, a bar for every segment, a colour for each group. Of more
//! segments than a browser can show: columns of time, in which each group is as high as its part of it.

use std::collections::BTreeMap;
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
/// Groups in a column of a cpu; what others had there is one grey part.
const PARTS: usize = 8;
/// Columns are not narrower than a pixel.
const MAX_COLUMNS: usize = 1100;
/// Groups that the legend names.
const LEGEND: usize = 12;
/// Marks on the axis of time.
const MARKS: u32 = 10;

/// Writes `segments` to `out`: each, if they are 20,000 at most, else what part of the time of each column
/// the groups had.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_svg(workload: &Workload, segments: &[Segment], mut out: impl Write) -> io::Result<()> {
    let end_ns = segments.iter().map(|segment| segment.end_ns).max().unwrap_or(1);
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
    document = document.add(axis(end_ns, below));
    if segments.len() <= MAX_BARS {
        document = document.add(bars(workload, segments, end_ns));
    } else {
        let columns = Columns::new(workload, segments, end_ns);
        let note = format!(
            "{} runs: a column is {}, a group in it as high as its part of that time",
            segments.len(),
            format_duration(columns.width_ns)
        );
        document = document.add(label(LEFT, TOP - 16.0, "start", note)).add(columns.draw());
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

/// Time in columns, and who had it.
struct Columns<'w> {
    workload: &'w Workload,
    width_ns: Nanos,
    end_ns: Nanos,
    /// By cpu and column: what each group had.
    cells: BTreeMap<(usize, Nanos), BTreeMap<usize, Nanos>>,
}

impl<'w> Columns<'w> {
    fn new(workload: &'w Workload, segments: &[Segment], end_ns: Nanos) -> Columns<'w> {
        let parts = workload.groups.len().clamp(1, PARTS);
        let columns = (MAX_BARS / (workload.machine.cpus * parts)).clamp(1, MAX_COLUMNS);
        let width_ns = end_ns.div_ceil(columns as u64).max(1);
        let mut cells = BTreeMap::<_, BTreeMap<_, _>>::new();
        let ids: Vec<_> = workload.ids().collect();
        for segment in segments {
            let group = ids.partition_point(|ids| ids.end <= segment.task.0);
            let mut from_ns = segment.start_ns;
            while from_ns < segment.end_ns {
                let column = from_ns / width_ns;
                let to_ns = segment.end_ns.min((column + 1) * width_ns);
                let cell = cells.entry((segment.cpu, column)).or_default();
                *cell.entry(group).or_insert(0) += to_ns - from_ns;
                from_ns = to_ns;
            }
        }
        Columns { workload, width_ns, end_ns, cells }
    }

    fn draw(&self) -> Group {
        let all = Group::new().set("shape-rendering", "crispEdges");
        let cells = self.cells.iter();
        cells.fold(all, |all, (&(cpu, column), cell)| self.add_cell(all, cpu, column, cell))
    }

    /// From the bottom up, in the order of the groups; what is left at the top was idle.
    fn add_cell(
        &self,
        mut all: Group,
        cpu: usize,
        column: Nanos,
        cell: &BTreeMap<usize, Nanos>,
    ) -> Group {
        let begin_ns = column * self.width_ns;
        let end_ns = (begin_ns + self.width_ns).min(self.end_ns);
        let (left, right) = (x(begin_ns, self.end_ns), x(end_ns, self.end_ns));
        let mut bottom = TOP + count(cpu) * ROW + BAR;
        for (name, fill, had_ns) in self.parts_of(cell) {
            let part = ratio(had_ns, end_ns - begin_ns);
            let height = hundredths(BAR * part);
            bottom -= height;
            let title =
                format!("{name}, {:.1} % of {}", part * 100.0, format_duration(end_ns - begin_ns));
            all = all.add(
                Rectangle::new()
                    .set("x", left)
                    .set("y", hundredths(bottom))
                    .set("width", hundredths(right - left))
                    .set("height", height)
                    .set("fill", fill)
                    .add(Title::new(title)),
            );
        }
        all
    }

    /// Name, colour and time of those that had most of a cell, and of all others together.
    fn parts_of(&self, cell: &BTreeMap<usize, Nanos>) -> Vec<(String, String, Nanos)> {
        let mut largest: Vec<_> = cell.iter().map(|(&group, &had_ns)| (group, had_ns)).collect();
        largest.sort_by_key(|&(_, had_ns)| std::cmp::Reverse(had_ns));
        let others = largest.split_off(largest.len().min(PARTS));
        largest.sort_unstable();
        let named = |(group, had_ns): (usize, Nanos)| {
            (self.workload.groups[group].name.clone(), colour(group, 0), had_ns)
        };
        let mut parts: Vec<_> = largest.into_iter().map(named).collect();
        if !others.is_empty() {
            let had_ns = others.iter().map(|(_, had_ns)| had_ns).sum();
            parts.push((format!("{} others", others.len()), "#999".to_string(), had_ns));
        }
        parts
    }
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: Nanos, whole: Nanos) -> f64 {
    part as f64 / whole as f64
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

#[cfg(test)]
mod tests {
    use prorata::TaskId;

    use super::*;
    use crate::observer::End;
    use crate::workload::parse_toml;

    /// Two groups take turns of 2 and 1 ms on the first of two cpus, `turns` times.
    fn picture(turns: u64) -> String {
        let text = "duration = \"1s\"\n[machine]\ncpus = 2\n[[task]]\nname = \"two\"\n\
                    [[task]]\nname = \"one\"\n";
        let workload = parse_toml(text).expect("a workload");
        let segment = |turn: u64| {
            let (task, length_ns) =
                if turn.is_multiple_of(2) { (0, 2_000_000) } else { (1, 1_000_000) };
            let start_ns = turn / 2 * 3_000_000 + turn % 2 * 2_000_000;
            Segment {
                task: TaskId(task),
                cpu: 0,
                start_ns,
                end_ns: start_ns + length_ns,
                off_cpu_ns: 0,
                delay_ns: 0,
                end: End::Preempted,
            }
        };
        let segments: Vec<Segment> = (0..turns).map(segment).collect();
        let mut picture = Vec::new();
        write_svg(&workload, &segments, &mut picture).expect("memory");
        String::from_utf8(picture).expect("text")
    }

    /// Where the last bar ends.
    fn right_edge(picture: &str) -> f64 {
        let number = |line: &str, name: &str| -> Option<f64> {
            let (_, rest) = line.split_once(&format!(" {name}=\""))?;
            rest.split_once('"')?.0.parse().ok()
        };
        let bars = picture.lines().filter(|line| line.contains("hsl("));
        let ends = bars.filter_map(|bar| Some(number(bar, "x")? + number(bar, "width")?));
        ends.fold(0.0, f64::max)
    }

    #[test]
    fn few_runs_are_a_bar_each() {
        let picture = picture(100);
        assert_eq!(picture.matches("<title>").count(), 100);
        assert!(picture.contains("two, 2.00ms") && !picture.contains("a column is"), "{picture}");
    }

    /// The last run is in the picture, too, and no picture is larger for having more runs.
    #[test]
    fn many_runs_are_columns_of_all_of_the_time() {
        let (picture, larger) = (picture(30_000), picture(300_000));
        assert!(picture.contains("30000 runs: a column is 40.9ms"), "{}", &picture[..2000]);
        assert_eq!(picture.matches("<title>").count(), 2 * 1100);
        assert!(picture.contains("two, 66.") && picture.contains("one, 33."), "as they share");
        assert!(larger.len() < picture.len() * 11 / 10, "{} {}", larger.len(), picture.len());
        assert!((right_edge(&picture) - LEFT - WIDTH).abs() < 0.1, "{}", right_edge(&picture));
    }

    #[test]
    fn what_has_no_colour_of_its_own_is_grey() {
        let task = |number: u32| format!("[[task]]\nname = \"t{number}\"\n");
        let text = "duration = \"1s\"\n".to_string() + &(0..12).map(task).collect::<String>();
        let workload = parse_toml(&text).expect("a workload");
        let columns =
            Columns { workload: &workload, width_ns: 100, end_ns: 100, cells: BTreeMap::new() };
        let cell = (0..12).map(|group| (group, 1 + group as u64)).collect();
        let parts = columns.parts_of(&cell);
        assert_eq!(parts.len(), PARTS + 1);
        assert_eq!((&*parts[0].0, parts[0].2), ("t4", 5));
        assert_eq!((&*parts[8].0, parts[8].2), ("4 others", 10));
    }
}
