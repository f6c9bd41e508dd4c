//! Datasets in object stores: packed, killed, resumed, checked and repaired, they are those of a local folder.
//!
//! Two servers that share no code stand for all others: `s3s-fs`, in this process, with the feature `s3-tests`; and moto,
//! started with `PACKHORSE_PYTHON`. `PACKHORSE_KILLS` is the number of kills at random moments (6 where it is not set).
#![cfg(feature = "remote")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod corpus;
    pub(crate) mod moto;
    pub(crate) mod process;
    pub(crate) mod proxy;
    pub(crate) mod tree;
    pub(crate) mod work;
}

use common::moto::Moto;
use common::process::{Program, packhorse};
use common::proxy::Proxy;
use common::tree::{Tree, assert_equal, tree};
use common::work::{Work, text};
use packhorse::storage::{RemoteOptions, Stores};
use packhorse_core::{FileKind, Store};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

const KILLED: i32 = 128 + 9;

/// A server with an empty bucket, `bucket`.
trait Server {
    /// The client's settings, as environment variables.
    fn settings(&self) -> BTreeMap<String, String>;

    /// How many uploads are neither complete nor aborted; `None` where it can't be asked.
    fn unfinished(&self) -> Option<usize>;
}

#[cfg(feature = "s3-tests")]
struct InProcess(
    packhorse_testkit::s3::Server,
    #[expect(dead_code, reason = "its folder lives as long")] tempfile::TempDir,
);

#[cfg(feature = "s3-tests")]
impl InProcess {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bucket")).unwrap();
        Self(packhorse_testkit::s3::Server::new(dir.path()), dir)
    }
}

#[cfg(feature = "s3-tests")]
impl Server for InProcess {
    fn settings(&self) -> BTreeMap<String, String> {
        self.0.settings()
    }

    fn unfinished(&self) -> Option<usize> {
        None
    }
}

impl Server for Moto {
    fn settings(&self) -> BTreeMap<String, String> {
        self.settings()
    }

    fn unfinished(&self) -> Option<usize> {
        Some(self.unfinished())
    }
}

/// Calls `test` with every server that is at hand.
fn with_servers(test: impl Fn(&dyn Server)) {
    #[cfg(feature = "s3-tests")]
    test(&InProcess::new());
    if let Some(moto) = Moto::new() {
        test(&moto);
    }
}

/// A server behind a proxy that fails.
struct Failing<'a> {
    server: &'a dyn Server,
    proxy: Proxy,
}

impl<'a> Failing<'a> {
    fn new(server: &'a dyn Server, percent: u64) -> Self {
        let endpoint = &server.settings()["AWS_ENDPOINT_URL"];
        Self { server, proxy: Proxy::new(endpoint.strip_prefix("http://").unwrap(), percent) }
    }
}

impl Server for Failing<'_> {
    fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = self.server.settings();
        settings.insert("AWS_ENDPOINT_URL".into(), format!("http://{}", self.proxy.address));
        settings
    }

    fn unfinished(&self) -> Option<usize> {
        self.server.unfinished()
    }
}

fn at(server: &dyn Server, mut program: Program) -> Program {
    program.0.envs(server.settings());
    program
}

fn run(server: &dyn Server, args: &[&str]) -> common::process::Ended {
    at(server, packhorse(args)).run()
}

/// All objects below `place`, and the folders in their names.
fn objects(server: &dyn Server, place: &Path) -> Tree {
    let stores = Stores::new(RemoteOptions { s3: server.settings(), ..RemoteOptions::default() });
    let mut found = Tree::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = match stores.entries(&place.join(&folder)) {
            Err(e) if e.is_not_found() => continue,
            entries => entries.unwrap(),
        };
        for (name, stat) in entries {
            let (name, stat) = (folder.join(name), stat.unwrap());
            match stat.kind {
                FileKind::Directory => {
                    found.insert(format!("{}/", text(&name)), "folder".to_owned());
                    folders.push(name);
                }
                _ => {
                    let bytes = Store::open(&stores, &place.join(&name)).unwrap().read_all(1 << 30).unwrap();
                    assert_eq!(bytes.len() as u64, stat.size, "{}", name.display());
                    let digest = format!("{} bytes {}", bytes.len(), blake3::hash(&bytes).to_hex());
                    found.insert(text(&name).to_owned(), digest);
                }
            }
        }
    }
    found
}

