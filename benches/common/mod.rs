//! What the benches share: running a command, timing it, the median.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

pub(crate) fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("command starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// In seconds.
pub(crate) fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64)
}
