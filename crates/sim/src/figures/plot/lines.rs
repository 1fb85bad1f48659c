//! Curves over one axis.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::{Area, Picture, colour, document, tick};

/// An axis.
#[derive(Clone)]
pub(in crate::figures) struct Axis {
    pub(in crate::figures) name: &'static str,
    pub(in crate::figures) logarithmic: bool,
}

/// A curve.
pub(in crate::figures) struct Series {
    pub(in crate::figures) name: String,
    pub(in crate::figures) points: Vec<(f64, f64)>,
    /// Points are marked.
    pub(in crate::figures) marked: bool,
    /// Drawn pale: it is context.
    pub(in crate::figures) pale: bool,
}

impl Series {
    pub(in crate::figures) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, marked: false, pale: false }
    }

    pub(in crate::figures) fn marked(self) -> Series {
        Series { marked: true, ..self }
    }
}

/// One panel.
pub(in crate::figures) struct Lines {
    pub(in crate::figures) title: String,
    pub(in crate::figures) x: Axis,
    pub(in crate::figures) y: Axis,
    pub(in crate::figures) series: Vec<Series>,
}

/// Draws panels of curves, two in a row.
pub(in crate::figures) fn lines(title: &str, panels: &[Lines]) -> Picture {
    document(title, panels, 2, (620, 440), |area, panel| panel.draw(area))
}

impl Lines {
    fn draw(&self, area: &Area<'_>) -> Result<(), String> {
        let x = self.range(&self.x, |point| point.0);
        let mut y = self.range(&self.y, |point| point.1);
        // Room for the legend.
        y.end += if self.y.logarithmic { y.end * 2.0 } else { (y.end - y.start) * 0.3 };
        match (self.x.logarithmic, self.y.logarithmic) {
            (false, false) => self.draw_on(area, x, y),
            (true, false) => self.draw_on(area, x.log_scale(), y),
            (false, true) => self.draw_on(area, x, y.log_scale()),
            (true, true) => self.draw_on(area, x.log_scale(), y.log_scale()),
        }
    }

    /// The values along an axis; with 0 if it is linear.
    fn range(&self, axis: &Axis, of: fn(&(f64, f64)) -> f64) -> Range<f64> {
        let values = || self.series.iter().flat_map(|series| &series.points).map(of);
        let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
        match axis.logarithmic {
            true => low..high * 1.15,
            false => low.min(0.0)..if high > 0.0 { high * 1.04 } else { 1.0 },
        }
    }

    /// The upper corner that the curves leave freer.
    fn free_corner(&self) -> SeriesLabelPosition {
        let mut sums = [(0.0, 0.0); 2];
        let points = || self.series.iter().flat_map(|series| &series.points);
        let scale = |x: f64| if self.x.logarithmic { x.max(1e-9).ln() } else { x };
        let (low, high) = points().fold((f64::MAX, f64::MIN), |(low, high), &(x, _)| {
            (low.min(scale(x)), high.max(scale(x)))
        });
        for &(x, y) in points() {
            let sum = &mut sums[usize::from(scale(x) > f64::midpoint(low, high))];
            *sum = (sum.0 + y, sum.1 + 1.0);
        }
        let mean = |(sum, count): (f64, f64)| sum / f64::max(count, 1.0);
        match mean(sums[0]) > mean(sums[1]) {
            true => SeriesLabelPosition::UpperRight,
            false => SeriesLabelPosition::UpperLeft,
        }
    }

    fn draw_on<X, Y>(&self, area: &Area<'_>, x: X, y: Y) -> Result<(), String>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        self.try_draw(area, x, y).map_err(|error| error.to_string())
    }

    fn try_draw<'a, X, Y>(
        &self,
        area: &Area<'a>,
        x: X,
        y: Y,
    ) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>
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
            .y_label_area_size(62)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc(self.x.name)
            .y_desc(self.y.name)
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .x_label_formatter(&|&value| tick(value))
            .y_label_formatter(&|&value| tick(value))
            .draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let style = colour(index).mix(if series.pale { 0.35 } else { 1.0 }).stroke_width(2);
            let line = LineSeries::new(series.points.iter().copied(), style);
            chart
                .draw_series(line)?
                .label(&series.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
            if series.marked {
                let mark = |&point| Circle::new(point, 3, style.filled());
                chart.draw_series(series.points.iter().map(mark))?;
            }
        }
        chart
            .configure_series_labels()
            .position(self.free_corner())
            .label_font(("sans-serif", 13))
            .background_style(WHITE.mix(0.8))
            .draw()?;
        Ok(())
    }
}
