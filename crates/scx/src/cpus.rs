//! The cpus that there are. The kernel's numbers may have gaps; a policy's have none.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use scx_utils::Topology;

use crate::bpf_intf::{limits_MAX_CPUS, limits_MAX_DOMAINS};

const CPUS: &str = "/sys/devices/system/cpu";

/// One more than the largest number of a cpu that may come. Of those that are online, none has a number
/// that the scheduler has no room for.
pub(crate) fn end() -> Result<u32> {
    let limit = limits_MAX_CPUS;
    ensure!(
        end_of("online")? <= limit,
        "this machine has a cpu numbered {limit} or above, which scx_prorata cannot schedule"
    );
    Ok(end_of("possible")?.min(limit))
}

/// Which cpus share their last cache.
pub(crate) struct Domains {
    pub(crate) count: u32,
    /// By cpu; 0 for one that is not online.
    pub(crate) of_cpu: [u8; limits_MAX_CPUS as usize],
    /// By domain.
    pub(crate) cpus: [u16; limits_MAX_DOMAINS as usize],
}

impl Domains {
    /// All cpus in one; how many these are is not asked for then.
    fn one() -> Domains {
        let mut cpus = [0; limits_MAX_DOMAINS as usize];
        cpus[0] = u16::MAX;
        Domains { count: 1, of_cpu: [0; limits_MAX_CPUS as usize], cpus }
    }

    /// Of this machine: one if the kernel does not tell, or if there are too many to be told apart. Where no
    /// cache of the third level is, cpus of a node share theirs.
    pub(crate) fn find() -> Domains {
        let topology = match Topology::new() {
            Ok(topology) => topology,
            Err(error) => {
                log::warn!("takes all cpus to share a cache: {error:#}");
                return Domains::one();
            }
        };
        let known = topology.all_cpus.values().filter(|cpu| cpu.id < limits_MAX_CPUS as usize);
        let cache = |l3_id| if l3_id == usize::MAX { None } else { Some(l3_id) };
        let places = known.map(|cpu| (cpu.id, (cpu.node_id, cpu.package_id, cache(cpu.l3_id))));
        Domains::of(&places.collect::<Vec<_>>())
    }

    /// Cpus whose places are equal are in one domain.
    fn of<P: Ord>(places: &[(usize, P)]) -> Domains {
        let different: BTreeSet<&P> = places.iter().map(|(_, place)| place).collect();
        if different.len() > limits_MAX_DOMAINS as usize {
            return Domains::one();
        }
        let mut domains = Domains { cpus: [0; limits_MAX_DOMAINS as usize], ..Domains::one() };
        for (cpu, place) in places {
            let domain = different.iter().position(|&other| other == place).expect("it is one");
            domains.of_cpu[*cpu] = u8::try_from(domain).expect("domains are few");
            domains.cpus[domain] += 1;
        }
        Domains { count: u32::try_from(different.len().max(1)).expect("few"), ..domains }
    }
}

fn end_of(which: &str) -> Result<u32> {
    let file = format!("{CPUS}/{which}");
    let list = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let last = last(list.trim()).with_context(|| format!("{file} says '{list}'"))?;
    Ok(last + 1)
}

/// `0-3,5` → 5.
fn last(list: &str) -> Option<u32> {
    list.rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_in_one_place_are_a_domain() {
        let domains = Domains::of(&[(0, "b"), (1, "a"), (3, "b")]);
        assert_eq!(domains.count, 2);
        assert_eq!(domains.of_cpu[..4], [1, 0, 0, 1]);
        assert_eq!(domains.cpus[..3], [1, 2, 0]);
        let many: Vec<(usize, usize)> = (0..=limits_MAX_DOMAINS as usize).map(|n| (n, n)).collect();
        assert_eq!(Domains::of(&many).count, 1);
    }

    #[test]
    fn the_last_cpu_ends_a_list() {
        assert_eq!(last("0-3,5"), Some(5));
        assert_eq!(last("0,2-7"), Some(7));
        assert_eq!(last("0"), Some(0));
        assert_eq!(last("none"), None);
    }
}
