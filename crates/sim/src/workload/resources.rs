//! Resources by name.

use std::collections::BTreeMap;

use super::Resource;

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
            _ => return Err(format!("'{name}' is a barrier here and something else elsewhere")),
        }
        Ok(index)
    }

    fn get(&mut self, name: &str, resource: Resource) -> Result<u32, String> {
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

    pub(super) fn into_resources(self) -> Vec<Resource> {
        self.resources
    }
}
