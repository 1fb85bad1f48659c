//! Holds tasks by SIGSTOP and SIGCONT. Needs no privilege, for the user's own processes.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use prorata::{CpuId, Nanos, TaskId};

use crate::Error;
use crate::backend::{Activity, Backend, Wakeup};
use crate::backends::Ending;
use crate::guardian::{Guardian, task_mark};
use crate::launch;
use crate::machine::Machine;
use crate::report::Exit;
use crate::task::{Job, Source};
use crate::tree::Tree;

/// The signal backend.
#[derive(Debug)]
pub(crate) struct SignalBackend {
    machine: Machine,
    guardian: Guardian,
    trees: Vec<Tree>,
    /// The cpus that prorata could use at first.
    cpus: CpuSet,
}

impl SignalBackend {
    /// Starts, or takes over, and stops all of `jobs`, each after a call of `before`. On an error
    /// none of them is left.
    pub(crate) fn new(
        machine: Machine,
        guardian: Guardian,
        jobs: &[Job],
        before: &mut dyn FnMut(&Job) -> Result<(), Error>,
    ) -> Result<SignalBackend, Error> {
        let cpus = sched_getaffinity(Pid::from_raw(0)).map_err(io::Error::from)?;
        machine.stay()?;
        let mut backend = SignalBackend { machine, guardian, trees: Vec::new(), cpus };
        for job in jobs {
            if let Err(error) = before(job).and_then(|()| backend.take(job)) {
                backend.abandon(jobs);
                return Err(error);
            }
        }
        Ok(backend)
    }

    fn take(&mut self, job: &Job) -> Result<(), Error> {
        let index = self.trees.len();
        let tree = match &job.source {
            Source::Command(command) => {
                let mark = format!("{}:{index}", self.guardian.mark);
                let mask = self.machine.mask(&[index % self.machine.cpu_count()])?;
                let pid = launch::start(command, mark, mask, None)
                    .map_err(|error| Error::cannot_start(command, &error))?;
                self.guardian.holds_tree(pid, &self.cpus)?;
                Tree::new(pid, true, self.cpus)
            }
            Source::Attached(attached) => {
                let gone = |_| Error::gone(attached);
                let cpus = sched_getaffinity(Pid::from_raw(attached.pid)).map_err(gone)?;
                self.guardian.holds_tree(attached.pid, &cpus)?;
                Some(Tree::new(attached.pid, false, cpus).ok_or_else(|| Error::gone(attached))?)
            }
        };
        let mut tree = tree.ok_or_else(|| io::Error::other("cannot read /proc: is it mounted?"))?;
        tree.stop();
        self.trees.push(tree);
        Ok(())
    }

    /// Ends what was started.
    pub(crate) fn abandon(mut self, jobs: &[Job]) {
        for (tree, job) in self.trees.iter_mut().zip(jobs) {
            match job.source {
                Source::Command(_) => tree.kill(),
                Source::Attached(_) => tree.release(),
            }
        }
        self.close();
    }

    /// Children of prorata that it did not start are orphans of its tasks.
    fn adopt_orphans(&mut self) {
        let own = [self.guardian.pid.as_raw(), self.machine.sentries.as_raw()];
        let strangers = launch::own_children();
        for pid in strangers.into_iter().filter(|pid| !own.contains(pid)) {
            if let Some(tree) = self.trees.iter_mut().find(|tree| tree.contains(pid)) {
                if pid != tree.root() {
                    tree.bury(pid);
                }
            } else if let Some((run, index)) = task_mark(pid)
                && run == self.guardian.mark
                && let Some(tree) = self.trees.get_mut(index)
            {
                tree.adopt(pid);
            } else {
                // A short-lived daemon that nobody saw: whose it was cannot be told any more.
                let _ = launch::bury(pid);
            }
        }
    }
}

impl Backend for SignalBackend {
    fn name(&self) -> &'static str {
        "signal"
    }

    fn now_ns(&mut self) -> Nanos {
        crate::sys::monotonic_ns()
    }

    fn wait(&mut self, until_ns: Nanos) -> io::Result<Wakeup> {
        self.machine.wait(until_ns)
    }

    fn usage_ns(&mut self, task: TaskId) -> io::Result<Nanos> {
        Ok(self.trees[task.index()].used_ns())
    }

    fn ready_ns(&mut self, task: TaskId) -> io::Result<Nanos> {
        Ok(self.trees[task.index()].ready_ns())
    }

    fn tick_ns(&self) -> Nanos {
        self.machine.tick_ns()
    }

    fn activity(&mut self, task: TaskId, most: usize) -> io::Result<Activity> {
        Ok(self.trees[task.index()].activity(most))
    }

    fn place(&mut self, task: TaskId, cpus: &[CpuId], before: &[CpuId]) -> io::Result<()> {
        self.machine.place(cpus, before)?.bind(&self.trees[task.index()].threads());
        Ok(())
    }

    fn cont(&mut self, task: TaskId) -> io::Result<()> {
        self.trees[task.index()].signal(Signal::SIGCONT);
        Ok(())
    }

    fn stop(&mut self, task: TaskId) -> io::Result<()> {
        self.trees[task.index()].stop();
        Ok(())
    }

    fn watch(&mut self, cpu: CpuId, after_ns: Nanos) {
        self.machine.watch(cpu, after_ns);
    }

    fn tend(&mut self) -> io::Result<()> {
        self.adopt_orphans();
        self.trees.iter_mut().for_each(Tree::tend);
        self.guardian.beat()
    }
}

impl Ending for SignalBackend {
    fn release(&mut self, task: TaskId) {
        self.trees[task.index()].release();
    }

    fn ask_to_end(&mut self, task: TaskId) {
        let tree = &mut self.trees[task.index()];
        tree.stop();
        tree.signal(Signal::SIGTERM);
        tree.release();
    }

    fn kill(&mut self, task: TaskId) {
        self.trees[task.index()].kill();
    }

    fn exit(&mut self, task: TaskId) -> Option<Exit> {
        self.trees[task.index()].exit()
    }

    fn close(mut self) {
        if self.trees.iter_mut().any(Tree::goes_on) {
            self.guardian.leave();
        } else {
            self.guardian.dismiss();
        }
        self.machine.close();
    }
}
