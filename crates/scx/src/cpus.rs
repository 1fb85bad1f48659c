//! The cpus that there are. The kernel's numbers may have gaps; a policy's have none.

use anyhow::{Context, Result, ensure};

use crate::bpf_intf::limits_MAX_CPUS;

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
    fn the_last_cpu_ends_a_list() {
        assert_eq!(last("0-3,5"), Some(5));
        assert_eq!(last("0,2-7"), Some(7));
        assert_eq!(last("0"), Some(0));
        assert_eq!(last("none"), None);
    }
}
