//! What the rows of a sweep say: means over seeds, and which policies differ.

use serde::Serialize;

use super::statistics::{Estimate, holm};
use super::{Found, Row, Sweep};

/// Means and differences of the measures that the sweep chose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How sure the intervals are.
    pub confidence: f64,
    /// By point, measure and policy.
    pub means: Vec<Mean>,
    /// By point, measure and pair of policies.
    pub differences: Vec<Difference>,
    /// What could not be run.
    pub failures: Vec<Failure>,
}

/// A policy that cannot run at a point of the grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// The point, by number.
    pub point: usize,
    /// The policy.
    pub policy: String,
    /// Why, with the first seed for which it is so.
    pub error: String,
}

/// A measure of a policy at a point of the grid, over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The point, by number.
    pub point: usize,
    /// The measure.
    pub measure: String,
    /// The policy.
    pub policy: String,
    /// Its mean.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// How much more of a measure one policy has than another at a point of the grid, seed by seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The point, by number.
    pub point: usize,
    /// The measure.
    pub measure: String,
    /// The policy …
    pub policy: String,
    /// … minus this one.
    pub minus: String,
    /// The mean of the differences.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// How likely so large a difference is if there is none; nothing for one seed.
    pub p: Option<f64>,
    /// The same, adjusted for all pairs of policies at this point (Holm).
    pub p_holm: Option<f64>,
    /// True if it is below 1 − confidence.
    pub significant: bool,
}

pub(super) fn summarize(sweep: &Sweep, rows: &[Row]) -> Summary {
    let (mut means, mut differences) = (Vec::new(), Vec::new());
    for point in 0..sweep.points() {
        for (column, measure) in sweep.measures.iter().enumerate() {
            if sweep.chosen.contains(&measure.name) {
                let table = Table { sweep, rows, point, measure: &measure.name, column };
                means.extend(table.means());
                differences.extend(table.differences());
            }
        }
    }
    let failures = (0..sweep.points()).flat_map(|point| failures(sweep, rows, point)).collect();
    Summary { confidence: sweep.confidence, means, differences, failures }
}

fn failures<'s>(
    sweep: &'s Sweep,
    rows: &'s [Row],
    point: usize,
) -> impl Iterator<Item = Failure> + 's {
    sweep.policies.iter().enumerate().filter_map(move |(index, policy)| {
        let error = runs(sweep, rows, point, index).iter().find_map(|row| match &row.found {
            Found::Error(error) => Some(error.clone()),
            Found::Values(_) => None,
        })?;
        Some(Failure { point, policy: policy.clone(), error })
    })
}

/// The rows of all seeds.
fn runs<'s>(sweep: &Sweep, rows: &'s [Row], point: usize, policy: usize) -> &'s [Row] {
    let first = sweep.first(point, policy);
    &rows[first..first + sweep.seeds.len()]
}

/// The values of one measure at one point.
struct Table<'s> {
    sweep: &'s Sweep,
    rows: &'s [Row],
    point: usize,
    measure: &'s str,
    column: usize,
}

impl Table<'_> {
    /// Those of a policy, seed by seed.
    fn values(&self, policy: usize) -> impl Iterator<Item = Option<f64>> {
        runs(self.sweep, self.rows, self.point, policy).iter().map(|row| match &row.found {
            Found::Values(values) => values[self.column].map(super::Number::real),
            Found::Error(_) => None,
        })
    }

    fn means(&self) -> impl Iterator<Item = Mean> {
        self.sweep.policies.iter().enumerate().filter_map(|(index, policy)| {
            let values: Vec<f64> = self.values(index).flatten().collect();
            Some(Mean {
                point: self.point,
                measure: self.measure.to_string(),
                policy: policy.clone(),
                estimate: Estimate::new(&values, self.sweep.confidence)?,
            })
        })
    }

    fn differences(&self) -> Vec<Difference> {
        let policies = 0..self.sweep.policies.len();
        let pairs = policies.clone().flat_map(|a| (a + 1..policies.end).map(move |b| (a, b)));
        let mut differences: Vec<Difference> =
            pairs.filter_map(|(a, b)| self.difference(a, b)).collect();
        let ps: Vec<f64> = differences.iter().filter_map(|difference| difference.p).collect();
        let tested = differences.iter_mut().filter(|difference| difference.p.is_some());
        for (difference, p) in tested.zip(holm(&ps)) {
            difference.p_holm = Some(p);
            difference.significant = p < 1.0 - self.sweep.confidence;
        }
        differences
    }

    fn difference(&self, policy: usize, minus: usize) -> Option<Difference> {
        let pairs = self.values(policy).zip(self.values(minus));
        let differences: Vec<f64> = pairs.filter_map(|(a, b)| Some(a? - b?)).collect();
        let estimate = Estimate::new(&differences, self.sweep.confidence)?;
        Some(Difference {
            point: self.point,
            measure: self.measure.to_string(),
            policy: self.sweep.policies[policy].clone(),
            minus: self.sweep.policies[minus].clone(),
            estimate,
            p: estimate.p_of_zero(),
            p_holm: None,
            significant: false,
        })
    }
}
