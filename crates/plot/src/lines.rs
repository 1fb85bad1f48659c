//! Curves over one axis.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::{Area, PRINTED, Picture, colour, document, ticks};

/// Size of a panel without its legend.
const PANEL: (u32, u32) = (580, 440);
/// A line of the legend, and the sample of a curve in it.
const LEGEND_LINE: i32 = 19;
const SAMPLE: i32 = 20;
/// Width of a letter in the legend, at most.
const LETTER: u32 = 8;

/// An axis.
#[derive(Clone)]
pub struct Axis {
    /// The quantity and its unit.
    pub name: &'static str,
    /// Values are above 0.
    pub logarithmic: bool,
}

/// A curve.
pub struct Series {
    /// As the legend has it.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    /// How far values spread around each point, up and down; empty if that is not known.
    pub spread: Vec<f64>,
    /// Points are marked.
    pub marked: bool,
    /// Drawn pale: it is context.
    pub pale: bool,
    /// In the colour of the curve before it, and not in the legend: both are one thing.
    pub second: bool,
}

impl Series {
    /// A plain curve.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series {
            name: name.into(),
            points,
            spread: Vec::new(),
            marked: false,
            pale: false,
            second: false,
        }
    }

    /// With its points marked.
    #[must_use]
    pub fn marked(self) -> Series {
        Series { marked: true, ..self }
    }

    /// With a whisker at each point, of half this length.
    #[must_use]
    pub fn spread(self, spread: Vec<f64>) -> Series {
        Series { spread, ..self }
    }

    /// The ends of the whiskers.
    fn whiskers(&self) -> impl Iterator<Item = [(f64, f64); 2]> + Clone {
        let ends = |(&(x, y), spread): (&(f64, f64), &f64)| [(x, y - spread), (x, y + spread)];
        self.points.iter().zip(&self.spread).map(ends)
    }
}

/// One panel.
pub struct Lines {
    /// What it shows.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
    /// What a paper prints, in red.
    pub printed: Vec<(f64, f64)>,
}

/// Draws panels of curves, two in a row, each with its legend beside it.
///
/// # Errors
/// When the drawing library cannot draw it.
pub fn lines(title: &str, panels: &[Lines]) -> Picture {
    let letters = |panel: &Lines| panel.legend().map(|(name, _)| name.chars().count()).max();
    let widest = panels.iter().filter_map(letters).max().unwrap_or(0);
    let legend = SAMPLE.unsigned_abs() + 24 + LETTER * u32::try_from(widest).unwrap_or(0).min(60);
    let size = (PANEL.0 + legend, PANEL.1);
    document(title, panels, 2, size, |area, panel| panel.draw(area))
}

/// What the legend shows beside a name.
enum Sample {
    Curve(ShapeStyle),
    Whisker,
    Cross,
}

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

impl Lines {
    fn legend(&self) -> impl Iterator<Item = (&str, Sample)> {
        let named = self.styled().filter(|(series, _)| !series.second);
        let curves = named.map(|(series, style)| (series.name.as_str(), Sample::Curve(style)));
        let has_whiskers = self.series.iter().any(|series| !series.spread.is_empty());
        let whiskers = has_whiskers.then_some(("± standard deviation of a set", Sample::Whisker));
        let has_printed = !self.printed.is_empty();
        let printed = has_printed.then_some(("printed in the paper", Sample::Cross));
        curves.chain(whiskers).chain(printed)
    }

    fn styled(&self) -> impl Iterator<Item = (&Series, ShapeStyle)> {
        let mut colours = 0;
        self.series.iter().map(move |series| {
            colours += usize::from(!series.second);
            let style = colour(colours - 1).mix(if series.pale { 0.35 } else { 1.0 });
            (series, style.stroke_width(2))
        })
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), String> {
        let (plot, legend) = area.split_horizontally(PANEL.0);
        self.draw_legend(&legend).map_err(|error| error.to_string())?;
        let x = self.range(&self.x, |point| point.0);
        let y = self.range(&self.y, |point| point.1);
        match (self.x.logarithmic, self.y.logarithmic) {
            (false, false) => self.draw_on(&plot, x.clone(), y.clone(), (x, y)),
            (true, false) => self.draw_on(&plot, x.clone().log_scale(), y.clone(), (x, y)),
            (false, true) => self.draw_on(&plot, x.clone(), y.clone().log_scale(), (x, y)),
            (true, true) => {
                self.draw_on(&plot, x.clone().log_scale(), y.clone().log_scale(), (x, y))
            }
        }
    }

