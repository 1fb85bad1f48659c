//! GDQ from inside: the paper's A.2.3, and smoothness.

use super::*;
use alloc::vec;
use proptest::prelude::*;

const QUANTUM_NS: Nanos = 1000;

fn weight(n: u32) -> Weight {
    Weight::new(n).expect("a weight is positive")
}

/// The paper's A.2.3 from t to t + 18, with δ = 1: group 2 of weights 4, 4, 4, 4, 6, 6.
#[test]
fn the_papers_example() {
    let mut queues = Queues::new(8, 1);
    queues.reserve(11);
    let of_four = weight(4);
    let of_six = weight(6);
    let open = |queues: &mut Queues, tasks: &[(u32, Weight)]| {
        let queue = queues.open(2).expect("there is room");
        for &(id, weight) in tasks {
            queues.insert(queue, TaskId(id), Some(weight), Turn::ToCome);
        }
        queues.set_active(queue, true);
        queue
    };
    let first = open(&mut queues, &[(4, of_four), (5, of_four)]);
    let second = open(&mut queues, &[(7, of_four)]);
    let third = open(&mut queues, &[(8, of_six), (9, of_six), (6, of_four)]);
    assert_eq!([first, second, third].map(|q| queues.nv(q)), [1, 1, 1]);
    let run = |queues: &mut Queues, on: &[QueueId]| -> Vec<u32> {
        on.iter().map(|&queue| queues.next_task(queue).0).collect()
    };
    let all = [first, second, third];
    assert_eq!(run(&mut queues, &all), [4, 7, 8], "t");
    assert_eq!(run(&mut queues, &all), [5, 7, 8], "t + 1");
    assert_eq!(all.map(|q| queues.nv(q)), [1, 2, 1]);
    assert_eq!(run(&mut queues, &all), [4, 7, 9], "t + 2");
    assert_eq!(all.map(|q| queues.nv(q)), [2, 3, 1]);
    assert_eq!(run(&mut queues, &all), [5, 6, 9], "t + 3: task 6 is stolen from the third queue");
    assert_eq!(all.map(|q| queues.members(q)), [vec![4, 5], vec![6, 7], vec![8, 9]]);
    assert_eq!(run(&mut queues, &all), [4, 6, 8], "t + 4");
    assert_eq!(all.map(|q| queues.nv(q)), [3, 3, 2]);

    // t + 5: cpu 3 goes to another group; the third queue is stalled.
    queues.set_active(third, false);
    let two = [first, second];
    for expected in [[5, 6], [4, 7], [5, 6]] {
        assert_eq!(run(&mut queues, &two), expected, "t + 5 to t + 7");
    }
    assert_eq!(all.map(|q| queues.nv(q)), [4, 4, 2]);
    assert_eq!(run(&mut queues, &two), [8, 9], "t + 8: both steal from the stalled queue");
    assert_eq!((queues.count(2), queues.tasks(2)), (2, 6), "which is empty");
    for _ in 9..=14 {
        run(&mut queues, &two);
    }
    assert_eq!(two.map(|q| queues.nv(q)), [5, 5]);

    // t + 15: cpu 4 comes. The example names the first queue, which is the one of least nv (a tie)
    // at that instant; the task is the one that is next when cpu 1 has picked.
    let donor = queues.least(2).expect("both queues have three tasks");
    assert_eq!(donor, first);
    assert_eq!(run(&mut queues, &two), [4, 9], "t + 15");
    let third = queues.split(donor).expect("there is room");
    queues.set_active(third, true);
    assert_eq!(run(&mut queues, &[third]), [5]);
    let all = [first, second, third];
    for _ in 16..=17 {
        run(&mut queues, &all);
    }
    assert_eq!(queues.nv(third), 8);
    // t + 18: cpu 4, at the end of a round of nv 8, steals from the second queue at nv 6.
    let third_runs = run(&mut queues, &all)[2];
    assert_eq!((third_runs, queues.nv(second)), (7, 6));
    assert_eq!(all.map(|q| queues.members(q)), [vec![4, 8], vec![6, 9], vec![5, 7]]);
}

/// A fixed set in step; after every pick every group has the floor or the ceiling of its cpus.
fn stays_smooth(cpus: usize, interval: u32, weights: &[u32]) -> Result<(), TestCaseError> {
    let mut gdq = Gdq::new(&Setup::new(cpus, QUANTUM_NS), interval, DEFAULT_DELTA);
    for (id, &w) in (0..).zip(weights) {
        gdq.add(TaskId(id), weight(w));
        gdq.wake(TaskId(id), 0);
    }
    let mut running = vec![None; cpus];
    for quantum in 0..u64::from(6 * interval) {
        let now_ns = quantum * QUANTUM_NS;
        running.iter().flatten().for_each(|&task| gdq.charge(task, QUANTUM_NS, now_ns));
        for (cpu, running) in running.iter_mut().enumerate() {
            *running = gdq.pick(cpu, now_ns);
            prop_assert!(running.is_some() || weights.len() < cpus);
            let all_are_placed = quantum > 0 || cpu == cpus - 1;
            for k in (0..GROUPS).filter(|_| all_are_placed) {
                let (floor, ceiling) = gdq.allocator.worth(k);
                let has = gdq.allocator.cpus(k);
                prop_assert!((floor..=ceiling).contains(&has), "group {} has {} cpus", k, has);
                prop_assert!(gdq.queues.count(k) <= ceiling.max(1));
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_group_has_its_floor_or_ceiling(
        (cpus, weights) in (1usize..=12).prop_flat_map(|cpus| {
            let any = (0u32..32, any::<u32>()).prop_map(|(shift, w)| (w >> shift).max(1));
            let narrow = 1u32..20;
            let count = cpus..6 * cpus + 10;
            (Just(cpus), prop_oneof![
                proptest::collection::vec(any, count.clone()),
                proptest::collection::vec(narrow, count),
            ])
        }),
        interval in 12u32..40,
    ) {
        stays_smooth(cpus, interval, &weights)?;
    }
}
