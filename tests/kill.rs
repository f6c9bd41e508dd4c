//! Whatever stops packing, running the same command again ends in the same bytes.
//!
//! `PACKHORSE_KILLS` is the number of kills at random moments (20 where it is not set).
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod corpus;
    pub(crate) mod process;
    pub(crate) mod steps;
    pub(crate) mod strace;
    pub(crate) mod tree;
    pub(crate) mod work;
}

use common::process::{Running, packhorse};
use common::steps::Step;
use common::strace;
use common::tree::{assert_kept, committed};
use common::work::{Work, text};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CANCELLED: i32 = 130;
const KILLED: i32 = 128 + 9;

/// Seeded numbers from 0 up to 1 (xorshift64).
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn killed_at_random_moments() {
    let kills: u32 = std::env::var("PACKHORSE_KILLS").map_or(20, |n| n.parse().unwrap());
    let work = Work::new(300, 30);
    let out = work.dir("out");
    let mut moments = Moments(0x5eed);
    let mut killed = 0;
    while killed < kills {
        let before = committed(&out);
        let mut running = work.pack(&out, &[]).start();
        running.ends_within(work.took.mul_f64(moments.next()));
        running.kill();
        let ended = running.end();
        let when = format!("after kill {killed}");
        work.assert_no_half_file(&out, &when);
        assert_kept(&before, &out, &when);
        match ended.code() {
            KILLED => killed += 1,
            0 => {
                work.assert_whole(&out, &when);
                std::fs::remove_dir_all(&out).unwrap();
            }
            _ => panic!("{when}: {ended:?}"),
        }
    }
    let before = committed(&out);
    work.finish(&out, "at the end");
    assert_kept(&before, &out, "at the end");
    packhorse_testkit::external::count(killed, "kills at random moments");
}

#[test]
fn killed_at_every_system_call_that_changes_a_disk() {
    let syscalls = ["fsync", "renameat", "write", "mkdirat", "unlinkat", "close"];
    killed_at_every(|| Work::new(24, 8), &Step::PACK, &syscalls);
}

#[test]
fn killed_on_the_way_to_more_samples_and_to_a_view() {
    let syscalls = ["fsync", "renameat", "write", "mkdirat", "unlinkat"];
    killed_at_every(|| Work::new(8, 4), &[&Step::APPEND[..], &[Step::View]].concat(), &syscalls);
}

#[test]
fn killed_on_the_way_to_tokens() {
    killed_at_every(|| Work::tokens(40, "4KB"), &[Step::Pack], &["renameat", "write"]);
}

fn killed_at_every(work: impl Fn() -> Work, steps: &[Step], syscalls: &[&str]) {
    if !strace::available() {
        return;
    }
    let work = work();
    let (out, log) = (work.dir("out"), work.dir("log"));
    for step in steps {
        for syscall in syscalls {
            for k in 1.. {
                step.prepare(&work, &out);
                let fault = format!("signal=KILL:when={k}");
                let ended = strace::inject(step.program(&work, &out), syscall, &fault, None, &log).run();
                if strace::hits(&ended, &log).is_empty() {
                    assert_eq!(ended.code(), 0, "{ended:?}");
                    packhorse_testkit::external::count(k - 1, "kills at system calls");
                    break;
                }
                let when = format!("{step:?} killed at {syscall} {k}");
                step.assert_old_or_new(&work, &out, &when);
                let before = committed(&out);
                step.finish(&work, &out, &when);
                assert_kept(&before, &out, &when);
            }
        }
    }
}

/// Sends a signal with the shell's own kill.
fn send(signal: &str, to: u32) {
    let sent = Command::new("sh").arg("-c").arg(format!("kill -s {signal} {to} 2>/dev/null")).status().unwrap();
    // The program may have ended meanwhile; that is fine.
    let _ = sent.success();
}

