//! Compiles the BPF program once for each policy, and the loader's view of it.

/// The policies that have a header in `../src/bpf/policies`, each compiled twice, once with corrected turns:
/// the kernel verifies what is in an object, used or not …
const POLICIES: &[&str] = &["gr3", "vtrr", "gdq", "dfs_fa", "wfq"];
/// … and those that have locks of their own there.
const APART: &[&str] = &["gdq_distributed"];

fn main() {
    println!("cargo::rerun-if-changed=../src/bpf");
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    for policy in POLICIES {
        for (name, corrects) in [(policy.to_string(), 0), (format!("{policy}_corrected"), 1)] {
            let flags = [header(policy), format!("-DCORRECTS_TURNS={corrects}")];
            compile(&name, "../src/bpf/main.bpf.c", &flags);
        }
    }
    for policy in APART {
        compile(policy, "../src/bpf/apart.bpf.c", &[header(policy)]);
    }
    // For the example `scx_empty`.
    compile("empty", "../src/bpf/empty.bpf.c", &[]);
}

fn header(policy: &str) -> String {
    format!("-DPOLICY_HEADER=\"policies/{policy}.h\"")
}

fn compile(name: &str, source: &str, flags: &[String]) {
    let result = scx_cargo::BpfBuilder::new().and_then(|mut builder| {
        for flag in flags {
            builder.add_cflag(flag);
        }
        builder
            // A run of zero stores must not become a memset, which loses the address space.
            .add_cflag("-fno-builtin-memset")
            .add_cflag("-Wno-unused-function")
            // The verifier's log shows lines; columns are a fifth of compiling.
            .add_cflag("-gno-column-info")
            .enable_intf("../src/bpf/intf.h", "bpf_intf.rs")
            .enable_skel(source, name);
        if source != "../src/bpf/apart.bpf.c" {
            // A rotated loop asks for its next number at two places, which costs the verifier. (In the other
            // object it saves stack, of which that has no more.)
            builder.add_cflag("-mllvm").add_cflag("-rotation-max-header-size=0");
        }
        builder.build()
    });
    if let Err(error) = result {
        eprintln!("{source} ({name}): {error:#}");
        eprintln!("building scx_prorata needs clang 19, libelf-dev and zlib1g-dev: see README");
        std::process::exit(1);
    }
}
