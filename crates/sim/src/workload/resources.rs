//! Resources by name.

use std::collections::{BTreeMap, BTreeSet};

use super::{Group, Op, Program, Resource, WorkloadError};

/// Resources in the order in which their names were first used.
#[derive(Default)]
pub(super) struct Names {
    index: BTreeMap<String, u32>,
    resources: Vec<Resource>,
}

impl Names {
    /// The semaphore called `name`, which `count` may pass at first.
    ///
    /// # Errors
    /// When the name stands for something else.
    pub(super) fn semaphore(&mut self, name: &str, count: u32) -> Result<u32, String> {
        self.get(name, Resource::Semaphore { count })
    }

    /// The condition called `name`.
    ///
    /// # Errors
    /// When the name stands for something else.
    pub(super) fn condition(&mut self, name: &str) -> Result<u32, String> {
        self.get(name, Resource::Condition)
    }

    /// The barrier called `name`, which one user more has.
    ///
    /// # Errors
    /// When the name stands for something else.
    pub(super) fn barrier(&mut self, name: &str, more: u32) -> Result<u32, String> {
        let index = match self.index.get(name) {
            Some(&index) => index,
            None => self.get(name, Resource::Barrier { users: 0 })?,
        };
        match &mut self.resources[index as usize] {
            Resource::Barrier { users } => *users = users.saturating_add(more),
            _ => {
                return Err(format!(
                    "'{name}' is a barrier here and something else elsewhere: give them two names"
                ));
            }
        }
        Ok(index)
    }

    fn get(&mut self, name: &str, resource: Resource) -> Result<u32, String> {
        check_name(name)?;
        if let Some(&index) = self.index.get(name) {
            return match self.resources[index as usize] == resource {
                true => Ok(index),
                false => Err(format!("'{name}' is used for two things: give them two names")),
            };
        }
        let index = u32::try_from(self.resources.len()).map_err(|_| "too many names")?;
        self.resources.push(resource);
        self.index.insert(name.to_string(), index);
        Ok(index)
    }

    /// The resources, once `groups` are known to be able to use them.
    ///
    /// # Errors
    /// When tasks wait for what nobody posts, or unlock what they have not locked; `path_of` says
    /// where the group of an index is written.
    pub(super) fn into_resources(
        self,
        groups: &[Group],
        path_of: impl Fn(usize) -> String,
    ) -> Result<Vec<Resource>, WorkloadError> {
        let posted = self.posted(groups);
        for (index, group) in groups.iter().enumerate().filter(|(_, group)| group.count > 0) {
            let checked = self.check_waits(&group.program, &posted);
            checked
                .and_then(|()| self.check_unlocks(&group.program))
                .map_err(|message| WorkloadError::new(path_of(index), message))?;
        }
        Ok(self.resources)
    }

    fn name(&self, resource: u32) -> &str {
        let found = self.index.iter().find(|&(_, &index)| index == resource);
        found.map_or("", |(name, _)| name)
    }

    /// By resource: whether a task ever lets others go on there.
    fn posted(&self, groups: &[Group]) -> Vec<bool> {
        let mut posted = vec![false; self.resources.len()];
        let present = groups.iter().filter(|group| group.count > 0);
        for op in present.flat_map(|group| &group.program.ops) {
            if let Op::Post(resource) | Op::PostAll(resource) = *op {
                posted[resource as usize] = true;
            }
        }
        posted
    }

    fn check_waits(&self, program: &Program, posted: &[bool]) -> Result<(), String> {
        let is_hopeless = |resource: u32| match self.resources[resource as usize] {
            Resource::Semaphore { count: 0 } | Resource::Condition => !posted[resource as usize],
            Resource::Semaphore { .. } | Resource::Barrier { .. } => false,
        };
        for op in &program.ops {
            if let Op::Wait(resource) = *op
                && is_hopeless(resource)
            {
                return Err(format!(
                    "it waits for '{}', which no task posts, and would wait for ever: let a task \
                     post it, or leave the wait out",
                    self.name(resource)
                ));
            }
        }
        Ok(())
    }

    /// Follows `program` with every jump back taken once: what a loop's body leaves locked does not
    /// depend on what was locked before it, so that a third time shows nothing new.
    fn check_unlocks(&self, program: &Program) -> Result<(), String> {
        let mut locked = BTreeSet::new();
        let mut jumped = vec![false; program.ops.len()];
        let is_lock =
            |resource: u32| self.resources[resource as usize] == Resource::Semaphore { count: 1 };
        let mut at = 0;
        while let Some(op) = program.ops.get(at) {
            let mut next = at + 1;
            match *op {
                Op::Wait(resource) if is_lock(resource) => {
                    locked.insert(resource);
                }
                Op::Post(resource) if is_lock(resource) && !locked.remove(&resource) => {
                    return Err(format!(
                        "it unlocks '{}', which it has not locked: lock it before, or take a \
                         semaphore for what another task locks",
                        self.name(resource)
                    ));
                }
                Op::Repeat { times: 2.., to, .. } | Op::Goto { to } if !jumped[at] => {
                    jumped[at] = true;
                    next = to as usize;
                }
                Op::Exit => break,
                _ => {}
            }
            at = next;
        }
        Ok(())
    }
}

/// # Errors
/// When nobody could tell what `name` names, or it cannot be printed.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("a name is empty: give it at least one letter or digit".into());
    }
    match name.chars().find(|&sign| is_unprintable(sign)) {
        None => Ok(()),
        Some(sign) => Err(format!("a name has {sign:?} in it: leave control characters out")),
    }
}

