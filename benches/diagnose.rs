//! Predicted gains of remedies against observed ones: `cargo bench --bench diagnose`.
//!
//! Each case slows a loop of photos in one way, diagnoses it, makes the change that a remedy proposes, and measures the
//! loop again. Arguments after `--`: the number of photos (default 4000), and names of remedies (default: all). The corpus lies in `/dev/shm` where that is,
//! else in the build folder. A ratio of 1 is an exact prediction.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "a bench prints, and ends where it can't go on")]

#[path = "../tests/common/slow_store.rs"]
#[expect(clippy::unwrap_used, reason = "it is written for tests")]
mod slow_store;

use packhorse::read::diagnose::{Cut, DiagnoseOptions, Diagnosis, Remedy, diagnose};
use packhorse::read::order::Shuffle;
use packhorse::read::{
    Dataset, FieldKind, FieldOptions, Host, Loader, LoaderOptions, Normalize, OpenOptions, ReadOptions,
};
use packhorse::transform::image::View;
use packhorse_testkit::trials::run;
use slow_store::SlowStore;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BATCH: u32 = 32;

/// A loop, whose steps only sleep.
#[derive(Clone)]
struct Case {
    dataset: Dataset,
    fields: Vec<FieldOptions>,
    options: LoaderOptions,
    step: Duration,
}

impl Case {
    fn diagnose(&self) -> Diagnosis {
        self.diagnosed(false)
    }

    /// With `apply`, remedies are tried.
    fn diagnosed(&self, apply: bool) -> Diagnosis {
        let how = DiagnoseOptions { time: Duration::from_secs(16), apply, ..DiagnoseOptions::default() };
        let (host, time) = (Host::default(), self.step);
        let mut step = |_: &_| {
            std::thread::sleep(time);
            Ok(())
        };
        diagnose(&self.dataset, &self.fields, &self.options, &mut || Ok(host.clone()), &mut step, &how)
            .expect("diagnosis")
    }

    /// The same after a remedy's change.
    fn with(&self, remedy: &Remedy) -> Self {
        let mut changed = self.clone();
        if let Some(setting) = &remedy.setting {
            setting.apply(&mut changed.options, &mut changed.fields);
        }
        changed
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let count: u64 = args.iter().find_map(|a| a.parse().ok()).unwrap_or(4_000);
    let home =
        if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { env!("CARGO_TARGET_TMPDIR").into() };
    let home = home.join("packhorse-bench-diagnose");
    let shards = corpus(&home, count, &[]);
    let dataset = opened(&shards, Duration::ZERO);
    let view = View::random_crop(64);
    let fields = vec![FieldOptions::new("jpg", FieldKind::Picture(view))];
    let options = LoaderOptions { threads: 2, ahead: 4, epochs: None, ..LoaderOptions::new(BATCH) };
    let fill = fill(&dataset, &fields);
    println!("{count} photos, {BATCH} a batch, {:.1} ms to fill one\n", fill.as_secs_f64() * 1000.0);
    println!("{:<24}{:>10}{:>12}{:>12}{:>9}", "remedy", "steps/s", "predicted", "observed", "ratio");
    let plain = Case { dataset, fields, options, step: fill / 4 };
    let one = Case { options: LoaderOptions { threads: 1, ahead: 3, ..plain.options.clone() }, ..plain.clone() };
    compare("threads", &one, |remedy| one.with(remedy));
    let slow = |delay: Duration| Case { dataset: opened(&shards, delay), ..plain.clone() };
    // A batch takes up to 16 reads, of as many shards.
    let far = slow(fill / 8);
    compare("readers", &far, |remedy| far.with(remedy));
    tried("ram cache", &far);
    compare("stage", &far, |_| plain.clone());
    let smaller = |remedy: &Remedy| {
        let size = remedy.says.split("resize=").nth(1).and_then(|rest| rest.split('"').next()).expect("a size");
        let shards = corpus(&home, count, &["--image", &format!("resize={size}")]);
        Case { dataset: opened(&shards, Duration::ZERO), ..one.clone() }
    };
    compare("smaller pictures", &one, smaller);
    let normalized = FieldKind::Normalized(View::random_crop(224), Normalize::default());
    let floats = Case { fields: vec![FieldOptions::new("jpg", normalized)], ..one.clone() };
    compare("uint8 jpg", &floats, |remedy| floats.with(remedy));
    let large = FieldOptions::new("large", FieldKind::Picture(View::center_crop(224))).from("jpg");
    let two = Case { fields: [one.fields.clone(), vec![large]].concat(), ..one.clone() };
    compare("without large", &two, |remedy| two.with(remedy));
    compare("without jpg", &two, |remedy| two.with(remedy));
    processors(&plain);
    // More shards than a loader keeps open, of which a batch opens 16.
    let far = |shards: &Path| Case { dataset: slow_to_open(shards, fill / 8), ..plain.clone() };
    let small = far(&corpus(&home, count, &["--samples-per-shard", "2"]));
    compare("larger shards", &small, |_| far(&shards));
    repacked(&home);
}

/// Arrays without compression instead of with much of it.
fn repacked(home: &Path) {
    let name = "repack filter=none";
    if !is_wanted(name) {
        return;
    }
    let [much, none] = [&["gzip", "--level", "9"][..], &["none"]].map(|filter| arrays(home, filter));
    let read = ReadOptions { rows: 0, ..ReadOptions::default() };
    let shuffle = Some(Shuffle::Sequential);
    let options = LoaderOptions { threads: 1, ahead: 3, epochs: None, read, shuffle, ..LoaderOptions::new(1024) };
    let case = |shards: &Path| Case {
        dataset: packhorse::open(shards.to_str().expect("UTF-8")).expect("dataset"),
        fields: Vec::new(),
        options: options.clone(),
        step: Duration::from_micros(50),
    };
    let (slow, quick) = (case(&much), case(&none));
    let mut found = slow.diagnose();
    let some = [&slow.dataset, &quick.dataset].map(|dataset| dataset.take(5_000).expect("samples"));
    found.add_packing(name, "", some.each_ref(), &[], &options).expect("both ways");
    let rate = |found: &Diagnosis| found.cut(Cut::Loader).map_or(0.0, |time| time.seconds.inverse().median);
    match found.remedies.iter().find(|remedy| remedy.name == name) {
        Some(remedy) => line(name, rate(&found), remedy.predicted, rate(&quick.diagnose())),
        None => println!("{name:<24}{:>10.2}  not proposed:\n{found}", rate(&found)),
    }
}

/// Arrays in HDF5 with this filter.
fn arrays(home: &Path, filter: &[&str]) -> PathBuf {
    let (inputs, shards) = (home.join("arrays"), home.join(format!("hdf5-{}", filter.concat())));
    let program = || Command::new(env!("CARGO_BIN_EXE_packhorse"));
    if !inputs.is_dir() {
        run(program().args(["synth", "npz", "-q", "--count", "20000", "--out"]).arg(&inputs));
    }
    if !shards.join("dataset.json").is_file() {
        let pack = ["--to", "hdf5", "--ragged", "-q", "--filter"];
        run(program().arg("pack").arg(&inputs).args(pack).args(filter).arg("--out").arg(&shards));
    }
    shards
}

/// All processors instead of one.
fn processors(plain: &Case) {
    let one = Case { options: LoaderOptions { threads: 1, ahead: 3, ..plain.options.clone() }, ..plain.clone() };
    std::thread::scope(|scope| {
        let bound = scope.spawn(|| {
            let mut set = nix::sched::CpuSet::new();
            set.set(0).expect("a processor");
            nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).expect("to bind this thread");
            compare("processors", &one, |remedy| one.with(remedy));
        });
        bound.join().expect("the bound thread");
    });
}

