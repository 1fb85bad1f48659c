//! Service errors over time: a table, and a picture.

use std::io::{self, Write};

use super::columns::{Cell, Columns};
use crate::engine::Lag;
use crate::plot::{Axis, Lines, Series, lines};
use crate::workload::Workload;

/// Curves that a picture shows.
const MAX_GROUPS: usize = 12;

/// A row a time and group: the errors of the tasks furthest behind and ahead, in quanta.
#[must_use]
pub fn lags<'l>(workload: &'l Workload, lags: &'l [Lag]) -> Columns<'l> {
    let mut columns = Columns::new("lag", lags.len());
    columns.push("time_ns", |row| Cell::Count(lags[row].time_ns));
    columns.push("group", |row| Cell::Text(&workload.groups[lags[row].group as usize].name));
    columns.push("error_min", |row| Cell::Real(lags[row].error_min));
    columns.push("error_max", |row| Cell::Real(lags[row].error_max));
    columns
}

/// Draws them: two curves a group, or one if it has one task.
///
/// # Errors
/// When `out` cannot be written, or the drawing library fails.
pub fn write_lags_svg(workload: &Workload, lags: &[Lag], mut out: impl Write) -> io::Result<()> {
    let mut series = Vec::new();
    for (index, group) in (0..).zip(&workload.groups).take(MAX_GROUPS) {
        let of = |error: fn(&Lag) -> f64| {
            let own = lags.iter().filter(|lag| lag.group == index);
            own.map(|lag| (seconds(lag.time_ns), error(lag))).collect()
        };
        let name = match group.count {
            1 => group.name.clone(),
            count => format!("{}, least and most of {count}", group.name),
        };
        series.push(Series::new(name, of(|lag| lag.error_min)));
        if group.count > 1 {
            let most = Series::new("", of(|lag| lag.error_max));
            series.push(Series { second: true, ..most });
        }
    }
    let left_out = workload.groups.len().saturating_sub(MAX_GROUPS);
    let panel = Lines {
        title: match left_out {
            0 => String::new(),
            _ => format!("without {left_out} more groups"),
        },
        x: Axis { name: "time, s", logarithmic: false },
        y: Axis { name: "service error, quanta", logarithmic: false },
        series,
        printed: vec![],
    };
    let picture = lines("Ahead of the ideal (positive) and behind it", &[panel]);
    out.write_all(picture.map_err(io::Error::other)?.as_bytes())
}

#[allow(clippy::cast_precision_loss)]
fn seconds(time_ns: u64) -> f64 {
    time_ns as f64 / 1e9
}
