//! Metrics: the counters of loaders, and what `--metrics` serves while a command runs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

use packhorse::read::cache::DirOptions;
use packhorse::read::{Ahead, CacheOptions, Dataset, Host, Loader, LoaderOptions, LoaderStats, OnError, Remainder};
use packhorse::read::{FieldKind, FieldOptions};
use packhorse_testkit::external::{python, skip};
use packhorse_testkit::web::{HttpFault, Server};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A folder of small files, packed into shards of ten samples.
fn shards(dir: &Path, samples: usize) -> PathBuf {
    let (from, to) = (dir.join("files"), dir.join("shards"));
    std::fs::create_dir(&from).unwrap();
    for i in 0..samples {
        std::fs::write(from.join(format!("{i:04}.bin")), vec![i as u8; 1000 + i]).unwrap();
        std::fs::write(from.join(format!("{i:04}.cls")), i.to_string()).unwrap();
    }
    let recipe = packhorse::Recipe::new(&from, "webdataset", &to).with("samples-per-shard", "10").unwrap();
    packhorse::session().pack(&recipe).unwrap();
    to
}

fn loader(dataset: &Dataset, options: LoaderOptions) -> Loader<Host> {
    let fields = [FieldOptions::new("bin", FieldKind::Bytes), FieldOptions::new("cls", FieldKind::Auto)];
    Loader::new(dataset.clone(), &fields, &options, Host::default()).unwrap()
}

fn options(threads: usize) -> LoaderOptions {
    LoaderOptions { threads, ahead: threads + 2, remainder: Remainder::Uneven, ..LoaderOptions::new(8) }
}

#[test]
fn a_loader_counts_what_it_gives_and_who_waits() {
    let dir = tempfile::tempdir().unwrap();
    let to = shards(dir.path(), 60);
    let dataset = packhorse::open(to.to_str().unwrap()).unwrap();
    for threads in [0, 3] {
        let mut loader = loader(&dataset, options(threads));
        assert_eq!(taken(loader.stats()), LoaderStats::default());
        let (mut batches, mut samples, mut bytes) = (0, 0, 0);
        for batch in loader.by_ref() {
            let batch = batch.unwrap();
            (batches, samples, bytes) = (batches + 1, samples + batch.rows() as u64, bytes + batch.used() as u64);
        }
        let stats = loader.stats();
        assert_eq!((stats.batches, stats.samples, stats.bytes), (batches, samples, bytes));
        assert_eq!((samples, stats.errors, stats.skipped), (60, 0, 0));
        // The first batch is never there before it is asked for where the caller makes it.
        assert!(if threads == 0 { stats.late == batches } else { stats.late <= batches }, "{stats:?}");
        assert!(stats.late == 0 || stats.wait > Duration::ZERO, "{stats:?}");
        assert!(stats.read > Duration::ZERO && stats.decode > Duration::ZERO, "{stats:?}");
        assert!(stats.read_bytes >= 60 * 1000, "{stats:?}");
        assert_eq!((stats.shards_opened, stats.shards_cached), (6, 0), "{stats:?}");
        assert_eq!((stats.ready, stats.prefetched, stats.prefetched_bytes), (0, 0, 0), "{stats:?}");
        // Counts outlive the loader; batches ahead do not.
        let counters = loader.counters();
        drop(loader);
        assert_eq!(taken(counters.stats()), taken(stats));
        assert_eq!(counters.stats().ahead, 0);
    }
}

/// What makes batches on the thread of an `Ahead` is not waited for.
#[test]
fn only_the_caller_of_an_ahead_waits() {
    let dir = tempfile::tempdir().unwrap();
    let to = shards(dir.path(), 60);
    let dataset = packhorse::open(to.to_str().unwrap()).unwrap();
    let loader = loader(&dataset, options(0));
    let counters = loader.counters();
    let mut ahead = Ahead::new(loader, 100).unwrap();
    while counters.stats().upload.is_zero() {
        std::thread::yield_now();
    }
    assert_eq!((counters.stats().late, counters.stats().wait), (0, Duration::ZERO));
    assert_eq!(ahead.by_ref().map(|batch| batch.unwrap().rows()).sum::<usize>(), 60);
    assert_eq!((counters.stats().late, counters.stats().batches), (ahead.waited().0, 8));
}

