//! Who ran when: a row a task, a bar a run.

use plotters::prelude::*;

use super::{Area, Picture, colour, document, ticks};

/// One panel.
pub struct Strips {
    /// What it shows.
    pub title: String,
    /// Name of the time axis.
    pub x: &'static str,
    /// Their names.
    pub tasks: Vec<String>,
    /// Task, begin and end of every run.
    pub runs: Vec<(usize, f64, f64)>,
}

/// Draws panels of strips over the same time, one in a row.
///
/// # Errors
/// When the drawing library cannot draw it.
pub fn strips(title: &str, panels: &[Strips]) -> Picture {
    let ends = panels.iter().flat_map(|panel| &panel.runs).map(|run| run.2);
    let end = ends.fold(0.0, f64::max);
    document(title, panels, 1, (900, 260), |area, panel| {
        panel.draw(area, end).map_err(|error| error.to_string())
    })
}

impl Strips {
    #[allow(clippy::cast_precision_loss)] // a few tasks
    fn draw<'a>(
        &self,
        area: &Area<'a>,
        end: f64,
    ) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
        let tasks = self.tasks.len();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 17))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(0.0..end, 0.0..tasks as f64)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.12))
            .x_desc(self.x)
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .x_label_formatter(&ticks(&(0.0..end), false))
            .y_label_formatter(&|_| String::new())
            .y_labels(1)
            .draw()?;
        chart.draw_series(self.runs.iter().map(|&(task, begin, end)| {
            let low = task as f64;
            Rectangle::new([(begin, low + 0.15), (end, low + 0.85)], colour(task).filled())
        }))?;
        let style = ("sans-serif", 13).into_font().color(&BLACK);
        for (task, name) in self.tasks.iter().enumerate() {
            let at = chart.backend_coord(&(0.0, task as f64 + 0.5));
            let (x, y) = area.get_base_pixel();
            area.draw(&Text::new(name.clone(), (at.0 - x - 58, at.1 - y - 6), style.clone()))?;
        }
        Ok(())
    }
}
