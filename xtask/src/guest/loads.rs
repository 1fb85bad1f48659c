//! What loading a policy takes, and that it does what it should on this kernel.

use std::fs;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::scheduler::{LOG, Scheduler};
use super::{mixes, system};
use crate::report::{Failure, LoadRow, Program};
use crate::{ours, shell};

/// One each of nice 0, 5 and 10 beside three equal hogs.
const NICE_VALUES: &[i32] = &[0, 5, 10, 0, 0, 0];
const RECORDING: &str = "/tmp/recording";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A policy; may be repeated.
    #[arg(long = "policy", required = true)]
    policies: Vec<String>,
    /// Seconds for which hogs run.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// What an instruction takes, in ns.
    #[arg(long)]
    instruction_ns: u64,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        system::become_real_time()?;
        let cpus = thread::available_parallelism()?.get();
        for policy in &self.policies {
            match self.measure(policy, cpus) {
                Ok(row) => row.print(),
                Err(why) => Failure::of(cpus, &why.context(format!("policy {policy}"))).print(),
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn measure(&self, policy: &str, cpus: usize) -> Result<LoadRow> {
        let programs = programs(policy)?;
        let begin = Instant::now();
        let mut scheduler = Scheduler::start(&ours::recorded(policy, RECORDING))?;
        // What waiting took counts too: no more instructions than these.
        let load_ns = u64::try_from(begin.elapsed().as_nanos())?;
        let length = Duration::from_secs(self.seconds);
        let service = mixes::share(NICE_VALUES, &mut scheduler, cpus, length)?;
        scheduler.stop()?;
        let verify = shell::output(Command::new("prorata").args(["verify", RECORDING]));
        Ok(LoadRow {
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_string(),
            policy: policy.to_string(),
            share_error_percent: service.worst_relative_error() * 100.0,
            quantum_percent: service.part_of_least(5.0) * 100.0,
            verified: verify.is_ok(),
            programs,
            load_instructions: load_ns / self.instruction_ns,
        })
    }
}

/// What the verifier says of each program of a policy.
fn programs(policy: &str) -> Result<Vec<Program>> {
    Scheduler::start(&format!("{} --verbose", ours::command_line(policy)))?.stop()?;
    let programs = parse(&fs::read_to_string(LOG)?);
    ensure!(!programs.is_empty(), "the verifier told nothing of its work");
    Ok(programs)
}

/// `libbpf: prog 'NAME': -- BEGIN PROG LOAD LOG --`, and some lines later
/// `processed 307 insns (limit 1000000) … peak_states 35 mark_read 0`.
fn parse(log: &str) -> Vec<Program> {
    let mut name = "";
    let mut programs = Vec::new();
    for line in log.lines() {
        if let Some(rest) = line.strip_prefix("libbpf: prog '")
            && let Some((program, "-- BEGIN PROG LOAD LOG --")) = rest.split_once("': ")
        {
            name = program;
        }
        let mut words = line.split_whitespace();
        if words.next() == Some("processed")
            && let Some(instructions) = words.next().and_then(|word| word.parse().ok())
            && let Some(peak_states) =
                words.skip_while(|word| *word != "peak_states").nth(1).and_then(|w| w.parse().ok())
        {
            programs.push(Program { name: name.to_string(), instructions, peak_states });
        }
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_tells_of_each_program() {
        let log = "libbpf: prog 'prorata_yield': -- BEGIN PROG LOAD LOG --
verification time 1005 usec
processed 19 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0
-- END PROG LOAD LOG --
libbpf: prog 'prorata_exit': relo #0: poisoned
libbpf: prog 'prorata_exit': -- BEGIN PROG LOAD LOG --
subprog 0 (prorata_exit) main insns_self 29 insns_total 29 stack 0
processed 29 insns (limit 1000000) max_states_per_insn 0 total_states 2 peak_states 3 mark_read 0
";
        let programs = parse(log);
        let told: Vec<_> =
            programs.iter().map(|p| (p.name.as_str(), p.instructions, p.peak_states)).collect();
        assert_eq!(told, [("prorata_yield", 19, 1), ("prorata_exit", 29, 3)]);
    }
}