/// Without what threads do by themselves.
fn taken(stats: LoaderStats) -> LoaderStats {
    let LoaderStats { batches, samples, bytes, errors, skipped, late, wait, .. } = stats;
    LoaderStats { batches, samples, bytes, errors, skipped, late, wait, ..LoaderStats::default() }
}

#[test]
fn waits_are_those_of_the_stage_that_is_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let to = shards(dir.path(), 60);
    let dataset = packhorse::open(to.to_str().unwrap()).unwrap();
    let mut loader = loader(&dataset, LoaderOptions { epochs: None, ..options(2) });
    let counters = loader.counters();
    // The caller takes nothing: batches become ready, and then threads wait for room.
    while counters.stats().ready < 4 {
        std::thread::yield_now();
    }
    assert_eq!((counters.stats().ahead, counters.stats().late), (4, 0));
    loader.next().unwrap().unwrap();
    // It was there.
    assert_eq!((counters.stats().late, counters.stats().wait), (0, Duration::ZERO));
    while counters.stats().decode_blocked.is_zero() {
        std::thread::yield_now();
        drop(loader.next());
    }
    drop(loader);
    assert_eq!((counters.stats().ready, counters.stats().prefetched), (0, 0));
}

#[test]
fn skipped_samples_errors_and_caches_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let to = shards(dir.path(), 60);
    let dataset = packhorse::open(to.to_str().unwrap()).unwrap();
    // The files are not pictures: every sample of a batch is bad.
    let picture = packhorse::transform::image::View::center_crop(8);
    let field = [FieldOptions::new("bin", FieldKind::Picture(picture))];
    for (on_error, wanted) in [(OnError::Skip, (8, 60, 0)), (OnError::Fail, (0, 0, 8))] {
        let options = LoaderOptions { on_error, ..options(2) };
        let mut loader = Loader::new(dataset.clone(), &field, &options, Host::default()).unwrap();
        loader.by_ref().for_each(drop);
        let stats = loader.stats();
        assert_eq!((stats.batches, stats.skipped, stats.errors), wanted);
    }
    let cache = CacheOptions { ram: 1 << 30, dir: Some(DirOptions::new(dir.path().join("near"))) };
    let mut loader = loader(&dataset, LoaderOptions { cache, epochs: Some(2), ..options(2) });
    loader.by_ref().for_each(|batch| drop(batch.unwrap()));
    let (stats, ram) = (loader.stats(), loader.ram().unwrap());
    assert_eq!((stats.cache_hits, stats.cache_misses), (ram.hits, ram.misses));
    assert!(stats.cache_hits > 0 && stats.cache_misses > 0 && stats.shards_cached >= 6, "{stats:?}");
    assert_eq!(stats.shards_opened, 0);
}

/// A command that runs, with the address at which it serves its metrics.
struct Serving {
    child: Child,
    address: String,
    said: BufReader<ChildStderr>,
}

