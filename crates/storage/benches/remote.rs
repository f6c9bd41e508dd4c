//! Network read speed over a local server process: a 1 GiB file end to end, compared with curl, and 16 KiB ranges on
//! 16 threads.
//!
//! `cargo bench -p packhorse-storage --features remote --bench remote`
#![expect(clippy::unwrap_used, reason = "a bench fails on the first error")]
#![expect(clippy::print_stdout, reason = "a bench prints its results")]

use nix::sys::resource::{UsageWho, getrusage};
use packhorse_core::Input;
use packhorse_storage::{Location, RemoteOptions, Stores};
use packhorse_testkit::web::Server;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

const LEN: u64 = 1 << 30;
const RANGE: usize = 16 << 10;

fn main() {
    match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [serve, folder] if serve == "serve" => {
            let server = Server::honest(folder);
            println!("{}", server.url("x"));
            // Serves until the parent closes the pipe.
            let _ = std::io::stdin().read(&mut [0]);
        }
        _ => measure(),
    }
}

fn measure() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut file = std::fs::File::create(dir.path().join("x")).unwrap();
    (0..LEN >> 20).for_each(|n| file.write_all(&vec![n as u8; 1 << 20]).unwrap());
    let exe = std::env::current_exe().unwrap();
    let mut serving = Command::new(exe);
    let mut serving =
        serving.args(["serve".as_ref(), dir.path()]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(serving.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    for _ in 0..3 {
        timed("curl", UsageWho::RUSAGE_CHILDREN, LEN, || curl(url));
        for ahead in [1, 4] {
            let file = opened(url, ahead);
            timed(&format!("stream, {ahead} ahead"), UsageWho::RUSAGE_SELF, LEN, || stream(&*file));
        }
        println!("{:24} {} at most", "memory so far", peak());
        let file = opened(url, 4);
        let mut buf = vec![0; 64 << 20];
        timed("read_at of 64 MiB", UsageWho::RUSAGE_SELF, LEN, || {
            (0..16).for_each(|n| file.read_at(n * (64 << 20), &mut buf).unwrap());
        });
        let count = 32_000;
        let took = timed("16 KiB by 16 threads", UsageWho::RUSAGE_SELF, count * RANGE as u64, || ranges(&*file, count));
        println!("{:24} {:.0} ranges a second", "", count as f64 / took);
    }
    drop(serving.stdin.take());
    serving.wait().unwrap();
}

fn opened(url: &str, ahead: usize) -> Box<dyn Input> {
    let options = RemoteOptions { ahead, ..RemoteOptions::default() };
    let (store, path) = Stores::new(options).open(&Location::parse(url).unwrap()).unwrap();
    store.open(&path).unwrap()
}

fn curl(url: &str) {
    assert!(Command::new("curl").args(["-s", "-o", "/dev/null", url]).status().unwrap().success());
}

fn stream(file: &dyn Input) {
    let mut stream = file.stream().unwrap();
    let mut buf = vec![0; 1 << 20];
    let mut read = 0;
    loop {
        match stream.read(&mut buf).unwrap() {
            0 => break,
            n => read += n as u64,
        }
    }
    assert_eq!(read, LEN);
}

fn ranges(file: &dyn Input, count: u64) {
    std::thread::scope(|scope| {
        for thread in 0..16u64 {
            scope.spawn(move || {
                let mut buf = vec![0; RANGE];
                for n in 0..count / 16 {
                    let lot = (thread << 32 | n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                    file.read_at(lot % (LEN - RANGE as u64), &mut buf).unwrap();
                }
            });
        }
    });
}

/// Prints wall and CPU time of `work`, the latter of this process or of its children; returns wall seconds.
fn timed(what: &str, who: UsageWho, bytes: u64, work: impl FnOnce()) -> f64 {
    let processor = || {
        let usage = getrusage(who).unwrap();
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    };
    let (before, started) = (processor(), Instant::now());
    work();
    let (took, busy) = (started.elapsed().as_secs_f64(), processor() - before);
    println!("{what:24} {took:.2} s, processor {busy:.2} s, {:.0} MiB/s", bytes as f64 / took / (1 << 20) as f64);
    took
}

/// Peak memory of this process.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().to_owned()
}
