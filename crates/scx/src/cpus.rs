//! The cpus that there are. The kernel's numbers may have gaps; a policy's have none.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use scx_prorata_objects::intf::{limits_MAX_CPUS, limits_MAX_DOMAINS};
use scx_utils::{Cpu, Topology, read_cpulist};

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

/// The cpus that are online at this moment.
pub(crate) fn online() -> Result<Vec<u32>> {
    let cpus = read_cpulist(&list("online")?)?;
    Ok(cpus.into_iter().map(u32::try_from).collect::<Result<_, _>>()?)
}

/// Which cpus share their last cache.
pub(crate) struct Domains {
    pub(crate) count: u32,
    /// By cpu; 0 for one that is not online.
    pub(crate) of_cpu: [u8; limits_MAX_CPUS as usize],
    /// By domain: how many, and bits for which.
    pub(crate) cpus: [u16; limits_MAX_DOMAINS as usize],
    pub(crate) sets: [[u64; limits_MAX_CPUS as usize / 64]; limits_MAX_DOMAINS as usize],
}

/// Which cpus are of one core.
pub(crate) struct Cores {
    /// Some core has several.
    pub(crate) smt: bool,
    /// By cpu: the first one of its core.
    pub(crate) of_cpu: [u16; limits_MAX_CPUS as usize],
    /// By first cpu: how many.
    pub(crate) cpus: [u16; limits_MAX_CPUS as usize],
}

impl Cores {
    /// Of cpus and the cores that they are of.
    fn of<C: Ord>(cpus: &[(usize, C)]) -> Cores {
        // Others may come, and are cores of their own.
        let itself = std::array::from_fn(|cpu| u16::try_from(cpu).expect("cpus are few"));
        let mut cores = Cores { smt: false, of_cpu: itself, cpus: [1; limits_MAX_CPUS as usize] };
        for (cpu, core) in cpus {
            let siblings = || cpus.iter().filter(|(_, other)| other == core).map(|&(cpu, _)| cpu);
            let first = siblings().min().expect("itself at least");
            cores.of_cpu[*cpu] = u16::try_from(first).expect("cpus are few");
            cores.cpus[first] = u16::try_from(siblings().count()).expect("cpus are few");
            cores.smt |= *cpu != first;
        }
        cores
    }
}

/// Caches and cores of this machine. Where the kernel does not tell, all cpus share a cache, and none a core.
pub(crate) fn layout() -> (Domains, Cores) {
    match Topology::new() {
        Ok(topology) => (Domains::find(&topology), Cores::of(&known(&topology, |cpu| cpu.core_id))),
        Err(error) => {
            log::warn!("takes all cpus to share a cache, and to be cores: {error:#}");
            (Domains::one(), Cores::of::<usize>(&[]))
        }
    }
}

/// What is told of each cpu that the scheduler has room for.
fn known<T>(topology: &Topology, what: impl Fn(&Cpu) -> T) -> Vec<(usize, T)> {
    let cpus = topology.all_cpus.values().filter(|cpu| cpu.id < limits_MAX_CPUS as usize);
    cpus.map(|cpu| (cpu.id, what(cpu))).collect()
}

impl Domains {
    const NO_SETS: [[u64; limits_MAX_CPUS as usize / 64]; limits_MAX_DOMAINS as usize] =
        [[0; limits_MAX_CPUS as usize / 64]; limits_MAX_DOMAINS as usize];

    /// All cpus in one; how many these are is not asked for then.
    fn one() -> Domains {
        let mut cpus = [0; limits_MAX_DOMAINS as usize];
        cpus[0] = u16::MAX;
        let mut sets = Domains::NO_SETS;
        sets[0] = [u64::MAX; limits_MAX_CPUS as usize / 64];
        Domains { count: 1, of_cpu: [0; limits_MAX_CPUS as usize], cpus, sets }
    }

    /// Of this machine: one if the kernel does not tell, or if there are too many to be told apart. Where no
    /// cache of the third level is, cpus of a node share theirs.
    fn find(topology: &Topology) -> Domains {
        let cache = |l3_id| if l3_id == usize::MAX { None } else { Some(l3_id) };
        Domains::of(&known(topology, |cpu| (cpu.node_id, cpu.package_id, cache(cpu.l3_id))))
    }

    /// Cpus whose places are equal are in one domain.
    fn of<P: Ord>(places: &[(usize, P)]) -> Domains {
        let different: BTreeSet<&P> = places.iter().map(|(_, place)| place).collect();
        if different.len() > limits_MAX_DOMAINS as usize {
            return Domains::one();
        }
        let cpus = [0; limits_MAX_DOMAINS as usize];
        let mut domains = Domains { cpus, sets: Domains::NO_SETS, ..Domains::one() };
        for (cpu, place) in places {
            let domain = different.iter().position(|&other| other == place).expect("it is one");
            domains.of_cpu[*cpu] = u8::try_from(domain).expect("domains are few");
            domains.cpus[domain] += 1;
            domains.sets[domain][cpu / 64] |= 1 << (cpu % 64);
        }
        Domains { count: u32::try_from(different.len().max(1)).expect("few"), ..domains }
    }
}

fn end_of(which: &str) -> Result<u32> {
    let list = list(which)?;
    let last =
        last(list.trim()).with_context(|| format!("the list of {which} cpus is '{list}'"))?;
    Ok(last + 1)
}

fn list(which: &str) -> Result<String> {
    let file = format!("{CPUS}/{which}");
    std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))
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
        assert_eq!((domains.sets[0][0], domains.sets[1][0]), (0b10, 0b1001));
        let many: Vec<(usize, usize)> = (0..=limits_MAX_DOMAINS as usize).map(|n| (n, n)).collect();
        assert_eq!(Domains::of(&many).count, 1);
    }

    #[test]
    fn a_core_goes_by_its_first_cpu() {
        let cores = Cores::of(&[(0, 7), (1, 8), (2, 7), (5, 9)]);
        assert!(cores.smt);
        assert_eq!(cores.of_cpu[..6], [0, 1, 0, 3, 4, 5]);
        assert_eq!((cores.cpus[0], cores.cpus[1], cores.cpus[4]), (2, 1, 1));
        assert!(!Cores::of(&[(0, 0), (1, 1)]).smt);
    }

    #[test]
    fn the_last_cpu_ends_a_list() {
        assert_eq!(last("0-3,5"), Some(5));
        assert_eq!(last("0,2-7"), Some(7));
        assert_eq!(last("0"), Some(0));
        assert_eq!(last("none"), None);
    }
}
