//! `cargo xtask tidy`: what neither rustfmt nor clippy looks at.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::shell;

/// The longest line, in characters. rustfmt keeps code at 100; comments and macros may be a word
/// longer.
const COLUMNS: usize = 110;

#[derive(clap::Args)]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn execute(self) -> Result<ExitCode> {
        check()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Every tracked source file has short lines and no unfinished business.
pub(crate) fn check() -> Result<()> {
    let root = shell::workspace();
    let listed = shell::output(
        Command::new("git").current_dir(&root).args(["ls-files", "*.rs", "*.c", "*.h", "*.py"]),
    )?;
    let mut complaints = Vec::new();
    for file in listed.lines().filter(|file| root.join(file).is_file()) {
        let text = fs::read_to_string(root.join(file))?;
        for (number, line) in text.lines().enumerate() {
            for fault in faults(line) {
                complaints.push(format!("{file}:{}: {fault}", number + 1));
            }
        }
    }
    if complaints.is_empty() {
        return Ok(());
    }
    bail!("{} untidy lines:\n{}", complaints.len(), complaints.join("\n"))
}

fn faults(line: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let columns = line.chars().count();
    let table = line.trim_start().trim_start_matches(['/', '!', ' ']).starts_with('|');
    if columns > COLUMNS && !table {
        faults.push(format!("{columns} columns"));
    }
    // Split, so that this file does not complain of itself.
    for marker in [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")] {
        if line.contains(marker) {
            faults.push(format!("{marker}: finish it, or write down why it waits in an issue"));
        }
    }
    faults
}
