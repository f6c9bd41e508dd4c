//! Datasets in object stores: packed, killed, resumed, checked and repaired, they are those of a local folder.
//!
//! For S3, two servers that share no code stand for all others: `s3s-fs`, in this process, with the feature `s3-tests`; and
//! moto, started with `PACKHORSE_PYTHON`, which is also the greater part of a stand-in for Google Cloud Storage. For Azure
//! Blob Storage it is Azurite, `PACKHORSE_AZURITE`. `PACKHORSE_KILLS` is the number of kills at random moments (6 where it
//! is not set).
#![cfg(feature = "remote")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod azurite;
    pub(crate) mod bytes;
    pub(crate) mod corpus;
    pub(crate) mod google;
    pub(crate) mod moto;
    pub(crate) mod process;
    pub(crate) mod proxy;
    pub(crate) mod tree;
    pub(crate) mod work;
}

use common::azurite::Azurite;
use common::google::Google;
use common::moto::Moto;
use common::process::{Program, command, packhorse};
use common::proxy::Proxy;
use common::tree::{Tree, assert_equal, tree};
use common::work::{Work, text};
use packhorse::storage::{RemoteOptions, Stores};
use packhorse_core::{DirEntry, FileKind, Store};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

const KILLED: i32 = 128 + 9;

/// A server with an empty bucket, `bucket`.
trait Server {
    /// The scheme of its locations.
    fn scheme(&self) -> &'static str {
        "s3"
    }

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

impl Server for Google {
    fn scheme(&self) -> &'static str {
        "gs"
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.settings()
    }

    fn unfinished(&self) -> Option<usize> {
        Some(self.unfinished())
    }
}

impl Server for Azurite {
    fn scheme(&self) -> &'static str {
        "az"
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.settings()
    }

    fn unfinished(&self) -> Option<usize> {
        None
    }
}

/// Calls `test` with every server that is at hand.
fn with_servers(test: impl Fn(&dyn Server)) {
    #[cfg(feature = "s3-tests")]
    test(&InProcess::new());
    with_programs(test);
}

/// Calls `test` with every server that is a program of its own.
fn with_programs(test: impl Fn(&dyn Server)) {
    if let Some(moto) = Moto::new() {
        test(&moto);
    }
    if let Some(google) = Google::new() {
        test(&google);
    }
    if let Some(azurite) = Azurite::new() {
        test(&azurite);
    }
}

/// The location of `path` in the server's bucket.
fn place(server: &dyn Server, path: &str) -> PathBuf {
    format!("{}://bucket/{path}", server.scheme()).into()
}

fn options(server: &dyn Server) -> RemoteOptions {
    let of = |start: &str| server.settings().into_iter().filter(|(name, _)| name.starts_with(start)).collect();
    RemoteOptions { s3: of("AWS_"), gcs: of("GOOGLE_"), azure: of("AZURE_"), ..RemoteOptions::default() }
}

/// A server behind a proxy that fails.
struct Failing<'a> {
    server: &'a dyn Server,
    proxy: Proxy,
}

impl<'a> Failing<'a> {
    fn new(server: &'a dyn Server, percent: u64) -> Self {
        Self { server, proxy: Proxy::new(&Self::endpoint(server).1, percent) }
    }

    /// The setting with the server's address, and the address.
    fn endpoint(server: &dyn Server) -> (String, String) {
        let address = |(name, value): (String, String)| {
            let address = value.strip_prefix("http://")?.split('/').next()?.to_owned();
            Some((name, address))
        };
        server.settings().into_iter().find_map(address).unwrap()
    }
}

impl Server for Failing<'_> {
    fn scheme(&self) -> &'static str {
        self.server.scheme()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = self.server.settings();
        let (name, address) = Self::endpoint(self.server);
        settings.entry(name).and_modify(|endpoint| *endpoint = endpoint.replace(&address, &self.proxy.address));
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
    let stores = Stores::new(options(server));
    let mut found = Tree::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let entries = match stores.entries(&place.join(&folder)) {
            Err(e) if e.is_not_found() => continue,
            entries => entries.unwrap(),
        };
        for entry in entries {
            let (name, stat) = (folder.join(entry.name), entry.stat.unwrap());
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
        let out = &place(server, "sets/photos");
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
        let table = &self::place(server, "sets/table");
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
            let (here, there) = (work.dir(to), place(server, to));
            for out in [&here, &there] {
                let ended =
                    run(server, &["pack", text(&dataset), "--to", to, "--samples-per-shard", "9", "--out", text(out)]);
                assert_eq!(ended.code(), 0, "{ended:?}");
            }
            assert_equal(&tree(&here), &objects(server, &there), to);
        }
        let tokens = Work::tokens(200, "4KiB");
        let there = &place(server, "tokens");
        at(server, tokens.pack(there, &[])).succeed();
        assert_equal(&tokens.whole, &objects(server, there), "tokens");
    });
}

