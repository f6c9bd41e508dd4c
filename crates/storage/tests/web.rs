//! Faulty web servers: a read gives the right bytes or an error.
#![cfg(feature = "remote")]
#![expect(clippy::unwrap_used, reason = "errors fail the test")]
#![expect(clippy::print_stdout, reason = "prints the outcome of each fault")]

use packhorse_core::{Error, FileKind, Input, Kind};
use packhorse_storage::{Location, RemoteOptions, Stores};
use packhorse_testkit::web::{Asked, HttpFault, Server, dead_url};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Small pieces and short timeouts.
fn hasty() -> RemoteOptions {
    RemoteOptions {
        tries: 6,
        patience: Duration::from_secs(8),
        connect_timeout: Duration::from_millis(500),
        idle_timeout: Duration::from_millis(500),
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
    within(&Stores::new(options), url)
}

fn within(stores: &Stores, url: &str) -> Result<Box<dyn Input>, Error> {
    let (store, path) = stores.open(&Location::parse(url)?)?;
    store.open(&path)
}

fn full(url: &str, options: RemoteOptions) -> Result<Vec<u8>, Error> {
    opened(url, options)?.read_all(10 << 20)
}

/// Ranges of several sizes, the last one over many pieces.
fn ranges(file: &dyn Input, bytes: &[u8]) -> Result<(), Error> {
    for (from, to) in [(0, 1), (LEN as usize - 1, LEN as usize), (77, 5000), (99_999, 300_001), (12_345, 987_654)] {
        let mut buf = vec![0; to - from];
        file.read_at(from as u64, &mut buf)?;
        assert!(buf == bytes[from..to], "wrong bytes in {from}..{to}");
    }
    Ok(())
}

fn faults() -> Vec<HttpFault> {
    let long = Duration::from_secs(30);
    vec![
        HttpFault::ResetFirst,
        HttpFault::ResetInBody,
        HttpFault::Status(500),
        HttpFault::Status(502),
        HttpFault::Status(503),
        HttpFault::Status(429),
        HttpFault::RetryAfter(503, "1".into()),
        HttpFault::RetryAfter(429, "Sun, 06 Nov 1994 08:49:37 GMT".into()),
        HttpFault::Cut,
        HttpFault::Short,
        HttpFault::Whole,
        HttpFault::LateStart,
        HttpFault::OtherTotal,
        HttpFault::Long,
        HttpFault::Stall(long),
        HttpFault::StallInBody(long),
        HttpFault::Drip(40_000, Duration::from_millis(10)),
        HttpFault::Garbage,
        HttpFault::Redirect,
        HttpFault::RedirectLoop,
        HttpFault::OtherEtag,
        HttpFault::NoMarks,
        HttpFault::Empty,
        HttpFault::Chunked,
        HttpFault::ChunkedShort,
        HttpFault::ChunkedCut,
        HttpFault::ChunkedOpen,
        HttpFault::ChunkedLong,
        HttpFault::Gzip,
        HttpFault::NoRanges,
        HttpFault::Status(404),
        HttpFault::Status(403),
        HttpFault::Status(401),
        HttpFault::Status(405),
        HttpFault::Status(416),
        HttpFault::Status(204),
    ]
}

/// Whether a fault looks permanent at the first response.
fn believed(fault: &HttpFault, by_head: bool) -> bool {
    match fault {
        HttpFault::Status(status) => matches!(status, 401 | 403 | 404 | 405),
        HttpFault::Gzip | HttpFault::OtherEtag | HttpFault::RedirectLoop => true,
        HttpFault::OtherTotal | HttpFault::Long | HttpFault::Short => by_head,
        _ => false,
    }
}

#[test]
fn temporary_faults_are_retried() {
    let (dir, bytes) = folder();
    let stores = Stores::new(hasty());
    each(&faults(), |fault| {
        for first in [0, 1, 4] {
            let policy = move |asked: &Asked<'_>, fault: &HttpFault| match (first..first + 2).contains(&asked.number) {
                true => fault.clone(),
                false => HttpFault::None,
            };
            for (what, result) in outcome(&stores, &dir, &bytes, fault, policy) {
                let what = format!("{fault:?} of requests {first} and on, {what}");
                check(&what, &result);
                assert!(result.is_ok() || believed(fault, first == 0), "{what}");
            }
        }
    });
}

