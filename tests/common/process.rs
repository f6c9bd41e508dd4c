//! Runs a program to its end or to a limit, and says how it ended.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// No run of these tests takes nearly as long: whatever does hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// How the variables of schedulers and launchers begin.
const SCHEDULERS: [&str; 9] =
    ["SLURM_", "PBS_", "LSB_", "SGE_", "FLUX_", "AWS_BATCH_", "JOB_COMPLETION", "OMPI_", "PMI"];

/// `packhorse ARGS --quiet`, to be started.
pub(crate) fn packhorse(args: &[&str]) -> Program {
    let mut command = command(env!("CARGO_BIN_EXE_packhorse"));
    command.args(args).arg("--quiet");
    Program(command)
}

/// A program in a clean environment: what a test runs under must not decide which part it packs, nor
/// where the loader looks.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let foreign = |name: &str| SCHEDULERS.iter().any(|start| name.starts_with(start)) || name == "LD_LIBRARY_PATH";
    for (name, _) in std::env::vars_os().filter(|(name, _)| foreign(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

/// A program with its arguments.
pub(crate) struct Program(pub(crate) Command);

impl Program {
    /// Starts it.
    pub(crate) fn start(mut self) -> Running {
        let [out, err] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        self.0.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
        let child = self.0.spawn().unwrap_or_else(|e| panic!("{:?}: {e}", self.0));
        Running { shown: format!("{:?}", self.0), child, out, err, start: Instant::now() }
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Ended {
        self.start().end()
    }

    /// Runs it to its end, which must be a success.
    pub(crate) fn succeed(self) -> Ended {
        let ended = self.run();
        assert!(ended.status.success(), "{ended:?}");
        ended
    }
}

/// A program on its way.
pub(crate) struct Running {
    shown: String,
    child: Child,
    out: File,
    err: File,
    start: Instant,
}

impl Running {
    /// Whether it ended within `time` from its start.
    pub(crate) fn ends_within(&mut self, time: Duration) -> bool {
        loop {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            let left = time.saturating_sub(self.start.elapsed());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(Duration::from_millis(1)));
        }
    }

    /// Time since its start.
    pub(crate) fn age(&self) -> Duration {
        self.start.elapsed()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, which no program can catch.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        if !self.ends_within(LIMIT) {
            self.kill();
            panic!("{} did not end", self.shown);
        }
        let status = self.child.wait().unwrap();
        let took = self.start.elapsed();
        let [printed, said] = [&mut self.out, &mut self.err].map(|file| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ended { shown: self.shown, status, printed, said, took }
    }
}

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The command line, for messages.
    #[expect(dead_code, reason = "shown by Debug")]
    shown: String,
    /// Its exit status.
    pub(crate) status: ExitStatus,
    /// Standard output.
    pub(crate) printed: String,
    /// Standard error.
    pub(crate) said: String,
    /// From start to end.
    pub(crate) took: Duration,
}

impl Ended {
    /// Its exit code; a program killed by signal N has 128 + N, as in a shell.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or_default())
    }
}