#[test]
fn a_dataset_in_a_bucket_is_that_of_a_folder() {
    with_servers(|server| {
        let work = Work::new(120, 25);
        let out = Path::new("s3://bucket/sets/photos");
        at(server, work.pack(out, &[])).succeed();
        assert_equal(&work.whole, &objects(server, out), "in the bucket");
        assert_ne!(server.unfinished(), Some(1));
        // Again, there is nothing to do.
        at(server, work.pack(out, &[])).succeed();
        let place = text(out);
        for args in [&["verify", place, "--full"][..], &["status", place], &["stat", place], &["seal", place]] {
            assert_eq!(run(server, args).code(), 0, "{args:?}");
        }
        let listed = run(server, &["ls", place]).printed;
        assert_eq!(listed.lines().count(), 240, "{listed}");
        let shard = format!("{place}/shard-000000.tar");
        let (name, _) = listed.lines().next().unwrap().split_once('\t').unwrap_or((listed.lines().next().unwrap(), ""));
        assert_eq!(run(server, &["cat", &shard, name]).code(), 0);
        // From the bucket to another place in it, by way of another container, and back to a folder.
        let table = Path::new("s3://bucket/sets/table");
        let to = |to: &str, from: &Path, out: &Path| run(server, &["pack", text(from), "--to", to, "--out", text(out)]);
        assert_eq!(to("parquet", out, table).code(), 0);
        let back = work.dir("back");
        let ended = to("webdataset", table, &back);
        assert_eq!(ended.code(), 0, "{ended:?}");
        let direct = work.dir("direct");
        let here = work.dir("here");
        assert_eq!(to("parquet", &work.dir("undisturbed"), &direct).code(), 0);
        assert_eq!(to("webdataset", &direct, &here).code(), 0);
        let shards =
            |dir: &Path| -> Tree { tree(dir).into_iter().filter(|(name, _)| name.ends_with(".tar")).collect() };
        assert_equal(&shards(&here), &shards(&back), "after a way over Parquet");
    });
}

#[test]
fn every_container_is_the_same_in_a_bucket() {
    with_servers(|server| {
        let work = Work::new(40, 40);
        let dataset = work.dir("undisturbed");
        for to in ["webdataset", "parquet", "arrow", "hdf5", "tfrecord"] {
            let (here, there) = (work.dir(to), PathBuf::from(format!("s3://bucket/{to}")));
            for out in [&here, &there] {
                let ended =
                    run(server, &["pack", text(&dataset), "--to", to, "--samples-per-shard", "9", "--out", text(out)]);
                assert_eq!(ended.code(), 0, "{ended:?}");
            }
            assert_equal(&tree(&here), &objects(server, &there), to);
        }
        let tokens = Work::tokens(200, "4KiB");
        let there = Path::new("s3://bucket/tokens");
        at(server, tokens.pack(there, &[])).succeed();
        assert_equal(&tokens.whole, &objects(server, there), "tokens");
    });
}

#[test]
fn a_plan_in_a_bucket_is_filled_in_parts() {
    with_servers(|server| {
        let work = Work::new(60, 7);
        let out = Path::new("s3://bucket/parts");
        at(server, work.planning("plan", out, &[])).succeed();
        let early = run(server, &["seal", text(out)]);
        assert!(early.code() == 6 && early.said.contains(" missing or damaged"), "{early:?}");
        let mut running: Vec<_> = (1..=3)
            .map(|part| at(server, packhorse(&["pack", "--plan", text(out), "--part", &format!("{part}/3")])).start())
            .collect();
        // A second writer of a part writes the same.
        running.push(at(server, packhorse(&["pack", "--plan", text(out), "--part", "2/3"])).start());
        for running in running {
            assert_eq!(running.end().code(), 0);
        }
        assert_eq!(run(server, &["seal", text(out)]).code(), 0);
        assert_equal(&work.whole, &objects(server, out), "in parts");
    });
}