    /// The values along an axis; with 0 if it is linear.
    fn range(&self, axis: &Axis, of: fn(&(f64, f64)) -> f64) -> Range<f64> {
        let points = self.series.iter().flat_map(|series| &series.points).chain(&self.printed);
        let whiskers = self.series.iter().flat_map(Series::whiskers);
        let values =
            || points.clone().copied().chain(whiskers.clone().map(|ends| ends[1])).map(|p| of(&p));
        let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
        match axis.logarithmic {
            true => low..high * 1.15,
            false => low.min(0.0)..if high > 0.0 { high * 1.04 } else { 1.0 },
        }
    }

    /// Beside the plot, where it hides nothing.
    fn draw_legend<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let middle = 4 + SAMPLE / 2;
        for (line, (name, sample)) in (0..).zip(self.legend()) {
            let y = 52 + LEGEND_LINE * line;
            match sample {
                Sample::Curve(style) => {
                    area.draw(&PathElement::new([(4, y), (4 + SAMPLE, y)], style))?;
                }
                Sample::Whisker => {
                    area.draw(&PathElement::new([(middle, y - 7), (middle, y + 7)], BLACK))?;
                }
                Sample::Cross => area.draw(&cross((middle, y)))?,
            }
            let font = ("sans-serif", 13).into_font().color(&BLACK);
            area.draw(&Text::new(name.to_string(), (10 + SAMPLE, y - 7), font))?;
        }
        Ok(())
    }

    fn draw_on<X, Y>(
        &self,
        area: &Area<'_>,
        x: X,
        y: Y,
        ranges: (Range<f64>, Range<f64>),
    ) -> Result<(), String>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        self.try_draw(area, x, y, &ranges).map_err(|error| error.to_string())
    }

    fn try_draw<'a, X, Y>(
        &self,
        area: &Area<'a>,
        x: X,
        y: Y,
        ranges: &(Range<f64>, Range<f64>),
    ) -> Drawn<'a>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 17))
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(66)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc(self.x.name)
            .y_desc(self.y.name)
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .x_label_formatter(&ticks(&ranges.0, self.x.logarithmic))
            .y_label_formatter(&ticks(&ranges.1, self.y.logarithmic))
            .draw()?;
        for (series, style) in self.styled() {
            chart.draw_series(LineSeries::new(series.points.iter().copied(), style))?;
            let floor = ranges.1.start;
            let whisker = |[(x, low), high]: [(f64, f64); 2]| {
                PathElement::new([(x, low.max(floor)), high], style.stroke_width(1))
            };
            chart.draw_series(series.whiskers().map(whisker))?;
            if series.marked {
                let mark = |&point| Circle::new(point, 3, style.filled());
                chart.draw_series(series.points.iter().map(mark))?;
            }
        }
        chart.draw_series(self.printed.iter().copied().map(cross))?;
        Ok(())
    }
}

fn cross<C>(at: C) -> Cross<C, i32> {
    Cross::new(at, 6, PRINTED.stroke_width(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(name: &'static str) -> Axis {
        Axis { name, logarithmic: false }
    }

    /// A picture of one curve; whether the paper printed a point of it, and it spreads.
    fn picture(printed: bool, spreads: bool) -> String {
        let curve = Series::new("a curve", vec![(0.0, 0.0), (10.0, 100.0)]);
        let spread = if spreads { vec![1.0, 2.0] } else { Vec::new() };
        let panel = Lines {
            title: "a panel".to_string(),
            x: axis("time, s"),
            y: axis("error, quanta"),
            series: vec![curve.spread(spread)],
            printed: if printed { vec![(10.0, 90.0)] } else { Vec::new() },
        };
        lines("a figure", &[panel]).expect("it can be drawn")
    }

    /// Where a text begins.
    fn x_of(svg: &str, text: &str) -> u32 {
        let at = svg.find(text).unwrap_or_else(|| panic!("{text} in {svg}"));
        let (_, x) = svg[..at].rsplit_once("x=\"").expect("a text has a place");
        x[..x.find('"').expect("closed")].parse().expect("whole pixels")
    }

    #[test]
    fn the_legend_is_beside_the_curves_and_names_all_that_is_drawn() {
        let svg = picture(true, true);
        for name in ["a curve", "± standard deviation of a set", "printed in the paper"] {
            assert!(x_of(&svg, name) > PANEL.0, "{name}");
        }
        for name in ["time, s", "error, quanta"] {
            assert!(x_of(&svg, name) < PANEL.0, "{name}");
        }
        let plain = picture(false, false);
        assert!(
            !plain.contains("printed") && !plain.contains("deviation"),
            "nothing is red: {plain}"
        );
    }
}
