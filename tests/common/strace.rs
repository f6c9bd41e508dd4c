//! Faults in system calls, made with strace(1).
//!
//! strace counts the calls of each thread on its own: `when=3` is the third call of every thread that
//! gets so far. So a step is run with few threads, and with every count until none is reached.

use super::process::{Ended, Program};
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether strace is there and may trace. The test is skipped if not.
pub(crate) fn available() -> bool {
    let mut probe = Command::new("strace");
    let found = probe.args(["-f", "-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    packhorse_testkit::external::skip("strace is missing or may not trace");
    false
}

/// `program` with a fault: `syscall` and what happens to it, as in strace's `inject=`; with `path`
/// only calls that concern this file. The tracer writes to `log`.
pub(crate) fn inject(program: Program, syscall: &str, fault: &str, path: Option<&Path>, log: &Path) -> Program {
    let mut traced = tracer(log);
    if let Some(path) = path {
        traced.arg("-P").arg(path);
    }
    traced.arg("-e").arg(format!("trace={syscall}")).arg("-e").arg(format!("inject={syscall}:{fault}"));
    run_by(traced, program)
}

/// `program`, whose calls of `syscall` are written to `log`, with the paths of their files.
pub(crate) fn trace(program: Program, syscall: &str, log: &Path) -> Program {
    let mut traced = tracer(log);
    traced.args(["-y", "-e", &format!("trace={syscall}")]);
    run_by(traced, program)
}

fn tracer(log: &Path) -> Command {
    let mut traced = Command::new("strace");
    // -D: the tracer is the grandchild, so that signals and exit codes are the program's own. No --seccomp-bpf:
    // it makes strace miss calls that are to be met by a signal.
    traced.args(["-D", "-f", "-qq", "-o"]).arg(log);
    traced
}

fn run_by(mut traced: Command, program: Program) -> Program {
    traced.arg("--").arg(program.0.get_program()).args(program.0.get_args());
    for (name, value) in program.0.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    Program(traced)
}

/// The calls that met a fault in a run whose tracer wrote to `log`; none where it came to its end before.
pub(crate) fn hits(ended: &Ended, log: &Path) -> Vec<String> {
    let killed = (ended.code() == 137).then(|| "killed".to_owned());
    let said = std::fs::read_to_string(log).unwrap();
    said.lines().filter(|line| line.contains("(INJECTED)")).map(str::to_owned).chain(killed).collect()
}
