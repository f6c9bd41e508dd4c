//! Runs a program with a time limit. Owns the clock; knows no command line.

use std::io::{Read, Seek};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The result of a program.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output, lossy.
    pub stdout: String,
    /// Standard error, lossy.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

/// Runs `command` to its end. Kills it and panics after `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Ran {
    let (mut out, mut err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            panic!("still running after {limit:?}: {command:?}\n{}", text(&mut err));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ran { code: status.code(), stdout: text(&mut out), stderr: text(&mut err), took: start.elapsed() }
}

fn text(file: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
