//! Benches that other load of the machine can't fool.
//!
//! The rivals of a [`Trial`] take turns: each round runs all of them, and starts with another one. Wall time and processors' time are
//! taken of each, and ratios within each round, so that what changes from minute to minute cancels out. Shown are medians with the
//! interval that holds the true median in 95 of 100 cases. Results go to `target/bench.json` with the facts of the machine;
//! [`Results`] makes tables of them.
//!
//! ```no_run
//! use packhorse_testkit::trials::{Trials, Unit};
//!
//! let mut trials = Trials::of("sum");
//! let numbers = vec![1u64; 1 << 20];
//! let trial = trials.work("sum-of-numbers", "8 MB of numbers", Unit::Bytes, 8e6);
//! let ours = trial.ours("packhorse", |clock| clock.time(|| numbers.iter().sum::<u64>()));
//! ours.limit("copying them", |clock| clock.time(|| numbers.clone())).run(5);
//! ```

mod machine;
mod results;
mod spread;

pub use results::{Results, TrialResult, Unit, fill, table, thousands};
pub use spread::Spread;

use nix::sys::resource::{UsageWho, getrusage};
use results::{Measured, Role, Times};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The works of one bench, and what its arguments choose of them.
#[derive(Debug)]
pub struct Trials {
    bench: &'static str,
    numbers: Vec<u64>,
    words: Vec<String>,
}

impl Trials {
    /// Reads the arguments of the process: numbers for the bench, and words, of which one must be in the name of a work for it to run.
    pub fn of(bench: &'static str) -> Self {
        Self::with(bench, std::env::args().skip(1).filter(|arg| !arg.starts_with("--")))
    }

    /// The same with these arguments.
    pub fn with(bench: &'static str, args: impl IntoIterator<Item = String>) -> Self {
        let args: Vec<String> = args.into_iter().collect();
        let numbers = args.iter().filter_map(|arg| arg.parse().ok()).collect();
        let words = args.into_iter().filter(|arg| arg.parse::<u64>().is_err()).collect();
        Self { bench, numbers, words }
    }

    /// The number at this place among the arguments.
    pub fn number(&self, place: usize, default: u64) -> u64 {
        self.numbers.get(place).copied().unwrap_or(default)
    }

    /// Whether a work of this name runs: to leave out what prepares it.
    pub fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word.as_str()))
    }

    /// A work: so much of a unit, done by several rivals. The name is that of its results.
    pub fn work<'t>(&'t mut self, name: &str, title: impl Into<String>, unit: Unit, amount: f64) -> Trial<'t> {
        let (name, title) = (name.to_owned(), title.into());
        Trial { trials: self, name, title, unit, amount, by_processors: false, rivals: Vec::new() }
    }
}

/// Rivals that do the same work.
pub struct Trial<'t> {
    trials: &'t Trials,
    name: String,
    title: String,
    unit: Unit,
    amount: f64,
    by_processors: bool,
    rivals: Vec<Rival<'t>>,
}

struct Rival<'t> {
    name: String,
    role: Role,
    run: Box<dyn FnMut(&mut Clock) + 't>,
}

/// Times the part of a run that counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    wall: Duration,
    processors: Duration,
}

impl Clock {
    /// Times `work`, with the processes that it starts and waits for.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (start, before) = (Instant::now(), processors());
        let done = work();
        self.add(start.elapsed(), processors() - before);
        done
    }

    /// The processors' time so far.
    pub fn processors(&self) -> Duration {
        self.processors
    }

    /// Runs a program that times itself: the first words that it prints are seconds, by the clock and of processors.
    pub fn told(&mut self, command: &mut Command) {
        let text = run(command);
        let mut seconds = text.split_whitespace().map(|word| Duration::from_secs_f64(word.parse().unwrap()));
        let [wall, processors] = [(); 2].map(|()| seconds.next().unwrap());
        self.add(wall, processors);
    }

    /// Adds what a program says of itself.
    pub fn add(&mut self, wall: Duration, processors: Duration) {
        self.wall += wall;
        self.processors += processors;
    }
}

/// The processors' time of this process and of those that it waited for.
fn processors() -> Duration {
    let usages = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).unwrap());
    let times = usages.iter().flat_map(|usage| [usage.user_time(), usage.system_time()]);
    times.map(|time| Duration::from_micros((time.tv_sec() * 1_000_000 + time.tv_usec()) as u64)).sum()
}

impl<'t> Trial<'t> {
    /// Compares the processors' time, not the clock's: for work of one thread, as other load disturbs it less.
    #[must_use]
    pub fn by_processors(self) -> Self {
        Self { by_processors: true, ..self }
    }