#[test]
fn permanent_faults_give_an_error_or_the_right_bytes() {
    let (dir, bytes) = folder();
    let stores = Stores::new(RemoteOptions { tries: 3, ..hasty() });
    let harmless = [
        HttpFault::Drip(40_000, Duration::from_millis(10)),
        HttpFault::Whole,
        HttpFault::NoRanges,
        HttpFault::Redirect,
        HttpFault::NoMarks,
        HttpFault::Chunked,
        HttpFault::ChunkedOpen,
    ];
    each(&faults(), |fault| {
        let all = outcome(&stores, &dir, &bytes, fault, |_, fault| fault.clone());
        let get = outcome(&stores, &dir, &bytes, fault, |asked, fault| fault.clone().of_get(asked));
        let head = outcome(&stores, &dir, &bytes, fault, |asked, fault| fault.clone().of_head(asked));
        for (of, results) in [("all", all), ("GET", get), ("HEAD", head)] {
            for (what, result) in results {
                let what = format!("{fault:?} of {of}, {what}");
                check(&what, &result);
                assert!(result.is_ok() || !harmless.contains(fault), "{what}");
                // A consistent server is believed.
                let consistent = of == "all" && matches!(fault, HttpFault::OtherEtag | HttpFault::OtherTotal);
                assert!(result.is_err() || of == "HEAD" || consistent || harmless.contains(fault), "{what}");
            }
        }
    });
}

/// A few at once: most of the time is waiting.
fn each(faults: &[HttpFault], check: impl Fn(&HttpFault) + Sync) {
    const LANES: usize = 4;
    let check = &check;
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            scope.spawn(move || faults.iter().skip(lane).step_by(LANES).for_each(check));
        }
    });
}

/// Reads the whole file and some ranges through a faulty server.
fn outcome(
    stores: &Stores,
    dir: &tempfile::TempDir,
    bytes: &[u8],
    fault: &HttpFault,
    policy: impl Fn(&Asked<'_>, &HttpFault) -> HttpFault + Send + Sync + Copy + 'static,
) -> [(&'static str, Result<(), Error>); 2] {
    let server = |fault: HttpFault| Server::new(dir.path(), move |asked| policy(asked, &fault));
    let (a, b) = (server(fault.clone()), server(fault.clone()));
    let whole = within(stores, &a.url("a.bin")).and_then(|file| file.read_all(10 << 20));
    let whole = whole.map(|read| assert!(read == bytes, "{fault:?}: wrong bytes"));
    let parts = within(stores, &b.url("a.bin")).and_then(|file| ranges(&*file, bytes));
    // A query and 16 ranges, with six tries each.
    let requests = a.requests().max(b.requests());
    assert!(requests <= 6 * 17, "{fault:?}: {requests} requests");
    [("whole", whole), ("ranges", parts)]
}

fn check(what: &str, result: &Result<(), Error>) {
    packhorse_testkit::external::count(1, "faults of a web server");
    println!("{what}: {}", result.as_ref().map_or_else(Error::to_string, |()| "right".into()));
    if let Err(error) = result {
        assert!(error.input().unwrap().starts_with("http://127.0.0.1:"), "{error}");
        assert!(error.input().unwrap().ends_with("/a.bin"), "{error}");
        assert_ne!(error.kind(), Kind::Bug, "{what}: {error}");
    }
}

#[test]
fn a_changed_file_is_noticed() {
    let (dir, bytes) = folder();
    let server = Server::honest(dir.path());
    let path = dir.path().join("a.bin");
    let date = std::fs::metadata(&path).unwrap().modified().unwrap();
    let file = opened(&server.url("a.bin"), hasty()).unwrap();
    let before = file.stat().unwrap().unwrap();
    assert_eq!(file.stat().unwrap(), Some(before));
    for change in [content(LEN + 1), content(1000), vec![7; LEN as usize], Vec::new()] {
        let mut buf = vec![0; 200_000];
        let mut stream = file.stream().unwrap();
        stream.read_exact(&mut buf[..10]).unwrap();
        std::fs::write(&path, &change).unwrap();
        let error = file.read_at(0, &mut buf).unwrap_err();
        assert_eq!(error.kind(), Kind::Changed, "{error}");
        let error = stream.read_to_end(&mut Vec::new()).unwrap_err().downcast::<Error>().unwrap();
        assert_eq!(error.kind(), Kind::Changed, "{error}");
        assert_ne!(file.stat().unwrap(), Some(before));
        // Restore content and date for the next change.
        std::fs::write(&path, &bytes).unwrap();
        std::fs::File::options().append(true).open(&path).unwrap().set_modified(date).unwrap();
    }
}

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
    ranges(&*file, &bytes).unwrap();
}

/// Treats the server as a public S3 endpoint.
fn public(server: &Server, options: RemoteOptions) -> RemoteOptions {
    let url = server.url("");
    let settings = [("AWS_ENDPOINT_URL", url.trim_end_matches('/')), ("AWS_SKIP_SIGNATURE", "true")];
    RemoteOptions { s3: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(), ..options }
}

/// A pseudo-random number for a request.
fn lot(seed: u64, number: u64) -> u64 {
    let mut x = (seed << 32 | number).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 27)
}

