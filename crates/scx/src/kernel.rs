//! What this kernel can do, and what to say when it cannot.

use std::fs;
use std::path::Path;

use anyhow::{Error, Result, bail};

use crate::libbpf;

const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// Fails with the remedy when a scheduler cannot be loaded here.
pub(crate) fn check() -> Result<()> {
    if !Path::new(SCHED_EXT).is_dir() {
        bail!(
            "kernel {} has no sched_ext: it needs CONFIG_SCHED_CLASS_EXT=y, which e.g. Debian's \
             kernels from 6.16 on have (trixie-backports)",
            release()
        );
    }
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        bail!("loading a scheduler needs root: try `sudo scx_prorata`");
    }
    refuse_second()
}

/// Fails when a scheduler of sched_ext is there.
fn refuse_second() -> Result<()> {
    let state = fs::read_to_string(format!("{SCHED_EXT}/state")).unwrap_or_default();
    if state.trim() == "enabled" {
        let name = fs::read_to_string(format!("{SCHED_EXT}/root/ops")).unwrap_or_default();
        bail!("the scheduler '{}' is loaded: stop it first", name.trim());
    }
    Ok(())
}

/// As the kernel lists them; empty if there are none.
fn isolated_cpus() -> String {
    let cpus = fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    cpus.trim().to_string()
}

fn release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_string()
}

/// The program cannot be loaded.
pub(crate) fn explain_load(error: Error) -> Error {
    let reason = Refusal::of(&libbpf::said(), &format!("{error:#}"));
    let explanation = reason.explain(&release());
    error.context(explanation)
}

/// Why a program is not loaded.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// The verifier does not accept this program, for this reason.
    Verifier {
        program: String,
        why: String,
    },
    /// The kernel is built without what loading needs.
    Configuration(&'static str),
    /// The kernel has not got a function that we call, or another one of that name.
    Version {
        function: String,
    },
    Unknown,
}

impl Refusal {
    /// From libbpf's warnings and our libraries' error.
    fn of(said: &str, error: &str) -> Refusal {
        if let Some((option, _)) =
            OPTIONS.iter().find(|(option, sign)| said.contains(sign) || error.contains(option))
        {
            return Refusal::Configuration(option);
        }
        if let Some(function) = foreign_function(said) {
            return Refusal::Version { function: function.to_string() };
        }
        let failed = said.lines().find_map(|line| {
            line.split_once("prog '")?
                .1
                .split_once("': BPF program load failed")
                .map(|(name, _)| name)
        });
        match failed {
            Some(program) => Refusal::Verifier {
                program: program.to_string(),
                why: last_words(said).to_string(),
            },
            None => Refusal::Unknown,
        }
    }

    fn explain(&self, release: &str) -> String {
        match self {
            Refusal::Verifier { program, why } => format!(
                "the verifier of kernel {release} refuses {program} ({why}): use a kernel that this \
                 version of scx_prorata was tried on (6.16 to 7.3), or another --policy; with \
                 --verbose the verifier's log is shown, which a report of this should have"
            ),
            Refusal::Configuration(option) => format!(
                "kernel {release} is built without {option}=y, which loading a scheduler needs: use \
                 one that has it, as Debian's kernels from 6.16 on have"
            ),
            Refusal::Version { function } => format!(
                "kernel {release} has not got {function} as this version of scx_prorata knows it: it \
                 is older than 6.16, newer than what this version was made for, or its BTF is broken \
                 (as that of Debian's 7.2.12): use another kernel, or a newer scx_prorata"
            ),
            Refusal::Unknown => format!(
                "kernel {release} does not load the scheduler: with --verbose, libbpf says why"
            ),
        }
    }
}

/// Options of the kernel, and what libbpf says where they are missing.
const OPTIONS: &[(&str, &str)] = &[
    ("CONFIG_DEBUG_INFO_BTF", "failed to find valid kernel BTF"),
    ("CONFIG_FUNCTION_TRACER", "kernel is missing CONFIG_FUNCTION_TRACER"),
];

/// The function of which libbpf says that the kernel's is another one, or that there is none.
fn foreign_function(said: &str) -> Option<&str> {
    said.lines().find_map(|line| {
        let (name, what) = line.split_once("extern (func ksym) '")?.1.split_once("': ")?;
        (what.contains("incompatible with") || what.contains("not found in kernel")).then_some(name)
    })
}