/// Whether a remedy is measured.
fn is_wanted(name: &str) -> bool {
    let mut names =
        std::env::args().skip(1).filter(|arg| !arg.starts_with("--") && arg.parse::<u64>().is_err()).peekable();
    names.peek().is_none() || names.any(|wanted| wanted == name)
}

/// Prints what a remedy gains that the diagnosis itself tries: it fills the cache first.
fn tried(name: &str, case: &Case) {
    if !is_wanted(name) {
        return;
    }
    let found = case.diagnosed(true);
    let now = found.cut(Cut::Loader).map_or(0.0, |time| time.seconds.inverse().median);
    let remedy = found.remedies.iter().find(|remedy| remedy.name == name);
    match remedy.and_then(|remedy| Some((remedy.predicted, remedy.observed?.median))) {
        Some((predicted, observed)) => line(name, now, predicted, observed),
        None => println!("{name:<24}{now:>10.2}  not proposed: the loop waits for {}", found.verdict.bottleneck),
    }
}

fn line(name: &str, now: f64, predicted: f64, observed: f64) {
    println!("{name:<24}{now:>10.2}{predicted:>12.2}{observed:>12.2}{:>9.2}", predicted / observed);
}

/// Prints what the remedy `name` of a case gains.
fn compare(name: &str, case: &Case, make: impl FnOnce(&Remedy) -> Case) {
    if !is_wanted(name) {
        return;
    }
    let rate = |found: &Diagnosis| found.cut(Cut::Loader).map_or(0.0, |time| time.seconds.inverse().median);
    let found = case.diagnose();
    let now = rate(&found);
    let Some(remedy) = found.remedies.iter().find(|remedy| remedy.name == name) else {
        println!("{name:<24}{now:>10.2}  not proposed: the loop waits for {}", found.verdict.bottleneck);
        return;
    };
    let observed = rate(&make(remedy).diagnose());
    line(name, now, remedy.predicted, observed);
}

fn slow_to_open(shards: &Path, opening: Duration) -> Dataset {
    let store = Arc::new(SlowStore::slow_to_open(opening));
    Dataset::open(&packhorse::registry(), store, shards, &OpenOptions::default()).expect("dataset")
}

fn opened(shards: &Path, delay: Duration) -> Dataset {
    let store = Arc::new(SlowStore::new(delay, false));
    Dataset::open(&packhorse::registry(), store, shards, &OpenOptions::default()).expect("dataset")
}

/// The time that one thread takes to fill a batch.
fn fill(dataset: &Dataset, fields: &[FieldOptions]) -> Duration {
    let options = LoaderOptions { threads: 0, ..LoaderOptions::new(BATCH) };
    let mut loader = Loader::new(dataset.clone(), fields, &options, Host::default()).expect("loader");
    loader.by_ref().take(4).for_each(drop);
    let start = Instant::now();
    let batches = loader.take(20).count();
    start.elapsed() / batches.max(1) as u32
}

/// Photos packed with these flags.
fn corpus(home: &Path, count: u64, more: &[&str]) -> PathBuf {
    let (photos, shards) =
        (home.join(format!("photos-{count}")), home.join(format!("shards-{count}{}", more.concat())));
    let program = || Command::new(env!("CARGO_BIN_EXE_packhorse"));
    if !photos.is_dir() {
        run(program().args(["synth", "images", "-q", "--count", &count.to_string(), "--out"]).arg(&photos));
    }
    if !shards.join("dataset.json").is_file() {
        let size = if more.contains(&"--samples-per-shard") { &[][..] } else { &["--samples-per-shard", "200"] };
        let pack = ["--to", "webdataset", "-q"];
        run(program().arg("pack").arg(&photos).args(pack).args(size).args(more).arg("--out").arg(&shards));
    }
    shards
}
