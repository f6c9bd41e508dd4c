//! What fails below packhorse is said, never packed, and gone after the next run.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod corpus;
    pub(crate) mod disk;
    pub(crate) mod process;
    pub(crate) mod steps;
    pub(crate) mod strace;
    pub(crate) mod tree;
    pub(crate) mod work;
}

use common::disk::Disk;
use common::process::{Ended, packhorse};
use common::steps::Step;
use common::strace;
use common::tree::{assert_kept, committed, tree};
use common::work::{Work, text};
use std::path::{Path, PathBuf};
use std::process::Command;

const CONFIG: i32 = 2;
const CONTENT: i32 = 3;
const CHANGED: i32 = 4;
const ENVIRONMENT: i32 = 5;
const INCOMPLETE: i32 = 6;

/// An error of the file system: its code, where, what the system said, and what to do.
#[track_caller]
fn assert_full(ended: &Ended, out: &Path) {
    assert_eq!(ended.code(), ENVIRONMENT, "{ended:?}");
    for part in [text(out), "No space left on device", "free some space and run the same command again"] {
        assert!(ended.said.contains(part), "no word of {part:?}: {ended:?}");
    }
}

#[test]
fn a_disk_that_fills_up() {
    let work = Work::new(60, 10);
    let full = ["size=4k", "size=64k", "size=256k", "size=600k", "size=900k", "size=1000k", "size=1040k"];
    let no_inodes = ["nr_inodes=2", "nr_inodes=4", "nr_inodes=6", "nr_inodes=9", "nr_inodes=20", "nr_inodes=36"];
    let mut stopped = Vec::new();
    for (i, options) in full.into_iter().chain(no_inodes).enumerate() {
        let Some(disk) = Disk::mount(work.dir(&format!("disk{i}")), options) else { return };
        let out = disk.0.join("out");
        let ended = work.pack(&out, &["--jobs", "1"]).run();
        work.assert_no_half_file(&out, options);
        if ended.code() != 0 {
            assert_full(&ended, &out);
            let before = committed(&out);
            stopped.push(before.len());
            disk.resize("size=64m,nr_inodes=10k");
            work.finish(&out, options);
            assert_kept(&before, &out, options);
        }
    }
    stopped.sort_unstable();
    stopped.dedup();
    assert!(stopped.len() >= 3, "the disk was full at other moments than wanted: {stopped:?}");
}

/// A compressed archive is laid down in the dataset's folder while it is read.
#[test]
fn a_disk_that_fills_up_with_an_unpacked_archive() {
    let work = Work::new(60, 10);
    let Some(disk) = Disk::mount(work.dir("disk"), "size=200k") else { return };
    let archive = work.dir("pictures.tar.gz");
    let tar = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&work.input).arg(".").status().unwrap();
    assert!(tar.success());
    let out = disk.0.join("out");
    assert_full(&packhorse(&["pack", text(&archive), "--to", "webdataset", "--out", text(&out)]).run(), &out);
}

/// By default one in so many calls of a step fails. All of them take four minutes of two CPUs.
const EVERY: usize = 3;

/// Every call of every step fails once, in each way, or every n-th (`PACKHORSE_EVERY_CALL`).
fn every_call_fails(work: impl Fn() -> Work, step: Step, faults: &[(&str, &str)]) {
    if !strace::available() {
        return;
    }
    let work = work();
    let (out, log) = (work.dir("out"), work.dir("log"));
    let every: usize = std::env::var("PACKHORSE_EVERY_CALL").map_or(EVERY, |n| n.parse().unwrap()).max(1);
    for (syscall, fault) in faults {
        let (mut runs, mut failed) = (0, 0);
        for k in (1..).step_by(every) {
            step.prepare(&work, &out);
            let ended =
                strace::inject(step.program(&work, &out), syscall, &format!("{fault}:when={k}"), None, &log).run();
            let hits = strace::hits(&ended, &log);
            if hits.is_empty() {
                break;
            }
            let when = format!("{step:?} with {syscall} {k} {fault}: {hits:?}");
            failed += u32::from(judge(&work, step, &out, &ended, &when));
            let before = committed(&out);
            step.finish(&work, &out, &when);
            assert_kept(&before, &out, &when);
            runs += 1;
        }
        println!("{step:?}: {failed} of {runs} runs failed, the others were whole");
        packhorse_testkit::external::count(runs, "failing system calls");
    }
}

