//! A process with all its descendants, found through /proc, for the signal backend.

use std::collections::HashSet;
use std::fs::File;
use std::time::Instant;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};
use prorata::Nanos;

use crate::backend::Activity;
use crate::guardian::FOLLOW_FOR;
use crate::launch;
use crate::proc::{Process, RawPid, SchedStat};
use crate::report::Exit;

/// A tree that forks faster than it can be read is stopped as far as it was read.
const MOST_LOOKS: usize = 16;

#[derive(Debug)]
struct Member {
    process: Process,
    /// At the time when it was found.
    parent: RawPid,
    /// As last read.
    used_ns: Nanos,
    /// The same when its children were looked for last.
    searched_ns: Option<Nanos>,
    /// It had children: some may have come and gone between two looks.
    had_children: bool,
    /// Of its children that are gone, as last read.
    lost_ns: Nanos,
    /// Of its children that it waited for, as the kernel adds them up; in steps of 10 ms.
    reaped_ns: Nanos,
}

impl Member {
    fn new(process: Process, parent: RawPid) -> Member {
        let (used_ns, lost_ns, reaped_ns) = (0, 0, 0);
        let (searched_ns, had_children) = (None, false);
        Member { process, parent, used_ns, searched_ns, had_children, lost_ns, reaped_ns }
    }

    fn read(&mut self) {
        if let Some(used_ns) = self.process.used_ns() {
            self.used_ns = self.used_ns.max(used_ns);
        }
    }

    fn read_reaped(&mut self) {
        if let Some(stat) = self.process.stat() {
            self.reaped_ns = self.reaped_ns.max(stat.reaped_ns);
        }
    }

    /// Its own time and that of its children that are gone. Readings of children are finer than
    /// the kernel's sum, but miss those that came and went between two looks.
    fn total_ns(&self) -> Nanos {
        self.used_ns + self.lost_ns.max(self.reaped_ns)
    }
}

/// Whose children are looked for.
#[derive(Clone, Copy)]
enum Search {
    All,
    /// Of those who have used something since they were searched. The clock of one that runs may be late.
    HaveRun,
    /// Of those who had some before.
    Parents,
}

/// The processes of one task.
#[derive(Debug)]
pub(crate) struct Tree {
    root: RawPid,
    sched_stat: Option<File>,
    /// Prorata started the root: it leads a session and process group of its own.
    started: bool,
    members: Vec<Member>,
    known: HashSet<RawPid>,
    /// Of members that are gone and had no parent in the tree.
    ended_ns: Nanos,
    /// Used before prorata took over.
    before_ns: Nanos,
    /// The last answer of `used_ns`.
    used_ns: Nanos,
    exit: Option<Exit>,
    /// Since when it runs for good. Who is new soon after is continued: a fork that was under way as the
    /// group was stopped hands that on, though the group has been continued.
    released: Option<Instant>,
    /// The cpus that the root could use before.
    cpus: CpuSet,
    found: Vec<RawPid>,
}

impl Tree {
    /// The tree of `root`. `None`: there is no such process.
    pub(crate) fn new(root: RawPid, started: bool, cpus: CpuSet) -> Option<Tree> {
        let mut tree = Tree {
            root,
            sched_stat: SchedStat::open(root),
            started,
            members: vec![Member::new(Process::open(root)?, 0)],
            known: HashSet::from([root]),
            ended_ns: 0,
            before_ns: 0,
            used_ns: 0,
            exit: None,
            released: None,
            cpus,
            found: Vec::new(),
        };
        if !started {
            tree.look(Search::All);
            tree.members.iter_mut().for_each(Member::read_reaped);
            tree.before_ns = tree.read_used_ns();
        }
        Some(tree)
    }

    pub(crate) fn root(&self) -> RawPid {
        self.root
    }

