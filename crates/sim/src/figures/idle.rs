//! The study of DFS §4.2: how much time cpus idle though tasks wait.

use std::borrow::Cow;

use super::sets::lots;
use super::ticks::{self, RUN_TICKS, Scenario};
use super::{Row, Study, Tally, Unfit};
use crate::plot::{Axis, Lines, Picture, Series, lines};

/// Random seeds at every point, in the paper.
pub(super) const SETS: u32 = 1000;
/// The numbers of cpus.
pub(super) const CPUS: [u32; 5] = [2, 4, 8, 16, 32];

/// DFS as the library has it: a window stays a task's until it had a whole quantum in it.
pub(super) const DFS: &str = "dfs";
/// DFS with eq. 7 as printed.
pub(super) const DFS_PRINTED: &str = "dfs:parts=printed";

/// Where to measure.
#[derive(Clone)]
pub(super) struct Point {
    /// The policy, as users write it.
    pub(super) policy: Cow<'static, str>,
    pub(super) scenario: Scenario,
    pub(super) cpus: u32,
    /// How many tasks more than cpus; 0 for another number in each set, up to four a cpu.
    pub(super) more: u32,
}

/// Policy, scenario, percent.
pub(super) type Printed = (&'static str, &'static str, f64);

/// Draws the rows.
pub(super) type Panels = fn(&[Row]) -> Vec<Lines>;

/// The study.
pub(super) struct Idle {
    pub(super) points: Vec<Point>,
    /// The most idling that the paper prints for a scenario, in percent.
    pub(super) printed: &'static [Printed],
    /// The panels of the paper; nothing for a panel a policy and scenario.
    pub(super) panels: Option<Panels>,
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

    /// Ticks of cpus that idled in vain, the square of that, and the ticks in which so many did.
    fn measure(&self, point: usize, set: u32, seed: u64) -> Tally {
        let point = &self.points[point];
        let cpus = point.cpus as usize;
        let lots = lots(seed, (point.cpus << 8) | point.more, point.scenario.stream(), set);
        let idling = ticks::run(&point.policy, (cpus, point.tasks(set)), point.scenario, lots);
        let signed = |n: u64| i64::try_from(n).expect("at most ticks times cpus");
        let mut values = vec![signed(idling.cpu_ticks), signed(idling.cpu_ticks.pow(2))];
        values.extend(idling.by_cpus.iter().map(|&ticks| signed(ticks)));
        Tally { decisions: idling.decisions, values }
    }

    fn merge(&self, values: &mut [i64], other: &[i64]) {
        values.iter_mut().zip(other).for_each(|(sum, value)| *sum += value);
    }