/// A run that met a fault either did all of its work or says what failed. Returns whether it failed.
fn judge(work: &Work, step: Step, out: &Path, ended: &Ended, when: &str) -> bool {
    step.assert_old_or_new(work, out, when);
    // What can't be listed can't be removed: the next run does it.
    let listed = !["close", "openat"].iter().any(|call| when.contains(call));
    assert!(!listed || !out.join(".staging").exists(), "{when}: temporary files are left: {ended:?}");
    // The loader's own files: then there is no packhorse to say anything. Nor is there a way to say
    // anything where standard error fails.
    let loader = ended.code() == 127 && ended.said.contains("shared librar");
    let mute = when.contains("write(2, ");
    // The standard library's own words: it panics where the folder that it lists can't be closed, and aborts
    // where another panic is under way.
    let closedir = [101, 134].contains(&ended.code()) && ended.said.contains("unexpected error during closedir");
    match ended.code() {
        0 => {
            step.assert_done(work, out, |name| listed || !name.starts_with(".staging"), when);
            let rewritten = ended.said.contains("writing it once more");
            assert!(rewritten || !when.contains(" fsync "), "{when}: a failed sync was passed over: {ended:?}");
        }
        _ if loader || closedir => {}
        code => {
            // What may not be read is a bad input, and a folder that may not be written to a bad request.
            let refused = when.contains("EACCES") && [CONTENT, CONFIG].contains(&code);
            assert!(code == ENVIRONMENT || refused, "{when}: {ended:?}");
            let place = [out.parent().unwrap(), &work.input].iter().any(|place| ended.said.contains(text(place)));
            assert!(mute || place && ended.said.contains("(os error "), "{when}: {ended:?}");
        }
    }
    ended.code() != 0
}

const FAILING_WRITES: [(&str, &str); 10] = [
    ("write", "error=ENOSPC"),
    ("write", "error=EIO"),
    ("write", "error=EDQUOT"),
    ("write", "error=EINTR"),
    ("fsync", "error=EIO"),
    ("renameat", "error=EIO"),
    ("mkdirat", "error=ENOSPC"),
    ("close", "error=EIO"),
    ("openat", "error=EACCES"),
    ("openat", "error=ENOSPC"),
];

#[test]
fn every_call_of_plan_fails() {
    every_call_fails(|| Work::new(24, 8), Step::Plan, &FAILING_WRITES);
}

#[test]
fn every_call_of_pack_fails() {
    every_call_fails(|| Work::new(24, 8), Step::Pack, &FAILING_WRITES);
}

#[test]
fn every_call_of_seal_fails() {
    every_call_fails(|| Work::new(24, 8), Step::Seal, &FAILING_WRITES);
}

/// Until all is done the dataset is the old one.
#[test]
fn every_call_of_append_fails() {
    for step in Step::APPEND {
        every_call_fails(|| Work::new(8, 4), step, &FAILING_WRITES);
    }
}

#[test]
fn every_call_of_view_fails() {
    every_call_fails(|| Work::new(24, 8), Step::View, &FAILING_WRITES);
}

/// Token shards come in pairs, with a table beside them.
#[test]
fn calls_fail_on_the_way_to_tokens() {
    let faults = [("write", "error=ENOSPC"), ("fsync", "error=EIO"), ("renameat", "error=EIO")];
    every_call_fails(|| Work::tokens(40, "4KB"), Step::Pack, &faults);
}