/// Sends a signal that asks to stop, and waits for the end: clean, and with the documented code.
fn stop(work: &Work, out: &Path, running: Running, signals: &[&str], when: &str) -> i32 {
    signals.iter().for_each(|signal| send(signal, running.id()));
    let ended = running.end();
    // A signal that comes before the program has looked at its arguments ends it at once.
    let at_once = !out.exists() && ended.status.code().is_none();
    assert!(matches!(ended.code(), 0 | CANCELLED) || at_once, "{when}: {ended:?}");
    assert!(
        at_once || ended.code() != CANCELLED || ended.said.contains("run the same command again"),
        "{when}: {ended:?}"
    );
    work.assert_no_half_file(out, when);
    assert!(!out.join(".staging").exists(), "{when}: temporary files are left");
    ended.code()
}

#[test]
fn asked_to_stop_it_stops_clean_and_goes_on() {
    let work = Work::new(300, 30);
    let mut moments = Moments(0x51641);
    let mut stopped = 0;
    for round in 0..8 {
        for signals in [&["TERM"][..], &["TERM", "TERM"], &["INT"], &["USR1"], &["CONT", "TERM", "TERM"]] {
            let out = work.dir("out");
            let mut running = work.pack(&out, &[]).start();
            running.ends_within(work.took.mul_f64(moments.next()));
            let when = format!("round {round}, {signals:?}");
            stopped += u32::from(stop(&work, &out, running, signals, &when) == CANCELLED);
            let before = committed(&out);
            work.finish(&out, &when);
            assert_kept(&before, &out, &when);
            std::fs::remove_dir_all(&out).unwrap();
        }
    }
    assert!(stopped >= 8, "only {stopped} of 40 runs were stopped on their way");
}

/// Waits until a shard is being written.
fn wait_for_a_shard(out: &Path, running: &mut Running) {
    let folders = |dir: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(dir).map_or_else(|_| Vec::new(), |names| names.flatten().map(|name| name.path()).collect())
    };
    let is_shard = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("shard-");
    let groups = || folders(&out.join(".staging")).iter().flat_map(|dir| folders(dir)).collect::<Vec<_>>();
    while !groups().iter().flat_map(|group| folders(group)).any(|path| is_shard(&path)) {
        assert!(!running.ends_within(running.age() + Duration::from_millis(5)), "reads are not slow");
    }
}

/// Reads of a file system that takes its time must not hold up the end.
#[test]
fn asked_to_stop_it_stops_soon_where_reads_are_slow() {
    if !strace::available() {
        return;
    }
    let work = Work::new(300, 30);
    for (signal, threads) in [("TERM", "32"), ("USR1", "2")] {
        let (out, log) = (work.dir("out"), work.dir("log"));
        let program = work.pack(&out, &["--io-threads", threads]);
        let mut running = strace::inject(program, "pread64", "delay_enter=1000000", None, &log).start();
        wait_for_a_shard(&out, &mut running);
        assert_eq!(stop(&work, &out, running, &[signal], "slow reads"), CANCELLED);
        work.finish(&out, "slow reads");
        std::fs::remove_dir_all(&out).unwrap();
    }
}

