//! What libbpf says while it loads an object: its error numbers do not tell why it could not.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::PrintLevel;

/// Of each message so much is kept; a verifier's log, which may be megabytes, tells why at its end.
const KEPT_BYTES: usize = 4096;

static SAID: Mutex<String> = Mutex::new(String::new());

/// Keeps warnings from now on, for [`said`]; prints everything if `verbose`.
pub(crate) fn listen(verbose: bool) {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let print = match verbose {
        true => (PrintLevel::Debug, keep_and_print as fn(PrintLevel, String)),
        false => (PrintLevel::Warn, keep as fn(PrintLevel, String)),
    };
    libbpf_rs::set_print(Some(print));
}

/// The warnings since [`listen`].
pub(crate) fn said() -> String {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn keep_and_print(level: PrintLevel, message: String) {
    print!("{message}");
    keep(level, message);
}

fn keep(level: PrintLevel, message: String) {
    if level != PrintLevel::Warn {
        return;
    }
    let begin = message.len().saturating_sub(KEPT_BYTES);
    let begin = (begin..).find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    SAID.lock().unwrap_or_else(PoisonError::into_inner).push_str(&message[begin..]);
}