/// Reads a lot from a server that fails `percent` of all requests. Returns the number of requests, and how many would
/// be needed without faults.
fn stormy(percent: u64, seed: u64, s3: bool) -> (u64, u64) {
    let (dir, bytes) = folder();
    let faults = [
        HttpFault::ResetFirst,
        HttpFault::ResetInBody,
        HttpFault::Status(503),
        HttpFault::Status(500),
        HttpFault::RetryAfter(429, "0".into()),
        HttpFault::Cut,
        HttpFault::Short,
        HttpFault::Garbage,
        HttpFault::ChunkedCut,
        HttpFault::Empty,
    ];
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    std::fs::rename(dir.path().join("a.bin"), dir.path().join("folder/a.bin")).unwrap();
    let server = Server::new(dir.path(), move |asked| {
        let lot = lot(seed, asked.number) >> 8;
        if lot % 100 < percent { faults[(lot / 100) as usize % faults.len()].clone() } else { HttpFault::None }
    });
    let options = RemoteOptions { tries: 16, patience: Duration::from_secs(60), ..hasty() };
    let file = match s3 {
        true => opened("s3://folder/a.bin", public(&server, options)),
        false => opened(&server.url("folder/a.bin"), options),
    };
    let file = file.unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                for n in 0..50 {
                    let from = (lot(thread, n) % 900_000) as usize;
                    let len = (lot(thread + 100, n) % 90_000) as usize;
                    let mut buf = vec![0; len];
                    file.read_at(from as u64, &mut buf).unwrap();
                    assert!(buf == bytes[from..from + len]);
                }
                assert!(file.read_all(10 << 20).unwrap() == *bytes);
            });
        }
    });
    (server.requests(), 1 + 8 * (50 + 11))
}

#[test]
fn a_fifth_of_all_requests_may_fail() {
    for (seed, s3) in [(0, false), (1, false), (2, true)] {
        let (requests, needed) = stormy(20, seed, s3);
        packhorse_testkit::external::count(requests, "requests to a server that fails");
        assert!(requests <= 2 * needed, "{requests} requests for {needed}");
    }
}

