//! The study of DFS §4.2: how much time cpus idle though tasks wait.

use prorata::Setup;
use prorata::policies::dfs::{Dfs, Parts, Ties};

use crate::random::Random;

use super::sets::lots;
use super::ticks::{self, Idling, QUANTUM_TICKS, Scenario, TICK_NS};
use super::{Row, Study, Tally};
use crate::plot::{Axis, Lines, Picture, Series, lines};

/// Random seeds at every point, in the paper.
pub(super) const SETS: u32 = 1000;
/// The numbers of cpus.
pub(super) const CPUS: [u32; 5] = [2, 4, 8, 16, 32];
/// Ticks of a run.
const TICKS: f64 = 10_000.0;

/// A policy in the comparison.
#[derive(Clone, Copy)]
pub(super) struct Contender {
    pub(super) policy: &'static str,
    pub(super) run: Run,
}

/// Where to measure.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) contender: Contender,
    pub(super) scenario: Scenario,
    pub(super) cpus: u32,
    /// How many tasks more than cpus; 0 for another number in each set, up to four a cpu.
    pub(super) more: u32,
}

/// A run under the policy of the study.
pub(super) type Run = fn(&Setup, (usize, u32), Scenario, Random) -> Idling;

/// Policy, scenario, percent.
pub(super) type Printed = (&'static str, &'static str, f64);

/// The study.
pub(super) struct Idle {
    pub(super) points: Vec<Point>,
    /// The most idling that the paper prints for a scenario, in percent.
    pub(super) printed: &'static [Printed],
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
        let setup = Setup::new(cpus, QUANTUM_TICKS * TICK_NS).as_in_papers();
        let lots = lots(seed, (point.cpus << 8) | point.more, point.scenario.stream(), set);
        let idling = (point.contender.run)(&setup, (cpus, point.tasks(set)), point.scenario, lots);
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
            .at("policy", point.contender.policy)
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

fn is_of(row: &Row, policy: &str, scenario: &str) -> bool {
    *row.place("policy") == policy.into() && *row.place("scenario") == scenario.into()
}

/// A curve a number of cpus: the idling over the coordinate `x`.
fn by_cpus(rows: &[Row], (policy, scenario): (&str, &str), x: &str) -> Vec<Series> {
    let curve = |cpus: u32| {
        let points = rows
            .iter()
            .filter(|row| is_of(row, policy, scenario) && *row.place("cpus") == cpus.into())
            .map(|row| (row.place(x).number(), row.value("idle_percent")));
        Series::new(format!("{cpus} cpus"), points.collect()).marked()
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
    let coordinate = if x.logarithmic { "interarrival_ticks" } else { "tasks" };
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
    contender: Contender,
    scenario: Scenario,
) -> impl Iterator<Item = Point> {
    const MORE: [u32; 11] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64];
    let points =
        move |cpus| MORE.into_iter().map(move |more| Point { contender, scenario, cpus, more });
    CPUS.into_iter().flat_map(points)
}

/// DFS as the library has it: a window stays a task's until it had a whole quantum in it.
pub(super) const DFS: Contender = Contender {
    policy: "dfs",
    run: |setup, size, scenario, lots| {
        ticks::run(Dfs::new(setup, Ties::Paper), size, scenario, lots)
    },
};

/// DFS with eq. 7 as printed.
pub(super) const DFS_PRINTED: Contender = Contender {
    policy: "dfs:parts=printed",
    run: |setup, size, scenario, lots| {
        let dfs = Dfs::with_parts(setup, Ties::Paper, Parts::Printed);
        ticks::run(dfs, size, scenario, lots)
    },
};
