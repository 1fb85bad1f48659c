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
    let numbers: Vec<f64> = (1..tasks).map(|_| lots.unit()).collect();
    scale(lots, &numbers, total - skewed, &mut weights);
    weights.into_iter().map(|w| Weight::new(w).expect("at least 1")).collect()
}

/// `tasks` shares that sum to `total`, the largest first: uniform in 1..=100, then scaled to the
/// sum (VTRR §5.1).
#[allow(clippy::cast_precision_loss)] // at most 100
pub(super) fn shares(lots: &mut Random, tasks: usize, total: u32) -> Vec<Weight> {
    let numbers: Vec<f64> = (0..tasks).map(|_| (1 + lots.below(100)) as f64).collect();
    let mut shares = Vec::with_capacity(tasks);
    scale(lots, &numbers, total, &mut shares);
    shares.sort_unstable_by(|a, b| b.cmp(a));
    shares.into_iter().map(|w| Weight::new(w).expect("at least 1")).collect()
}

/// `tasks` weights that sum to `total`, none above `most` (GDQ §4.1): each uniform in what its
/// predecessors left over, as long as every task gets at least 1. If `most` leaves something over,
/// it goes to random tasks. Heavy tasks come first, and all are 1 once the total is used up.
pub(super) fn capped(lots: &mut Random, tasks: usize, total: u32, most: u32) -> Vec<Weight> {
    let mut spare = total - u32::try_from(tasks).expect("at most as many tasks as weight");
    let mut weights = vec![1; tasks];
    for weight in &mut weights {
        *weight += below(lots, spare.min(most - 1) + 1);
        spare -= *weight - 1;
    }
    while spare > 0 {
        let place = lots.below(tasks as u64);
        let weight = &mut weights[usize::try_from(place).expect("an index")];
        let more = (most - *weight).min(spare).min(1 + spare / 64);
        *weight += more;
        spare -= more;
    }
    weights.into_iter().map(|w| Weight::new(w).expect("at least 1")).collect()
}

#[allow(clippy::cast_possible_truncation)] // below limit
fn below(lots: &mut Random, limit: u32) -> u32 {
    lots.below(u64::from(limit)) as u32
}

/// Appends whole weights in proportion to `numbers` that sum to `total`: rounded, at least 1; what
/// rounding left over goes to random ones, one by one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within 1..=total
fn scale(lots: &mut Random, numbers: &[f64], total: u32, weights: &mut Vec<u32>) {
    let count = numbers.len();
    assert!(count <= total as usize, "{count} tasks cannot share a weight of {total}");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(weights: &[Weight]) -> u32 {
        weights.iter().map(|w| w.get()).sum()
    }

    #[test]
    fn skewed_sets_have_exact_sums() {
        for (tasks, total) in [(32, 16384), (8192, 16384), (512, 262_144)] {
            let weights = skewed(&mut lots(7, 1, 2, 3), tasks, total, total / 10);
            assert_eq!((weights.len(), sum(&weights)), (tasks, total));
            assert_eq!(weights[0].get(), total / 10);
        }
    }

    #[test]
    fn shares_are_sorted_and_have_exact_sums() {
        let shares = shares(&mut lots(7, 1, 2, 3), 64, 256);
        assert_eq!((shares.len(), sum(&shares)), (64, 256));
        assert!(shares.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn capped_sets_have_exact_sums() {
        for (tasks, cpus) in [(512, 128), (512, 1), (16384, 8)] {
            let most = 32768 / cpus;
            let weights = capped(&mut lots(7, 1, 2, 3), tasks, 32768, most);
            assert_eq!((weights.len(), sum(&weights)), (tasks, 32768));
            assert!(weights.iter().all(|w| w.get() <= most));
        }
    }

    #[test]
    fn every_set_has_its_own_numbers() {
        let set = |seed, index| skewed(&mut lots(seed, 32, 16384, index), 32, 16384, 1638);
        assert_eq!(set(1, 5), set(1, 5));
        assert_ne!(set(1, 5), set(1, 6));
        assert_ne!(set(1, 5), set(2, 5));
    }
}