#[test]
fn the_last_error_of_a_task_is_in_the_bucket_until_it_succeeds() {
    with_servers(|server| {
        let work = Work::new(60, 10);
        let out = &*place(server, "errors");
        let (input, wanted) = (work.linked(), work.dir("wanted"));
        work.planning_of(&input, "pack", &wanted, &[]).succeed();
        at(server, work.planning_of(&input, "plan", out, &[])).succeed();
        std::fs::remove_file(&input).unwrap();
        let failed = run(server, &["pack", "--plan", text(out), "--part", "2/3"]);
        assert_eq!(failed.code(), 4, "{failed:?}");
        let status = || -> serde_json::Value {
            serde_json::from_str(&run(server, &["status", text(out), "--json"]).printed).unwrap()
        };
        let said = status();
        assert_eq!(
            (&said["errors"][0]["part"], &said["errors"][1]),
            (&"2/3".into(), &serde_json::Value::Null),
            "{said}"
        );
        assert!(objects(server, out).contains_key(".errors/2-of-3.json"));
        work.linked();
        for part in ["1/3", "2/3", "3/3"] {
            assert_eq!(run(server, &["pack", "--plan", text(out), "--part", part, "--seal"]).code(), 0);
        }
        assert_eq!(status()["errors"], serde_json::json!([]));
        assert_equal(&tree(&wanted), &objects(server, out), "after an error");
    });
}

