//! What tasks wait for other than time.

use std::collections::VecDeque;

use prorata::TaskId;

use crate::workload::Resource;

#[derive(Clone, Debug)]
struct Queue {
    kind: Resource,
    /// Semaphores: how many more may pass. Barriers: how many have come.
    count: u32,
    /// The first to wait is the first to be released.
    waiting: VecDeque<TaskId>,
}

#[derive(Clone, Debug)]
pub(super) struct Resources {
    queues: Vec<Queue>,
    /// Tasks that wait no longer and go on at this instant.
    released: VecDeque<TaskId>,
}

impl Resources {
    pub(super) fn new(kinds: &[Resource]) -> Resources {
        let queue = |&kind: &Resource| {
            let count = if let Resource::Semaphore { count } = kind { count } else { 0 };
            Queue { kind, count, waiting: VecDeque::new() }
        };
        Resources { queues: kinds.iter().map(queue).collect(), released: VecDeque::new() }
    }

    /// `task` waits for the resource. True if it may go on at once.
    pub(super) fn wait(&mut self, resource: u32, task: TaskId) -> bool {
        let queue = &mut self.queues[resource as usize];
        let passes = match queue.kind {
            Resource::Semaphore { .. } => queue.count > 0,
            Resource::Condition => false,
            Resource::Barrier { users } => queue.count + 1 == users,
        };
        if !passes {
            queue.waiting.push_back(task);
        }
        match queue.kind {
            Resource::Semaphore { .. } => queue.count -= u32::from(passes),
            Resource::Condition => {}
            Resource::Barrier { .. } if passes => {
                queue.count = 0;
                self.released.extend(queue.waiting.drain(..));
            }
            Resource::Barrier { .. } => queue.count += 1,
        }
        passes
    }

    /// Releases the first task that waits. A semaphore remembers it if there is none.
    pub(super) fn post(&mut self, resource: u32) {
        let queue = &mut self.queues[resource as usize];
        match queue.waiting.pop_front() {
            Some(task) => self.released.push_back(task),
            None => queue.count = queue.count.saturating_add(1),
        }
    }

    /// Releases every task that waits.
    pub(super) fn post_all(&mut self, resource: u32) {
        let waiting = &mut self.queues[resource as usize].waiting;
        self.released.extend(waiting.drain(..));
    }

    pub(super) fn released(&mut self) -> Option<TaskId> {
        self.released.pop_front()
    }
}