    /// The one that is measured.
    #[must_use]
    pub fn ours<T>(self, name: impl Into<String>, run: impl FnMut(&mut Clock) -> T + 't) -> Self {
        self.rival(name.into(), Role::Ours, run)
    }

    /// Another tool.
    #[must_use]
    pub fn peer<T>(self, name: impl Into<String>, run: impl FnMut(&mut Clock) -> T + 't) -> Self {
        self.rival(name.into(), Role::Peer, run)
    }

    /// The least that the work can cost.
    #[must_use]
    pub fn limit<T>(self, name: impl Into<String>, run: impl FnMut(&mut Clock) -> T + 't) -> Self {
        self.rival(name.into(), Role::Limit, run)
    }

    fn rival<T>(mut self, name: String, role: Role, mut run: impl FnMut(&mut Clock) -> T + 't) -> Self {
        let run = move |clock: &mut Clock| drop(std::hint::black_box(run(clock)));
        self.rivals.push(Rival { name, role, run: Box::new(run) });
        self
    }

    /// Runs so many rounds after one that does not count, prints the results, and keeps them in `target/bench.json`. `None` if the
    /// arguments leave this work out.
    pub fn run(self, rounds: usize) -> Option<TrialResult> {
        let name = self.name.clone();
        let outcome = self.measure(rounds)?;
        Results::add(&results_file(), name, &outcome);
        Some(outcome)
    }

    /// The same, but keeps nothing.
    pub fn measure(mut self, rounds: usize) -> Option<TrialResult> {
        if !self.trials.wants(&self.name) {
            return None;
        }
        let mut clocks = vec![Vec::new(); self.rivals.len()];
        let load = machine::Load::now();
        for round in 0..=rounds {
            for turn in 0..self.rivals.len() {
                let place = (round + turn) % self.rivals.len();
                let mut clock = Clock::default();
                (self.rivals[place].run)(&mut clock);
                if round > 0 {
                    clocks[place].push(clock);
                }
            }
        }
        let others = load.others();
        let ours = self.rivals.iter().position(|rival| rival.role == Role::Ours).unwrap();
        let rivals = self.rivals.iter().zip(&clocks).map(|(rival, mine)| Measured {
            name: rival.name.clone(),
            role: rival.role,
            seconds: Times {
                wall: Spread::of(mine.iter().map(|clock| clock.wall.as_secs_f64())),
                processors: Spread::of(mine.iter().map(|clock| clock.processors.as_secs_f64())),
            },
            ratio: (rival.role != Role::Ours).then(|| Times::ratio(&clocks[ours], mine)),
        });
        let outcome = TrialResult {
            bench: self.trials.bench.to_owned(),
            commit: machine::commit(),
            title: self.title,
            unit: self.unit,
            amount: self.amount,
            by_processors: self.by_processors,
            rounds,
            others,
            rivals: rivals.collect(),
        };
        outcome.print();
        Some(outcome)
    }
}

impl Times {
    /// Of each round: ours by theirs.
    fn ratio(ours: &[Clock], theirs: &[Clock]) -> Self {
        let ratios = |part: fn(&Clock) -> Duration| {
            let each = ours.iter().zip(theirs).map(|(ours, theirs)| (part(ours), part(theirs)));
            Spread::of(each.map(|(ours, theirs)| ours.as_secs_f64() / theirs.as_secs_f64().max(1e-9)))
        };
        Self { wall: ratios(|clock| clock.wall), processors: ratios(|clock| clock.processors) }
    }
}

/// Runs a command that must succeed; returns what it prints.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The file of results: that of `PACKHORSE_BENCH_JSON`, else `bench.json` in the build folder.
pub fn results_file() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    // target/release/deps/program
    let target = program.ancestors().nth(3).unwrap_or_else(|| Path::new("target"));
    std::env::var_os("PACKHORSE_BENCH_JSON").map_or_else(|| target.join("bench.json"), PathBuf::from)
}

/// The Python of `PACKHORSE_PYTHON`.
pub fn python() -> Option<PathBuf> {
    std::env::var_os("PACKHORSE_PYTHON").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// A package with its version, such as `webdataset 1.0.2`, where this Python has it.
pub fn package(python: &Path, name: &str) -> Option<String> {
    let script = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))";
    let output = Command::new(python).args(["-c", script, name]).output().ok().filter(|done| done.status.success())?;
    Some(format!("{name} {}", String::from_utf8_lossy(&output.stdout).trim()))
}

/// The first line that a program says of its version; its name where it says none.
pub fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output().ok().filter(|done| done.status.success());
    let line = output.and_then(|done| String::from_utf8_lossy(&done.stdout).lines().next().map(str::to_owned));
    line.map_or_else(|| program.to_owned(), |line| line.replace("tar (GNU tar)", "GNU tar"))
}
