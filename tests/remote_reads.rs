//! A batch over a network waits for many reads at once, not for one after another.
#![cfg(feature = "remote")]
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse::read::*;
use packhorse_testkit::web::{HttpFault, Server};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

fn packhorse(args: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_packhorse")).args(args).arg("--quiet").output().unwrap();
    assert!(output.status.success(), "{args:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Holds requests until so many wait at once.
struct Gate {
    wanted: usize,
    waiting: Mutex<usize>,
    full: Condvar,
    late: AtomicBool,
}

impl Gate {
    fn new(wanted: usize) -> Arc<Self> {
        Arc::new(Self { wanted, waiting: Mutex::new(0), full: Condvar::new(), late: AtomicBool::new(false) })
    }

    fn pass(&self) -> HttpFault {
        let mut waiting = self.waiting.lock().unwrap();
        *waiting += 1;
        self.full.notify_all();
        let patience = Duration::from_secs(if self.late.load(Ordering::SeqCst) { 0 } else { 20 });
        let came = self.full.wait_timeout_while(waiting, patience, |waiting| *waiting < self.wanted).unwrap();
        self.late.fetch_or(came.1.timed_out(), Ordering::SeqCst);
        HttpFault::None
    }

    fn has_filled(&self) -> bool {
        *self.waiting.lock().unwrap() >= self.wanted && !self.late.load(Ordering::SeqCst)
    }
}

/// Sixty photos in shards of so many.
fn shards_of(dir: &Path, samples: &str) -> PathBuf {
    let (photos, shards) = (dir.join("photos"), dir.join("shards"));
    packhorse(&["synth", "images", "--count", "60", "--out", photos.to_str().unwrap()]);
    let places = [photos.to_str().unwrap(), "--to", "webdataset", "--out", shards.to_str().unwrap()];
    packhorse(&[&["pack"], &places[..], &["--samples-per-shard", samples]].concat());
    shards
}

fn shards(dir: &Path) -> PathBuf {
    shards_of(dir, "15")
}

/// Every third photo.
fn read(dataset: &Dataset) -> Vec<Option<Vec<u8>>> {
    let access = Access::Ranges { gap: 0 };
    let reader = Reader::new(dataset.clone(), vec!["jpg".into()], ReadOptions { access, ..ReadOptions::default() });
    let mut block = SampleBlock::default();
    reader.read((0..60).step_by(3), &mut Wants::default(), &mut block).unwrap();
    let bytes = |row| match block.value(row, 0) {
        Some(Value::Bytes(bytes)) => Some(bytes.to_vec()),
        _ => None,
    };
    (0..block.len()).map(bytes).collect()
}

#[test]
fn the_samples_of_a_batch_are_asked_for_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let shards = shards(dir.path());
    let wanted = read(&open(shards.to_str().unwrap()).unwrap());
    assert!(wanted.len() == 20 && wanted.iter().all(Option::is_some));
    let gate = Gate::new(16);
    let held = Arc::clone(&gate);
    let server = Server::new(&shards, move |asked| match asked.range.is_some() && asked.path.ends_with(".tar") {
        true => held.pass(),
        false => HttpFault::None,
    });
    assert!(read(&open(&server.url("")).unwrap()) == wanted && gate.has_filled());
}

#[test]
fn the_shards_of_a_batch_are_opened_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let shards = shards(dir.path());
    let wanted = read(&open(shards.to_str().unwrap()).unwrap());
    let (gate, opened) = (Gate::new(4), Arc::new(AtomicBool::new(false)));
    let (held, reads) = (Arc::clone(&gate), Arc::clone(&opened));
    let server = Server::new(&shards, move |asked| match reads.load(Ordering::SeqCst) && asked.head {
        true => held.pass(),
        false => HttpFault::None,
    });
    let dataset = open(&server.url("")).unwrap();
    opened.store(true, Ordering::SeqCst);
    assert!(read(&dataset) == wanted && gate.has_filled());
}

/// The error of one shard ends the batch, and no further shards are asked for.
#[test]
fn a_server_that_refuses_is_asked_for_few_shards() {
    let dir = tempfile::tempdir().unwrap();
    let refuses = Arc::new(AtomicBool::new(false));
    let refused = Arc::clone(&refuses);
    let server = Server::new(shards_of(dir.path(), "1"), move |_| match refused.load(Ordering::SeqCst) {
        true => HttpFault::Status(403),
        false => HttpFault::None,
    });
    let dataset = open(&server.url("")).unwrap();
    let before = server.requests();
    refuses.store(true, Ordering::SeqCst);
    let reader = Reader::new(dataset, vec!["jpg".into()], ReadOptions::default());
    let read = reader.read(0..60, &mut Wants::default(), &mut SampleBlock::default());
    assert!(read.is_err());
    // Some for each of the 16 shards that were asked for at once, and not for all sixty.
    assert!(server.requests() - before <= 150, "{} requests", server.requests() - before);
}

/// Headers of small members lie near each other: one request gets many of them.
#[test]
fn a_tar_of_others_is_indexed_by_few_requests() {
    let dir = tempfile::tempdir().unwrap();
    let mut tar = tar::Builder::new(std::fs::File::create(dir.path().join("a.tar")).unwrap());
    for number in 0..300 {
        for (field, bytes) in [("bin", &[number as u8; 20_000][..]), ("cls", b"no number")] {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, format!("{number:04}.{field}"), bytes).unwrap();
        }
    }
    tar.into_inner().unwrap();
    let server = Server::new(dir.path(), |_| HttpFault::None);
    let url = server.url("a.tar");
    let dataset = open(&url).unwrap();
    assert_eq!(dataset.len(), 300);
    assert!(server.requests() <= 20, "{} requests", server.requests());
    let error = dataset.loader(10).field("cls", "cls").build().unwrap().next().unwrap().unwrap_err();
    assert_eq!(error.input(), Some(&*url), "{error}");
}