#[test]
fn two_fifths_of_all_requests_may_fail() {
    let (requests, needed) = stormy(40, 7, true);
    packhorse_testkit::external::count(requests, "requests to a server that fails");
    assert!(requests <= 3 * needed, "{requests} requests for {needed}");
}

#[test]
fn a_dead_server_is_one_error_after_all_tries() {
    let options = RemoteOptions { tries: 5, patience: Duration::from_secs(60), ..hasty() };
    let error = opened(&dead_url(), options).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Environment);
    let text = error.to_string();
    assert!(text.starts_with("http://127.0.0.1:") && text.contains("given up after 5 requests in "), "{text}");
    assert!(text.contains("refused"), "{text}");
}

#[test]
fn a_server_that_says_nothing_is_given_up_before_all_tries() {
    let (dir, _) = folder();
    let server = Server::new(dir.path(), |_| HttpFault::Stall(Duration::from_secs(60)));
    let options = RemoteOptions { tries: 1000, patience: Duration::from_secs(1), ..hasty() };
    let error = opened(&server.url("a.bin"), options).map(|_| ()).unwrap_err();
    // Each waits for half a second, and the patience is one.
    assert!(server.requests() <= 3, "{} requests", server.requests());
    assert!(error.to_string().contains("given up after "), "{error}");
}

#[test]
fn a_drip_is_given_up_though_it_is_never_idle() {
    let (dir, _) = folder();
    let drip = HttpFault::Drip(1, Duration::from_millis(10));
    let server = Server::new(dir.path(), move |asked| drip.clone().of_get(asked));
    let options = RemoteOptions { patience: Duration::from_secs(1), ..hasty() };
    let file = opened(&server.url("a.bin"), options).unwrap();
    let error = file.read_at(0, &mut [0; 100_000]).unwrap_err();
    // The first query, one range, and a second range if the machine was too busy to drip.
    assert!(server.requests() <= 4, "{} requests", server.requests());
    assert!(error.to_string().contains("the server is too slow"), "{error}");
}

#[test]
fn a_server_may_ask_for_a_pause_within_bounds() {
    let (dir, _) = folder();
    let open = |longest_retry_after| {
        let server = Server::new(dir.path(), |asked| match asked.number {
            0 => HttpFault::RetryAfter(503, "60".into()),
            _ => HttpFault::None,
        });
        let options = RemoteOptions { patience: Duration::from_secs(30), longest_retry_after, ..hasty() };
        (opened(&server.url("a.bin"), options).map(|_| ()), server.requests())
    };
    // The pause is cut to 10 ms: 60 s would be longer than the patience.
    assert!(matches!(open(Duration::from_millis(10)), (Ok(()), 2)));
    // The pause is kept: without it the second request would succeed.
    let (opened, requests) = open(Duration::from_secs(60));
    assert!(opened.unwrap_err().to_string().contains("given up after 1 request in "));
    assert_eq!(requests, 1);
}

#[test]
fn a_slow_reader_is_neither_cut_off_nor_buffered_without_bound() {
    let (dir, bytes) = folder();
    let server = Server::honest(dir.path());
    let options = RemoteOptions { patience: Duration::from_millis(900), ..hasty() };
    let file = opened(&server.url("a.bin"), options).unwrap();
    let mut stream = file.stream().unwrap();
    let mut read = vec![0; LEN as usize];
    for (n, piece) in read.chunks_mut(300_000).enumerate() {
        stream.read_exact(piece).unwrap();
        std::thread::sleep(Duration::from_secs(2));
        // Pieces already read, four waiting, and the first query.
        let pieces = (n as u64 + 1) * 3 + 4;
        assert!(server.requests() <= 1 + pieces + 1, "{} requests", server.requests());
    }
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert!(read == bytes);
}

