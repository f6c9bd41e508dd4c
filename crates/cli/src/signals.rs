//! SIGINT, SIGTERM and SIGUSR1 ask the work to stop; finished shards stay, and the same command
//! resumes. Slurm sends TERM twice: only a second SIGINT (Ctrl-C) ends the process at once.

use packhorse_core::{Cancel, Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A flag that the signals raise.
pub(crate) fn cancel() -> Result<Cancel> {
    let (stop, pressed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let failed = |e| Error::io("catch signals", e);
    // In this order: the first SIGINT finds `pressed` still unset.
    flag::register_conditional_shutdown(SIGINT, 130, pressed.clone()).map_err(failed)?;
    flag::register(SIGINT, pressed).map_err(failed)?;
    for signal in [SIGINT, SIGTERM, SIGUSR1] {
        flag::register(signal, stop.clone()).map_err(failed)?;
    }
    Ok(Cancel::from_flag(stop))
}

/// The interval of checks for a request to stop.
const LOOK: Duration = Duration::from_millis(20);

/// How long work may continue after it.
const GRACE: Duration = Duration::from_millis(400);

/// Ends the program soon after a request to stop, also where the work looks for none, such as an index that is
/// computed in one go: `last` cleans up and returns the exit code. Published files must be whole at any moment.
pub(crate) fn end_soon(cancel: &Cancel, last: impl FnOnce() -> i32 + Send + 'static) {
    on_stop(cancel, move || {
        std::thread::sleep(GRACE);
        std::process::exit(last());
    });
}

/// Runs `then` on a thread of its own, soon after a request to stop.
pub(crate) fn on_stop(cancel: &Cancel, then: impl FnOnce() + Send + 'static) {
    let cancel = cancel.clone();
    std::thread::spawn(move || {
        while !cancel.is_cancelled() {
            std::thread::sleep(LOOK);
        }
        then();
    });
}
