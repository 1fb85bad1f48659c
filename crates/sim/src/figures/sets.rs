//! Random sets of weights, each from its own stream of random numbers: any set can be made alone.
//!
//! The stream is ChaCha8 with the user's seed as key, and the coordinates of the set (number of
//! tasks, total weight, index) as stream number. Two figures that measure other policies on the
//! same combinations therefore measure them on the same sets.

use prorata::Weight;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Sets are numbered below this.
pub(super) const LIMIT: u32 = 1 << 24;

/// A set's own random numbers.
#[derive(Clone, Debug)]
pub(super) struct Lots(ChaCha8Rng);

impl Lots {
    /// The numbers of set `index` (below [`LIMIT`]) at the point (`a`, `b`) of a figure's grid, each
    /// below 2^20.
    pub(super) fn new(seed: u64, a: u32, b: u32, index: u32) -> Lots {
        assert!(a < 1 << 20 && b < 1 << 20 && index < LIMIT, "one stream for each set");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream((u64::from(a) << 44) | (u64::from(b) << 24) | u64::from(index));
        Lots(rng)
    }

    /// Uniform in 0..1, in steps of 2^−53.
    #[allow(clippy::cast_precision_loss)] // 53 bits fit a f64
    fn fraction(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * STEP
    }

    /// Uniform in 0..`limit`, which is not 0. (Multiply and shift: the bias is below 2^−32.)
    #[allow(clippy::cast_possible_truncation)] // the product is below limit · 2^32
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(limit)) >> 32) as u32
    }
}

/// `tasks` weights that sum to `total`, the first of them `skewed` (GR3 §5.1).
pub(super) fn skewed(lots: &mut Lots, tasks: usize, total: u32, skewed: u32) -> Vec<Weight> {
    let mut weights = Vec::with_capacity(tasks);
    weights.push(skewed);
    scaled(lots, tasks - 1, total - skewed, &mut weights);
    weights.into_iter().map(|w| Weight::new(w).expect("at least 1")).collect()
}

/// Appends `count` whole weights that sum to `total`: uniform random numbers, scaled to the sum
/// and rounded, at least 1; what rounding left over goes to random ones, one by one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within 1..=total
fn scaled(lots: &mut Lots, count: usize, total: u32, weights: &mut Vec<u32>) {
    assert!(count <= total as usize, "{count} tasks cannot share a weight of {total}");
    let numbers: Vec<f64> = (0..count).map(|_| lots.fraction()).collect();
    let scale = f64::from(total) / numbers.iter().sum::<f64>();
    let first = weights.len();
    weights.extend(numbers.iter().map(|u| ((u * scale).round() as u32).max(1)));
    let sum: u32 = weights[first..].iter().sum();
    let mut missing = i64::from(total) - i64::from(sum);
    while missing != 0 {
        let weight = &mut weights[first + lots.below(count as u32) as usize];
        if missing > 0 {
            *weight += 1;
            missing -= 1;
        } else if *weight > 1 {
            *weight -= 1;
            missing += 1;
        }
    }
}
