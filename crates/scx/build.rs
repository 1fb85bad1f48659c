//! Compiles the BPF program once for each policy, and the loader's view of it.

/// The policies that have a header in `src/bpf/policies` …
const POLICIES: &[&str] = &["gr3", "vtrr", "gdq", "dfs_fa", "wfq"];
/// … and those that have locks of their own there.
const APART: &[&str] = &["gdq_distributed"];

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    for (policies, framework) in [(POLICIES, "src/bpf/main.bpf.c"), (APART, "src/bpf/apart.bpf.c")]
    {
        for policy in policies {
            compile(policy, framework, &format!("-DPOLICY_HEADER=\"policies/{policy}.h\""));
        }
    }
    // For the example of the same name.
    compile("empty", "src/bpf/empty.bpf.c", "-DEMPTY");
}

fn compile(name: &str, source: &str, flag: &str) {
    let result = scx_cargo::BpfBuilder::new().and_then(|mut builder| {
        builder
            .add_cflag(flag)
            // A run of zero stores must not become a memset, which loses the address space.
            .add_cflag("-fno-builtin-memset")
            .add_cflag("-Wno-unused-function")
            .enable_intf("src/bpf/intf.h", "bpf_intf.rs")
            .enable_skel(source, name);
        if source != "src/bpf/apart.bpf.c" {
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
