//! The kernel's C, compiled natively.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

/// The address sanitizer, and that of undefined behaviour but for alignment and what the former finds, too:
/// to look for these is a third of compiling.
#[allow(dead_code)] // not every test has them
pub(crate) const SANITIZERS: &[&str] = &[
    "-fsanitize=address,undefined",
    "-fno-sanitize=null,alignment,object-size",
    "-fno-sanitize-recover=all",
];

/// A program from `tests/SOURCE` with a policy's header, built with these flags.
#[allow(dead_code)] // not every test has policies
pub(crate) fn compile(source: &str, policy: &str, flags: &[&str]) -> PathBuf {
    let header = format!("-DPOLICY_HEADER=\"../src/bpf/policies/{policy}.h\"");
    build(source, policy, &[flags, &[&header]].concat())
}

/// A program from `tests/SOURCE`, `name` in messages. Compiling takes longer than running: it is optimised
/// for that, with lines for the sanitizers' messages, and tests that need the same share one.
pub(crate) fn build(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    static PROGRAMS: Mutex<BTreeMap<String, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());
    let what = format!("{source} {name} {flags:?}");
    let mut programs = PROGRAMS.lock().expect("nobody panics with it");
    let number = programs.len();
    let program = Arc::clone(programs.entry(what).or_default());
    drop(programs);
    program.get_or_init(|| build_anew(source, name, number, flags)).clone()
}

fn build_anew(source: &str, name: &str, number: usize, flags: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{source}-{name}-{number}"));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(&compiler)
        .args(["-Og", "-g1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"])
        .args(flags)
        .arg(here.join("tests").join(source))
        .arg("-o")
        .arg(&program)
        .status()
        .unwrap_or_else(|error| panic!("cannot start the C compiler {compiler:?}: {error}"));
    assert!(status.success(), "{name} does not compile natively");
    program
}

/// What the program prints when it reads `input`; it must end well.
#[allow(dead_code)] // not every test talks to one
pub(crate) fn answer(program: &Path, input: &str) -> String {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("it was asked for");
    let output = std::thread::scope(|scope| {
        // It may end early, when an assertion fails: its message says more.
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().expect("the program can be waited for")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} failed, {}:\n{said}", program.display(), output.status);
    String::from_utf8(output.stdout).expect("text")
}
