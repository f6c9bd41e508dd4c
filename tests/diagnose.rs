//! Diagnoses of loops with a planted bottleneck: each is named, in one of six attempts at least, since other work of the
//! machine can be a bottleneck too. The plants go by the pace of the machine at that moment, which changes.
//!
//! `PACKHORSE_DIAGNOSES=20` runs each that often, without and with a load, and prints how often it was named.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
    pub(crate) mod slow_store;
}

use common::process::packhorse as command;
use common::slow_store::SlowStore;
use packhorse::read::diagnose::{
    Bottleneck, Cut, CutTime, DiagnoseOptions, Diagnosis, Interval, RankReport, Readiness, TrainingStep, diagnose,
    diagnose_iterator,
};
use packhorse::read::order::Rank;
use packhorse::read::{
    Access, Batch, Dataset, Device, FieldKind, FieldOptions, Host, HostSlab, Loader, LoaderOptions, OpenOptions,
    ReadOptions,
};
use packhorse::transform::image::View;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

type Result<T> = packhorse::core::Result<T>;

/// One diagnosis at a time, so that they are not one another's load.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A device to which copies take a time.
#[derive(Clone, Default)]
struct SlowDevice(Host, Duration);

impl Device for SlowDevice {
    type Host = HostSlab;
    type Batch = Batch<HostSlab>;
    fn host(&mut self, bytes: usize) -> Result<HostSlab> {
        self.0.host(bytes)
    }
    fn upload(&mut self, batch: Batch<HostSlab>) -> Result<Batch<HostSlab>> {
        sleep(self.1);
        Ok(batch)
    }
}

/// Processes that do nothing but keep processors busy, until dropped.
struct Burners(Vec<Child>);

impl Burners {
    fn start(number: usize) -> Self {
        let burn = || Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        Self((0..number).map(|_| burn()).collect())
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for burner in &mut self.0 {
            let _ = burner.kill();
            let _ = burner.wait();
        }
    }
}

/// Photos in shards, and how they are loaded.
struct Photos {
    _dir: tempfile::TempDir,
    shards: PathBuf,
    fields: Vec<FieldOptions>,
}

const BATCH: u32 = 2;

impl Photos {
    fn new() -> Self {
        Self::in_shards_of(32)
    }

    fn in_shards_of(samples: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (from, shards) = (dir.path().join("photos"), dir.path().join("shards"));
        let [from_text, shards_text] = [&from, &shards].map(|path| path.to_str().unwrap());
        command(&["synth", "images", "--count", "1280", "--out", from_text]).succeed();
        let pack = ["pack", from_text, "--to", "webdataset", "--out", shards_text, "--samples-per-shard"];
        command(&[&pack[..], &[&samples.to_string()]].concat()).succeed();
        let fields = vec![FieldOptions::new("jpg", FieldKind::Picture(View::random_crop(96)))];
        Self { _dir: dir, shards, fields }
    }

    fn open(&self, delay: Duration) -> Dataset {
        let store = SlowStore::new(delay, true);
        Dataset::open(&packhorse::registry(), Arc::new(store), &self.shards, &OpenOptions::default()).unwrap()
    }

    fn options(&self, threads: usize) -> LoaderOptions {
        LoaderOptions { threads, ahead: threads + 2, ..LoaderOptions::new(BATCH) }
    }

    /// The median time in which one thread fills a batch of a loop that sleeps between two: a processor that just slept
    /// decodes slower.
    fn fill(&self) -> Duration {
        self.fill_after(Duration::from_millis(8))
    }

