//! Files on web servers, which do wrong what web servers do wrong: bytes are right, or there is an error.
#![cfg(feature = "remote")]
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use packhorse_core::{Error, Input, Kind, Store};
use packhorse_storage::{Location, RemoteOptions, Stores};
use packhorse_testkit::web::{Asked, Fault, Server, dead_url};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Small pieces, and little patience.
fn hasty() -> RemoteOptions {
    RemoteOptions {
        tries: 6,
        patience: Duration::from_secs(3),
        idle_timeout: Duration::from_millis(300),
        first_wait: Duration::from_millis(2),
        longest_wait: Duration::from_millis(20),
        longest_retry_after: Duration::from_millis(100),
        piece: 100_000,
        ..RemoteOptions::default()
    }
}

fn content(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

const LEN: u32 = 1_000_003;

/// A folder with `a.bin` of `LEN` bytes in it.
fn folder() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let bytes = content(LEN);
    std::fs::write(dir.path().join("a.bin"), &bytes).unwrap();
    (dir, bytes)
}

fn opened(url: &str, options: RemoteOptions) -> Result<Box<dyn Input>, Error> {
    let (store, path) = Stores::new(options).open(&Location::parse(url)?)?;
    store.open(&path)
}

fn full(url: &str, options: RemoteOptions) -> Result<Vec<u8>, Error> {
    opened(url, options)?.read_all(10 << 20)
}

/// Ranges of all sorts, the last one over many pieces.
fn ranges(url: &str, bytes: &[u8], options: RemoteOptions) -> Result<(), Error> {
    let file = opened(url, options)?;
    for (from, to) in [(0, 1), (LEN as usize - 1, LEN as usize), (77, 5000), (99_999, 300_001), (12_345, 987_654)] {
        let mut buf = vec![0; to - from];
        file.read_at(from as u64, &mut buf)?;
        assert!(buf == bytes[from..to], "wrong bytes in {from}..{to}");
    }
    Ok(())
}

fn faults() -> Vec<Fault> {
    let long = Duration::from_secs(30);
    vec![
        Fault::ResetFirst,
        Fault::ResetInBody,
        Fault::Status(500),
        Fault::Status(502),
        Fault::Status(503),
        Fault::Status(429),
        Fault::RetryAfter(503, "1".into()),
        Fault::RetryAfter(429, "Sun, 06 Nov 1994 08:49:37 GMT".into()),
        Fault::Cut,
        Fault::Short,
        Fault::Whole,
        Fault::LateStart,
        Fault::OtherTotal,
        Fault::Long,
        Fault::Stall(long),
        Fault::StallInBody(long),
        Fault::Drip(40_000, Duration::from_millis(10)),
        Fault::Garbage,
        Fault::Redirect,
        Fault::RedirectLoop,
        Fault::OtherEtag,
        Fault::NoMarks,
        Fault::Empty,
        Fault::Chunked,
        Fault::ChunkedShort,
        Fault::ChunkedCut,
        Fault::ChunkedLong,
        Fault::Gzip,
        Fault::NoRanges,
        Fault::Status(404),
        Fault::Status(403),
        Fault::Status(401),
        Fault::Status(405),
        Fault::Status(416),
        Fault::Status(204),
    ]
}

/// What the faults do where they do not stay: the bytes are right, and there is an error only for those that say
/// something that stays.
#[test]
fn a_fault_that_passes_does_no_harm() {
    let (dir, bytes) = folder();
    for fault in faults() {
        for first in [0, 1, 4] {
            let policy = move |asked: &Asked<'_>, fault: &Fault| match (first..first + 2).contains(&asked.number) {
                true => fault.clone(),
                false => Fault::None,
            };
            outcome(&dir, &bytes, &fault, &format!("requests {first} and on"), policy);
        }
    }
}

#[test]
fn a_fault_that_stays_ends_in_an_error_or_in_right_bytes() {
    let (dir, bytes) = folder();
    for fault in faults() {
        outcome(&dir, &bytes, &fault, "all", |_, fault| fault.clone());
        outcome(&dir, &bytes, &fault, "GET", |asked, fault| fault.clone().of_get(asked));
        outcome(&dir, &bytes, &fault, "HEAD", |asked, fault| fault.clone().of_head(asked));
    }
}

fn outcome(
    dir: &tempfile::TempDir,
    bytes: &[u8],
    fault: &Fault,
    when: &str,
    policy: impl Fn(&Asked<'_>, &Fault) -> Fault + Send + Sync + Copy + 'static,
) {
    let server = |fault: Fault| Server::new(dir.path(), move |asked| policy(asked, &fault));
    let started = Instant::now();
    let (a, b) = (server(fault.clone()), server(fault.clone()));
    let whole = full(&a.url("a.bin"), hasty()).map(|read| assert!(read == bytes, "{fault:?} of {when}: wrong bytes"));
    let parts = ranges(&b.url("a.bin"), bytes, hasty());
    for (what, result) in [("whole", whole), ("ranges", parts)] {
        println!("{fault:?} of {when}, {what}: {}", result.as_ref().map_or_else(Error::to_string, |()| "right".into()));
        if let Err(error) = result {
            assert!(error.to_string().starts_with("http://127.0.0.1:"), "{error}");
            assert!(error.input().unwrap().ends_with("/a.bin"), "{error}");
            assert_ne!(error.kind(), Kind::Bug, "{error}");
        }
    }
    assert!(started.elapsed() < Duration::from_secs(40), "{fault:?} of {when}: {:?}", started.elapsed());
}

/// A folder of nothing, for what it would be without faults.
#[test]
fn an_honest_server_is_read() {
    let (dir, bytes) = folder();
    std::fs::write(dir.path().join("a b+ä.idx"), b"index").unwrap();
    std::fs::write(dir.path().join("empty"), b"").unwrap();
    let server = Server::honest(dir.path());
    let file = opened(&server.url("a.bin?signature=secret"), hasty()).unwrap();
    assert_eq!((file.name(), file.len()), (server.url("a.bin").as_str(), Some(LEN.into())));
    assert!(file.read_all(10 << 20).unwrap() == bytes);
    assert_eq!(file.sibling("a b+ä.idx").unwrap().unwrap().read_all(9).unwrap(), b"index");
    assert!(file.sibling("none").unwrap().is_none());
    assert!(file.local_path().is_none());
    let error = file.read_at(LEN.into(), &mut [0]).unwrap_err();
    assert_eq!(error.kind(), Kind::Content);
    file.read_at(LEN.into(), &mut []).unwrap();
    assert_eq!(full(&server.url("empty"), hasty()).unwrap(), b"");
    assert_eq!(full(&server.url("a%20b%2b%C3%A4.idx"), hasty()).unwrap(), b"index");
    ranges(&server.url("a.bin"), &bytes, hasty()).unwrap();
}