#[test]
fn a_plan_in_a_bucket_is_filled_in_parts() {
    with_servers(|server| {
        let work = Work::new(60, 7);
        let out = &place(server, "parts");
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
fn objects_are_listed_in_parts() {
    with_servers(|server| {
        let stores = Stores::new(options(server));
        for n in 0..45 {
            let name = format!("in/{}/day{}/{n}.{}", n % 3, n % 40, if n % 7 == 0 { "cls" } else { "jpg" });
            let mut upload = stores.upload(&place(server, &name), false).unwrap().unwrap();
            upload.write_all(&vec![b'0' + (n % 10) as u8; n]).unwrap();
            upload.sync_and_close().unwrap();
        }
        let (input, one, parts) = (place(server, "in"), place(server, "of-one"), place(server, "of-parts"));
        let words =
            |verb, out| [verb, text(&input), "--to", "webdataset", "--samples-per-shard", "10", "--out", text(out)];
        assert_eq!(run(server, &words("pack", &one)).code(), 0);
        for part in ["2/3", "1/3", "3/3"] {
            let ended = run(server, &[&words("scan", &parts)[..], &["--part", part]].concat());
            assert_eq!(ended.code(), 0, "{ended:?}");
        }
        assert!(objects(server, &parts).contains_key(".listings/1-of-3.jsonl.zst"));
        let ended = run(server, &[&words("plan", &parts)[..], &["--from-listings"]].concat());
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert_eq!(run(server, &["pack", "--plan", text(&parts), "--seal"]).code(), 0);
        assert_equal(&objects(server, &one), &objects(server, &parts), "of parts");
    });
}

/// A key may be an object, and others begin with it and a slash.
#[test]
fn an_object_beside_a_folder_of_its_name_is_listed_once() {
    with_servers(|server| {
        // A server over a file system has no such names.
        if server.unfinished().is_none() {
            return;
        }
        let stores = Stores::new(options(server));
        for (name, content) in [("in/a", ""), ("in/a/1.txt", "1"), ("in/b.txt", "b"), ("in/b.txt/2.txt", "2")] {
            let mut upload = stores.upload(&place(server, name), false).unwrap().unwrap();
            upload.write_all(content.as_bytes()).unwrap();
            upload.sync_and_close().unwrap();
        }
        let (input, out) = (place(server, "in"), place(server, "of-twins"));
        let ended = run(server, &["pack", text(&input), "--to", "webdataset", "--out", text(&out)]);
        assert_eq!(ended.code(), 0, "{ended:?}");
        let listed = run(server, &["ls", text(&out)]).printed;
        assert_eq!(listed, "b.txt\na/1.txt\nb%2Etxt/2.txt\n");
        // The empty object marks the folder, as consoles make it.
        let marked = run(
            server,
            &["pack", text(&place(server, "in/a")), "--to", "webdataset", "--out", text(&place(server, "a"))],
        );
        assert_eq!(marked.code(), 0, "{marked:?}");
        assert_eq!(run(server, &["ls", text(&place(server, "a"))]).printed, "1.txt\n");
        let refused = run(server, &["pack", "s3://bucket//in", "--to", "webdataset", "--out", "unused"]);
        assert!(refused.code() == 2 && refused.said.contains("write s3://bucket/in"), "{refused:?}");
    });
}

#[test]
fn killed_jobs_go_on_in_a_bucket() {
    let kills: u32 = std::env::var("PACKHORSE_KILLS").map_or(6, |n| n.parse().unwrap());
    with_servers(|server| {
        let work = Work::large(15);
        let out = &place(server, "killed");
        at(server, work.pack(&place(server, "warm"), &[])).succeed();
        let took = at(server, work.pack(&place(server, "measured"), &[])).succeed().took;
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
            assert_eq!(run(server, &["clean", text(&place(server, ""))]).code(), 0);
            assert_eq!(server.unfinished(), Some(0));
        }
        println!("up to {most} unfinished uploads, which are gone");
        packhorse_testkit::external::count(killed, "kills at random moments");
    });
}

/// Removes a finished dataset.
fn run_away(server: &dyn Server, objects: &Tree, out: &Path) {
    let stores = Stores::new(options(server));
    objects.keys().filter(|name| !name.ends_with('/')).for_each(|name| stores.remove(&out.join(name)).unwrap());
}

#[test]
fn unfinished_uploads_are_found_and_dropped() {
    with_programs(|server| {
        let Some(unfinished) = server.unfinished() else {
            let mut program = Program(command(env!("CARGO_BIN_EXE_packhorse")));
            program.0.args(["clean", text(&place(server, "a"))]);
            let cleaned = at(server, program).succeed();
            assert!(cleaned.printed.contains("drops their blocks itself after a week"), "{cleaned:?}");
            return;
        };
        assert_eq!(unfinished, 0);
        // moto fails where other servers say that there is no such upload.
        let stores = Stores::new(RemoteOptions { tries: 2, ..options(server) });
        let begin = |path: &str| {
            let mut upload = stores.upload(&place(server, path), false).unwrap().unwrap();
            upload.write_all(&vec![7; 20 << 20]).unwrap();
            upload
        };
        let (one, two) = (begin("a/x & y.tar"), begin("b/x.tar"));
        assert_eq!(server.unfinished(), Some(2));
        let cleaned = at(server, packhorse(&["clean", text(&place(server, "a")), "--json"])).succeed();
        assert!(cleaned.printed.contains("\"removed\": 1"), "{cleaned:?}");
        assert_eq!(server.unfinished(), Some(1));
        let error = one.sync_and_close().unwrap_err();
        assert!(error.to_string().contains(text(&place(server, "a/x & y.tar"))), "{error}");
        two.sync_and_close().unwrap();
        assert_eq!(server.unfinished(), Some(0));
        assert_eq!(stores.stat(&place(server, "b/x.tar"), true).unwrap().size, 20 << 20);
        // Dropped by its own process.
        drop(begin("c"));
        assert_eq!(server.unfinished(), Some(0));
    });
}

#[test]
fn uploads_of_one_name_do_not_mix() {
    with_servers(|server| {
        let stores = Stores::new(options(server));
        let path = place(server, "shared/x.tar");
        let bytes = |seed: u8| (0..20 << 20).map(|at: u32| (at >> 9) as u8 ^ (at as u8).wrapping_mul(seed)).collect();
        let begin = |bytes: &Vec<u8>| {
            let mut upload = stores.upload(&path, false).unwrap().unwrap();
            upload.write_all(bytes).unwrap();
            upload
        };
        let there = || Store::open(&stores, &path).unwrap().read_all(1 << 30).unwrap();
        let (first, second): (Vec<u8>, Vec<u8>) = (bytes(3), bytes(5));
        // The same bytes: each may complete the object, also after the other.
        for _ in 0..2 {
            let (one, two) = (begin(&first), begin(&first));
            two.sync_and_close().unwrap();
            let third = begin(&first);
            one.sync_and_close().unwrap();
            third.sync_and_close().unwrap();
            assert!(there() == first);
        }
        // Other bytes: the object is one of both, and who failed says so.
        let (one, two) = (begin(&second), begin(&first));
        two.sync_and_close().unwrap();
        assert!(there() == first);
        match one.sync_and_close() {
            Ok(()) => assert!(there() == second),
            Err(error) => {
                assert!(there() == first);
                assert!(error.to_string().contains("another process wrote other bytes"), "{error}");
            }
        }
        begin(&second).sync_and_close().unwrap();
        assert!(there() == second);
        // One request, while others send parts.
        let large = begin(&first);
        let mut small = stores.upload(&path, false).unwrap().unwrap();
        small.write_all(b"small").unwrap();
        small.sync_and_close().unwrap();
        assert!(large.sync_and_close().is_ok() == (there() == first));
    });
}

#[test]
fn a_changed_object_is_noticed_and_keys_are_literal() {
    // `s3s-fs` lists no ETags.
    with_programs(|server| {
        let stores = Stores::new(options(server));
        let write = |name: &str, bytes: &[u8]| {
            let mut file = stores.upload(&place(server, name), false).unwrap().unwrap();
            file.write_all(bytes).unwrap();
            file.sync_and_close().unwrap();
        };
        for (name, len) in [("k/b c+ä=%41.idx", 5), ("k/deep/x", 3000), ("k/empty", 0), ("k/token", 1)] {
            write(name, &vec![7; len]);
        }
        let entries = stores.entries(&place(server, "k")).unwrap();
        assert_eq!(entries.len(), 4, "{entries:?}");
        for DirEntry { name, kind, stat: listed } in entries {
            // A listing gives what a query about the object gives.
            let path = place(server, "k").join(&name);
            let stat = stores.stat(&path, true).unwrap();
            assert_eq!((Some(stat.kind), Some(stat)), (kind, listed), "{}", name.display());
            if stat.kind == FileKind::File {
                assert_eq!(Store::open(&stores, &path).unwrap().read_all(9).unwrap(), vec![7; stat.size as usize]);
            }
        }
        assert!(stores.stat(&place(server, "k/none"), true).unwrap_err().is_not_found());
        let file = Store::open(&stores, &place(server, "k/deep/x")).unwrap();
        let mut half = vec![0; 1500];
        file.read_at(1000, &mut half).unwrap();
        write("k/deep/x", &vec![8; 3000]);
        let error = file.read_at(0, &mut half).unwrap_err();
        assert_eq!(error.kind(), packhorse_core::Kind::Changed, "{error}");
    });
}

#[test]
fn the_loader_and_views_read_a_bucket() {
    with_servers(|server| {
        let work = Work::new(60, 7);
        let (here, there) = (work.dir("undisturbed"), place(server, "set"));
        at(server, work.pack(&there, &[])).succeed();
        let stores = Stores::new(options(server));
        let batches = |dataset: packhorse::read::Dataset| -> Vec<Vec<u8>> {
            let loader = dataset.loader(8).field("jpg", "jpg").seed(3).epochs(2).threads(2).build().unwrap();
            loader.map(|batch| batch.unwrap().field("jpg").unwrap().to_vec()).collect()
        };
        let wanted = batches(packhorse::open(text(&here)).unwrap());
        assert!(wanted.len() >= 14 && wanted.iter().all(|batch| !batch.is_empty()));
        for name in ["", "/*.tar", "/shard-{000000..000008}.tar"] {
            let place = format!("{}{name}", text(&there));
            let dataset = packhorse::read::open_with(&place, &stores, &Default::default()).unwrap();
            assert!(batches(dataset) == wanted, "{place}");
        }
        let view = place(server, "views/v");
        let made = run(server, &["view", text(&there), "--out", text(&view), "--where", "cls == 3"]);
        assert_eq!(made.code(), 0, "{made:?}");
        let verified = run(server, &["verify", text(&view), "--full"]);
        assert_eq!(verified.code(), 0, "{verified:?}");
    });
}

#[test]
fn without_credentials_it_is_said_what_to_set() {
    with_programs(|server| {
        let out = place(server, "x");
        let secret = ["AWS_SECRET_ACCESS_KEY", "GOOGLE_BEARER_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY"];
        let wanted = ["AWS_ACCESS_KEY_ID", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_STORAGE_ACCOUNT_KEY"];
        let service = ["s3", "gs", "az"].iter().position(|scheme| *scheme == server.scheme()).unwrap();
        // moto takes every key.
        let other = if service == 0 { None } else { Some("b3RoZXI=") };
        for value in [None, other] {
            let mut program = at(server, packhorse(&["stat", text(&out)]));
            match value {
                Some(value) => program.0.env(secret[service], value),
                None => program.0.env_remove(secret[service]),
            };
            // Where machines in a cloud ask for credentials, and no answer.
            program.0.env_remove("AWS_ACCESS_KEY_ID").env("HOME", "/nonexistent");
            program.0.env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9");
            program.0.env("GCE_METADATA_HOST", "127.0.0.1:9").env("GCE_METADATA_IP", "127.0.0.1:9");
            program.0.env("AZURE_MSI_ENDPOINT", "http://127.0.0.1:9/");
            let ended = program.run();
            let said = &ended.said;
            assert!(ended.code() != 0 && said.contains(text(&out)) && said.contains(wanted[service]), "{ended:?}");
            println!("{said}");
        }
    });
}

/// Answers every request as the servers do that give machines in a cloud their credentials. It never ends.
fn credentials() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let body = r#"{"AccessKeyId":"key","SecretAccessKey":"secret","Token":"token","Expiration":"2100-01-01T00:00:00Z","access_token":"hush-hush","expires_in":3600}"#;
    let answer = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            // Clients may break off.
            let _ = common::proxy::read_request(&mut client).and_then(|_| client.write_all(answer.as_bytes()));
        }
    });
    address
}

