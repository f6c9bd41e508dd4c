//! SIGTERM and SIGUSR1 ask the work to stop soon: shards in progress may be finished, for some seconds. A second one asks
//! it to stop now, and so does SIGINT (Ctrl-C). Finished shards stay, and the same command resumes. A second SIGINT ends
//! the process at once. SIGXFSZ is not deadly. The process ends some seconds after the request also where work waits for a server that does not answer.

use packhorse_core::{Cancel, Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Whether a signal asked the work to stop, which an error may stop too.
static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// A flag that the signals raise.
pub(crate) fn cancel() -> Result<Cancel> {
    let (stop, pressed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let failed = |e| Error::io("catch signals", e);
    // In this order: the first SIGINT finds `pressed` still unset.
    flag::register_conditional_shutdown(SIGINT, STOPPED, pressed.clone()).map_err(failed)?;
    flag::register(SIGINT, pressed).map_err(failed)?;
    flag::register(SIGINT, ASKED.clone()).map_err(failed)?;
    flag::register(SIGINT, stop.clone()).map_err(failed)?;
    // Without a handler a limit on file sizes would end the process; with one it is an error of the file.
    flag::register(nix::libc::SIGXFSZ, Arc::default()).map_err(failed)?;
    let cancel = Cancel::from_flag(stop);
    let signals = Signals::new([SIGTERM, SIGUSR1, SIGINT]).map_err(failed)?;
    let asked = cancel.clone();
    let started = std::thread::Builder::new().spawn(move || listen(signals, &asked));
    started.map(|_| cancel).map_err(Error::thread)
}

/// How long shards in progress may go on. Schedulers wait at least 10 s between SIGTERM and SIGKILL.
const FINISH: Duration = Duration::from_secs(4);

/// How long work may take to stop. It is safe to end at any moment: what it would have cleaned up, the next run does.
const LAST: Duration = Duration::from_secs(2);

/// The exit code of work that was asked to stop.
const STOPPED: i32 = 130;

fn listen(mut signals: Signals, cancel: &Cancel) {
    for signal in signals.forever() {
        let wait = if signal == SIGINT || cancel.is_requested() { Duration::ZERO } else { FINISH };
        ASKED.store(true, Ordering::SeqCst);
        cancel.cancel_soon();
        let ending = cancel.clone();
        let end = move || {
            std::thread::sleep(wait);
            ending.cancel();
            std::thread::sleep(LAST);
            std::process::exit(STOPPED);
        };
        if std::thread::Builder::new().spawn(end).is_err() {
            cancel.cancel();
        }
    }
}

/// The interval of checks for a request to stop.
const LOOK: Duration = Duration::from_millis(20);

/// How long work may continue after it.
const GRACE: Duration = Duration::from_millis(400);

/// Ends the program soon after a request to stop, also where the work looks for none, such as an index that is
/// computed in one go: `last` cleans up and returns the exit code. Published files must be whole at any moment.
pub(crate) fn end_soon(cancel: &Cancel, last: impl FnOnce() -> i32 + Send + 'static) -> Result<()> {
    on_stop(cancel, move || {
        std::thread::sleep(GRACE);
        std::process::exit(last());
    })
}

/// Runs `then` on a thread of its own, soon after a signal that asks the work to stop.
pub(crate) fn on_stop(cancel: &Cancel, then: impl FnOnce() + Send + 'static) -> Result<()> {
    let cancel = cancel.clone();
    let wait = move || {
        while !cancel.is_requested() {
            std::thread::sleep(LOOK);
        }
        if ASKED.load(Ordering::SeqCst) {
            then();
        }
    };
    std::thread::Builder::new().spawn(wait).map(drop).map_err(Error::thread)
}