#[test]
fn a_dropped_stream_stops_requesting() {
    let (dir, _) = folder();
    let server = Server::honest(dir.path());
    let file = opened(&server.url("a.bin"), hasty()).unwrap();
    file.stream().unwrap().read_exact(&mut [0; 10]).unwrap();
    drop(file);
    std::thread::sleep(Duration::from_millis(50));
    assert!(server.requests() <= 6, "{}", server.requests());
}

#[test]
fn a_resumed_range_asks_for_the_rest_only() {
    let (dir, bytes) = folder();
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let server = Server::new(dir.path(), {
        let asked = asked.clone();
        move |request| {
            asked.lock().unwrap().push(request.range.clone());
            if request.number == 1 { HttpFault::Cut } else { HttpFault::None }
        }
    });
    let file = opened(&server.url("a.bin"), hasty()).unwrap();
    let mut buf = vec![0; 80_000];
    file.read_at(1000, &mut buf).unwrap();
    assert!(buf == bytes[1000..81_000]);
    assert_eq!(*asked.lock().unwrap(), [None, Some(1000..81_000), Some(41_000..81_000)]);
}

#[test]
fn the_store_of_a_web_server_reads_and_does_not_write() {
    let (dir, bytes) = folder();
    let server = Server::honest(dir.path());
    let (store, root) = Stores::new(hasty()).open(&Location::parse(&server.url("")).unwrap()).unwrap();
    assert_eq!(store.stat(&root, true).unwrap().kind, FileKind::Directory);
    let stat = store.stat(Path::new("a.bin"), true).unwrap();
    assert_eq!((stat.kind, stat.size), (FileKind::File, LEN.into()));
    std::fs::create_dir(dir.path().join("sub")).unwrap();
    assert_eq!(store.stat(Path::new("sub"), true).unwrap().kind, FileKind::Directory);
    assert_eq!(store.open(Path::new("sub")).map(|_| ()).unwrap_err().kind(), Kind::Content);
    let mut head = [0; 100];
    assert_eq!(store.read(Path::new("a.bin"), &mut head).unwrap(), Some(stat));
    assert_eq!(head, bytes[..100]);
    let error = store.list(&root).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    for error in [
        store.create(Path::new("x")).map(|_| ()).unwrap_err(),
        store.rename(Path::new("a.bin"), Path::new("x")).unwrap_err(),
        store.remove(Path::new("a.bin")).unwrap_err(),
        store.create_dir(Path::new("x")).unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    }
    let error = store.stat(Path::new("none"), true).unwrap_err();
    assert_eq!(error.errno(), Some(2), "{error}");
}

#[test]
fn secrets_are_not_in_errors() {
    let (dir, _) = folder();
    for fault in [
        HttpFault::Status(403),
        HttpFault::Status(500),
        HttpFault::ResetFirst,
        HttpFault::RedirectLoop,
        HttpFault::Garbage,
    ] {
        let server = Server::new(dir.path(), move |_| fault.clone());
        let url = server.url("a.bin?X-Amz-Signature=hush").replace("http://", "http://me:hush@");
        let error = opened(&url, hasty()).map(|_| ()).unwrap_err();
        let mut text = format!("{error} {error:?}");
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            text += &format!(" {error} {error:?}");
            source = error.source();
        }
        assert!(!text.contains("hush"), "{text}");
    }
}

/// The query of a URL may be its signature: a server that a redirect leads to does not hear of it.
#[test]
fn redirects_do_not_tell_where_they_came_from() {
    let (dir, _) = folder();
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let server = Server::new(dir.path(), move |asked| {
        hears.lock().unwrap().push(asked.referer.map(str::to_owned));
        HttpFault::Redirect
    });
    opened(&server.url("a.bin?X-Amz-Signature=hush"), hasty()).unwrap();
    let heard = heard.lock().unwrap();
    assert!(heard.len() > 1 && heard.iter().all(Option::is_none), "{heard:?}");
}