    /// That time where the thread sleeps for `rest` between two batches.
    fn fill_after(&self, rest: Duration) -> Duration {
        let options = LoaderOptions { threads: 0, ..self.options(0) };
        let mut loader = Loader::new(self.open(Duration::ZERO), &self.fields, &options, Host::default()).unwrap();
        let mut times: Vec<_> = (0..64)
            .map(|_| {
                sleep(rest);
                let start = Instant::now();
                loader.next().unwrap().unwrap();
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2]
    }

    /// Diagnoses a loop with this plant in it, in times of `fill`.
    fn diagnose(&self, fill: Duration, plant: &Plant) -> Diagnosis {
        let mut steps = Sleep(fill.mul_f64(plant.step));
        let mut device = || Ok(SlowDevice(Host::default(), fill.mul_f64(plant.copy)));
        let dataset = self.open(fill.mul_f64(plant.read));
        diagnose(&dataset, &self.fields, &self.options(plant.threads), &mut device, &mut steps, &quick()).unwrap()
    }
}

fn quick() -> DiagnoseOptions {
    DiagnoseOptions { time: Duration::from_millis(2400), ..DiagnoseOptions::default() }
}

struct Sleep(Duration);

impl<B> TrainingStep<B> for Sleep {
    fn step(&mut self, _: &B) -> Result<()> {
        sleep(self.0);
        Ok(())
    }
}

/// What slows a loop: the times of a step, a copy and a read, each as a multiple of the time to fill a batch, and the threads.
#[derive(Clone, Copy, Debug)]
struct Plant {
    step: f64,
    copy: f64,
    read: f64,
    threads: usize,
}

fn processors() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// Runs `look`, which must name `wanted`. Returns a complaint if it does not.
fn named(what: &str, wanted: Bottleneck, look: impl Fn() -> Diagnosis) -> Option<String> {
    let Some(runs) = std::env::var("PACKHORSE_DIAGNOSES").ok().map(|runs| runs.parse::<usize>().unwrap()) else {
        return sometime(|| {
            let found = look();
            (found.verdict.bottleneck != wanted).then(|| format!("{what}: not {wanted}, but {}", shown(&found)))
        });
    };
    let mut complaint = String::new();
    // With a load only if asked for, since a loaded machine may be too busy for the test itself.
    for load in [0, 1] {
        let _load = Burners::start(load);
        let found: Vec<Diagnosis> = (0..runs).map(|_| look()).collect();
        let wrong: Vec<&Diagnosis> = found.iter().filter(|found| found.verdict.bottleneck != wanted).collect();
        let line = format!("{what}, {load} busy neighbours: {wanted} named in {} of {runs}\n", runs - wrong.len());
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        for found in wrong {
            complaint.push_str(&format!("{line}{}\n", shown(found)));
        }
    }
    (!complaint.is_empty()).then_some(complaint)
}

/// Calls `look` up to six times, until it has no complaint: the machine may have other work. Returns all six.
fn sometime(look: impl Fn() -> Option<String>) -> Option<String> {
    let complaints: Vec<String> = (0..6).map_while(|_| look()).collect();
    (complaints.len() == 6).then(|| complaints.join("\n"))
}

/// Fails with the complaints, if there are any.
fn none_of(complaints: impl IntoIterator<Item = Option<String>>) {
    let complaints: Vec<String> = complaints.into_iter().flatten().collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// A diagnosis on a few lines.
fn shown(found: &Diagnosis) -> String {
    let cut = |time: &CutTime| {
        let CutTime { cut, seconds, saturation, others, .. } = time;
        let Interval { median, low, high } = seconds;
        let [median, low, high] = [median, low, high].map(|seconds| seconds * 1000.0);
        format!("{cut} {median:.2} ms ({low:.2} to {high:.2}), saturation {saturation:.2}, others {others:.2}\n")
    };
    let cuts: String = found.cuts.iter().map(cut).collect();
    format!("{:?}\n{cuts}{:?}", found.verdict, found.remedies)
}

/// The cases in which the data come too late, or not.
#[test]
fn planted_bottlenecks_are_named() {
    let _alone = alone();
    let photos = Photos::new();
    let none = Plant { step: 3.0, copy: 0.0, read: 0.0, threads: 2 };
    let plants = [
        ("no bottleneck", Bottleneck::Step, none),
        ("slow steps", Bottleneck::Step, Plant { step: 6.0, ..none }),
        // Two reads a batch, by two readers.
        ("throttled storage", Bottleneck::Storage, Plant { read: 5.0, ..none }),
        ("heavy decoding", Bottleneck::Decode, Plant { step: 1.0 / 3.0, threads: 1, ..none }),
        ("a slow device", Bottleneck::Transfer, Plant { copy: 2.0, ..none }),
    ];
    none_of(plants.map(|(what, wanted, plant)| named(what, wanted, || photos.diagnose(photos.fill(), &plant))));
}

/// Large arrays, whose decoding is no more than a copy.
#[test]
fn slow_collating_is_named() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("arrays"), dir.path().join("shards"));
    std::fs::create_dir(&from).unwrap();
    for number in 0..48 {
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2000000,), }";
        let head = [&b"\x93NUMPY\x01\x00\x76\x00"[..], format!("{header:<117}\n").as_bytes()].concat();
        std::fs::write(from.join(format!("{number}.npy")), [&head[..], &vec![number; 2_000_000]].concat()).unwrap();
    }
    let [from, to] = [from.to_str().unwrap(), to.to_str().unwrap()];
    command(&["pack", from, "--to", "webdataset", "--out", to, "--samples-per-shard", "8"]).succeed();
    let dataset = packhorse::open(to).unwrap();
    let complaint = named("slow collating", Bottleneck::Collate, || {
        let mut step = Sleep(Duration::from_micros(500));
        let read = ReadOptions { access: Access::Map, ..ReadOptions::default() };
        let options = LoaderOptions { threads: 1, ahead: 3, read, ..LoaderOptions::new(16) };
        let fields = [FieldOptions::new("npy", FieldKind::Auto)];
        diagnose(&dataset, &fields, &options, &mut || Ok(Host::default()), &mut step, &quick()).unwrap()
    });
    none_of([complaint]);
}

