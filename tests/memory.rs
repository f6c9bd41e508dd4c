//! `--memory` bounds what packing takes, whatever the inputs are.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
}

use common::process::{Ended, packhorse};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// What the program takes with nothing to do, and with all of its threads: code, stacks, buffers.
const PROGRAM: u64 = 64 * MIB;

/// Runs `packhorse ARGS`; returns how it ended, and the most memory that it had.
fn run(args: &[&str]) -> (Ended, u64) {
    let mut running = packhorse(args).start();
    let status = format!("/proc/{}/status", running.id());
    let (start, mut peak) = (Instant::now(), 0);
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) << 10);
        if running.ends_within(start.elapsed() + Duration::from_millis(2)) {
            return (running.end(), peak);
        }
    }
}

struct Place {
    dir: TempDir,
    input: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("in");
        std::fs::create_dir(&input).unwrap();
        Self { dir, input }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// A file among the inputs of `len` bytes, most of which are holes, with marks that tell its parts apart.
    fn sparse(&self, name: &str, len: u64) {
        let mut file = File::create(self.input.join(name)).unwrap();
        file.set_len(len).unwrap();
        for at in [0, len / 3, len / 2 + 1, len - 20] {
            file.seek(SeekFrom::Start(at)).unwrap();
            write!(file, "{name} {at:<6}").unwrap();
        }
    }

    /// `packhorse pack` of the inputs into the folder `out`.
    fn pack(&self, out: &str, more: &[&str]) -> (Ended, u64) {
        let out = self.path(out);
        run(&[&["pack", self.input.to_str().unwrap(), "--out", &out], more].concat())
    }
}

/// What Python's tarfile would find: names and bytes of the members of a tar of plain headers.
fn members(path: &Path) -> Vec<(String, Vec<u8>)> {
    let bytes = std::fs::read(path).unwrap();
    let (mut at, mut found) = (0, Vec::new());
    while bytes[at] != 0 {
        let name = bytes[at..at + 100].split(|b| *b == 0).next().unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[at + 124..at + 135]).unwrap(), 8).unwrap();
        found.push((String::from_utf8(name.to_vec()).unwrap(), bytes[at + 512..at + 512 + size].to_vec()));
        at += 512 + size.next_multiple_of(512);
    }
    found
}

#[test]
fn large_files_are_copied_in_pieces() {
    let place = Place::new();
    for (name, mib) in [("a.bin", 90), ("b.bin", 60), ("b.wav", 40), ("c.bin", 70)] {
        place.sparse(name, mib * MIB + 13);
    }
    for name in ["a.cls", "b.txt", "d.bin"] {
        std::fs::write(place.input.join(name), name).unwrap();
    }
    for (out, jobs) in [("one", "1"), ("four", "4")] {
        let (ended, peak) = place.pack(out, &["--to", "webdataset", "--memory", "32MiB", "--jobs", jobs]);
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert!(peak < 32 * MIB + PROGRAM, "{} MiB", peak / MIB);
    }
    let verified = packhorse(&["verify", "--full", &place.path("four")]).succeed();
    assert!(verified.said.is_empty(), "{verified:?}");
    let shard = |out: &str| Path::new(&place.path(out)).join("shard-000000.tar");
    let found = members(&shard("one"));
    assert_eq!(members(&shard("four")), found);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a.bin", "a.cls", "b.bin", "b.txt", "b.wav", "c.bin", "d.bin"]);
    for (name, bytes) in &found {
        assert!(*bytes == std::fs::read(place.input.join(name)).unwrap(), "{name}");
    }
}