/// True for what terminals act upon, lines end with, or XML cannot hold.
pub(super) fn is_unprintable(sign: char) -> bool {
    sign.is_control() || matches!(sign, '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::super::{parse_rt_app, parse_toml};

    /// A file of tasks with these phases beside `{ run = "1ms" }`, which is last.
    fn parse(tasks: &[&str]) -> Result<(), String> {
        let task = |phases| format!("[[task]]\nphases = [{phases}, {{ run = '1ms' }}]\n");
        let text: String = tasks.iter().map(task).collect();
        parse_toml(&text).map(|_| ()).map_err(|error| error.to_string())
    }

    const LOCK: &str = "{ lock = 'l' }";
    const UNLOCK: &str = "{ unlock = 'l' }";

    #[test]
    fn a_wait_needs_a_post() {
        let alone = parse(&["'yield'", "{ wait = 's' }"]).expect_err("nobody posts");
        assert!(alone.starts_with("task[1]: it waits for 's', which no task posts"), "{alone}");
        assert_eq!(parse(&["{ post = 's' }", "{ wait = 's' }"]), Ok(()));
        assert_eq!(parse(&["{ loop = 2, phases = [{ post = 's' }] }", "{ wait = 's' }"]), Ok(()));
        let text = "[[task]]\nphases = [{ wait = 's' }]\n\
                    [[task]]\ncount = 0\nphases = [{ post = 's' }, { run = '1ms' }]";
        assert!(parse_toml(text).is_err(), "no task is there that posts");
    }

    #[test]
    fn an_unlock_needs_a_lock() {
        let one = |phases: &[&str]| parse(&[&phases.join(", ")]);
        let twice = |phases: &[&str]| {
            let phases = phases.join(", ");
            format!("{{ loop = 2, phases = [{phases}] }}")
        };
        assert_eq!(one(&[LOCK, UNLOCK]), Ok(()));
        assert_eq!(one(&[LOCK, &twice(&[UNLOCK, LOCK]), UNLOCK]), Ok(()));
        assert_eq!(one(&[&twice(&[&twice(&[LOCK, UNLOCK]), LOCK, UNLOCK])]), Ok(()));
        assert_eq!(one(&["{ run = '1ms' }", "'exit'", UNLOCK]), Ok(()), "it never comes to that");
        let refused = one(&[UNLOCK]).expect_err("not locked");
        assert!(refused.starts_with("task[0]: it unlocks 'l', which it has not"), "{refused}");
        assert!(one(&[UNLOCK, LOCK]).is_err());
        assert!(one(&[LOCK, UNLOCK, UNLOCK]).is_err());
        assert!(one(&[LOCK, &twice(&[UNLOCK])]).is_err(), "the second time it is not locked");
        assert!(parse(&[LOCK, UNLOCK]).is_err(), "another task's lock");
    }

    #[test]
    fn deep_loops_are_no_trouble() {
        let mut phases = format!("{LOCK}, {UNLOCK}");
        for _ in 0..30 {
            phases = format!("{{ loop = 2, phases = [{phases}] }}");
        }
        assert_eq!(parse(&[&phases]), Ok(()));
    }

    #[test]
    fn names_are_check_name() {
        for phase in ["wait", "post", "lock", "unlock"] {
            let error = parse(&[&format!("{{ {phase} = '' }}")]).expect_err("no name");
            assert!(error.starts_with("task[0].phases[0]: a name is empty"), "{error}");
        }
        let error = |text: &str| parse_toml(text).expect_err(text).to_string();
        assert!(error("[[task]]\nname = ' '").starts_with("task[0].name: a name is empty"));
        let cgroup = error("[[cgroup]]\nname = ''\n[[task]]");
        assert!(cgroup.starts_with("cgroup[0].name: a name is empty"), "{cgroup}");
    }

    #[test]
    fn names_can_be_printed() {
        let error = |text: &str| parse_toml(text).expect_err(text).to_string();
        let task = error("[[task]]\nname = \"nl\\nx\\u0001\\u001b[31mred\"");
        assert_eq!(task, r"task[0].name: a name has '\n' in it: leave control characters out");
        let escape = error("[[task]]\n[[cgroup]]\nname = \"\\u001b[31mred\"");
        assert!(escape.starts_with(r"cgroup[0].name: a name has '\u{1b}' in it"), "{escape}");
        assert!(error("[[task]]\nphases = [{ lock = \"\\u007fl\" }]").contains("a name has"));
        assert!(parse_toml("[[task]]\nname = 'Größe 1 → 2'").is_ok());
        let text = r#"{ "tasks": { "a\u001b": { "run": 1 } } }"#;
        let rt_app = parse_rt_app(text, &[]).expect_err("an escape").to_string();
        assert!(rt_app.starts_with(r"tasks: a name has '\u{1b}' in it"), "{rt_app}");
    }

    #[test]
    fn the_same_holds_for_rt_app() {
        let error = |tasks: &str| {
            let text = format!("{{ \"tasks\": {{ {tasks} }} }}");
            parse_rt_app(&text, &[]).expect_err(tasks).to_string()
        };
        let of_a = |events: &str| error(&format!(r#""a": {{ "run": 1, {events} }}"#));
        assert!(of_a(r#""sem_wait": "s""#).starts_with("tasks.a: it waits for 'semaphore s'"));
        assert!(of_a(r#""suspend": "a""#).starts_with("tasks.a: it waits for 'thread a'"));
        assert!(of_a(r#""unlock": "m""#).starts_with("tasks.a: it unlocks 'lock m'"));
        assert!(of_a(r#""lock": """#).starts_with("tasks.a.lock: a name is empty"));
        assert!(error(r#""": { "run": 1 }"#).starts_with("tasks: a name is empty"));
    }
}