/// Steps take longer than two processors need for a batch, and less than one does.
#[test]
fn missing_processors_are_named() {
    let _alone = alone();
    if processors() < 2 {
        packhorse_testkit::external::skip("a machine with several processors");
        return;
    }
    let photos = Photos::new();
    let plant = Plant { step: 0.75, copy: 0.0, read: 0.0, threads: 2 };
    let few = named("one processor", Bottleneck::Processors, || {
        let plant = Plant { threads: 1, ..plant };
        std::thread::scope(|scope| {
            let bound = scope.spawn(|| {
                let mut set = nix::sched::CpuSet::new();
                set.set(0).unwrap();
                nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set).unwrap();
                // The only processor never rests, and decodes the faster.
                photos.diagnose(photos.fill_after(Duration::ZERO), &plant)
            });
            bound.join().unwrap()
        })
    });
    let busy = named("busy neighbours", Bottleneck::Neighbours, || {
        let fill = photos.fill();
        let _others = Burners::start(2 * processors());
        photos.diagnose(fill, &plant)
    });
    none_of([few, busy]);
}

/// The classic case: 3.45, 3.33, 3.23, 1.72 and 0.89 steps a second with everything on one thread; here at the pace of this
/// machine's decoder.
#[test]
fn culprits_are_found_in_order() {
    let _alone = alone();
    let photos = Photos::new();
    let complaint = sometime(|| {
        // Decoding costs 0.271 s of the classic case.
        let classic = |seconds: f64| seconds / 0.271;
        // Two samples of 16 shards mostly take two reads.
        let plant = Plant { step: classic(0.29), copy: classic(0.01), read: classic(0.543) / 2.0, threads: 0 };
        let found = photos.diagnose(photos.fill(), &plant);
        assert!(found.cuts.iter().map(|time| time.cut).eq(Cut::ALL));
        let stages = found.verdict.costs.iter().map(|cost| cost.stage);
        let culprits: Vec<_> = stages.filter(|stage| *stage != Bottleneck::Transfer).collect();
        let (now, without) = (found.cut(Cut::Loader).unwrap(), found.cut(Cut::Files).unwrap());
        let between = (1.0 / now.seconds.median)..(1.05 / without.seconds.median);
        let near = found.remedies.iter().find(|remedy| remedy.name == "stage");
        let right = culprits == [Bottleneck::Decode, Bottleneck::Storage]
            && found.verdict.bottleneck == Bottleneck::Storage
            && near.is_some_and(|near| between.contains(&near.predicted));
        (!right).then(|| shown(&found))
    });
    none_of([complaint]);
}

/// One of three ranks has a slow storage.
#[test]
fn the_slow_rank_is_named() {
    let _alone = alone();
    let photos = Photos::new();
    let report = |rank: u32| {
        let read = if rank == 1 { 5.0 } else { 0.0 };
        let found = photos.diagnose(photos.fill(), &Plant { step: 2.0, copy: 0.0, read, threads: 2 });
        RankReport::new(Rank { rank, world_size: 3 }, &found)
    };
    let complaint = sometime(|| {
        let ranks = Readiness::of(&(0..3).map(report).collect::<Vec<_>>());
        let slow: Vec<_> = ranks.slow.iter().map(|report| (report.rank, report.bottleneck.as_str())).collect();
        (slow != [(1, "storage")]).then(|| format!("{ranks:?}"))
    });
    none_of([complaint]);
}