    fn rows(&self, tallies: &[Tally], sets: u32) -> Vec<Row> {
        let row = |(point, tally): (&Point, &Tally)| self.row(point, &tally.values, sets);
        let mut rows: Vec<Row> = self.points.iter().zip(tallies).map(row).collect();
        for &(policy, scenario, percent) in self.printed {
            let of = |row: &Row| is_of(row, policy, scenario);
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
        let panels = match self.panels {
            Some(panels) => panels(rows),
            None => panels_of(rows),
        };
        lines(title, &panels)
    }

    /// At every place of the figure, as far as the policies schedule so many cpus.
    fn with(&self, policies: &[String]) -> Result<Box<dyn Study>, Unfit> {
        let own = &self.points[0].policy;
        let places: Vec<&Point> = self.points.iter().filter(|p| p.policy == *own).collect();
        let mut points = Vec::new();
        for policy in policies {
            ticks::build(policy, 2)?;
            let at = |&place: &&Point| Point { policy: policy.clone().into(), ..place.clone() };
            points.extend(places.iter().map(at));
        }
        Ok(Box::new(Idle { points, printed: &[], panels: None }))
    }
}

/// True if the rows have a coordinate of that name.
fn has(rows: &[Row], name: &str) -> bool {
    rows.first().is_some_and(|row| row.coordinates.iter().any(|(key, _)| key == name))
}

/// A panel a policy and scenario, in the order of the rows.
fn panels_of(rows: &[Row]) -> Vec<Lines> {
    let of = |row: &Row| (row.place("policy").to_string(), row.place("scenario").to_string());
    let mut seen: Vec<(String, String)> = rows.iter().map(of).collect();
    seen.dedup();
    let (name, logarithmic) = match (has(rows, "interarrival_ticks"), has(rows, "tasks")) {
        (true, _) => ("mean time between arrivals, ticks", true),
        (_, true) => ("number of tasks", false),
        _ => ("number of cpus", false),
    };
    let panel = |(policy, scenario): &(String, String)| {
        idle_panel(rows, (policy.as_str(), scenario.as_str()), Axis { name, logarithmic })
    };
    seen.iter().map(panel).collect()
}

impl Idle {
    #[allow(clippy::cast_precision_loss)] // counts of ticks
    fn row(&self, point: &Point, values: &[i64], sets: u32) -> Row {
        let a_percent = f64::from(point.cpus) * f64::from(RUN_TICKS) / 100.0;
        let (cpu_ticks, squares, by_cpus) = (values[0], values[1], &values[2..]);
        let wasteful: i64 = by_cpus.iter().sum();
        let part = |ticks: i64| 100.0 * ticks as f64 / (wasteful as f64).max(1.0);
        let of = |cpus: usize| by_cpus.get(cpus).copied().unwrap_or(0);
        let mut row = Row::default()
            .at("policy", &*point.policy)
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
        row.with("idle_percent", cpu_ticks as f64 / f64::from(sets) / a_percent)
            .with("idle_deviation", deviation(cpu_ticks, squares, sets) / a_percent)
            .with("one_idle_percent", part(of(1)))
            .with("two_idle_percent", part(of(2)))
            .with("three_idle_percent", part(of(3)))
            .with("more_idle_percent", part(by_cpus.iter().skip(4).sum()))
    }
}

/// The standard deviation of `sets` numbers, by their sum and that of their squares; 0 of one.
#[allow(clippy::cast_precision_loss)] // a variance of counts below 2^53
fn deviation(sum: i64, squares: i64, sets: u32) -> f64 {
    let (sum, squares, sets) = (i128::from(sum), i128::from(squares), i128::from(sets));
    let spread = (squares * sets - sum * sum) as f64;
    libm::sqrt(spread / (sets * (sets - 1).max(1)) as f64)
}

fn is_of(row: &Row, policy: &str, scenario: &str) -> bool {
    *row.place("policy") == policy.into() && *row.place("scenario") == scenario.into()
}

/// A curve a number of cpus: the idling over the coordinate `x`.
fn by_cpus(rows: &[Row], (policy, scenario): (&str, &str), x: &str) -> Vec<Series> {
    let curve = |cpus: u32| {
        let own = || {
            let own =
                |row: &&Row| is_of(row, policy, scenario) && *row.place("cpus") == cpus.into();
            rows.iter().filter(own)
        };
        let points = own().map(|row| (row.place(x).number(), row.value("idle_percent")));
        let spread = own().filter_map(|row| row.measured("idle_deviation"));
        Series::new(format!("{cpus} cpus"), points.collect()).spread(spread.collect()).marked()
    };
    CPUS.iter().map(|&cpus| curve(cpus)).collect()
}

/// What the paper prints there.
fn printed(rows: &[Row], (policy, scenario): (&str, &str), x: &str) -> Vec<(f64, f64)> {
    let own = rows.iter().filter(|row| is_of(row, policy, scenario));
    own.filter_map(|row| Some((row.place(x).number(), row.printed("idle_percent")?))).collect()
}

/// A panel with the idling of a policy in a scenario.
pub(super) fn idle_panel(rows: &[Row], of: (&str, &str), x: Axis) -> Lines {
    let coordinate = match x.logarithmic {
        true => "interarrival_ticks",
        false if has(rows, "tasks") => "tasks",
        false => "cpus",
    };
    Lines {
        title: format!("{}, {}: idle beside a waiting task", of.0, of.1),
        x,
        y: Axis { name: "idle beside a waiting task, % of cpu time", logarithmic: false },
        series: by_cpus(rows, of, coordinate),
        printed: printed(rows, of, coordinate),
    }
}

/// A panel with the numbers of cpus that idle together, with one task more than cpus.
pub(super) fn together_panel(rows: &[Row], (policy, scenario): (&str, &str)) -> Lines {
    let measures =
        ["one_idle_percent", "two_idle_percent", "three_idle_percent", "more_idle_percent"];
    let curve = |cpus: u32| {
        let of = |row: &&Row| {
            is_of(row, policy, scenario)
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
        title: format!("{policy}, {scenario}: cpus that idle together"),
        x: Axis { name: "number of idle cpus (4: four or more)", logarithmic: false },
        y: Axis {
            name: "% of the ticks with an idle cpu beside a waiting task",
            logarithmic: false,
        },
        series: CPUS.iter().map(|&cpus| curve(cpus)).collect(),
        printed: vec![],
    }
}

/// Every number of cpus with 1 to 64 tasks more than cpus.
pub(super) fn near_the_cpus(
    policy: &'static str,
    scenario: Scenario,
) -> impl Iterator<Item = Point> {
    const MORE: [u32; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64];
    let points = move |cpus| {
        MORE.into_iter().map(move |more| Point { policy: policy.into(), scenario, cpus, more })
    };
    CPUS.into_iter().flat_map(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_samples() {
        // 1, 2, 3, 4: (2.25 + 0.25 + 0.25 + 2.25) / 3.
        assert!((deviation(10, 30, 4) - libm::sqrt(5.0 / 3.0)).abs() < 1e-12);
        assert!((deviation(30_000_000, 300_000_000_000_000, 3)).abs() < 1e-12, "all alike");
        assert!((deviation(7, 49, 1)).abs() < 1e-12, "one tells none");
    }
}