/// An S3 listing with these names below `p/` and the token of the next page.
fn listing(files: &[&str], folders: &[&str], next: Option<&str>) -> HttpFault {
    let object = |name: &&str| {
        format!(
            "<Contents><Key>p/{name}</Key><LastModified>2026-11-21T18:19:37.000Z</LastModified><ETag>\"a\"</ETag><Size>1</Size></Contents>"
        )
    };
    let files: String = files.iter().map(object).collect();
    let prefix = |name: &&str| format!("<CommonPrefixes><Prefix>p/{name}/</Prefix></CommonPrefixes>");
    let folders: String = folders.iter().map(prefix).collect();
    let next = next.map(|n| format!("<NextContinuationToken>{n}</NextContinuationToken>")).unwrap_or_default();
    let truncated = !next.is_empty();
    HttpFault::Say(
        200,
        format!(
            "<?xml version=\"1.0\"?><ListBucketResult><Name>folder</Name><Prefix>p/</Prefix><IsTruncated>{truncated}</IsTruncated>{next}{files}{folders}</ListBucketResult>"
        ),
    )
}

fn listed(policy: impl Fn(&Asked<'_>) -> HttpFault + Send + Sync + 'static) -> Result<Vec<String>, Error> {
    let (dir, _) = folder();
    let server = Server::new(dir.path(), policy);
    let (store, path) = Stores::new(public(&server, hasty())).open(&Location::parse("s3://folder/p")?)?;
    let kind = store.stat(&path, true)?.kind;
    assert_eq!(kind, FileKind::Directory);
    let mut names: Vec<_> = store.list(&path)?.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    names.sort();
    Ok(names)
}

#[test]
fn listings_are_complete_or_an_error() {
    let next = |asked: &Asked<'_>| asked.query.is_some_and(|query| query.contains("continuation-token=more"));
    let honest = move |asked: &Asked<'_>| match () {
        () if asked.head => HttpFault::Status(404),
        () if next(asked) => listing(&["c", ""], &[], None),
        () => listing(&["b"], &["a"], Some("more")),
    };
    assert_eq!(listed(honest).unwrap(), ["a", "b", "c"]);
    let cut = |fault| match fault {
        HttpFault::Say(status, text) => HttpFault::Say(status, text[..text.len() - 60].to_owned()),
        other => other,
    };
    let slow_down = HttpFault::Say(503, "<Error><Code>SlowDown</Code><Message>Please reduce</Message></Error>".into());
    let faults =
        [HttpFault::ResetFirst, HttpFault::Status(500), HttpFault::Garbage, HttpFault::Status(204), slow_down.clone()];
    for fault in &faults {
        let fault = fault.clone();
        let names = listed(move |asked| if asked.number % 3 == 1 { fault.clone() } else { honest(asked) });
        assert_eq!(names.unwrap(), ["a", "b", "c"]);
    }
    let names = listed(move |asked| if asked.number == 3 { cut(honest(asked)) } else { honest(asked) });
    assert_eq!(names.unwrap(), ["a", "b", "c"]);
    let error = listed(move |asked| if next(asked) { cut(honest(asked)) } else { honest(asked) }).unwrap_err();
    assert!(error.to_string().contains("the listing can't be read"), "{error}");
    let error = listed(move |asked| if next(asked) { slow_down.clone() } else { honest(asked) }).unwrap_err();
    assert!(error.to_string().contains("SlowDown: Please reduce; given up after 6 requests"), "{error}");
    let error = listed(move |asked| if asked.head { honest(asked) } else { listing(&["b"], &[], Some("more")) });
    assert!(error.unwrap_err().to_string().contains("in an endless loop"));
    // What `object_store` would take for a whole listing.
    let other = |from: &'static str, to: &'static str| {
        move |fault| match fault {
            HttpFault::Say(status, text) => HttpFault::Say(status, text.replace(from, to)),
            other => other,
        }
    };
    let (first, page) = (other("NextContinuationToken", "NextMarker"), other("ListBucketResult", "html"));
    let error = listed(move |asked| first(honest(asked))).unwrap_err();
    assert!(error.to_string().contains("no NextContinuationToken for the rest"), "{error}");
    let error = listed(move |asked| if next(asked) { page(honest(asked)) } else { honest(asked) }).unwrap_err();
    assert!(error.to_string().contains("something else than a listing"), "{error}");
    let denied = HttpFault::Say(403, "<Error><Code>AccessDenied</Code></Error>".into());
    let error = listed(move |asked| if next(asked) { denied.clone() } else { honest(asked) }).unwrap_err();
    assert_eq!(error.errno(), Some(13), "{error}");
}

