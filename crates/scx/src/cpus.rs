//! The cpus in use. The kernel's numbers may have gaps; a policy's have none.

use anyhow::{Context, Result, ensure};

use crate::bpf_intf::limits_MAX_CPUS;

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Online cpus, in rising order: a cpu's place is the policy's number for it.
pub(crate) struct Cpus(Vec<u16>);

impl Cpus {
    pub(crate) fn online() -> Result<Cpus> {
        let list =
            std::fs::read_to_string(ONLINE).with_context(|| format!("cannot read {ONLINE}"))?;
        let cpus = parse(list.trim()).with_context(|| format!("{ONLINE} says '{list}'"))?;
        let limit = limits_MAX_CPUS;
        ensure!(
            cpus.iter().all(|&cpu| u32::from(cpu) < limit),
            "this machine has a cpu numbered {limit} or above, which scx_prorata cannot schedule"
        );
        Ok(Cpus(cpus))
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("there are at most 512")
    }

    /// Fills the tables that translate between the kernel's numbers and the policy's.
    pub(crate) fn fill(&self, index_of_cpu: &mut [u16], cpu_of_index: &mut [u16]) {
        for (index, &cpu) in (0..).zip(&self.0) {
            index_of_cpu[usize::from(cpu)] = index;
            cpu_of_index[usize::from(index)] = cpu;
        }
    }
}

/// `0-3,5` → 0, 1, 2, 3, 5.
fn parse(list: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u16>().ok()?..=last.parse().ok()?);
    }
    (!cpus.is_empty()).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_in_the_kernels_numbers_are_closed() {
        assert_eq!(parse("0-3,5"), Some(vec![0, 1, 2, 3, 5]));
        assert_eq!(parse("0"), Some(vec![0]));
        assert_eq!(parse("none"), None);
        let (mut index_of_cpu, mut cpu_of_index) = ([0; 8], [0; 8]);
        Cpus(vec![0, 2, 5]).fill(&mut index_of_cpu, &mut cpu_of_index);
        assert_eq!((index_of_cpu[5], cpu_of_index[2]), (2, 5));
    }
}
