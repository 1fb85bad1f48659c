//! `cargo xtask vm-kernels`: every policy on every series of kernels that it should load on.
//!
//! One table: whether a policy loads, shares hogs as it should and decides as the core does, and
//! what the verifier takes for each of its programs. A machine for each kernel; time in it is
//! executed instructions, so that a busy host changes nothing.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::contest;
use crate::report::{self, LoadRow, Row};
use crate::vm::{self, Check};

/// An instruction takes 2 to the power of this, in ns.
const ICOUNT: u32 = 2;
const CPUS: u32 = 2;

/// The largest |received − entitled| / entitled of a share.
const SHARE_ERROR_PERCENT: f64 = 1.0;
/// For one program: half of what the verifier allows where it allows least.
const PROGRAM_INSTRUCTIONS: u64 = 500_000;
/// For a whole policy: of the machine, loader, libbpf and waiting included.
const LOAD_INSTRUCTIONS: u64 = 500_000_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Series of kernels: of each the newest that Debian's archive has.
    #[arg(long, value_delimiter = ',', value_name = "VERSIONS")]
    #[arg(default_value = "6.16,6.17,6.18,6.19,7.0,7.1,7.2,7.3")]
    kernels: Vec<String>,
    /// Only these policies.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    policies: Option<Vec<String>>,
    /// Virtual seconds for which hogs run.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Write the table there, and the figures beside it as JSON.
    #[arg(long, default_value = "target/vm-kernels.md", value_name = "FILE")]
    out: PathBuf,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let releases = vm::kernel_releases()?;
        let (mut rows, mut faults) = (Vec::new(), Vec::new());
        for series in &self.kernels {
            let Some(release) = vm::newest(&releases, series) else {
                faults.push(format!("the archive has no kernel {series}"));
                continue;
            };
            if let Err(error) = self.collect(release, &mut rows) {
                faults.push(format!("{release}: {error:#}"));
            }
            self.write(&rows)?;
        }
        faults.extend(rows.iter().flat_map(faults_of));
        print!("{}", fs::read_to_string(&self.out)?);
        faults.iter().for_each(|fault| println!("* {fault}"));
        Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// All policies on one kernel.
    fn collect(&self, release: &str, rows: &mut Vec<Row>) -> Result<()> {
        eprintln!("xtask: kernel {release}");
        let mut script = format!(
            "xtask guest loads --seconds {} --instruction-ns {}",
            self.seconds,
            1 << ICOUNT
        );
        for policy in contest::policies()? {
            if self.policies.as_ref().is_none_or(|wanted| wanted.contains(&policy)) {
                script += &format!(" --policy {policy}");
            }
        }
        let what = Check {
            kernel: Some(release),
            cpus: CPUS,
            icount: Some(ICOUNT),
            timeout: Duration::from_secs(3600),
            ..Check::default()
        };
        vm::check(&what, &script, &mut |line| match Row::parse(line) {
            Some(row) => {
                eprintln!("{line}");
                rows.push(row);
            }
            None => vm::print(line),
        })
    }

    fn write(&self, rows: &[Row]) -> Result<()> {
        let complain = || format!("cannot write {}", self.out.display());
        if let Some(dir) = self.out.parent() {
            fs::create_dir_all(dir).with_context(complain)?;
        }
        fs::write(&self.out, report::markdown(rows)).with_context(complain)?;
        let json = serde_json::to_string_pretty(rows)?;
        fs::write(self.out.with_extension("json"), json).with_context(complain)
    }
}

/// What a row has that it should not.
fn faults_of(row: &Row) -> Vec<String> {
    let row = match row {
        Row::Load(row) => row,
        Row::Failure(failure) => return vec![failure.why.clone()],
        _ => return Vec::new(),
    };
    let LoadRow { kernel, policy, .. } = row;
    let mut faults = Vec::new();
    let mut fault = |what: String| faults.push(format!("{kernel}, {policy}: {what}"));
    if row.share_error_percent > SHARE_ERROR_PERCENT {
        fault(format!("a share is {:.2} % off", row.share_error_percent));
    }
    if !row.verified {
        fault("the recording is not what the core decides".into());
    }
    if row.load_instructions > LOAD_INSTRUCTIONS {
        fault(format!("{} instructions to load", row.load_instructions));
    }
    for program in row.programs.iter().filter(|p| p.instructions > PROGRAM_INSTRUCTIONS) {
        fault(format!("{} takes the verifier {} instructions", program.name, program.instructions));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Program;

    #[test]
    fn what_misses_its_target_is_told() {
        let program = |instructions| Program { name: "p".into(), instructions, peak_states: 1 };
        let mut row = LoadRow {
            kernel: "7.2".into(),
            policy: "gr3".into(),
            share_error_percent: 0.9,
            quantum_percent: 0.5,
            verified: true,
            programs: vec![program(400_000)],
            load_instructions: 400_000_000,
        };
        assert_eq!(faults_of(&Row::Load(row.clone())), Vec::<String>::new());
        row.share_error_percent = 1.1;
        row.verified = false;
        row.load_instructions = 600_000_000;
        row.programs.push(program(600_000));
        assert_eq!(faults_of(&Row::Load(row)).len(), 4);
    }
}
