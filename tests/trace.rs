//! Traces: files that Perfetto, chrome://tracing and DFTracer's analysis read, whose spans add up to what was done.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

use packhorse::read::{Host, Loader, LoaderOptions};
use packhorse_testkit::external::{python, skip};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use tempfile::TempDir;

/// A folder for inputs, shards and traces.
struct Place(TempDir);

impl Place {
    /// With so many files in it, of 1000 bytes and more.
    fn of(files: usize) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.path("files")).unwrap();
        for i in 0..files {
            std::fs::write(place.path(&format!("files/{i:04}.bin")), vec![i as u8; 1000 + 13 * i]).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_packhorse")).args(args).current_dir(self.0.path()).output().unwrap()
    }

    /// The result of a command as JSON.
    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json", "--quiet"]].concat());
        assert!(output.status.success(), "{args:?}\n{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn packed(&self, trace: &str, more: &[&str]) -> Value {
        let all =
            ["pack", "files", "--to", "webdataset", "--out", "shards", "--samples-per-shard", "10", "--trace", trace];
        self.json(&[&all, more].concat())
    }

    /// The events of a trace that is one JSON document.
    fn trace(&self, name: &str) -> Vec<Value> {
        let events = serde_json::from_slice(&std::fs::read(self.path(name)).unwrap()).unwrap();
        let Value::Array(events) = events else { panic!("{name} is not a list") };
        check(&events);
        events
    }
}

fn number(event: &Value, name: &str) -> f64 {
    event[name].as_f64().unwrap_or_else(|| panic!("{name} of {event}"))
}

/// A number among the arguments.
fn arg(event: &Value, name: &str) -> u64 {
    event["args"][name].as_u64().unwrap_or_else(|| panic!("{name} of {event}"))
}

/// The spans or counters of this name.
fn named<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["name"] == name && event["ph"] != "M").collect()
}

fn sum(events: &[&Value], name: &str) -> u64 {
    events.iter().map(|event| arg(event, name)).sum()
}

/// The fields of each span and counter that docs/observe.md lists, by category and name.
fn documented() -> BTreeMap<(String, String), BTreeSet<String>> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/observe.md")).unwrap();
    let (mut found, mut category) = (BTreeMap::new(), String::new());
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let code = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<String>>();
        if let [_, name, fields, _, _, _] = &cells[..] {
            if let Some(target) = name.strip_prefix("`packhorse::") {
                category = target.trim_end_matches('`').to_owned();
            } else if let [name] = &code(name)[..] {
                found.insert((category.clone(), name.clone()), code(fields).into_iter().collect());
            }
        }
    }
    assert!(found.len() > 20, "{found:?}");
    found
}

/// The rules of the Trace Event Format, and that names and arguments are those of the page.
fn check(events: &[Value]) {
    let known = documented();
    let (mut threads, mut spans) = (BTreeMap::new(), BTreeMap::<u64, Vec<(f64, f64)>>::new());
    let mut used = BTreeSet::new();
    for event in events {
        let (name, phase) = (event["name"].as_str().unwrap(), event["ph"].as_str().unwrap());
        let (tid, at) = (event["tid"].as_u64().unwrap(), number(event, "ts"));
        assert_eq!(event["pid"], events[0]["pid"]);
        let arguments = event["args"].as_object().unwrap();
        match phase {
            "M" => {
                assert!(["process_name", "thread_name"].contains(&name), "{event}");
                threads.insert((name == "thread_name", tid), arguments["name"].as_str().unwrap());
                continue;
            }
            "X" => spans.entry(tid).or_default().push((at, number(event, "dur"))),
            "C" => assert!(!arguments.is_empty() && arguments.values().all(Value::is_u64), "{event}"),
            _ => panic!("{event}"),
        }
        used.insert(tid);
        let fields = known.get(&(event["cat"].as_str().unwrap().to_owned(), name.to_owned()));
        let fields = fields.unwrap_or_else(|| panic!("docs/observe.md lacks {event}"));
        assert!(arguments.keys().all(|key| fields.contains(key)), "docs/observe.md lacks a field of {event}");
    }
    assert!(used.iter().all(|tid| threads.contains_key(&(true, *tid))), "a thread without a name");
    for spans in spans.values_mut() {
        // Spans of a thread lie in each other, or beside each other. Times are in nanoseconds, floats a little coarser.
        spans.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut open: Vec<f64> = Vec::new();
        for (at, duration) in spans {
            open.retain(|end| *end > *at + 0.5);
            assert!(open.iter().all(|end| *at + *duration <= *end + 0.5), "spans overlap at {at}");
            open.push(*at + *duration);
        }
    }
}

