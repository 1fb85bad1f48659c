//! `cargo xtask vm-report`: shares, lags and costs of the in-kernel policies, in the test machine.
//!
//! All schedulers are measured in one boot for each number of cpus, beside the kernel's own and,
//! where they can be built, scx_flash and scx_lavd. Time in the machine is executed instructions, so
//! that a busy host changes nothing.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::contest::Contest;
use crate::vm::Check;

/// An instruction takes 4 ns where shares are measured: hogs spend the host's time on nothing else.
const ICOUNT_OF_SHARES: u32 = 2;
/// And 1 ns where costs are: a clock counts instructions.
const ICOUNT_OF_COSTS: u32 = 0;
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Numbers of cpus, each a machine.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4")]
    cpus: Vec<u32>,
    /// Virtual seconds of each measurement of shares.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Measure only the shares, and how late tasks that sleep run.
    #[arg(long, conflicts_with = "only_costs")]
    only_shares: bool,
    /// Measure only the costs.
    #[arg(long)]
    only_costs: bool,
    /// Measure only the shares of cgroups.
    #[arg(long, conflicts_with_all = ["only_shares", "only_costs"])]
    only_groups: bool,
    /// A kernel by the beginning of its version.
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Only these schedulers: policies (also `gr3:sleepers=corrected`), `eevdf`, `empty`, `scx_flash`,
    /// `scx_lavd`.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    schedulers: Option<Vec<String>>,
    /// Write the tables there, and the figures beside it as JSON.
    #[arg(long, default_value = "target/vm-report.md", value_name = "FILE")]
    out: PathBuf,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let mut contest = Contest::new(self.schedulers.as_deref())?;
        let kernel = self.kernel.as_deref();
        for &cpus in &self.cpus {
            let machine = Check { cpus, kernel, ..Check::default() };
            let of_shares = Check { icount: Some(ICOUNT_OF_SHARES), ..machine };
            let seconds = self.seconds;
            if self.only_groups {
                let groups = format!("xtask guest groups --seconds {seconds} --go-on");
                contest.measure(&of_shares, &groups)?;
            } else if !self.only_costs {
                let mix = format!("xtask guest mix --seconds {seconds} --extremes --go-on");
                contest.measure(&of_shares, &mix)?;
                contest.measure(&of_shares, &format!("xtask guest probes --seconds {seconds}"))?;
            }
            // With more cpus than two, what costs vary by is what the cpus do at a time.
            if !self.only_shares && !self.only_groups && cpus <= 2 {
                let of_costs = Check { icount: Some(ICOUNT_OF_COSTS), ..machine };
                contest.measure(&of_costs, "xtask guest cost")?;
            }
            contest.write(HOW, &self.out)?;
        }
        print!("{}", fs::read_to_string(&self.out)?);
        Ok(ExitCode::SUCCESS)
    }
}

const HOW: &str = "\
Times are virtual: QEMU -icount, where an instruction takes 4 ns for shares and 1 ns for costs, so
that a busy host changes nothing; all schedulers in one boot for each number of cpus. The lag is the
furthest that a hog was behind its ideal (GMS) at any time, from the kernel's trace of switches; the
share error is the largest relative one at the end. Shares cannot be told better than by a quantum:
the last column says what 5 ms are of the lightest hog's service. Hogs have run for half a second then, in
which they use the two or three turns that they slept through before. Tasks that sleep wake every so many
ms and then compute for so long, each with a phase of its own; hogs' times are parts of their mean. A
switch is one of a ping-pong over pipes, pinned to a cpu, system calls included; a turn is the end of a slice
among so many hogs of nice 0 to 9, from the last instruction of one hog to the first of the next;
hackbench is 10 groups of 10 senders and 10 receivers over sockets, the best of three.

";
