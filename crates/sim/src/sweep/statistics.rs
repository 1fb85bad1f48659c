//! Means over seeds, how sure they are, and whether two of them differ.
//!
//! The interval of a mean is Student's: mean ± t(n − 1) · s / √n. It covers the truth as often as it
//! says if the values are normally distributed, and nearly so if there are many. Policies run with
//! the same seeds, so that two are compared by the differences seed by seed (a paired t-test), in which
//! what the random numbers of the workload do to both cancels out. Where several pairs are tested
//! at once, their p-values are adjusted as Holm (1979) does: the chance that any of the differences that
//! are called significant is none stays below 1 − confidence.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Number of values.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (with n − 1); nothing for one value.
    pub deviation: Option<f64>,
    /// Where the interval begins …
    pub low: Option<f64>,
    /// … and ends; nothing for one value.
    pub high: Option<f64>,
}

impl Estimate {
    /// Of `values`, in their order; nothing if there are none.
    #[must_use]
    pub fn new(values: &[f64], confidence: f64) -> Option<Estimate> {
        if values.is_empty() {
            return None;
        }
        let count = real(values.len());
        let mean = values.iter().sum::<f64>() / count;
        let Some(students) = students(values.len()) else {
            return Some(Estimate { n: 1, mean, deviation: None, low: None, high: None });
        };
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let deviation = (squares / (count - 1.0)).sqrt();
        let half = students.inverse_cdf(f64::midpoint(1.0, confidence)) * deviation / count.sqrt();
        let (low, high) = (Some(mean - half), Some(mean + half));
        Some(Estimate { n: values.len(), mean, deviation: Some(deviation), low, high })
    }

    /// How likely a mean at least so far from 0 is if the truth is 0; nothing for one value. Values
    /// that are all alike leave nothing to chance: 1 if they are 0, and 0 otherwise.
    #[must_use]
    pub fn p_of_zero(&self) -> Option<f64> {
        let students = students(self.n)?;
        let deviation = self.deviation?;
        if deviation <= 0.0 {
            return Some(if self.mean == 0.0 { 1.0 } else { 0.0 });
        }
        let t = self.mean / (deviation / real(self.n).sqrt());
        Some(2.0 * students.cdf(-t.abs()))
    }
}

/// Student's distribution of the mean of `n` values, if there is one.
fn students(n: usize) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, real(n.checked_sub(1)?)).ok()
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn real(count: usize) -> f64 {
    count as f64
}

/// Holm's adjustment: with it each of `ps` can be held against the chance that any of them misleads.
#[must_use]
pub fn holm(ps: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ps.len()).collect();
    order.sort_by(|&a, &b| ps[a].total_cmp(&ps[b]));
    let mut adjusted = vec![0.0; ps.len()];
    let mut most = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        most = most.max(real(ps.len() - rank) * ps[index]).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found}, {expected}");
    }

    #[test]
    fn student_1908() {
        // The additional hours of sleep by two drugs, Student's own example; R: t.test(x, conf.level=.95).
        let sleep = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let other = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let differences: Vec<f64> = sleep.iter().zip(other).map(|(a, b)| a - b).collect();
        let estimate = Estimate::new(&differences, 0.95).expect("ten values");
        close(estimate.mean, -1.58);
        close(estimate.low.expect("several"), -2.459_885_5);
        close(estimate.high.expect("several"), -0.700_114_5);
        close(estimate.p_of_zero().expect("several"), 0.002_832_890);
    }

    #[test]
    fn one_value_has_no_interval_and_none_no_mean() {
        assert_eq!(Estimate::new(&[], 0.95), None);
        let one = Estimate::new(&[3.0], 0.95).expect("a value");
        assert_eq!((one.mean, one.deviation, one.low, one.high), (3.0, None, None, None));
        assert_eq!(one.p_of_zero(), None);
    }

    #[test]
    fn values_that_are_alike_leave_nothing_to_chance() {
        let same = Estimate::new(&[2.0; 5], 0.95).expect("values");
        assert_eq!((same.low, same.high, same.p_of_zero()), (Some(2.0), Some(2.0), Some(0.0)));
        assert_eq!(Estimate::new(&[0.0; 5], 0.95).expect("values").p_of_zero(), Some(1.0));
    }

    #[test]
    fn holm_1979() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        [0.03, 0.06, 0.06, 0.02].iter().zip(adjusted).for_each(|(e, found)| close(found, *e));
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }
}
