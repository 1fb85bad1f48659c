//! The kernel's own record of who ran when: the trace event `sched_switch`.
//!
//! It is the same for every scheduler, exact to a microsecond, and costs nothing that matters.

use std::fs;

use anyhow::{Context, Result, bail};

const TRACING: &str = "/sys/kernel/tracing";
/// Room for some 50,000 switches a cpu.
const BUFFER_KIB: &str = "8192";

/// A cpu's change from one task to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Switch {
    pub(crate) at_us: u64,
    pub(crate) cpu: usize,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

pub(crate) fn start() -> Result<()> {
    write("tracing_on", "0")?;
    write("buffer_size_kb", BUFFER_KIB)?;
    write("trace_clock", "mono")?;
    write("trace", "")?;
    write("events/sched/sched_switch/enable", "1")?;
    write("tracing_on", "1")
}

/// Ends the recording.
pub(crate) fn stop() -> Result<()> {
    write("tracing_on", "0")?;
    write("events/sched/sched_switch/enable", "0")
}

/// Prepares a record of expired timers. A worker on each cpu makes room for it, so that no task of real
/// time may keep a cpu meanwhile.
pub(crate) fn prepare_timers() -> Result<()> {
    write("tracing_on", "0")?;
    write("buffer_size_kb", BUFFER_KIB)?;
    write("trace", "")?;
    write("events/timer/hrtimer_expire_entry/enable", "1")
}

/// Begins the record that was prepared.
pub(crate) fn start_timers() -> Result<()> {
    write("tracing_on", "1")
}

/// Ends it: how many of them were a scheduler's, on each of these cpus.
pub(crate) fn stop_timers<const N: usize>(cpus: [usize; N]) -> Result<[u64; N]> {
    write("tracing_on", "0")?;
    write("events/timer/hrtimer_expire_entry/enable", "0")?;
    let text = fs::read_to_string(format!("{TRACING}/trace"))?;
    Ok(cpus.map(|cpu| {
        let on = format!("[{cpu:03}]");
        let ours = |line: &&str| line.contains(&on) && line.contains("=bpf_timer_cb ");
        text.lines().filter(ours).count() as u64
    }))
}

/// What was recorded, in order of time.
pub(crate) fn read() -> Result<Vec<Switch>> {
    let text = fs::read_to_string(format!("{TRACING}/trace"))?;
    if text.contains("LOST") {
        bail!("the kernel's trace buffer was too small for this load");
    }
    let lines = text.lines().filter(|line| line.contains(": sched_switch: "));
    lines.map(|line| parse(line).with_context(|| format!("a line of the trace: {line}"))).collect()
}

fn write(file: &str, text: &str) -> Result<()> {
    fs::write(format!("{TRACING}/{file}"), text).with_context(|| format!("{TRACING}/{file}"))
}

/// `hog-12 [001] d..2. 3.456789: sched_switch: prev_comm=… prev_pid=12 … next_pid=34 next_prio=…`
fn parse(line: &str) -> Option<Switch> {
    let (head, event) = line.split_once(": sched_switch: ")?;
    let (seconds, micros) = head.rsplit(' ').next()?.split_once('.')?;
    let at_us = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    let cpu = head.rsplit_once('[')?.1.split_once(']')?.0.parse().ok()?;
    let number = |name: &str| event.rsplit_once(name)?.1.split(' ').next()?.parse().ok();
    Some(Switch { at_us, cpu, from: number("prev_pid=")?, to: number("next_pid=")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_switch() {
        let line = "             hog-152     [001] d..2.    12.000345: sched_switch: prev_comm=a b \
                    prev_pid=152 prev_prio=120 prev_state=R ==> next_comm=x next_pid=7 next_prio=9";
        let switch = Switch { at_us: 12_000_345, cpu: 1, from: 152, to: 7 };
        assert_eq!(parse(line), Some(switch));
    }
}