/// A permanent fault: a retry does not help, and nothing is published.
#[test]
fn a_file_system_that_keeps_failing() {
    if !strace::available() {
        return;
    }
    let work = Work::new(24, 8);
    let (out, log) = (work.dir("out"), work.dir("log"));
    for (syscall, error) in [("write", "EIO"), ("fsync", "EIO"), ("renameat", "EIO"), ("mkdirat", "EROFS")] {
        Step::Pack.prepare(&work, &out);
        let fault = format!("error={error}:when=1+");
        // Standard error is written to as well: without it there is no word, but there is the code.
        let ended = strace::inject(Step::Pack.program(&work, &out), syscall, &fault, None, &log).run();
        assert_eq!(ended.code(), ENVIRONMENT, "{syscall}: {ended:?}");
        assert!(committed(&out).is_empty(), "{syscall}: a shard was committed");
        work.finish(&out, syscall);
    }
}

/// The dataset's folder is new: its own name must outlive a power cut too.
#[test]
fn the_name_of_a_new_folder_is_synced() {
    if !strace::available() {
        return;
    }
    let work = Work::new(24, 8);
    let (out, log) = (work.dir("new/and new/out"), work.dir("log"));
    strace::trace(work.pack(&out, &[]), "fsync", &log).succeed();
    let said = std::fs::read_to_string(&log).unwrap();
    for folder in out.ancestors().take(4) {
        assert!(said.contains(&format!("<{}>", folder.display())), "{} was not synced:\n{said}", folder.display());
    }
}

#[test]
fn an_input_that_cannot_be_read() {
    if !strace::available() {
        return;
    }
    let work = Work::new(24, 8);
    let (out, log) = (work.dir("out"), work.dir("log"));
    let victim = tree(&work.input).into_keys().find(|name| name.ends_with(".jpg")).unwrap();
    let victim = work.input.join(victim);
    for policy in ["fail", "skip"] {
        let program = work.pack(&out, &["--on-error", policy]);
        let ended = strace::inject(program, "pread64", "error=EIO", Some(&victim), &log).run();
        assert_eq!(ended.code(), ENVIRONMENT, "{ended:?}");
        for part in [text(&victim), "read failed: Input/output error (os error 5)"] {
            assert!(ended.said.contains(part), "no word of {part:?}: {ended:?}");
        }
        assert!(!out.join("dataset.json").exists());
        assert!(ended.said.contains("writing it once more"), "{ended:?}");
        work.assert_no_half_file(&out, "an input can't be read");
        work.finish(&out, "an input can be read again");
        std::fs::remove_dir_all(&out).unwrap();
    }
}

/// A disk with bad places: verify goes on behind them, and repair packs the shard again.
#[test]
fn a_shard_that_cannot_be_read() {
    if !strace::available() {
        return;
    }
    let work = Work::new(40, 8);
    let (out, log) = (work.dir("out"), work.dir("log"));
    work.pack(&out, &[]).succeed();
    let flipped = out.join("shard-000003.tar");
    let mut bytes = std::fs::read(&flipped).unwrap();
    bytes[700] ^= 1;
    std::fs::write(&flipped, bytes).unwrap();
    for name in ["shard-000001.tar", "shard-000001.idx", "shard-000001.receipt.json"] {
        let verify = packhorse(&["verify", "--full", text(&out), "--jobs", "1", "--json"]);
        let ended = strace::inject(verify, "pread64,read", "error=EIO", Some(&out.join(name)), &log).run();
        assert_eq!(ended.code(), INCOMPLETE, "{ended:?}");
        let found: serde_json::Value = serde_json::from_str(&ended.printed).unwrap();
        let damage = |i: usize| ["file", "problem"].map(|part| found["damages"][i][part].as_str().unwrap().to_owned());
        let ([bad, unreadable], [other, _]) = (damage(0), damage(1));
        assert!(bad == name && unreadable.starts_with("can't be read: read failed: Input/output error"), "{found}");
        assert_eq!(other, "shard-000003.tar");
    }
    // A receipt that no thread reads (each thread counts its own calls) is replaced without a look at it.
    let repair = packhorse(&["repair", text(&out), "--jobs", "1"]);
    let bad = out.join("shard-000002.receipt.json");
    let ended = strace::inject(repair, "pread64,read", "error=EIO:when=1..2", Some(&bad), &log).run();
    assert_eq!(ended.code(), 0, "{ended:?}");
    packhorse(&["clean", "--quarantine", text(&out)]).succeed();
    assert_eq!(tree(&out), work.whole);
    // Bytes of the new file can be read, so only the first call fails.
    let repair = packhorse(&["repair", text(&out), "--jobs", "1", "--json"]);
    let bad = out.join("shard-000001.tar");
    let ended = strace::inject(repair, "pread64", "error=EIO:when=1", Some(&bad), &log).run();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.printed.contains("can't be read: "), "{ended:?}");
    packhorse(&["clean", "--quarantine", text(&out)]).succeed();
    assert_eq!(tree(&out), work.whole);
}

