//! Distributions of waits and response times: a table, and a picture.

use std::io::{self, Write};
use std::rc::Rc;

use super::columns::{Cell, Columns};
use crate::engine::Latencies;
use crate::histogram::Histogram;
use crate::plot::{Axis, Lines, Series, lines};

/// Curves that a panel shows.
const MAX_GROUPS: usize = 12;
/// What is shorter is drawn here: the axis is logarithmic.
const LEAST_MS: f64 = 0.001;

/// What is measured, its title, and where it is kept.
type Kind = (&'static str, &'static str, fn(&Latencies) -> &Histogram);

const KINDS: [Kind; 4] = [
    ("wakeup", "from waking up to running", |of| &of.wakeup),
    ("wait", "runnable without a cpu", |of| &of.wait),
    ("response", "response times of jobs", |of| &of.response),
    ("ideal_response", "response times of jobs in the ideal", |of| &of.ideal_response),
];

/// Some lengths of time that fell into one bucket.
struct Bucket<'l> {
    group: &'l str,
    what: &'static str,
    at_most_ns: u64,
    count: u64,
    /// As long or shorter, of all.
    part: f64,
}

/// A row a bucket that something fell into: the group, what was measured, the longest of the bucket, how
/// many, and the part of all that is no longer. Buckets are 3.2 % wide.
#[must_use]
pub fn latencies<'l>(all: &'l [Latencies]) -> Columns<'l> {
    let mut buckets = Vec::new();
    for of in all {
        for (what, _, histogram) in KINDS {
            let part = cumulative(histogram(of));
            buckets.extend(part.map(|(at_most_ns, count, part)| Bucket {
                group: &of.group,
                what,
                at_most_ns,
                count,
                part,
            }));
        }
    }
    let mut columns = Columns::new("bucket", buckets.len());
    let buckets: Rc<[Bucket<'l>]> = buckets.into();
    let column = |cell: fn(&Bucket<'l>) -> Cell<'l>| {
        let buckets = Rc::clone(&buckets);
        move |row: usize| cell(&buckets[row])
    };
    columns.push("group", column(|bucket| Cell::Text(bucket.group)));
    columns.push("what", column(|bucket| Cell::Text(bucket.what)));
    columns.push("at_most_ns", column(|bucket| Cell::Count(bucket.at_most_ns)));
    columns.push("count", column(|bucket| Cell::Count(bucket.count)));
    columns.push("part", column(|bucket| Cell::Real(bucket.part)));
    columns
}

/// The longest of each bucket, how many, and the part of all up to there.
#[allow(clippy::cast_precision_loss)]
fn cumulative(histogram: &Histogram) -> impl Iterator<Item = (u64, u64, f64)> {
    let all = histogram.count() as f64;
    histogram.buckets().scan(0, move |seen, (at_most_ns, count)| {
        *seen += count;
        Some((at_most_ns, count, *seen as f64 / all))
    })
}

/// Draws them: a panel a measure, a curve a group.
///
/// # Errors
/// When `out` cannot be written, or the drawing library fails.
pub fn write_latencies_svg(all: &[Latencies], mut out: impl Write) -> io::Result<()> {
    let panels: Vec<Lines> = KINDS.iter().filter_map(|kind| panel(all, kind)).collect();
    if panels.is_empty() {
        return Err(io::Error::other("no task was ever runnable: there is nothing to draw"));
    }
    let picture = lines("How long tasks waited, and their jobs took", &panels);
    out.write_all(picture.map_err(io::Error::other)?.as_bytes())
}

/// Nothing if there is nothing to show.
#[allow(clippy::cast_precision_loss)]
fn panel(all: &[Latencies], &(_, title, histogram): &Kind) -> Option<Lines> {
    let milliseconds = |length_ns: u64| (length_ns as f64 / 1e6).max(LEAST_MS);
    let curve = |of: &Latencies| {
        let points = cumulative(histogram(of));
        let points = points.map(|(at_most_ns, _, part)| (milliseconds(at_most_ns), 100.0 * part));
        Series::new(of.group.clone(), points.collect()).marked()
    };
    let any = all.iter().filter(|of| histogram(of).count() > 0);
    let series: Vec<Series> = any.take(MAX_GROUPS).map(curve).collect();
    (!series.is_empty()).then(|| Lines {
        title: title.to_string(),
        x: Axis { name: "length of time, ms", logarithmic: true },
        y: Axis { name: "no longer than that, %", logarithmic: false },
        series,
        printed: vec![],
    })
}