    pub(crate) fn ready_ns(&self) -> Nanos {
        self.sched_stat.as_ref().and_then(SchedStat::read).map_or(0, |stat| stat.ready_ns)
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    pub(crate) fn contains(&self, pid: RawPid) -> bool {
        self.known.contains(&pid)
    }

    /// Takes in `pid`, which has lost its parent.
    pub(crate) fn adopt(&mut self, pid: RawPid) {
        if let Some(process) = Process::open(pid)
            && self.known.insert(pid)
        {
            self.members.push(Member::new(process, 0));
        }
    }

    /// Finds new descendants, searching the children of some, and forgets processes that are gone. Tells if
    /// there are new ones.
    fn look(&mut self, search: Search) -> bool {
        let before = self.members.len();
        let mut gone = Vec::new();
        let mut index = 0;
        while index < self.members.len() {
            self.found.clear();
            let member = &mut self.members[index];
            let pid = member.process.pid;
            // The list of children of a process that is gone is merely empty.
            let used_ns = member.process.used_ns();
            match used_ns {
                Some(used_ns) => member.used_ns = member.used_ns.max(used_ns),
                None => gone.push(pid),
            }
            let searches = match search {
                Search::All => true,
                Search::HaveRun => used_ns.is_none() || used_ns != member.searched_ns,
                Search::Parents => member.had_children,
            };
            if searches {
                member.process.children(&mut self.found);
                member.had_children |= !self.found.is_empty();
                member.searched_ns = used_ns;
            }
            for &child in &self.found {
                if !self.known.contains(&child)
                    && let Some(process) = Process::open(child)
                {
                    self.known.insert(child);
                    self.members.push(Member::new(process, pid));
                    let was_released = self.released.is_some_and(|at| at.elapsed() < FOLLOW_FOR);
                    if self.started && was_released {
                        let _ = kill(Pid::from_raw(child), Signal::SIGCONT);
                    }
                }
            }
            index += 1;
        }
        let grown = self.members.len() > before;
        gone.into_iter().for_each(|pid| self.forget(pid));
        grown
    }

    /// `pid` is gone: what it used is its parent's from now on.
    fn forget(&mut self, pid: RawPid) {
        let Some(index) = self.members.iter().position(|m| m.process.pid == pid) else { return };
        let member = self.members.swap_remove(index);
        self.known.remove(&pid);
        match self.members.iter_mut().find(|m| m.process.pid == member.parent) {
            Some(parent) => parent.lost_ns += member.total_ns(),
            None => self.ended_ns += member.total_ns(),
        }
    }

    /// Buries `pid`, a member that is prorata's child, if it has ended.
    pub(crate) fn bury(&mut self, pid: RawPid) {
        let Some((exit, used_ns)) = launch::bury(pid) else { return };
        if pid == self.root {
            self.exit = Some(exit);
        }
        if let Some(index) = self.members.iter().position(|m| m.process.pid == pid) {
            let member = self.members.swap_remove(index);
            self.known.remove(&pid);
            self.ended_ns += member.total_ns().max(used_ns);
        } else {
            self.ended_ns += used_ns;
        }
    }

    /// Cpu time of all members, dead and alive.
    pub(crate) fn used_ns(&mut self) -> Nanos {
        let used_ns = self.read_used_ns().saturating_sub(self.before_ns);
        self.used_ns = self.used_ns.max(used_ns);
        self.used_ns
    }

    fn read_used_ns(&mut self) -> Nanos {
        if self.members.iter().any(|member| member.had_children) {
            // A tree that is never stopped would keep members that nobody knows, and what they use.
            self.look(Search::Parents);
            self.members.iter_mut().filter(|m| m.had_children).for_each(Member::read_reaped);
        } else {
            self.members.iter_mut().for_each(Member::read);
        }
        self.ended_ns + self.members.iter().map(Member::total_ns).sum::<Nanos>()
    }

    pub(crate) fn activity(&mut self, most: usize) -> Activity {
        let mut activity = self.members_activity(most);
        if activity != Activity::Runnable(most) && self.look(Search::HaveRun) {
            activity = self.members_activity(most);
        }
        if activity != Activity::Gone {
            return activity;
        }
        if self.started && self.exit.is_none() {
            self.bury(self.root);
        }
        Activity::Gone
    }

    /// Of the known members.
    fn members_activity(&self, most: usize) -> Activity {
        let (mut runnable, mut gone) = (0, true);
        for member in &self.members {
            match member.process.activity(most - runnable) {
                Activity::Runnable(threads) => runnable += threads,
                Activity::Blocked => gone = false,
                Activity::Gone => {}
            }
            if runnable == most {
                break;
            }
        }
        match runnable {
            0 if gone => Activity::Gone,
            0 => Activity::Blocked,
            _ => Activity::Runnable(runnable),
        }
    }

    /// Looks for what the other calls may miss: the first child, and children that came and went.
    pub(crate) fn tend(&mut self) {
        self.look(Search::All);
        for member in &mut self.members {
            if !member.had_children {
                member.read_reaped();
                member.had_children = member.reaped_ns > 0;
            }
        }
    }

    /// Stops every process, those included that are forked meanwhile: a fork that is under way
    /// when the signal comes is begun anew afterwards or hands it on, and others are found by another look.
    pub(crate) fn stop(&mut self) {
        self.released = None;
        self.signal(Signal::SIGSTOP);
        for _ in 0..MOST_LOOKS {
            let before = self.members.len();
            if !self.look(Search::All) {
                return;
            }
            let from = before.min(self.members.len());
            for index in from..self.members.len() {
                self.signal_outside(index, Signal::SIGSTOP);
            }
        }
    }

    /// Sends `signal` to every known process.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.started {
            // One call reaches the group as a whole, unknown members too. An error: it is empty.
            let _ = killpg(Pid::from_raw(self.root), signal);
        }
        for index in 0..self.members.len() {
            self.signal_outside(index, signal);
        }
    }

    /// Sends `signal` to a member, unless it was reached with the group. The errors are that it is
    /// gone, or runs as another user: then it is free.
    fn signal_outside(&self, index: usize, signal: Signal) {
        let pid = Pid::from_raw(self.members[index].process.pid);
        let root = Pid::from_raw(self.root);
        let in_group = self.started && (pid == root || getpgid(Some(pid)) == Ok(root));
        if !in_group {
            let _ = kill(pid, signal);
        }
    }

    /// Every thread.
    pub(crate) fn threads(&self) -> Vec<RawPid> {
        let mut threads = Vec::new();
        for member in &self.members {
            member.process.any_thread(|tid| {
                threads.push(tid);
                false
            });
        }
        threads
    }

    /// Kills every process, forks under way included.
    pub(crate) fn kill(&mut self) {
        self.stop();
        self.signal(Signal::SIGKILL);
    }

    /// Prorata started it, has let it run for good, and there is something of it yet.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.started && self.released.is_some() && self.activity(1) != Activity::Gone
    }

    /// Lets it run for good, where it could before.
    pub(crate) fn release(&mut self) {
        self.released = Some(Instant::now());
        for tid in self.threads() {
            // Errors: it is gone, or its cpuset or its owner forbids it.
            let _ = sched_setaffinity(Pid::from_raw(tid), &self.cpus);
        }
        self.signal(Signal::SIGCONT);
    }
}
