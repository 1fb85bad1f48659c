//! A scheduler without a callback, until Ctrl-C: what sched_ext itself costs.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use scx_prorata_objects::empty;
use scx_utils::{UserExitInfo, scx_ops_attach, scx_ops_load, scx_ops_open, uei_exited, uei_report};

fn main() -> Result<()> {
    let shutdown = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&shutdown);
    ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed))
        .context("cannot handle Ctrl-C")?;
    let mut object = MaybeUninit::uninit();
    let builder = empty::EmptySkelBuilder::default();
    let mut skel = scx_ops_open!(builder, &mut object, empty_ops, None)
        .context("the BPF object cannot be opened")?;
    let mut skel = scx_ops_load!(skel, empty_ops, uei)?;
    let link = scx_ops_attach!(skel, empty_ops)?;
    while !shutdown.load(Ordering::Relaxed) && !uei_exited!(&skel, uei) {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(link);
    let _: UserExitInfo = uei_report!(&skel, uei)?;
    Ok(())
}