/// Shards in progress are finished and no others begun; a second signal stops at once.
#[test]
fn the_first_signal_stops_between_shards_and_the_second_between_samples() {
    if !strace::available() {
        return;
    }
    let work = Work::new(300, 10);
    for (signals, finishes) in [(&["TERM"][..], true), (&["USR1"], true), (&["TERM", "USR1"], false), (&["INT"], false)]
    {
        let (out, log) = (work.dir("out"), work.dir("log"));
        let program = work.pack(&out, &["--jobs", "1", "--io-threads", "1"]);
        let mut running = strace::inject(program, "pread64", "delay_enter=50000", None, &log).start();
        wait_for_a_shard(&out, &mut running);
        let before = committed(&out);
        for signal in signals {
            send(signal, running.id());
            std::thread::sleep(Duration::from_millis(100));
        }
        let ended = running.end();
        assert_eq!(ended.code(), CANCELLED, "{signals:?}: {ended:?}");
        let finished = committed(&out).len() - before.len();
        assert_eq!(finished > 0, finishes, "{signals:?}: {finished} files after {}", before.len());
        work.finish(&out, "after signals");
        std::fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn two_writers_of_one_plan_do_not_meet() {
    let work = Work::new(300, 30);
    for round in 0..8 {
        let out = work.dir(&format!("out{round}"));
        work.planning("plan", &out, &[]).succeed();
        let both = [(); 2].map(|()| packhorse(&["pack", "--plan", text(&out)]).start());
        for running in both {
            let ended = running.end();
            assert_eq!(ended.code(), 0, "{ended:?}");
        }
        assert!(!out.join(".staging").exists(), "temporary files are left");
        packhorse(&["seal", text(&out)]).succeed();
        work.assert_whole(&out, "two writers");
    }
}

#[test]
fn three_runs_of_one_request_at_once_do_not_meet() {
    let work = Work::new(300, 30);
    for round in 0..8 {
        let out = work.dir(&format!("out{round}"));
        for running in [(); 3].map(|()| work.pack(&out, &[]).start()) {
            let ended = running.end();
            assert_eq!(ended.code(), 0, "{ended:?}");
        }
        work.assert_whole(&out, "three runs at once");
    }
}

#[test]
fn parts_make_the_same_bytes_in_any_order_and_at_once() {
    let work = Work::new(300, 30);
    let part = |out: &Path, part: &str| packhorse(&["pack", "--plan", text(out), "--part", part]);
    for (i, order) in [[1, 2, 3], [3, 1, 2], [2, 3, 1]].into_iter().enumerate() {
        let out = work.dir(&format!("in turn {i}"));
        work.planning("plan", &out, &[]).succeed();
        for n in order {
            assert_eq!(packhorse(&["seal", text(&out)]).run().code(), 6, "sealed before part {n}");
            part(&out, &format!("{n}/3")).succeed();
        }
        packhorse(&["seal", text(&out)]).succeed();
        work.assert_whole(&out, &format!("parts {order:?}"));
    }
    for round in 0..4 {
        let out = work.dir(&format!("at once {round}"));
        work.planning("plan", &out, &[]).succeed();
        let all = [1, 2, 3].map(|n| part(&out, &format!("{n}/3")).start());
        for running in all {
            let ended = running.end();
            assert_eq!(ended.code(), 0, "{ended:?}");
        }
        packhorse(&["seal", text(&out)]).succeed();
        work.assert_whole(&out, "parts at once");
    }
}

#[test]
fn a_plan_with_relative_inputs_is_filled_from_any_folder() {
    let work = Work::new(300, 30);
    let out = work.dir("out");
    let mut plan = work.planning_of(work.input.file_name().unwrap().as_ref(), "plan", &out, &[]);
    plan.0.current_dir(work.input.parent().unwrap());
    plan.succeed();
    let mut pack = packhorse(&["pack", "--plan", text(&out)]);
    pack.0.current_dir("/");
    pack.succeed();
    packhorse(&["seal", text(&out)]).succeed();
    work.assert_whole(&out, "relative inputs");
}

#[test]
fn threads_and_memory_change_no_byte() {
    let work = Work::new(300, 30);
    let ways = [
        &["--jobs", "1", "--io-threads", "1"][..],
        &["--jobs", "1"],
        &["--jobs", "8"],
        &["--io-threads", "1"],
        &["--memory", "1MiB"],
        &["--memory", "1B", "--jobs", "8"],
    ];
    for (i, way) in ways.into_iter().enumerate() {
        let out = work.dir(&format!("out{i}"));
        work.pack(&out, way).succeed();
        work.assert_whole(&out, &format!("{way:?}"));
    }
}
