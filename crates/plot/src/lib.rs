//! Pictures as SVG text: panels side by side under one title.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;

mod lines;
mod strips;
mod surfaces;

pub use lines::{Axis, Lines, Series, lines};
pub use strips::{Strips, strips};
pub use surfaces::{Surfaces, surfaces};

/// An SVG document, or why it could not be drawn.
pub type Picture = Result<String, String>;

/// Colours that are told apart by most eyes, also in print (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(160, 120, 60),
];

/// What the paper prints is drawn in this colour.
const PRINTED: RGBColor = RGBColor(200, 30, 30);

const TITLE_HEIGHT: u32 = 44;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// Draws `panels`, each of `size` pixels, `columns` in a row, under `title`.
fn document<T>(
    title: &str,
    panels: &[T],
    columns: usize,
    (width, height): (u32, u32),
    draw: impl Fn(&Area<'_>, &T) -> Result<(), String>,
) -> Picture {
    let columns = columns.min(panels.len()).max(1);
    let rows = panels.len().div_ceil(columns);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let whole = (width * count(columns), height * count(rows) + TITLE_HEIGHT);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, whole).into_drawing_area();
        root.fill(&WHITE).map_err(|error| error.to_string())?;
        let (head, body) = root.split_vertically(TITLE_HEIGHT);
        let letters = count(title.chars().count()).max(1);
        let size = (whole.0 * 19 / 10 / letters).clamp(11, 20);
        head.titled(title, ("sans-serif", size)).map_err(|error| error.to_string())?;
        for (area, panel) in body.split_evenly((rows, columns)).iter().zip(panels) {
            draw(area, panel)?;
        }
        root.present().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

/// How the ticks of an axis over `range` are written: with as many decimals as tell neighbours apart,
/// of which a logarithmic axis has them at powers of ten, and another about ten.
fn ticks(range: &Range<f64>, logarithmic: bool) -> impl Fn(&f64) -> String + use<> {
    let decimals = decimals((range.end - range.start).abs() / 10.0);
    move |&value| match value.abs() {
        magnitude if magnitude >= 100_000.0 => format!("{:.0}k", value / 1000.0),
        magnitude if logarithmic => format!("{value:.0$}", self::decimals(magnitude)),
        _ => format!("{value:.decimals$}"),
    }
}

/// How many decimals show a difference of `step`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 0 to 12
fn decimals(step: f64) -> usize {
    (-libm::floor(libm::log10(step.max(1e-12)))).max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_told_apart() {
        let of =
            |range: Range<f64>, values: [f64; 4]| values.map(|value| ticks(&range, false)(&value));
        assert_eq!(
            of(0.0..0.002, [0.0005, 0.001, 0.0015, 0.002]),
            ["0.0005", "0.0010", "0.0015", "0.0020"]
        );
        assert_eq!(of(0.0..12.0, [0.0, 2.0, 4.0, 12.0]), ["0", "2", "4", "12"]);
        assert_eq!(of(0.0..4.0, [0.0, 0.5, 1.0, 4.0]), ["0.0", "0.5", "1.0", "4.0"]);
        assert_eq!(of(-400.0..500.0, [-400.0, 0.0, 50.0, 500.0]), ["-400", "0", "50", "500"]);
        let logarithmic = ticks(&(0.001..1000.0), true);
        assert_eq!(
            [0.001, 0.1, 1.0, 1000.0].map(|v| logarithmic(&v)),
            ["0.001", "0.1", "1", "1000"]
        );
    }
}
