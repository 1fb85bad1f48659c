//! Random sets of weights, each from its own stream of random numbers: any set can be made alone.
//!
//! The stream's number is made of the coordinates of the set: number of tasks, total weight,
//! index. Two figures that measure other policies on the
//! same combinations therefore measure them on the same sets.

use prorata::Weight;

use crate::random::Random;

/// Sets are numbered below this.
pub(super) const LIMIT: u32 = 1 << 24;

/// The random numbers of set `index` (below [`LIMIT`]) at the point (`a`, `b`) of a figure's grid,
/// each below 2^20.
pub(super) fn lots(seed: u64, a: u32, b: u32, index: u32) -> Random {
    assert!(a < 1 << 20 && b < 1 << 20 && index < LIMIT, "one stream for each set");
    Random::new(seed, (u64::from(a) << 44) | (u64::from(b) << 24) | u64::from(index))
}

/// `tasks` weights that sum to `total`, the first of them `skewed` (GR3 §5.1).
pub(super) fn skewed(lots: &mut Random, tasks: usize, total: u32, skewed: u32) -> Vec<Weight> {
    let mut weights = Vec::with_capacity(tasks);
    weights.push(skewed);
    scaled(lots, tasks - 1, total - skewed, &mut weights);
    weights.into_iter().map(|w| Weight::new(w).expect("at least 1")).collect()
}

/// Appends `count` whole weights that sum to `total`: uniform random numbers, scaled to the sum
/// and rounded, at least 1; what rounding left over goes to random ones, one by one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within 1..=total
fn scaled(lots: &mut Random, count: usize, total: u32, weights: &mut Vec<u32>) {
    assert!(count <= total as usize, "{count} tasks cannot share a weight of {total}");
    let numbers: Vec<f64> = (0..count).map(|_| lots.unit()).collect();
    let scale = f64::from(total) / numbers.iter().sum::<f64>();
    let first = weights.len();
    weights.extend(numbers.iter().map(|u| ((u * scale).round() as u32).max(1)));
    let sum: u32 = weights[first..].iter().sum();
    let mut missing = i64::from(total) - i64::from(sum);
    while missing != 0 {
        let weight = &mut weights[first + lots.below(count as u64) as usize];
        if missing > 0 {
            *weight += 1;
            missing -= 1;
        } else if *weight > 1 {
            *weight -= 1;
            missing += 1;
        }
    }
}