#[test]
fn killed_jobs_go_on_in_a_bucket() {
    let kills: u32 = std::env::var("PACKHORSE_KILLS").map_or(6, |n| n.parse().unwrap());
    with_servers(|server| {
        let work = Work::large(15);
        let out = Path::new("s3://bucket/killed");
        at(server, work.pack(Path::new("s3://bucket/warm"), &[])).succeed();
        let took = at(server, work.pack(Path::new("s3://bucket/measured"), &[])).succeed().took;
        let (mut killed, mut moment) = (0, 0x5eed_u64);
        let mut most = 0;
        while killed < kills {
            moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut running = at(server, work.pack(out, &[])).start();
            running.ends_within(took.mul_f64((moment >> 33) as f64 / (1u64 << 31) as f64));
            running.kill();
            match running.end().code() {
                KILLED => killed += 1,
                0 => run_away(server, &objects(server, out), out),
                code => panic!("exit code {code}"),
            }
            // Every object is complete.
            for (name, digest) in objects(server, out) {
                assert_eq!(work.whole.get(&name), Some(&digest), "{name} after kill {killed}");
            }
            most = most.max(server.unfinished().unwrap_or(0));
        }
        at(server, work.pack(out, &[])).succeed();
        assert_equal(&work.whole, &objects(server, out), "at the end");
        if server.unfinished().is_some() {
            assert_eq!(run(server, &["clean", "s3://bucket"]).code(), 0);
            assert_eq!(server.unfinished(), Some(0));
        }
        println!("up to {most} unfinished uploads, which are gone");
        packhorse_testkit::external::count(killed, "kills at random moments");
    });
}

/// Removes a finished dataset.
fn run_away(server: &dyn Server, objects: &Tree, out: &Path) {
    let stores = Stores::new(RemoteOptions { s3: server.settings(), ..RemoteOptions::default() });
    objects.keys().filter(|name| !name.ends_with('/')).for_each(|name| stores.remove(&out.join(name)).unwrap());
}

#[test]
fn unfinished_uploads_are_found_and_dropped() {
    let Some(moto) = Moto::new() else { return };
    // moto fails where other servers say that there is no such upload.
    let stores = Stores::new(RemoteOptions { tries: 2, s3: moto.settings(), ..RemoteOptions::default() });
    let begin = |path: &str| {
        let mut upload = stores.upload(Path::new(path), false).unwrap().unwrap();
        upload.write_all(&vec![7; 20 << 20]).unwrap();
        upload
    };
    let (one, two) = (begin("s3://bucket/a/x & y.tar"), begin("s3://bucket/b/x.tar"));
    assert_eq!(moto.unfinished(), 2);
    let cleaned = at(&moto, packhorse(&["clean", "s3://bucket/a", "--json"])).succeed();
    assert!(cleaned.printed.contains("\"removed\": 1"), "{cleaned:?}");
    assert_eq!(moto.unfinished(), 1);
    let error = one.sync_and_close().unwrap_err();
    assert!(error.to_string().contains("s3://bucket/a/x & y.tar"), "{error}");
    two.sync_and_close().unwrap();
    assert_eq!(moto.unfinished(), 0);
    assert_eq!(stores.stat(Path::new("s3://bucket/b/x.tar"), true).unwrap().size, 20 << 20);
    // Dropped by its own process.
    drop(begin("s3://bucket/c"));
    assert_eq!(moto.unfinished(), 0);
}

#[test]
fn a_dataset_in_a_bucket_takes_more() {
    let work = Work::new(24, 8);
    let more = work.dir("more");
    std::fs::create_dir(&more).unwrap();
    std::os::unix::fs::symlink(&work.input, more.join("again")).unwrap();
    let local = work.dir("local");
    work.pack(&local, &[]).succeed();
    packhorse(&["append", text(&local), text(&more), "--labels", "parent"]).succeed();
    with_servers(|server| {
        let out = Path::new("s3://bucket/out");
        at(server, work.pack(out, &[])).succeed();
        let old = objects(server, out);
        at(server, packhorse(&["append", text(out), text(&more), "--labels", "parent", "--plan-only"])).succeed();
        at(server, packhorse(&["pack", "--plan", text(out), "--part", "1/2"])).succeed();
        assert_eq!(objects(server, out)["dataset.json"], old["dataset.json"]);
        at(server, packhorse(&["append", text(out), text(&more), "--labels", "parent"])).succeed();
        assert_equal(&tree(&local), &objects(server, out), "in a bucket");
        run_away(server, &tree(&local), out);
    });
}