#[test]
fn a_folder_that_is_taken_away_while_it_is_packed_is_told_and_the_next_run_makes_it_again() {
    if !strace::available() {
        return;
    }
    let work = Work::new(60, 6);
    type Harm = fn(&Path, &Path);
    let harms: [Harm; 2] =
        [|out, aside| std::fs::rename(out, aside).unwrap(), |out, _| while std::fs::remove_dir_all(out).is_err() {}];
    for (i, harm) in harms.into_iter().enumerate() {
        let (out, log) = (work.dir("out"), work.dir("log"));
        let slow = work.pack(&out, &["--jobs", "1", "--io-threads", "1"]);
        let running = strace::inject(slow, "pread64", "delay_enter=20000", None, &log).start();
        while !out.join("shard-000001.receipt.json").exists() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        harm(&out, &work.dir("aside"));
        let ended = running.end();
        assert_eq!(ended.code(), ENVIRONMENT, "{i}: {ended:?}");
        assert!(ended.said.contains(text(&out)), "{i}: {ended:?}");
        work.finish(&out, &format!("after harm {i}"));
        std::fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn a_folder_that_cannot_be_closed_is_no_panic() {
    if !strace::available() {
        return;
    }
    let work = Work::new(24, 8);
    let (out, log) = (work.dir("out"), work.dir("log"));
    let ended = strace::inject(work.pack(&out, &[]), "close", "error=EIO", Some(&work.input), &log).run();
    assert!(!strace::hits(&ended, &log).is_empty(), "no folder was closed: {ended:?}");
    assert_eq!(ended.code(), 0, "{ended:?}");
    work.assert_whole(&out, "a folder could not be closed");
}

#[test]
fn a_folder_that_holds_something_else() {
    let work = Work::new(24, 8);
    let out = work.dir("undisturbed");
    let ended = work.pack(&out, &["--shuffle", "8", "--name", "other", "--limit", "20"]).run();
    assert_eq!(ended.code(), CONFIG, "{ended:?}");
    for part in [text(&out), "another plan", "--shuffle: 7 there, 8 now", "name: shard there, other now", "--limit"] {
        assert!(ended.said.contains(part), "no word of {part:?}: {ended:?}");
    }
    work.assert_whole(&out, "after another plan was refused");
    let foreign = work.dir("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis.tex"), "years of work").unwrap();
    let ended = work.pack(&foreign, &[]).run();
    assert_eq!(ended.code(), CONFIG, "{ended:?}");
    assert!(ended.said.contains(text(&foreign)) && ended.said.contains("thesis.tex"), "{ended:?}");
    assert_eq!(tree(&foreign).len(), 1);
}

/// A copy of the pictures that a test may change, and a plan for it.
fn planned_copy(work: &Work, dir: &Path) -> (PathBuf, PathBuf) {
    let (input, out) = (dir.join("input"), dir.join("out"));
    std::fs::create_dir(dir).unwrap();
    assert!(Command::new("cp").arg("-r").arg(&work.input).arg(&input).status().unwrap().success());
    plan(&input, &out).succeed();
    (input, out)
}

fn plan(input: &Path, out: &Path) -> common::process::Program {
    packhorse(&["plan", text(input), "--to", "webdataset", "--out", text(out), "--samples-per-shard", "8"])
}

#[test]
fn inputs_that_change_after_the_plan() {
    let work = Work::new(24, 8);
    let touch = |path: &Path| {
        let file = std::fs::File::options().append(true).open(path).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    };
    let grow = |path: &Path| std::fs::write(path, b"another picture").unwrap();
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    let changes: [&dyn Fn(&Path); 3] = [&touch, &grow, &remove];
    let words = ["modification time differs", "it had", "vanished"];
    for (i, (change, word)) in changes.into_iter().zip(words).enumerate() {
        let (input, out) = planned_copy(&work, &work.dir(&format!("copy{i}")));
        let victim = tree(&input).into_keys().find(|name| name.ends_with(".jpg")).unwrap();
        change(&input.join(&victim));
        let ended = packhorse(&["pack", "--plan", text(&out)]).run();
        assert_eq!(ended.code(), CHANGED, "{ended:?}");
        assert!(ended.said.contains(&victim) && ended.said.contains(word), "{ended:?}");
        let left = committed(&out).into_keys().filter(|name| name.ends_with(".receipt.json")).count();
        assert_eq!(left, 2, "the shards that it does not concern");
    }
    let (input, out) = planned_copy(&work, &work.dir("copy"));
    packhorse(&["pack", "--plan", text(&out)]).succeed();
    touch(&input.join(tree(&input).into_keys().find(|name| name.ends_with(".jpg")).unwrap()));
    let ended = plan(&input, &out).run();
    assert!(ended.code() == CHANGED && ended.said.contains("were modified since the plan"), "{ended:?}");
}

#[test]
fn a_shard_that_is_missing_at_the_seal() {
    let work = Work::new(24, 8);
    for name in ["shard-000001.receipt.json", "shard-000001.tar", "shard-000001.members"] {
        let out = work.dir("out");
        work.finish(&out, "at first");
        std::fs::remove_file(out.join(name)).unwrap();
        let ended = packhorse(&["seal", text(&out)]).run();
        assert_eq!(ended.code(), INCOMPLETE, "{ended:?}");
        assert!(ended.said.contains("1 of 3 shards is missing or damaged: shard-000001;"), "{ended:?}");
        work.finish(&out, name);
    }
}

/// The damages that `verify` finds, as `file member problem`.
fn damages(out: &Path, more: &[&str]) -> Vec<String> {
    let ended = packhorse(&[&["verify", text(out), "--json"], more].concat()).run();
    let found: serde_json::Value = serde_json::from_str(&ended.printed).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    let damages = found["damages"].as_array().unwrap();
    assert_eq!(ended.code(), if damages.is_empty() { 0 } else { INCOMPLETE }, "{ended:?}");
    let shown = |d: &serde_json::Value| {
        [&d["file"], &d["member"], &d["problem"]].map(|part| part.as_str().unwrap_or("-").to_owned()).join(" ")
    };
    damages.iter().map(shown).collect()
}

/// Changes a file of a whole dataset, looks, and puts the file back.
fn damaged(out: &Path, name: &str, more: &[&str], change: &dyn Fn(&mut Vec<u8>)) -> Vec<String> {
    let path = out.join(name);
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    change(&mut bad);
    assert!(good != bad);
    std::fs::write(&path, bad).unwrap();
    let found = damages(out, more);
    std::fs::write(&path, good).unwrap();
    found
}

#[test]
fn verify_finds_every_flipped_bit_and_names_the_file() {
    let work = Work::new(24, 8);
    let out = work.dir("undisturbed");
    assert!(damages(&out, &["--full"]).is_empty());
    for name in work.whole.keys().filter(|name| !name.ends_with('/')) {
        let bytes = std::fs::read(out.join(name)).unwrap();
        // In text, the bit that makes a letter upper-case: no parser minds it in a hexadecimal number.
        let letter = bytes.windows(2).position(|w| w[0].is_ascii_digit() && (b'a'..=b'f').contains(&w[1]));
        let spots = (0..6).map(|i| (i * (bytes.len().max(1) - 1) / 5, 1u8 << i)).chain(letter.map(|at| (at + 1, 0x20)));
        for (at, bit) in spots.filter(|(at, _)| *at < bytes.len()) {
            let found = damaged(&out, name, &["--full"], &|bytes| bytes[at] ^= bit);
            let named = found.iter().any(|damage| damage.starts_with(&format!("{name} ")));
            assert!(named, "byte {at} bit {bit:#x} of {name}: {found:?}");
        }
    }
    assert!(damages(&out, &["--full"]).is_empty());
}

/// Name of the first sample's picture in a shard, and where its header is.
fn first_picture(shard: &[u8]) -> (String, usize) {
    let at =
        (0..shard.len()).step_by(512).find(|at| shard[*at..].split(|b| *b == 0).next().unwrap().ends_with(b".jpg"));
    let at = at.unwrap();
    let name = shard[at..].split(|b| *b == 0).next().unwrap();
    (String::from_utf8(name.to_owned()).unwrap(), at)
}

#[test]
fn verify_names_the_member_and_finds_what_is_cut_lost_or_added() {
    let work = Work::new(24, 8);
    let out = work.dir("undisturbed");
    let shard = "shard-000001.tar";
    let bytes = std::fs::read(out.join(shard)).unwrap();
    let (member, header) = first_picture(&bytes);
    let found = damaged(&out, shard, &["--full"], &|bytes| bytes[header + 512 + 700] ^= 4);
    assert!(found.contains(&format!("{shard} {member} its bytes do not have the recorded checksum")), "{found:?}");
    let found = damaged(&out, shard, &["--full"], &|bytes| bytes[header + 5] ^= 1);
    assert!(found.iter().all(|damage| damage.starts_with(shard)) && found.len() >= 2, "{found:?}");
    for more in [&[][..], &["--full"]] {
        for k in [1, 2, 3, bytes.len() / 1024, bytes.len() / 512] {
            let found = damaged(&out, shard, more, &|bytes| bytes.truncate(bytes.len() - 512 * k));
            assert!(found.iter().any(|d| d.starts_with(&format!("{shard} - has "))), "cut by {k} blocks: {found:?}");
        }
        for name in work.whole.keys().filter(|name| !name.ends_with('/') && *name != "dataset.json") {
            let aside = work.dir("aside");
            std::fs::rename(out.join(name), &aside).unwrap();
            let found = damages(&out, more);
            std::fs::rename(&aside, out.join(name)).unwrap();
            assert!(found.len() == 1 && found[0].starts_with(&format!("{name} - ")), "without {name}: {found:?}");
        }
        for name in [".staging", ".nfs00000001", ".nv-meta/.DS_Store", "README.md"] {
            std::fs::write(out.join(name), "x").unwrap();
            assert_eq!(damages(&out, more), [""; 0], "{name}");
            std::fs::remove_file(out.join(name)).unwrap();
        }
        for name in ["shard-000003.tar", "notes.txt", ".nv-meta/notes.txt"] {
            std::fs::write(out.join(name), "x").unwrap();
            let found = damages(&out, more);
            std::fs::remove_file(out.join(name)).unwrap();
            assert_eq!(found, [format!("{name} - does not belong to the dataset; remove it, or move it away")]);
        }
    }
    std::fs::remove_file(out.join("dataset.json")).unwrap();
    let ended = packhorse(&["verify", text(&out)]).run();
    assert!(ended.code() == INCOMPLETE && ended.said.contains("is not sealed"), "{ended:?}");
}