#[test]
fn any_iterator_is_diagnosed() {
    let _alone = alone();
    let slow = |time: u64| move || Ok((0..40).map(move |number| Ok((sleep(Duration::from_millis(time)), number).1)));
    let look = |time: u64| {
        let (mut start, mut step) = (slow(time), Sleep(Duration::from_millis(4)));
        diagnose_iterator::<u64, _>(&mut start, &mut step, &quick()).unwrap()
    };
    let slow = sometime(|| {
        let found = look(12);
        let ratio = found.cut(Cut::Loader).unwrap().seconds.median / found.cut(Cut::Device).unwrap().seconds.median;
        let right = found.verdict.bottleneck == Bottleneck::Loader && (2.5..5.5).contains(&ratio);
        (!right).then(|| shown(&found))
    });
    none_of([slow, named("a quick iterator", Bottleneck::Step, || look(0))]);
    let mut step = Sleep(Duration::ZERO);
    let mut none = || Ok(std::iter::empty::<Result<u64>>());
    assert!(diagnose_iterator(&mut none, &mut step, &quick()).is_err());
}

/// What the command shows, and that remedies are tried.
#[test]
fn the_command_names_the_bottleneck_and_tries_remedies() {
    let _alone = alone();
    let photos = Photos::new();
    let shards = photos.shards.to_str().unwrap();
    let step = (photos.fill().as_secs_f64() * 1000.0 / 1.5).to_string();
    let ranks = tempfile::tempdir().unwrap();
    let ranks = ranks.path().to_str().unwrap();
    let args = ["diagnose", shards, "--size", "96", "--batch", "2", "--seconds", "0.3", "--step-ms", &step];
    let run = |more: &[&str]| command(&[&args, more].concat()).succeed().printed;
    let printed = run(&["--jobs", "1", "--apply", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let [json, page] = ["found.json", "page.html"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    std::fs::write(&json, printed).unwrap();
    command(&["report", shards, "-o", &page, "--diagnosis", &json]).succeed();
    assert!(std::fs::read_to_string(&page).unwrap().contains("served from memory at one stage after the other"));
    let wrong = command(&["report", shards, "-o", &page, "--diagnosis", &page]).run();
    assert!(wrong.code() == 2 && wrong.said.contains("is not a diagnosis"), "{wrong:?}");
    let cuts: Vec<_> = found["cuts"].as_array().unwrap().iter().map(|cut| cut["cut"].as_str().unwrap()).collect();
    assert_eq!(cuts, Cut::ALL.map(Cut::name));
    // On processors that other programs use, more threads are not offered.
    let others =
        found["cuts"].as_array().unwrap().iter().find(|cut| cut["cut"] == Cut::Loader.name()).unwrap()["others"]
            .as_f64();
    if processors() as f64 - others.unwrap().round() > 1.0 && found["bottleneck"] == "decode" {
        let threads = found["remedies"].as_array().unwrap().iter().find(|remedy| remedy["name"] == "threads").unwrap();
        assert!(threads["predicted"].as_f64().unwrap() > 0.0 && threads["observed"]["median"].as_f64().unwrap() > 0.0);
        assert!(!found["applied"].as_array().unwrap().is_empty(), "{found}");
    }
    let mut last = String::new();
    for rank in ["0", "1"] {
        let mut program = command(&[&args[..], &["--ranks", ranks]].concat());
        program.0.env("RANK", rank).env("WORLD_SIZE", "2");
        last = program.succeed().printed;
    }
    assert!(last.contains("ranks") || last.contains("rank is slower"), "{last}");
    let wrong = command(&["diagnose", shards, "--step-ms", "-1"]).run();
    assert_eq!(wrong.code(), 2, "{wrong:?}");
    let few = command(&["diagnose", shards, "--batch", "10000"]).run();
    assert!(few.code() == 2 && few.said.contains("1280 samples, fewer than a batch"), "{few:?}");
}

/// A loop whose shards are slow to open is told to make them larger, and by how much that helps.
#[test]
fn many_small_shards_are_named() {
    let _alone = alone();
    // As many shards as batches.
    let photos = Photos::in_shards_of(BATCH);
    let options = LoaderOptions { threads: 1, readers: 1, ahead: 3, ..LoaderOptions::new(BATCH) };
    let complaint = sometime(|| {
        let store = Arc::new(SlowStore::slow_to_open(photos.fill() * 2));
        let dataset = Dataset::open(&packhorse::registry(), store, &photos.shards, &OpenOptions::default()).unwrap();
        let step = &mut |_: &Batch<HostSlab>| Ok(());
        let found = diagnose(&dataset, &photos.fields, &options, &mut || Ok(Host::default()), step, &quick()).unwrap();
        let larger = found.remedies.iter().find(|remedy| remedy.name == "larger shards");
        larger.is_none().then(|| shown(&found))
    });
    none_of([complaint]);
}

/// What another way of packing would gain is measured on some samples; one that changes nothing gains nothing.
#[test]
fn other_ways_of_packing_are_predicted() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let arrays = path("arrays");
    command(&["synth", "npz", "--count", "300", "--out", &arrays]).succeed();
    let packed = |name: &str, filter: &[&str]| {
        let out = path(name);
        command(&[&["pack", &arrays, "--to", "hdf5", "--ragged", "--out", &out, "--filter"], filter].concat())
            .succeed();
        out
    };
    let small = packed("small", &["gzip", "--level", "9"]);
    let [small_again, plain] = [packed("again", &["gzip", "--level", "9"]), packed("plain", &["none"])];
    let [now, again, plain] = [&small, &small_again, &plain].map(|place| packhorse::open(place).unwrap());
    // Nothing that was read is kept, as of a dataset that is larger than the cache of rows; a batch reads each block once.
    let read = ReadOptions { rows: 0, ..ReadOptions::default() };
    let options = LoaderOptions { threads: 1, readers: 0, ahead: 3, read, ..LoaderOptions::new(2) };
    let complaint = sometime(|| {
        let step = &mut |_: &Batch<HostSlab>| Ok(());
        let mut found = diagnose(&now, &[], &options, &mut || Ok(Host::default()), step, &quick()).unwrap();
        found.add_packing("plain", "pack it again", [&now, &plain], &[], &options).unwrap();
        found.add_packing("again", "pack it again", [&now, &again], &[], &options).unwrap();
        let has = |name: &str| found.remedies.iter().any(|remedy| remedy.name == name);
        (!has("plain") || has("again")).then(|| shown(&found))
    });
    none_of([complaint]);

    let args = ["diagnose", &small, "--batch", "64", "--seconds", "0.3", "--jobs", "1", "--json"];
    let ways = ["--repack", "filter=none", "--repack", "to=parquet compression=none"];
    let found = command(&[&args[..], &ways].concat()).succeed().printed;
    assert!(serde_json::from_str::<serde_json::Value>(&found).unwrap()["remedies"].is_array(), "{found}");
    for (wrong, said) in [("filtr=none", "filter"), ("filter", "NAME=VALUE"), ("limit=3", "not a way of packing")] {
        let ended = command(&["diagnose", &small, "--repack", wrong]).run();
        assert!(ended.code() == 2 && ended.said.contains(said), "{ended:?}");
    }
}

/// Batches that are held for measurements tell how large they are among all: rows of tables and tokens share blocks and files.
#[test]
fn held_batches_of_tables_have_their_own_size() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    // No two texts are alike: Parquet would keep them once.
    let rows =
        (0..4096u128).map(|row| format!("{row},{:040}\n", row.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)));
    std::fs::write(dir.path().join("t.csv"), format!("n,text\n{}", rows.collect::<String>())).unwrap();
    let documents = (0..4096).map(|row| format!("{{\"tokens\":{:?}}}\n", vec![row % 100; 60]));
    std::fs::write(dir.path().join("d.jsonl"), documents.collect::<String>()).unwrap();
    for (input, to, more) in [
        ("t.csv", "parquet", &["--compression", "none"][..]),
        ("d.jsonl", "tokens", &["--from", "jsonl", "--cast", "tokens=i32"]),
    ] {
        let (input, out) = (dir.path().join(input), dir.path().join(to));
        let [input, out] = [&input, &out].map(|path| path.to_str().unwrap());
        command(&[&["pack", input, "--to", to, "--out", out], more].concat()).succeed();
        let printed = command(&["diagnose", out, "--batch", "32", "--step-ms", "0.1", "--seconds", "0.05", "--json"])
            .succeed()
            .printed;
        let found: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let size = found["representative"].as_f64().unwrap();
        assert!((0.2..5.0).contains(&size), "{to}: {size}");
        let lines = command(&["bench", "read", out, "--seconds", "0.05", "--json"]).succeed().printed;
        let stages: serde_json::Value = serde_json::from_str(&lines).unwrap();
        let of = |stage: &str, what: &str| {
            let stages = stages["stages"].as_array().unwrap();
            stages.iter().find(|one| one["stage"] == stage).unwrap()[what].as_f64().unwrap()
        };
        // A byte that is read has about one byte of values.
        let sample = |stage: &str| of(stage, "bytes") / of(stage, "samples").max(1.0);
        assert!((0.2..5.0).contains(&(sample("raw") / sample("parse"))), "{to}: {stages}");
    }
}