#[test]
fn large_members_of_tars_are_copied_in_pieces() {
    let place = Place::new();
    place.sparse("a.bin", 150 * MIB);
    std::fs::write(place.input.join("a.cls"), "3").unwrap();
    place.pack("tar", &["--to", "webdataset"]).0.code();
    let tar = Path::new(&place.path("tar")).join("shard-000000.tar");
    let packed = Place::new();
    let mut encoder = flate2::write::GzEncoder::new(
        File::create(packed.input.join("x.tar.gz")).unwrap(),
        flate2::Compression::fast(),
    );
    std::io::copy(&mut File::open(&tar).unwrap(), &mut encoder).unwrap();
    encoder.finish().unwrap();
    let (ended, peak) = packed.pack("out", &["--to", "webdataset", "--memory", "32MiB"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(peak < 32 * MIB + PROGRAM, "{} MiB", peak / MIB);
    let found = members(&Path::new(&packed.path("out")).join("shard-000000.tar"));
    let wanted: Vec<Vec<u8>> = members(&tar).into_iter().map(|(_, bytes)| bytes).collect();
    assert!(found.into_iter().map(|(_, bytes)| bytes).eq(wanted));
}

#[test]
fn a_large_file_that_shrank_fails_its_shard_and_is_not_left_out() {
    let place = Place::new();
    place.sparse("a.bin", 40 * MIB);
    place.sparse("b.bin", 40 * MIB);
    let plan = place.path("plan");
    let input = place.input.to_str().unwrap();
    packhorse(&["plan", input, "--to", "webdataset", "--out", &plan]).succeed();
    let file = File::options().write(true).open(place.input.join("b.bin")).unwrap();
    file.set_len(30 * MIB).unwrap();
    let (ended, _) = run(&["pack", "--plan", &plan, "--on-error", "skip"]);
    assert_eq!(ended.code(), 4, "{ended:?}");
    assert!(ended.said.contains("b.bin") && ended.said.contains("changed since the plan"), "{ended:?}");
}

/// A `.npz` file of one array of `len` zeros, deflated.
fn npz(len: usize) -> Vec<u8> {
    let dict = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({len},), }}");
    let mut npy = [b"\x93NUMPY\x01\x00\x76\x00", format!("{dict:117}\n").as_bytes()].concat();
    npy.resize(128 + len, 0);
    let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&npy).unwrap();
    let packed = packed.finish().unwrap();
    let mut crc = flate2::Crc::new();
    crc.update(&npy);
    let sizes = [crc.sum(), packed.len() as u32, npy.len() as u32].map(u32::to_le_bytes).concat();
    let about = [&[20, 0, 0, 0, 8, 0, 0, 0, 0, 0][..], &sizes, &[5, 0, 0, 0]].concat();
    let local = [b"PK\x03\x04", &about[..], b"x.npy", &packed].concat();
    let directory = [b"PK\x01\x02\x14\x00", &about[..], &[0; 14], b"x.npy"].concat();
    let end = [(directory.len() as u32).to_le_bytes(), (local.len() as u32).to_le_bytes()].concat();
    [&local[..], &directory, b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &end, &[0, 0]].concat()
}