#[test]
fn a_machine_in_a_cloud_needs_no_key() {
    let (dir, address) = (tempfile::tempdir().unwrap(), credentials());
    let token = dir.path().join("token");
    std::fs::write(&token, "token").unwrap();
    with_programs(|server| {
        if server.scheme() == "az" {
            // Azurite takes tokens over TLS only.
            return;
        }
        let out = place(server, "set");
        let work = Work::new(20, 20);
        for mut program in [work.pack(&out, &[]), packhorse(&["verify", text(&out)]), packhorse(&["clean", text(&out)])]
        {
            let settings =
                server.settings().into_iter().filter(|(name, _)| name.contains("_URL") || name == "AWS_REGION");
            program.0.envs(settings).env("GCE_METADATA_HOST", &address).env("HOME", "/nonexistent");
            program.0.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("http://{address}/credentials"));
            program.0.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token);
            program.succeed();
        }
    });
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
        let out = &place(server, "out");
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
        let out = &place(server, "damaged");
        at(server, work.pack(out, &[])).succeed();
        let stores = Stores::new(options(server));
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
    with_programs(|server| {
        let work = Work::new(20, 20);
        let out = &place(server, "set");
        at(server, work.pack(out, &[])).succeed();
        let replaced = at(server, work.pack(out, &["--replace"])).run();
        assert!(replaced.code() == 8 && replaced.said.contains("can't be replaced"), "{replaced:?}");
        let other = at(server, work.pack(out, &["--name", "other"])).run();
        assert!(other.code() == 2 && other.said.contains("another plan"), "{other:?}");
        let missing = format!("{}://no-such-bucket/x", server.scheme());
        let nowhere = at(server, work.pack(Path::new(&missing), &[])).run();
        assert!(nowhere.code() != 0 && nowhere.said.contains(&missing), "{nowhere:?}");
        assert!(nowhere.said.contains("has no such "), "{nowhere:?}");
        let web = at(server, work.pack(Path::new("http://127.0.0.1:9/x"), &[])).run();
        assert!(web.code() == 8 && web.said.contains("can only be read"), "{web:?}");
    });
}

#[test]
fn a_server_that_fails_often_changes_nothing() {
    with_servers(|server| {
        let work = Work::large(24);
        let mut requests = Vec::new();
        for percent in [0, 20, 40] {
            let failing = Failing::new(server, percent);
            let out = place(server, &format!("failing-{percent}"));
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