#[test]
fn spans_of_packing_add_up_to_the_dataset() {
    let place = Place::of(75);
    let report = place.packed("trace.json", &["--jobs", "2"]);
    let events = place.trace("trace.json");
    let shards = named(&events, "shard");
    let names: BTreeSet<&str> = shards.iter().map(|shard| shard["args"]["name"].as_str().unwrap()).collect();
    // Each shard once.
    assert_eq!((shards.len(), names.len() as u64), (8, report["shards"].as_u64().unwrap()));
    for (field, wanted) in [("samples", "samples"), ("bytes", "bytes"), ("input_bytes", "input_bytes")] {
        assert_eq!(sum(&shards, field), report[wanted].as_u64().unwrap(), "{field}");
    }
    let reads = named(&events, "read");
    assert_eq!(sum(&reads, "bytes"), report["input_bytes"].as_u64().unwrap());
    assert_eq!((sum(&reads, "samples"), sum(&named(&events, "write"), "samples")), (75, 75));
    let one = |name| named(&events, name).len();
    assert_eq!((one("scan"), one("plan"), one("seal"), one("publish"), one("finish")), (1, 1, 1, 8, 8));
    assert!(events.iter().any(|event| event["args"]["name"] == "packhorse-write-0"));
    // A shard that is there already has no span.
    place.packed("again.json", &[]);
    assert!(named(&place.trace("again.json"), "shard").is_empty());
    // Planning and filling are traced on their own.
    let all = ["plan", "files", "--to", "webdataset", "--out", "parts", "--samples-per-shard", "10"];
    place.json(&[&all[..], &["--trace", "plan.json"]].concat());
    assert_eq!(named(&place.trace("plan.json"), "plan").len(), 1);
    place.json(&["pack", "--plan", "parts", "--part", "1/2", "--trace", "part.json"]);
    let part = place.trace("part.json");
    assert_eq!((named(&part, "shard").len(), named(&part, "scan").len()), (4, 0));
}