#[test]
fn damage_in_a_bucket_is_found_and_repaired() {
    with_servers(|server| {
        let work = Work::new(60, 20);
        let out = Path::new("s3://bucket/damaged");
        at(server, work.pack(out, &[])).succeed();
        let stores = Stores::new(RemoteOptions { s3: server.settings(), ..RemoteOptions::default() });
        let path = out.join("shard-000001.tar");
        let mut bytes = Store::open(&stores, &path).unwrap().read_all(1 << 30).unwrap();
        bytes[70_000] ^= 1;
        let mut file = stores.upload(&path, false).unwrap().unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_and_close().unwrap();
        stores.remove(&out.join("shard-000002.tar")).unwrap();
        let found = run(server, &["verify", text(out), "--full"]);
        assert!(
            found.code() == 6 && found.said.contains("3 findings") && found.said.contains("shard-000001.tar"),
            "{found:?}"
        );
        let repaired = run(server, &["repair", text(out), "--json"]);
        assert!(
            repaired.code() == 0 && repaired.printed.contains("\".quarantine/1/shard-000001.tar\""),
            "{repaired:?}"
        );
        let kept = Store::open(&stores, &out.join(".quarantine/1/shard-000001.tar")).unwrap();
        assert!(kept.read_all(1 << 30).unwrap() == bytes);
        let verified = run(server, &["verify", text(out), "--json"]);
        assert!(verified.code() == 0 && verified.printed.contains("\"quarantined\": 1"), "{verified:?}");
        let cleaned = run(server, &["clean", "--quarantine", text(out)]);
        assert!(cleaned.code() == 0 || server.unfinished().is_none(), "{cleaned:?}");
        assert_equal(&work.whole, &objects(server, out), "after repair");
    });
}

#[test]
fn what_a_bucket_cannot_take_is_refused_by_name() {
    let Some(moto) = Moto::new() else { return };
    let work = Work::new(20, 20);
    let out = Path::new("s3://bucket/set");
    at(&moto, work.pack(out, &[])).succeed();
    let replaced = at(&moto, work.pack(out, &["--replace"])).run();
    assert!(replaced.code() == 8 && replaced.said.contains("can't be replaced"), "{replaced:?}");
    let other = at(&moto, work.pack(out, &["--name", "other"])).run();
    assert!(other.code() == 2 && other.said.contains("another plan"), "{other:?}");
    let nowhere = at(&moto, work.pack(Path::new("s3://no-such-bucket/x"), &[])).run();
    assert!(nowhere.code() != 0 && nowhere.said.contains("s3://no-such-bucket"), "{nowhere:?}");
    let web = at(&moto, work.pack(Path::new("http://127.0.0.1:9/x"), &[])).run();
    assert!(web.code() == 8 && web.said.contains("can only be read"), "{web:?}");
}

#[test]
fn a_server_that_fails_often_changes_nothing() {
    with_servers(|server| {
        let work = Work::large(24);
        let mut requests = Vec::new();
        for percent in [0, 20, 40] {
            let failing = Failing::new(server, percent);
            let out = PathBuf::from(format!("s3://bucket/failing-{percent}"));
            let ended = at(&failing, work.pack(&out, &[])).run();
            assert_eq!(ended.code(), 0, "{percent} %: {ended:?}");
            let (sent, faults) = failing.proxy.counts();
            assert!((faults > 0) == (percent > 0), "{faults} of {sent} at {percent} %");
            requests.push(sent);
            let verified = run(&failing, &["verify", text(&out), "--full"]);
            assert_eq!(verified.code(), 0, "{percent} %: {verified:?}");
            assert_equal(&work.whole, &objects(server, &out), "behind a server that fails");
            packhorse_testkit::external::count(sent, "requests to a server that fails");
        }
        assert!(requests[1] <= 2 * requests[0], "{requests:?}");
    });
}