/// The verifier's last words before its statistics.
fn last_words(said: &str) -> &str {
    const STATISTICS: &[&str] =
        &["processed ", "verification time ", "stack depth ", "insns processed ", "subprog "];
    let log = said.split("-- END PROG LOAD LOG --").next().unwrap_or_default();
    let is_reason = |line: &&str| !STATISTICS.iter().any(|begin| line.starts_with(begin));
    log.lines().rfind(is_reason).unwrap_or_default().trim_end_matches('.')
}

/// Why the scheduler is not loaded where core scheduling cannot be refused.
pub(crate) const NO_CORE_GUARD: &str = "this kernel has core scheduling, with which any user can \
     stop a machine under sched_ext, and prctl cannot be made to refuse it: use a kernel with \
     CONFIG_SECURITY=y and CONFIG_FUNCTION_TRACER=y";

/// The program is loaded, but the kernel does not take it as scheduler.
pub(crate) fn explain_attach(error: Error) -> Error {
    match refuse_second() {
        Err(second) => second,
        Ok(()) if !isolated_cpus().is_empty() => error.context(format!(
            "cpus {} are isolated (isolcpus=), and the kernel takes no scheduler of sched_ext then: boot \
             without that, and make them a cpuset partition (cpuset.cpus.partition), which it takes",
            isolated_cpus()
        )),
        Ok(()) => error.context(
            "the kernel does not take the scheduler; if it is older than 6.16, or Debian's 7.2.12 \
             (whose BTF is broken), use another: dmesg says more",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// libbpf's words, with the end of the verifier's.
    const TOO_COMPLEX: &str = "libbpf: prog 'prorata_enqueue': BPF program load failed: -E2BIG
libbpf: prog 'prorata_enqueue': -- BEGIN PROG LOAD LOG --
Validating find_exceeding() func#15...
The sequence of 8193 jumps is too complex.
verification time 18777466 usec
processed 280242 insns (limit 1000000) max_states_per_insn 66 total_states 11382 peak_states 16837
-- END PROG LOAD LOG --
libbpf: prog 'prorata_enqueue': failed to load: -E2BIG
";

    #[test]
    fn a_refusal_by_the_verifier_names_the_program_and_the_reason() {
        let refusal = Refusal::of(TOO_COMPLEX, "Failed to load BPF program");
        let program = "prorata_enqueue".to_string();
        let why = "The sequence of 8193 jumps is too complex".to_string();
        assert_eq!(refusal, Refusal::Verifier { program, why });
        let text = refusal.explain("7.2.13");
        for part in ["kernel 7.2.13", "prorata_enqueue", "8193 jumps", "--policy", "--verbose"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_missing_option_is_no_refusal_by_the_verifier() {
        let said = "libbpf: failed to find valid kernel BTF\n";
        let refusal = Refusal::of(said, "Failed to load BPF program");
        assert_eq!(refusal, Refusal::Configuration("CONFIG_DEBUG_INFO_BTF"));
        let refusal = Refusal::of("", "kernel is missing CONFIG_FUNCTION_TRACER");
        assert_eq!(refusal, Refusal::Configuration("CONFIG_FUNCTION_TRACER"));
        assert!(refusal.explain("6.18.1").contains("without CONFIG_FUNCTION_TRACER=y"));
    }

    #[test]
    fn a_kernel_of_another_version_is_neither() {
        let unlike = "libbpf: extern (func ksym) 'scx_bpf_error_bstr': func_proto [402] incompatible \
                      with vmlinux [48715]\n";
        let absent =
            "libbpf: extern (func ksym) 'scx_bpf_now': not found in kernel or module BTFs\n";
        for (said, function) in [(unlike, "scx_bpf_error_bstr"), (absent, "scx_bpf_now")] {
            let refusal = Refusal::of(said, "Failed to load BPF program");
            assert_eq!(refusal, Refusal::Version { function: function.to_string() });
            let text = refusal.explain("6.12.1");
            assert!(text.contains("6.12.1") && text.contains("use another kernel"), "{text}");
        }
    }

    #[test]
    fn what_nobody_knows_is_said_to_be_unknown() {
        let refusal = Refusal::of("libbpf: something else\n", "Failed to load BPF program");
        assert_eq!(refusal, Refusal::Unknown);
        assert!(refusal.explain("6.18.1").contains("--verbose"));
    }
}
