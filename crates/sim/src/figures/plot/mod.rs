//! Pictures as SVG text: panels side by side under one title.

use plotters::coord::Shift;
use plotters::prelude::*;

mod lines;
mod strips;
mod surfaces;

pub(super) use lines::{Axis, Lines, Series, lines};
pub(super) use strips::{Strips, strips};
pub(super) use surfaces::{Surfaces, surfaces};

/// An SVG document, or why it could not be drawn.
pub(super) type Picture = Result<String, String>;

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

/// A number for people: no more digits than matter.
fn tick(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 100_000.0 {
        format!("{:.0}k", value / 1000.0)
    } else if magnitude >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else if magnitude >= 1.0 {
        format!("{value:.1}")
    } else if magnitude >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}