#[test]
fn spans_of_reading_add_up_to_the_dataset() {
    let place = Place::of(75);
    let bytes = place.packed("pack.json", &[])["bytes"].as_u64().unwrap();
    let found = place.json(&["bench", "read", "shards", "--seconds", "1", "--batch", "8", "--trace", "trace.json"]);
    let events = place.trace("trace.json");
    // The first stage reads every byte once.
    assert_eq!(
        (found["stages"][0]["bytes"].as_u64().unwrap(), sum(&named(&events, "read_raw"), "size")),
        (bytes, bytes)
    );
    let opened = named(&events, "open");
    let names: BTreeSet<&str> = opened.iter().map(|open| open["args"]["fname"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 8);
    let (reads, shards) = (named(&events, "read"), named(&events, "read_shard"));
    assert!(!reads.is_empty() && sum(&shards, "size") > 0);
    // A batch is decoded once, and then taken.
    let taken = found["stages"][3]["samples"].as_u64().unwrap();
    let (decoded, uploads) = (named(&events, "decode"), named(&events, "upload"));
    assert_eq!(sum(&uploads, "samples"), taken);
    assert!(sum(&decoded, "samples") >= taken);
    for counter in ["ready", "prefetched"] {
        assert!(!named(&events, counter).is_empty(), "{counter}");
    }
    let threads = ["packhorse-fill-0", "packhorse-read-0", "packhorse-read-1"];
    assert!(threads.iter().all(|name| events.iter().any(|event| event["args"]["name"] == *name)));
}

#[test]
#[cfg_attr(not(feature = "gpu"), ignore = "uploads are of the feature gpu")]
fn copies_have_a_track_with_the_times_of_the_device() {
    let place = Place::of(75);
    place.packed("pack.json", &[]);
    let all = ["bench", "upload", "shards", "--device", "host", "--seconds", "0.1", "--step", "1", "--batch", "8"];
    let found = place.json(&[&all[..], &["--trace", "trace.json"]].concat());
    let events = place.trace("trace.json");
    let track = events.iter().find(|event| event["args"]["name"] == "GPU: copies").unwrap();
    let copies: Vec<&Value> = named(&events, "copy").into_iter().filter(|copy| copy["tid"] == track["tid"]).collect();
    assert!(copies.len() > 8, "{}", copies.len());
    // No copy has more bytes than a batch can have, and each has samples.
    let most = 8 * (1000 + 13 * 75) + 4096;
    assert!(copies.iter().all(|copy| (1..=8).contains(&arg(copy, "samples")) && arg(copy, "bytes") <= most));
    assert!(copies.iter().any(|copy| arg(copy, "bytes") == found["batch_bytes"].as_u64().unwrap()));
}

#[test]
fn a_pfw_has_an_event_a_line_and_reads_as_dftracer_has_them() {
    let place = Place::of(30);
    place.packed("pack.json", &[]);
    place.json(&["bench", "read", "shards", "--seconds", "0.2", "--batch", "8", "--trace", "trace.pfw"]);
    let text = std::fs::read_to_string(place.path("trace.pfw")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !["[", "]"].contains(line)).collect();
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reads = named(&events, "read_shard");
    assert!(!reads.is_empty());
    assert!(reads.iter().all(|read| read["cat"] == "POSIX" && read["args"]["ret"] == read["args"]["size"]));
    assert!(named(&events, "decode").iter().all(|decode| decode["cat"] == "read"));
}

#[test]
fn a_command_that_fails_leaves_a_whole_trace_and_a_trace_that_fails_an_error() {
    let place = Place::of(3);
    std::fs::write(place.path("files/x.tar"), "this is not a tar").unwrap();
    let all = ["pack", "files", "--to", "webdataset", "--out", "shards", "--trace", "trace.json"];
    assert!(!place.run(&all).status.success());
    assert_eq!(named(&place.trace("trace.json"), "list").len(), 1);
    let output = place.run(&["plan", "files", "--to", "webdataset", "--out", "x", "--trace", "none/trace.json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("none/trace.json") && !place.path("x").exists(), "{said}");
    let output = place.run(&["plan", "files", "--to", "webdataset", "--out", "x", "--trace", "s3://bucket/trace.json"]);
    assert_eq!(output.status.code(), Some(8), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn databases_and_perfetto_read_a_trace() {
    let Some(python) = python() else { return };
    let place = Place::of(75);
    let report = place.packed("trace.json", &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/check_trace.py");
    let output = Command::new(python).arg(script).arg(place.path("trace.json")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let wanted =
        serde_json::json!({"shards": report["shards"], "bytes": report["bytes"], "input_bytes": report["input_bytes"]});
    assert_eq!(found["duckdb"], wanted);
    match found["perfetto"].is_null() {
        true => skip("Perfetto's trace_processor can't be had here"),
        false => assert_eq!(found["perfetto"], wanted),
    }
}

/// Counts the spans of packhorse in this process, by target and name.
#[derive(Default)]
struct Spans(Mutex<BTreeMap<(String, String), u64>>);

impl tracing::Subscriber for &'static Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("packhorse::")
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let key = (span.metadata().target().to_owned(), span.metadata().name().to_owned());
        *self.0.lock().unwrap().entry(key).or_default() += 1;
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_program_gets_the_spans_through_its_own_subscriber() {
    let spans: &'static Spans = Box::leak(Box::default());
    tracing::subscriber::set_global_default(spans).unwrap();
    let place = Place::of(75);
    let to = place.path("shards");
    let recipe =
        packhorse::Recipe::new(place.path("files"), "webdataset", &to).with("samples-per-shard", "10").unwrap();
    packhorse::session().pack(&recipe).unwrap();
    let dataset = packhorse::open(to.to_str().unwrap()).unwrap();
    let loader = Loader::new(dataset, &[], &LoaderOptions::new(25), Host::default()).unwrap();
    assert_eq!(loader.map(|batch| batch.unwrap().rows()).sum::<usize>(), 75);
    let found = spans.0.lock().unwrap();
    let count = |target: &str, name: &str| found.get(&(target.to_owned(), name.to_owned())).copied().unwrap_or(0);
    assert_eq!((count("packhorse::pack", "shard"), count("packhorse::pack", "seal")), (8, 1));
    // Three batches of 75 samples: no span is of a sample.
    assert_eq!((count("packhorse::read", "decode"), count("packhorse::read", "upload")), (3, 3));
    assert_eq!(count("packhorse::read", "read"), 3);
    assert!(found.values().all(|count| *count < 75), "{found:?}");
    // A trace of the command line can't have this process too, and leaves its file alone.
    let kept = place.path("kept.json");
    std::fs::write(&kept, "kept").unwrap();
    let refused = packhorse_cli::Trace::start(&kept).map(drop).unwrap_err();
    assert!(refused.message().contains("subscriber"), "{refused}");
    assert_eq!(std::fs::read(&kept).unwrap(), b"kept");
}