impl Serving {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
        command.args(args).args(["--metrics", "127.0.0.1:0", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("metrics at http://").and_then(|rest| rest.strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address, said }
    }

    /// Scrapes until `enough`; each counter only grows meanwhile.
    fn until(&self, enough: impl Fn(&BTreeMap<String, f64>) -> bool) -> BTreeMap<String, f64> {
        let mut before = BTreeMap::new();
        loop {
            let now = values(&scrape(&self.address));
            for (name, value) in before.iter().filter(|(name, _): &(&String, _)| name.contains("_total")) {
                assert!(now[name] >= *value, "{name} went from {value} to {}", now[name]);
            }
            if enough(&now) {
                return now;
            }
            before = now;
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The result, once it has ended.
    fn end(mut self) -> Value {
        let output = self.child.wait_with_output().unwrap();
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        assert!(output.status.success(), "{rest}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The answer to a request.
fn asked(address: &str, request: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // A server that refuses may close before all of the request was sent.
    let _ = client.read_to_string(&mut answer);
    answer
}

/// The page of metrics.
fn scrape(address: &str) -> String {
    let answer = asked(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    body.to_owned()
}

/// The values by name and labels. Each has a type and a help before it.
fn values(page: &str) -> BTreeMap<String, f64> {
    let (mut found, mut family) = (BTreeMap::new(), (String::new(), String::new()));
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family.0 = rest.split(' ').next().unwrap().to_owned();
            assert!(rest.len() > family.0.len() + 2, "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!((name, kind == "counter"), (&*family.0, name.ends_with("_total")), "{line}");
            name.clone_into(&mut family.1);
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert_eq!((name.split('{').next().unwrap(), &*family.0), (&*family.1, &*family.1), "{line}");
            assert!(found.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    assert!(found.len() > 30, "{page}");
    found
}

/// A web server of which the file `x.tar` is held back until this is opened.
fn held_back(root: &Path) -> (Server, Arc<AtomicBool>) {
    let gate = Arc::new(AtomicBool::new(true));
    let open = Arc::clone(&gate);
    let server = Server::new(root, move |asked| {
        while asked.path.ends_with("x.tar") && !open.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        HttpFault::None
    });
    (server, gate)
}

#[test]
fn a_pack_is_scraped_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (from, out) = (shards(dir.path(), 20), dir.path().join("out"));
    // Two tars of ten samples, of which the second arrives late.
    let tars = dir.path().join("tars");
    std::fs::create_dir(&tars).unwrap();
    for (old, new) in [("shard-000000.tar", "a.tar"), ("shard-000001.tar", "x.tar")] {
        std::fs::copy(from.join(old), tars.join(new)).unwrap();
    }
    let (server, gate) = held_back(&tars);
    let (a, x, to) = (server.url("a.tar"), server.url("x.tar"), out.to_str().unwrap());
    let planned = Command::new(env!("CARGO_BIN_EXE_packhorse"))
        .args(["plan", &a, &x, "--to", "webdataset", "--out", to, "--samples-per-shard", "10", "--quiet"])
        .status();
    assert!(planned.unwrap().success());
    gate.store(false, Ordering::SeqCst);
    let running = Serving::start(&["pack", "--plan", to, "--jobs", "2", "--seal"]);
    let found = running.until(|found| found["packhorse_shards_total"] > 0.0);
    for stage in ["read", "write", "publish"] {
        let seconds = found.get(&format!("packhorse_stage_seconds_total{{library=\"pack\",stage=\"{stage}\"}}"));
        assert!(seconds.is_some_and(|seconds| *seconds > 0.0), "{stage}: {found:?}");
    }
    let half = |name: &str| found[name];
    assert_eq!((half("packhorse_planned_shards_total"), half("packhorse_planned_samples_total")), (2.0, 20.0));
    assert_eq!((half("packhorse_shards_total"), half("packhorse_packed_samples_total")), (1.0, 10.0));
    let (packed, written) = (half("packhorse_packed_bytes_total"), half("packhorse_shard_bytes_total"));
    gate.store(true, Ordering::SeqCst);
    let report = running.end();
    let total = |name: &str| report[name].as_f64().unwrap();
    assert_eq!((total("shards"), total("samples")), (2.0, 20.0));
    assert!(packed > 0.0 && packed < total("input_bytes"), "{packed} {report}");
    assert!(written > 0.0 && written < total("bytes"), "{written} {report}");
}

#[test]
fn a_read_is_scraped_while_it_runs_and_hostile_requests_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let to = shards(dir.path(), 60);
    let running = Serving::start(&["bench", "read", to.to_str().unwrap(), "--seconds", "1", "--batch", "8"]);
    let address = running.address.clone();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("\u{0}\u{1}\r\n\r\n", "400"),
        ("GET /metrics HTTP/9\r\n\r\n", "400"),
        ("HEAD /metrics HTTP/1.0\r\n\r\n", "200"),
    ] {
        assert!(asked(&address, request).starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}");
    }
    assert!(!asked(&address, "HEAD /metrics HTTP/1.1\r\n\r\n").contains("# HELP"));
    // Longer than any request: refused, and at once. A client that goes away is none.
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n", "x".repeat(1 << 20));
    assert!(!asked(&address, &long).contains("# HELP"));
    drop(TcpStream::connect(&address).unwrap());
    let batches = "packhorse_loader_batches_total";
    let found = running.until(|found| found[batches] >= 3.0);
    let report = running.end();
    let stage = |name: &str, value: &str| {
        let stages = report["stages"].as_array().unwrap();
        stages.iter().find(|stage| stage["stage"] == name).unwrap()[value].as_f64().unwrap()
    };
    let (samples, bytes) = (found["packhorse_loader_samples_total"], found["packhorse_loader_bytes_total"]);
    assert!(samples >= 24.0 && samples <= stage("batch", "samples"), "{samples} {report}");
    assert!(bytes > 0.0 && bytes <= stage("batch", "bytes"), "{bytes} {report}");
    assert!(found["packhorse_loader_late_batches_total"] <= found[batches]);
    for stage in ["read", "decode"] {
        assert!(found[&format!("packhorse_loader_busy_seconds_total{{stage=\"{stage}\"}}")] > 0.0, "{stage}");
    }
    assert!(found["packhorse_loader_read_bytes_total"] >= stage("raw", "bytes"));
    assert!(found["packhorse_loader_ready_batches"] <= found["packhorse_loader_ahead_batches"]);
}

#[test]
fn an_address_that_is_taken_or_none_is_an_error_before_any_work() {
    let dir = tempfile::tempdir().unwrap();
    let to = shards(dir.path(), 10);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [&*taken.local_addr().unwrap().to_string(), "nowhere", "127.0.0.1", "127.0.0.1:99999"] {
        let out = dir.path().join("out");
        let args = ["pack", to.to_str().unwrap(), "--to", "webdataset", "--out", out.to_str().unwrap()];
        let output =
            Command::new(env!("CARGO_BIN_EXE_packhorse")).args(args).args(["--metrics", address]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("--metrics") && said.contains(address), "{said}");
        assert!(!out.exists());
    }
}

#[test]
fn prometheus_reads_the_page() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let to = shards(dir.path(), 60);
    let running = Serving::start(&["bench", "read", to.to_str().unwrap(), "--seconds", "0.5", "--batch", "8"]);
    let page = scrape(&running.address);
    running.end();
    std::fs::write(dir.path().join("page"), &page).unwrap();
    let script = "import json, sys\nfrom prometheus_client.parser import text_string_to_metric_families as parse\n\
                  print(json.dumps([[f.name, f.type, len(f.samples), f.documentation] for f in parse(open(sys.argv[1]).read())]))";
    let output = Command::new(python).args(["-c", script]).arg(dir.path().join("page")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named 'prometheus_client'") {
        return skip("prometheus_client is not installed");
    }
    assert!(output.status.success(), "{said}");
    let families: Vec<(String, String, usize, String)> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(families.iter().map(|family| family.2).sum::<usize>(), values(&page).len());
    assert!(families.iter().all(|(_, kind, _, help)| ["counter", "gauge"].contains(&&**kind) && !help.is_empty()));
    assert_eq!(families.len(), page.matches("# TYPE ").count());
}