/// Handlers that know only GET answer HEAD with the length of nothing, and some services refuse a range of an empty object without
/// saying that it is empty.
#[test]
fn an_empty_file_is_believed_when_a_get_says_so() {
    let (dir, bytes) = folder();
    std::fs::write(dir.path().join("empty"), b"").unwrap();
    let server = Server::new(dir.path(), |asked| HttpFault::Empty.of_head(asked));
    assert!(full(&server.url("a.bin"), hasty()).unwrap() == bytes);
    assert_eq!(full(&server.url("empty"), hasty()).unwrap(), b"");
    let server = Server::new(dir.path(), |asked| match (asked.head, &asked.range) {
        (true, _) => HttpFault::Status(403),
        (false, Some(range)) if range.is_empty() => HttpFault::Status(416),
        _ => HttpFault::None,
    });
    assert!(full(&server.url("a.bin"), hasty()).unwrap() == bytes);
    assert_eq!(full(&server.url("empty"), hasty()).unwrap(), b"");
}

#[test]
fn offsets_over_4_gib_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("huge");
    let file = std::fs::File::create(&path).unwrap();
    let len = (5 << 30) + 10;
    file.set_len(len).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"end", len - 3).unwrap();
    let server = Server::honest(dir.path());
    let file = opened(&server.url("huge"), hasty()).unwrap();
    assert_eq!(file.len(), Some(len));
    let mut buf = vec![1; 300_000];
    file.read_at(len - 300_000, &mut buf).unwrap();
    assert!(buf.ends_with(b"\0end") && buf[..299_997].iter().all(|b| *b == 0));
    assert_eq!(file.read_at(u64::MAX, &mut buf).unwrap_err().kind(), Kind::Content);
}

/// Callers may be inside a runtime of their own: waiting and dropping there must work.
#[test]
fn it_works_inside_of_asynchronous_code() {
    let (dir, bytes) = folder();
    let server = Server::honest(dir.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let url = server.url("a.bin");
    let read = runtime.block_on(async move { tokio::spawn(async move { full(&url, hasty()) }).await });
    assert!(read.unwrap().unwrap() == bytes);
}

#[test]
fn stores_of_one_server_are_shared() {
    let (dir, bytes) = folder();
    let server = Server::honest(dir.path());
    let stores = Stores::new(hasty());
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let location = Location::parse(&server.url("a.bin")).unwrap();
                let (store, path) = stores.open(&location).unwrap();
                assert!(store.open(&path).unwrap().read_all(10 << 20).unwrap() == bytes);
            });
        }
    });
    let [(a, _), (b, _)] = [server.url("x"), server.url("y")].map(|url| stores.open(&url.parse().unwrap()).unwrap());
    assert!(std::sync::Arc::ptr_eq(&a, &b));
}

#[test]
fn a_look_that_times_out_on_the_server_is_tried_again() {
    let (dir, bytes) = folder();
    for status in [408, 429] {
        let server = Server::new(dir.path(), move |asked| match asked.number {
            0 => HttpFault::Status(status),
            _ => HttpFault::None,
        });
        let file = opened(&server.url("a.bin"), hasty()).unwrap();
        assert_eq!(file.len(), Some(bytes.len() as u64));
        // Another request of the same kind, none for the first byte.
        assert_eq!(server.requests(), 2, "{status}");
    }
}
