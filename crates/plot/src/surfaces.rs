//! Surfaces over a grid, like the error figures of the GR3 and VTRR papers.

use plotters::coord::ranged3d::Cartesian3d;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Area, PRINTED, Picture, colour, document, ticks};

/// One panel. Heights are listed with the width as the faster index.
pub struct Surfaces {
    /// What it shows.
    pub title: String,
    /// Name and values of the axis that runs to the back.
    pub depth: (&'static str, Vec<String>),
    /// Name and values of the axis that runs to the right.
    pub width: (&'static str, Vec<String>),
    /// Name of the vertical axis.
    pub height: &'static str,
    /// Their names and heights.
    pub surfaces: Vec<(&'static str, Vec<f64>)>,
    /// Heights that the paper prints: drawn as frames around the box.
    pub printed: Vec<f64>,
}

/// Draws panels of surfaces, two in a row.
///
/// # Errors
/// When the drawing library cannot draw it.
pub fn surfaces(title: &str, panels: &[Surfaces]) -> Picture {
    document(title, panels, 2, (620, 520), |area, panel| {
        panel.draw(area).map_err(|error| error.to_string())
    })
}

type Chart<'a, 'b> =
    ChartContext<'b, SVGBackend<'a>, Cartesian3d<RangedCoordf64, RangedCoordf64, RangedCoordf64>>;

type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

#[allow(clippy::cast_precision_loss)] // grid lines are few
impl Surfaces {
    /// The range of heights, with 0 and what is printed, and some air.
    fn heights(&self) -> (f64, f64) {
        let all = self.surfaces.iter().flat_map(|(_, heights)| heights).chain(&self.printed);
        let (low, high) = all.fold((0.0f64, 0.0f64), |(low, high), &h| (low.min(h), high.max(h)));
        let air = (high - low) * 0.04;
        (if low < 0.0 { low - air } else { low }, high + air)
    }

    /// The last grid lines to the right and to the back.
    fn far(&self) -> (f64, f64) {
        ((self.width.1.len() - 1) as f64, (self.depth.1.len() - 1) as f64)
    }

    fn draw<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let ((low, high), (right, back)) = (self.heights(), self.far());
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 17))
            .margin(14)
            .build_cartesian_3d(0.0..right, low..high, 0.0..back)?;
        chart.with_projection(|mut projection| {
            projection.pitch = 0.30;
            projection.yaw = 0.62;
            projection.scale = 0.82;
            projection.into_matrix()
        });
        self.draw_axes(&mut chart)?;
        for index in 0..self.surfaces.len() {
            self.draw_surface(&mut chart, index)?;
        }
        self.draw_printed(&mut chart)?;
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .label_font(("sans-serif", 13))
            .background_style(WHITE.mix(0.8))
            .draw()?;
        let style = ("sans-serif", 14).into_font().color(&BLACK.mix(0.8));
        area.draw(&Text::new(self.height, (14, 34), style))
    }

    fn draw_axes<'a>(&self, chart: &mut Chart<'a, '_>) -> Drawn<'a> {
        let ((low, high), (right, back)) = (self.heights(), self.far());
        chart
            .configure_axes()
            .light_grid_style(BLACK.mix(0.10))
            .max_light_lines(1)
            .x_labels(self.width.1.len())
            .z_labels(self.depth.1.len())
            .y_labels(9)
            .label_style(("sans-serif", 13))
            .x_formatter(&|_| String::new())
            .z_formatter(&|_| String::new())
            .y_formatter(&ticks(&(low..high), false))
            .draw()?;
        // The axes to the right and to the back meet at the front corner: the labels of the one
        // end at their ticks, those of the other begin there.
        let label = |text: &str, at: (f64, f64, f64), align: HPos, shift: (i32, i32)| {
            let style = ("sans-serif", 13).into_font().into_text_style(chart.plotting_area());
            let style = style.pos(Pos::new(align, VPos::Top));
            EmptyElement::at(at) + Text::new(text.to_string(), shift, style)
        };
        let widths = (0..)
            .zip(&self.width.1)
            .map(|(at, text)| label(text, (f64::from(at), low, back), HPos::Right, (0, 7)));
        let depths = (0..)
            .zip(&self.depth.1)
            .map(|(at, text)| label(text, (right, low, f64::from(at)), HPos::Left, (9, 5)));
        let labels: Vec<_> = widths.chain(depths).collect();
        chart.draw_series(labels)?;
        let name = |text: &str, at: (f64, f64, f64), shift: (i32, i32)| {
            let style = ("sans-serif", 14).into_font().color(&BLACK.mix(0.8));
            EmptyElement::at(at) + Text::new(text.to_string(), shift, style)
        };
        chart.draw_series([
            name(self.width.0, (right / 2.0, low, back), (-90, 30)),
            name(self.depth.0, (right, low, back / 2.0), (36, 22)),
        ])?;
        Ok(())
    }

    /// A surface and its grid.
    fn draw_surface<'a>(&self, chart: &mut Chart<'a, '_>, index: usize) -> Drawn<'a> {
        let (name, heights) = &self.surfaces[index];
        let colour = colour(index);
        let (widths, depths) = (self.width.1.len(), self.depth.1.len());
        let nodes = |count: usize| (0..count).map(|i| i as f64);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // grid nodes
        let height = |x: f64, z: f64| heights[z as usize * widths + x as usize];
        let surface = SurfaceSeries::xoz(nodes(widths), nodes(depths), height).style(ShapeStyle {
            color: colour.mix(0.55),
            filled: true,
            stroke_width: 0,
        });
        chart.draw_series(surface)?.label(*name).legend(move |(x, y)| {
            Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.mix(0.6).filled())
        });
        let node = |x: usize, z: usize| (x as f64, heights[z * widths + x], z as f64);
        for z in 0..depths {
            let row = (0..widths).map(|x| node(x, z));
            chart.draw_series(LineSeries::new(row, colour.stroke_width(1)))?;
        }
        for x in 0..widths {
            let column = (0..depths).map(|z| node(x, z));
            chart.draw_series(LineSeries::new(column, colour.stroke_width(1)))?;
        }
        Ok(())
    }

    fn draw_printed<'a>(&self, chart: &mut Chart<'a, '_>) -> Drawn<'a> {
        let (right, back) = self.far();
        for (index, &height) in self.printed.iter().enumerate() {
            let corners = [(0.0, 0.0), (right, 0.0), (right, back), (0.0, back), (0.0, 0.0)];
            let frame = corners.map(|(x, z)| (x, height, z));
            let drawn = chart.draw_series(LineSeries::new(frame, PRINTED.stroke_width(2)))?;
            if index == 0 {
                drawn.label("printed").legend(|(x, y)| {
                    PathElement::new([(x, y), (x + 14, y)], PRINTED.stroke_width(2))
                });
            }
        }
        Ok(())
    }
}
