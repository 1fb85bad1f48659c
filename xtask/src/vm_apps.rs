//! `cargo xtask vm-apps`: real programs under the schedulers, in the test machine.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::contest::Contest;
use crate::guest::debian;
use crate::vm::{self, Check};

/// An instruction takes 4 ns: encoders spend the host's time on nothing else.
const ICOUNT: u32 = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Virtual cpus.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Virtual seconds for which a server is asked.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Only these schedulers: policies (also `gr3:sleepers=corrected`), `eevdf`, `empty`, `scx_flash`,
    /// `scx_lavd`.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    schedulers: Option<Vec<String>>,
    /// Write the table there, and the figures beside it as JSON.
    #[arg(long, default_value = "target/vm-apps.md", value_name = "FILE")]
    out: PathBuf,
}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        let programs = vm::debian(debian::PACKAGES)?;
        let mut contest = Contest::new(self.schedulers.as_deref())?;
        let machine = Check {
            cpus: self.cpus,
            icount: Some(ICOUNT),
            debian: Some(&programs),
            ..Check::default()
        };
        contest.measure(&machine, &format!("xtask guest apps --seconds {}", self.seconds))?;
        contest.write(HOW, &self.out)?;
        print!("{}", fs::read_to_string(&self.out)?);
        Ok(ExitCode::SUCCESS)
    }
}

const HOW: &str = "\
Times are virtual: QEMU -icount, where an instruction takes 4 ns, so that a busy host changes nothing; all
schedulers in one boot. Encoders are lame's, of one thread each and of noise; of nice 10 they weigh 110
where what they are beside weighs 1024. nginx is asked by wrk over ten connections, each of which thinks
for 50 ms between two requests, and as fast as it can where it is busy; redis by redis-benchmark over ten
connections, as fast as it can. Tasks of cyclictest (four, every 10 ms) and rt-app (ten, 1 ms every 20)
tell how late they ran, and how often in a second. Server and client are a process each, of nice 0. gcc
compiles a small file. What one encoder received is the least and the most of them, in cpus.

";