/// The samples that a dataset's manifest says it has, and how many were left out.
fn samples(out: &str) -> (u64, u64) {
    let text = std::fs::read_to_string(Path::new(out).join("dataset.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    (manifest["samples"].as_u64().unwrap(), manifest["skipped"].as_u64().unwrap())
}

#[test]
fn what_must_be_whole_and_is_too_large_is_refused_or_left_out() {
    let place = Place::new();
    std::fs::write(place.input.join("a.npz"), npz(1000)).unwrap();
    std::fs::write(place.input.join("b.npz"), npz(200 << 20)).unwrap();
    let columns = ["--to", "hdf5", "--ragged", "--memory", "64MiB"];
    let (ended, peak) = place.pack("fail", &columns);
    assert_eq!(ended.code(), 7, "{ended:?}");
    assert!(ended.said.contains("b.npz") && ended.said.contains("--memory 804MiB"), "{ended:?}");
    assert!(peak < PROGRAM, "{} MiB", peak / MIB);
    let (ended, peak) = place.pack("skip", &[&columns[..], &["--on-error", "skip"]].concat());
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(samples(&place.path("skip")), (1, 1));
    assert!(peak < PROGRAM, "{} MiB", peak / MIB);
    // Fields that are not decoded are copied.
    let (ended, _) = place.pack("bytes", &["--to", "webdataset", "--decode", "never", "--memory", "64MiB"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(samples(&place.path("bytes")), (2, 0));
}

#[test]
fn a_document_that_is_too_long_is_dropped_before_it_is_whole() {
    let place = Place::new();
    let file = File::create(place.input.join("a.jsonl.gz")).unwrap();
    let mut file = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    file.write_all(b"{\"text\": \"one\"}\n").unwrap();
    (0..300).for_each(|_| file.write_all(&[0; MIB as usize]).unwrap());
    file.write_all(b"\n{\"text\": \"two\"}\n").unwrap();
    file.finish().unwrap();
    for (name, len) in [("b.txt", 200 * MIB), ("c.txt", 10)] {
        place.sparse(name, len + 20);
    }
    let (ended, peak) = place.pack("fail", &["--to", "parquet", "--memory", "64MiB"]);
    assert!(ended.code() == 7 && ended.said.contains("--memory"), "{ended:?}");
    assert!(peak < 64 * MIB + PROGRAM, "{} MiB", peak / MIB);
    let (ended, peak) = place.pack("skip", &["--to", "parquet", "--memory", "64MiB", "--on-error", "skip"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(samples(&place.path("skip")), (3, 2));
    assert!(peak < 64 * MIB + PROGRAM, "{} MiB", peak / MIB);
}

#[test]
fn every_part_of_a_plan_leaves_out_the_same() {
    let place = Place::new();
    for (name, len) in [("a.npz", 1000), ("b.npz", 20 << 20), ("c.npz", 10 << 20)] {
        std::fs::write(place.input.join(name), npz(len)).unwrap();
    }
    let (input, skip) = (place.input.to_str().unwrap(), ["--on-error", "skip"]);
    let plan = |out: &str, more: &[&str]| {
        let to = ["plan", input, "--to", "hdf5", "--decode", "never", "--samples-per-shard", "1", "--out", out];
        packhorse(&[&to[..], &skip, more].concat()).succeed();
    };
    // Files that are bytes of no known kind: they are read when the plan is filled.
    for name in ["a", "b", "c"] {
        std::fs::rename(place.input.join(format!("{name}.npz")), place.input.join(format!("{name}.bin"))).unwrap();
    }
    place.sparse("b.bin", 20 * MIB);
    place.sparse("c.bin", 10 * MIB);
    let out = place.path("bounded");
    plan(&out, &["--memory", "64MiB"]);
    run(&[&["pack", "--plan", &out, "--part", "1/2"], &skip[..]].concat()).0.code();
    run(&[&["pack", "--plan", &out, "--part", "2/2", "--memory", "4GiB"], &skip[..]].concat()).0.code();
    packhorse(&["seal", &out]).succeed();
    assert_eq!(samples(&out), (2, 1));
    // Less memory than the plan was made for decides nothing: it fails.
    let out = place.path("unbounded");
    plan(&out, &[]);
    let (ended, _) = run(&[&["pack", "--plan", &out, "--memory", "64MiB"], &skip[..]].concat());
    assert!(ended.code() == 7 && ended.said.contains("b.bin"), "{ended:?}");
    let (ended, _) = run(&[&["pack", "--plan", &out], &skip[..]].concat());
    assert_eq!(ended.code(), 0, "{ended:?}");
    packhorse(&["seal", &out]).succeed();
    assert_eq!(samples(&out), (3, 0));
}

#[test]
fn large_documents_of_several_shards_are_read_one_after_the_other() {
    let place = Place::new();
    for i in 0..4 {
        let mut file = File::create(place.input.join(format!("{i}.jsonl"))).unwrap();
        let line = "a\\n".repeat(14 << 20);
        writeln!(file, "{{\"text\": \"one\"}}\n{{\"text\": \"{line}\"}}\n{{\"text\": \"{i}\"}}").unwrap();
    }
    let to = ["--to", "tfrecord", "--shard-count", "4", "--jobs", "4"];
    let (ended, peak) = place.pack("bounded", &[&to[..], &["--memory", "192MiB"]].concat());
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(samples(&place.path("bounded")), (12, 0));
    assert!(peak < 300 * MIB, "{} MiB", peak / MIB);
    let (ended, _) = place.pack("free", &to);
    assert_eq!(ended.code(), 0, "{ended:?}");
    for shard in 0..4 {
        let name = format!("shard-00000{shard}.tfrecord");
        let [bounded, free] =
            ["bounded", "free"].map(|out| std::fs::read(Path::new(&place.path(out)).join(&name)).unwrap());
        assert!(bounded == free, "{name}");
    }
}

#[test]
fn writers_are_as_many_as_have_room_for_what_they_gather() {
    let place = Place::new();
    for i in 0..12 {
        let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", (10 << 20) / 4 + i);
        let npy = [b"\x93NUMPY\x01\x00\x76\x00", format!("{head:117}\n").as_bytes()].concat();
        let mut file = File::create(place.input.join(format!("{i:02}.npy"))).unwrap();
        file.write_all(&npy).unwrap();
        file.set_len(128 + (10 << 20) + 4 * i).unwrap();
    }
    let to = ["--to", "arrow", "--ragged", "--samples-per-shard", "3", "--jobs", "4", "--memory", "64MiB"];
    let (ended, peak) = place.pack("out", &to);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(samples(&place.path("out")), (12, 0));
    assert!(peak < 2 * 64 * MIB + PROGRAM, "{} MiB", peak / MIB);
}

/// JSON lines in a file among the inputs: the one numbered `long` is of `len` bytes, others of 100 KB.
fn documents(place: &Place, long: usize, len: usize) {
    let mut file = File::create(place.input.join("a.jsonl")).unwrap();
    for i in 0..40 {
        writeln!(file, "{{\"text\": \"{}\"}}", "mule ".repeat(if i == long { len } else { 100_000 } / 5)).unwrap();
    }
}

#[test]
fn the_memory_that_an_error_names_packs_into_the_same_folder() {
    let place = Place::new();
    documents(&place, 30, 20 << 20);
    let pack = |more: &[&str]| place.pack("out", &[&["--to", "arrow", "--shard-size", "4MiB"], more].concat()).0;
    let ended = pack(&["--memory", "64MiB"]);
    assert!(ended.code() == 7 && ended.said.contains("--memory"), "{ended:?}");
    let ended = pack(&["--memory", "84MiB"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(samples(&place.path("out")), (40, 0));
}

#[test]
fn skipping_goes_on_with_a_plan_that_failed_in_the_same_memory() {
    let place = Place::new();
    documents(&place, 0, 5);
    // A line that is not JSON, in the last shard.
    let mut file = File::options().append(true).open(place.input.join("a.jsonl")).unwrap();
    file.write_all(b"mule\n").unwrap();
    let pack = |more: &[&str]| {
        place.pack("out", &[&["--to", "arrow", "--shard-size", "1MB", "--memory", "256MiB"], more].concat()).0
    };
    let ended = pack(&[]);
    assert!(ended.code() == 3 && ended.said.contains("--on-error skip"), "{ended:?}");
    let ended = pack(&["--on-error", "skip"]);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(samples(&place.path("out")), (40, 1));
    // Another memory is another plan where values over it are skipped.
    let ended = place.pack("other", &["--to", "arrow", "--memory", "256MiB", "--on-error", "skip"]).0;
    assert_eq!(ended.code(), 0, "{ended:?}");
    let ended = place.pack("other", &["--to", "arrow", "--memory", "128MiB", "--on-error", "skip"]).0;
    assert!(ended.code() == 2 && ended.said.contains("--memory"), "{ended:?}");
}
