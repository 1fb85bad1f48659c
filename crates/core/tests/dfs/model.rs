//! DFS in the ideal model, as the paper's equations 3 and 4 say it, by linear search: the naive
//! twin. It shares no code with the policy.

/// Who runs first at equal deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ties {
    Paper,
    Pd2,
}

/// A fixed set of tasks, with what each is entitled to, in parts of one cpu.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    cpus: usize,
    ties: Ties,
    /// u_i = part.0 / part.1.
    parts: Vec<(u128, u128)>,
    quanta: Vec<u128>,
    time: u128,
}

impl Model {
    pub(crate) fn new(weights: &[u32], cpus: usize, ties: Ties) -> Model {
        let parts = entitled(weights, cpus);
        Model { cpus, ties, quanta: vec![0; parts.len()], parts, time: 0 }
    }

    /// The tasks that run in the next quantum, by priority.
    pub(crate) fn quantum(&mut self) -> Vec<usize> {
        let mut eligible: Vec<_> = (0..self.parts.len())
            .filter(|&i| {
                let (n, d) = self.parts[i];
                self.quanta[i] < ((self.time + 1) * n).div_ceil(d)
            })
            .map(|i| (self.priority(i), i))
            .collect();
        eligible.sort_unstable();
        eligible.truncate(self.cpus);
        let running: Vec<usize> = eligible.into_iter().map(|(_, i)| i).collect();
        running.iter().for_each(|&i| self.quanta[i] += 1);
        self.time += 1;
        running
    }

    /// The first task that is more than a quantum from its due.
    pub(crate) fn unfair(&self) -> Option<usize> {
        (0..self.parts.len()).find(|&i| {
            let (n, d) = self.parts[i];
            let due = self.time * n;
            self.quanta[i] < due / d || self.quanta[i] > due.div_ceil(d)
        })
    }

    fn priority(&self, i: usize) -> (u128, bool, i128) {
        let (n, d) = self.parts[i];
        let window_end = |m: u128| (m * d).div_ceil(n);
        let deadline = window_end(self.quanta[i] + 1);
        let raised = !((self.quanta[i] + 1) * d).is_multiple_of(n);
        let then = match self.ties {
            Ties::Paper => window_end(self.quanta[i] + 2) as i128,
            Ties::Pd2 if raised => -self.group_deadline(i, deadline),
            Ties::Pd2 => 0,
        };
        (deadline, !raised, then)
    }

    /// Windows that [`group_deadline`](Model::group_deadline) may look at: for a task that is due
    /// nearly a whole cpu, billions.
    pub(crate) fn longest_search(&self) -> u128 {
        let windows = |&(n, d): &(u128, u128)| if n == d { 1 } else { d / (d - n) };
        self.parts.iter().map(windows).max().unwrap_or(0)
    }

    /// By its definition: the first time from the deadline on at which a window ends that does not
    /// overlap the next, or before which lies a window of three slots.
    fn group_deadline(&self, i: usize, deadline: u128) -> i128 {
        let (n, d) = self.parts[i];
        if 2 * n < d {
            return 0;
        }
        (self.quanta[i]..)
            .find_map(|m| {
                let (opens, closes) = (m * d / n, ((m + 1) * d).div_ceil(n));
                if closes >= deadline && ((m + 1) * d).is_multiple_of(n) {
                    return Some(closes);
                }
                (closes > deadline && closes - opens == 3).then_some(closes - 1)
            })
            .expect("windows repeat") as i128
    }
}

/// What each task is entitled to in parts of a cpu: all of one for the heaviest as long as it
/// would get more, the rest by weight.
fn entitled(weights: &[u32], cpus: usize) -> Vec<(u128, u128)> {
    let mut parts = vec![(1, 1); weights.len()];
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(weights[i]));
    let mut total: u128 = weights.iter().map(|&w| u128::from(w)).sum();
    let mut left = cpus as u128;
    for (place, &i) in order.iter().enumerate() {
        let w = u128::from(weights[i]);
        if weights.len() <= cpus || left * w > total {
            (total, left) = (total - w, left - 1);
            continue;
        }
        order[place..].iter().for_each(|&j| parts[j] = (u128::from(weights[j]) * left, total));
        break;
    }
    parts
}
