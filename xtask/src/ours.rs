//! Command lines of `scx_prorata`.

/// A policy whose queues have locks of their own: it knows no cgroups.
pub(crate) fn is_apart(policy: &str) -> bool {
    policy.split(':').next() == Some("gdq-distributed")
}

/// With this policy, and what it needs beside.
pub(crate) fn command_line(policy: &str) -> String {
    let groups = if is_apart(policy) { " --groups off" } else { "" };
    format!("scx_prorata --policy {policy}{groups}")
}

/// The same, recorded to a file.
pub(crate) fn recorded(policy: &str, file: &str) -> String {
    format!("{} --record {file}", command_line(policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_gets_what_it_needs() {
        assert_eq!(recorded("gr3", "/r"), "scx_prorata --policy gr3 --record /r");
        let apart = "gdq-distributed:t=2";
        let command = format!("scx_prorata --policy {apart} --groups off --record /r");
        assert_eq!(recorded(apart, "/r"), command);
    }
}
