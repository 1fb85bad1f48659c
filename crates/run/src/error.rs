//! What can go wrong, told to the user with the remedy.

use std::io;

use crate::task::{Attached, Command};

/// Why a run could not be started, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A job without a weight.
    #[error("'{text}' has no weight: write WEIGHT:…, as in {example}")]
    NoWeight {
        /// As typed.
        text: String,
        /// A job that would be right.
        example: &'static str,
    },
    /// A weight that is none.
    #[error("'{weight}' in '{text}' is not a weight: use a whole number from 1 to 4294967295")]
    Weight {
        /// As typed.
        text: String,
        /// The part before the colon.
        weight: String,
    },
    /// A number of cpus that is none.
    #[error("'{cpus}' in '{text}' is not a number of cpus: use 1 or more, as in 3@1:…")]
    MostCpus {
        /// As typed.
        text: String,
        /// The part between the @ and the colon.
        cpus: String,
    },
    /// A command that cannot be run.
    #[error("command '{text}': {reason}")]
    Command {
        /// As typed.
        text: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A process that cannot be held.
    #[error("process {text} {reason}")]
    Pid {
        /// As typed.
        text: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// Two jobs hold the same process.
    #[error("process {pid} is given twice, or is a descendant of process {other}: attach it once")]
    Overlap {
        /// The one.
        pid: i32,
        /// The other.
        other: i32,
    },
    /// The same cpus cannot be used.
    #[error("{0}")]
    Cpus(String),
    /// A quantum that cannot be kept.
    #[error("{0}")]
    Quantum(String),
    /// The policy cannot be built.
    #[error(transparent)]
    Policy(#[from] prorata::policies::BuildError),
    /// `--backend cgroup` where that does not work.
    #[error("cgroups cannot be used: {0}; use --backend signal")]
    NoCgroup(String),
    /// `--backend cgroup` with processes that run already.
    #[error("attached processes stay in their cgroups: use --backend signal")]
    AttachByCgroup,
    /// `--backend kernel` where that does not work.
    #[error("the kernel cannot share the cpus: {0}")]
    NoKernel(String),
    /// The system refused something that it should not.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Error {
    pub(crate) fn cannot_start(command: &Command, error: &io::Error) -> Error {
        let text = command.text.clone();
        Error::Command { text, reason: format!("cannot be started: {error}") }
    }

    pub(crate) fn gone(attached: &Attached) -> Error {
        let reason = "has just ended".to_owned();
        Error::Pid { text: attached.pid.to_string(), reason }
    }
}
