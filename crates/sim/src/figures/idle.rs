//! The study of DFS §4.2: how much time cpus idle though tasks wait.

use prorata::Setup;

use crate::random::Random;

use super::plot::{Axis, Lines, Picture, Series, lines};
use super::sets::lots;
use super::ticks::{Idling, QUANTUM_TICKS, Scenario, TICK_NS};
use super::{Row, Study, Tally};

/// Random seeds at every point, in the paper.
pub(super) const SETS: u32 = 1000;
/// The numbers of cpus.
pub(super) const CPUS: [u32; 5] = [2, 4, 8, 16, 32];
/// Ticks of a run.
const TICKS: f64 = 10_000.0;

/// One curve's worth of points.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) scenario: Scenario,
    pub(super) cpus: u32,
    /// How many tasks more than cpus; 0 for another number in each set, up to four a cpu.
    pub(super) more: u32,
}

/// A run under the policy of the study.
pub(super) type Run = fn(&Setup, (usize, u32), Scenario, Random) -> Idling;

/// The study.
pub(super) struct Idle {
    pub(super) policy: &'static str,
    pub(super) run: Run,
    pub(super) points: Vec<Point>,
    /// The most idling of a scenario that the paper prints, in percent.
    pub(super) printed: &'static [(&'static str, f64)],
    pub(super) panels: fn(&[Row]) -> Vec<Lines>,
}

impl Point {
    fn tasks(&self, set: u32) -> u32 {
        match self.more {
            0 => self.cpus + 1 + set % (3 * self.cpus),
            more => self.cpus + more,
        }
    }
}

impl Study for Idle {
    fn points(&self) -> usize {
        self.points.len()
    }

    fn cost(&self, point: usize) -> u64 {
        // A decision beside those many costs about as much as twenty of GR3.
        u64::from(self.points[point].cpus) * 1000 * 20
    }

    fn measure(&self, point: usize, set: u32, seed: u64) -> Tally {
        let point = &self.points[point];
        let cpus = point.cpus as usize;
        let setup = Setup::new(cpus, QUANTUM_TICKS * TICK_NS);
        let lots = lots(seed, (point.cpus << 8) | point.more, point.scenario.stream(), set);
        let idling = (self.run)(&setup, (cpus, point.tasks(set)), point.scenario, lots);
        let signed = |n: u64| i64::try_from(n).expect("at most ticks times cpus");
        let mut values = vec![signed(idling.cpu_ticks)];
        values.extend(idling.by_cpus.iter().map(|&ticks| signed(ticks)));
        Tally { decisions: idling.decisions, values }
    }

    fn merge(&self, values: &mut [i64], other: &[i64]) {
        values.iter_mut().zip(other).for_each(|(sum, value)| *sum += value);
    }

    fn rows(&self, tallies: &[Tally], sets: u32) -> Vec<Row> {
        let row = |(point, tally): (&Point, &Tally)| self.row(point, &tally.values, sets);
        let mut rows: Vec<Row> = self.points.iter().zip(tallies).map(row).collect();
        for &(scenario, percent) in self.printed {
            let of = |row: &Row| row.place("scenario").to_string() == scenario;
            let most = rows.iter().filter(|row| of(row)).map(|row| row.value("idle_percent"));
            let most = most.fold(0.0, f64::max);
            let found = rows.iter_mut().find(|row| of(row) && row.value("idle_percent") >= most);
            if let Some(row) = found {
                row.print("idle_percent", percent);
            }
        }
        rows
    }

    fn draw(&self, title: &str, rows: &[Row]) -> Picture {
        lines(title, &(self.panels)(rows))
    }
}

impl Idle {
    #[allow(clippy::cast_precision_loss)] // counts of ticks
    fn row(&self, point: &Point, values: &[i64], sets: u32) -> Row {
        let total = f64::from(point.cpus) * TICKS * f64::from(sets);
        let (cpu_ticks, by_cpus) = (values[0], &values[1..]);
        let wasteful: i64 = by_cpus.iter().sum();
        let part = |ticks: i64| 100.0 * ticks as f64 / (wasteful as f64).max(1.0);
        let of = |cpus: usize| by_cpus.get(cpus).copied().unwrap_or(0);
        let mut row = Row::default()
            .at("policy", self.policy)
            .at("scenario", point.scenario.name())
            .at("cpus", point.cpus);
        if point.more > 0 {
            row = row.at("tasks", point.cpus + point.more);
        }
        if let Scenario::Dynamic(mean_ticks) = point.scenario
            && point.more > 0
        {
            row = row.at("interarrival_ticks", mean_ticks);
        }
        row.with("idle_percent", 100.0 * cpu_ticks as f64 / total)
            .with("one_idle_percent", part(of(1)))
            .with("two_idle_percent", part(of(2)))
            .with("three_idle_percent", part(of(3)))
            .with("more_idle_percent", part(by_cpus.iter().skip(4).sum()))
    }
}

/// A curve a number of cpus: `measure` over the coordinate `x`, from the rows of `scenario`.
pub(super) fn by_cpus(rows: &[Row], scenario: &str, x: &str, measure: &str) -> Vec<Series> {
    let curve = |cpus: u32| {
        let points = rows
            .iter()
            .filter(|row| row.place("scenario").to_string() == scenario)
            .filter(|row| *row.place("cpus") == cpus.into())
            .map(|row| (row.place(x).number(), row.value(measure)));
        Series::new(format!("{cpus} cpus"), points.collect()).marked()
    };
    CPUS.iter().map(|&cpus| curve(cpus)).collect()
}

/// A panel with the idling of one scenario.
pub(super) fn idle_panel(rows: &[Row], scenario: &str, x: Axis) -> Lines {
    let coordinate = if x.logarithmic { "interarrival_ticks" } else { "tasks" };
    Lines {
        title: format!("{scenario}: idle beside a waiting task"),
        x,
        y: Axis { name: "% of cpu time", logarithmic: false },
        series: by_cpus(rows, scenario, coordinate, "idle_percent"),
    }
}

/// A panel with the numbers of cpus that idle together, with one task more than cpus.
pub(super) fn together_panel(rows: &[Row], scenario: &str) -> Lines {
    let measures =
        ["one_idle_percent", "two_idle_percent", "three_idle_percent", "more_idle_percent"];
    let curve = |cpus: u32| {
        let of = |row: &&Row| {
            row.place("scenario").to_string() == scenario
                && *row.place("cpus") == cpus.into()
                && *row.place("tasks") == (cpus + 1).into()
        };
        let row = rows.iter().find(of);
        let points = row.map(|row| {
            (1u8..).map(f64::from).zip(measures.iter().map(|name| row.value(name))).collect()
        });
        Series::new(format!("{cpus} cpus, {} tasks", cpus + 1), points.unwrap_or_default()).marked()
    };
    Lines {
        title: format!("{scenario}: cpus that idle together"),
        x: Axis { name: "idle cpus (4: four or more)", logarithmic: false },
        y: Axis {
            name: "% of the ticks in which a cpu idles beside a waiting task",
            logarithmic: false,
        },
        series: CPUS.iter().map(|&cpus| curve(cpus)).collect(),
    }
}

/// Every number of cpus with 1 to 64 tasks more than cpus.
pub(super) fn near_the_cpus(scenario: Scenario) -> impl Iterator<Item = Point> {
    const MORE: [u32; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64];
    let points = move |cpus| MORE.into_iter().map(move |more| Point { scenario, cpus, more });
    CPUS.into_iter().flat_map(points)
}
