//! Two builds of the command on the same work, in turn: `cargo bench --bench compare -- OLD [NEW] [words] [files] [rounds]`.
//!
//! OLD and NEW are programs; NEW is this build's unless it is given. Words choose works; a number is that of photos (default 16000),
//! the next that of rounds (default 15). Prints what got slower at the end, and fails if anything did: the lower end of its
//! interval is more than 2 % above the old time of processors, or 5 % above that of the clock. Files lie in `/dev/shm` where that is,
//! else in the build folder. `PACKHORSE_TEST_DATA` adds tokens.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

use packhorse_testkit::trials::{Clock, Trials, Unit, run};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The most that a new build may take of the old one's time: of processors, and by the clock.
const MOST: (f64, f64) = (1.02, 1.05);

/// A work: its name, the folder or file of inputs, and the arguments before the output.
type Job<'a> = (&'a str, &'a Path, Vec<&'a str>);

fn main() -> ExitCode {
    let (programs, rest): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).partition(|arg| Path::new(arg).is_file());
    let own = env!("CARGO_BIN_EXE_packhorse").to_owned();
    let (old, new) = match programs.as_slice() {
        // All benches are run, without arguments.
        [] if rest.is_empty() => {
            println!("give the program of another build: cargo bench --bench compare -- OLD");
            return ExitCode::SUCCESS;
        }
        [] => return missing(&rest),
        _ if rest.iter().any(|word| word.contains('/')) => return missing(&rest),
        [old] => (old, &own),
        [old, new, ..] => (old, new),
    };
    let mut trials = Trials::with("compare", rest);
    let (count, rounds) = (trials.number(0, 16_000), trials.number(1, 15) as usize);
    let base = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { env!("CARGO_TARGET_TMPDIR") };
    let home = Path::new(base).join("packhorse-bench-compare");
    let inputs = Inputs::make(&home, count);
    let mut slower = Vec::new();
    for (name, input, args) in inputs.jobs() {
        let out = home.join("out");
        let work = |program: &str, clock: &mut Clock| {
            let _ = std::fs::remove_dir_all(&out);
            let mut command = Command::new(program);
            command.args(&args).arg(input).arg("--quiet");
            if args.first().is_some_and(|verb| ["pack", "plan"].contains(verb)) {
                command.arg("--out").arg(&out);
            }
            clock.time(|| run(&mut command));
        };
        let trial = trials.work(name, name, Unit::Bytes, bytes(input) as f64);
        let trial = trial.ours("new", |clock| work(new, clock)).peer("old", |clock| work(old, clock));
        let Some(outcome) = trial.measure(rounds) else { continue };
        let Some((wall, processors)) = outcome.ratio_to("old") else { continue };
        if processors.low > MOST.0 || wall.low > MOST.1 {
            slower.push(format!("{name}: {:.2} of the time, {:.2} of processors", wall.median, processors.median));
        }
    }
    let _ = std::fs::remove_dir_all(&home);
    println!("\nslower: {}", if slower.is_empty() { "nothing".to_owned() } else { slower.join("; ") });
    if slower.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn missing(words: &[String]) -> ExitCode {
    println!("none of these is a program: {}", words.join(" "));
    ExitCode::FAILURE
}

/// What the works read. All of it is made by this build.
struct Inputs {
    photos: PathBuf,
    arrays: PathBuf,
    text: PathBuf,
    shards: PathBuf,
    tokenizer: Option<String>,
}

impl Inputs {
    fn make(home: &Path, count: u64) -> Self {
        let _ = std::fs::remove_dir_all(home);
        let [photos, arrays, text, shards] = ["photos", "arrays", "text", "shards"].map(|name| home.join(name));
        let packhorse = || Command::new(env!("CARGO_BIN_EXE_packhorse"));
        for (kind, count, out) in [("images", count, &photos), ("npz", count / 4, &arrays), ("text", count * 4, &text)]
        {
            run(packhorse().args(["synth", kind, "--quiet", "--count", &count.to_string(), "--out"]).arg(out));
        }
        let pack = ["--quiet", "--to", "webdataset", "--labels", "folders", "--shard-count", "6", "--out"];
        run(packhorse().arg("pack").arg(&photos).args(pack).arg(&shards));
        let tokenizer = std::env::var_os("PACKHORSE_TEST_DATA").map(|data| {
            let packed = std::fs::File::open(Path::new(&data).join("tokenizers/gpt2.json.zst")).expect("a tokenizer");
            let path = home.join("gpt2.json");
            std::fs::write(&path, zstd::decode_all(packed).expect("a tokenizer")).expect("a tokenizer");
            path.to_str().expect("UTF-8").to_owned()
        });
        Self { photos, arrays, text, shards, tokenizer }
    }

    fn jobs(&self) -> Vec<Job<'_>> {
        let to = |format| vec!["pack", "--to", format];
        let mut jobs: Vec<Job<'_>> = vec![
            ("plan-photos", &self.photos, vec!["plan", "--to", "webdataset", "--labels", "folders", "--shuffle", "1"]),
            (
                "photos-to-tars",
                &self.photos,
                [to("webdataset"), vec!["--labels", "folders", "--index", "wids"]].concat(),
            ),
            ("photos-resized", &self.photos, [to("webdataset"), vec!["--image", "resize=64"]].concat()),
            ("arrays-to-hdf5", &self.arrays, [to("hdf5"), vec!["--ragged"]].concat()),
            ("arrays-to-parquet", &self.arrays, [to("parquet"), vec!["--ragged"]].concat()),
            ("text-to-tars", &self.text, to("webdataset")),
            ("text-to-parquet", &self.text, to("parquet")),
            ("tars-to-parquet", &self.shards, to("parquet")),
            ("tars-to-tfrecord", &self.shards, to("tfrecord")),
            ("verify", &self.shards, vec!["verify", "--full"]),
        ];
        if let Some(name) = &self.tokenizer {
            jobs.push((
                "text-to-tokens",
                &self.text,
                [to("tokens"), vec!["--tokenizer", name, "--append-eod", "--eod", "50256"]].concat(),
            ));
        }
        jobs
    }
}

/// The bytes of a folder.
fn bytes(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return std::fs::metadata(path).map_or(0, |found| found.len()) };
    entries.flatten().map(|entry| bytes(&entry.path())).sum()
}
