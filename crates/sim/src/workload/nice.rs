//! Nice levels as weights, as Linux has them (kernel manual, "CFS Scheduler"; a step is 1.25).

use prorata::Weight;

const WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// The weight of a nice level, or `None` if it is not within −20..=19.
#[must_use]
pub fn weight_of_nice(nice: i64) -> Option<Weight> {
    let index = usize::try_from(nice.checked_add(20)?).ok()?;
    WEIGHTS.get(index).copied().and_then(Weight::new)
}
