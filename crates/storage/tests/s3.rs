//! S3 objects from a server that shares no code with the client.
#![cfg(feature = "s3-tests")]
#![expect(clippy::unwrap_used, reason = "errors fail the test")]

use packhorse_core::{Error, FileKind, Kind, Outlet, Store, StoreFile};
use packhorse_storage::{Location, RemoteOptions, Staging, Stores};
use packhorse_testkit::s3::Server;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const LEN: usize = 3_000_017;

fn content() -> Vec<u8> {
    (0..LEN as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

/// A bucket with a few objects in it.
fn folder() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let bytes = content();
    let bucket = dir.path().join("bucket");
    std::fs::create_dir_all(bucket.join("data/set/deep")).unwrap();
    std::fs::write(bucket.join("data/set/a.tar"), &bytes).unwrap();
    std::fs::write(bucket.join("data/set/b c+ä=%41.idx"), b"index").unwrap();
    std::fs::write(bucket.join("data/set/empty"), b"").unwrap();
    std::fs::write(bucket.join("data/set/deep/x"), b"x").unwrap();
    std::fs::write(bucket.join("top"), b"top").unwrap();
    (dir, bytes)
}

fn options(server: &Server, others: &[(&str, &str)]) -> RemoteOptions {
    let mut s3 = server.settings();
    for (name, value) in others {
        match value.is_empty() {
            true => drop(s3.remove(*name)),
            false => drop(s3.insert((*name).to_owned(), (*value).to_owned())),
        }
    }
    RemoteOptions { tries: 3, patience: Duration::from_secs(20), piece: 500_000, s3, ..RemoteOptions::default() }
}

fn store(location: &str, options: RemoteOptions) -> (Arc<dyn Store>, PathBuf) {
    Stores::new(options).open(&Location::parse(location).unwrap()).unwrap()
}

#[test]
fn folders_are_listed_and_objects_are_known() {
    let (dir, _) = folder();
    let server = Server::new(dir.path());
    let (store, root) = store("s3://bucket/data/set", options(&server, &[]));
    let sorted = |path: &Path| {
        let mut names = store.list(path).unwrap();
        names.sort();
        names
    };
    assert_eq!(sorted(&root), ["a.tar", "b c+ä=%41.idx", "deep", "empty"].map(PathBuf::from));
    assert_eq!(sorted(Path::new("")), ["data", "top"].map(PathBuf::from));
    assert_eq!(store.list(Path::new("data/none")).unwrap_err().errno(), Some(2));
    for (path, kind, size) in [
        ("data/set/a.tar", FileKind::File, LEN as u64),
        ("data/set/empty", FileKind::File, 0),
        ("data/set/b c+ä=%41.idx", FileKind::File, 5),
        ("data/set", FileKind::Directory, 0),
        ("data/set/", FileKind::Directory, 0),
        ("", FileKind::Directory, 0),
    ] {
        let stat = store.stat(Path::new(path), true).unwrap();
        assert_eq!((stat.kind, stat.size), (kind, size), "{path}");
        assert_eq!(store.stat(Path::new(path), true).unwrap(), stat);
    }
    let file = store.stat(Path::new("data/set/a.tar"), true).unwrap();
    let there = std::fs::metadata(dir.path().join("bucket/data/set/a.tar")).unwrap().modified().unwrap();
    let seconds = there.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    assert_eq!(file.mtime, seconds * 1_000_000_000);
    assert_eq!(store.stat(Path::new("data/none"), true).unwrap_err().errno(), Some(2));
}

#[test]
fn objects_are_read_by_many_at_once() {
    let (dir, bytes) = folder();
    let server = Server::new(dir.path());
    let (store, root) = store("s3://bucket/data/set/", options(&server, &[]));
    let file = store.open(&root.join("a.tar")).unwrap();
    assert_eq!((file.name(), file.len()), ("s3://bucket/data/set/a.tar", Some(LEN as u64)));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                for n in 0..20 {
                    let from = (thread * 37_501 + n * 131_071) % (LEN - 200_000);
                    let mut buf = vec![0; 1 + n * 10_000];
                    file.read_at(from as u64, &mut buf).unwrap();
                    assert!(buf == bytes[from..from + buf.len()]);
                }
                assert!(file.read_all(10 << 20).unwrap() == *bytes);
            });
        }
    });
    assert_eq!(file.sibling("b c+ä=%41.idx").unwrap().unwrap().read_all(9).unwrap(), b"index");
    assert!(file.sibling("a.idx").unwrap().is_none());
    assert_eq!(store.open(&root.join("empty")).unwrap().read_all(9).unwrap(), b"");
}

#[test]
fn a_changed_object_is_noticed() {
    let (dir, _) = folder();
    let server = Server::new(dir.path());
    let (store, root) = store("s3://bucket/data/set", options(&server, &[]));
    let file = store.open(&root.join("a.tar")).unwrap();
    let before = file.stat().unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    for bytes in [vec![7; LEN], vec![7; 10]] {
        std::fs::write(dir.path().join("bucket/data/set/a.tar"), bytes).unwrap();
        let error = file.read_at(0, &mut [0; 100]).unwrap_err();
        assert_eq!(error.kind(), Kind::Changed, "{error}");
        assert_ne!(file.stat().unwrap(), before);
    }
}

fn refused(server: &Server, location: &str, others: &[(&str, &str)]) -> [Error; 2] {
    let (store, path) = store(location, options(server, others));
    let listed = store.list(path.parent().unwrap_or(&path)).unwrap_err();
    [store.open(&path).map(|_| ()).unwrap_err(), listed]
}

#[test]
fn wrong_keys_and_wrong_names_give_different_errors() {
    let (dir, _) = folder();
    let server = Server::new(dir.path());
    let object = "s3://bucket/data/set/a.tar";
    for others in
        [[("AWS_ACCESS_KEY_ID", "AKANOTHER")], [("AWS_SECRET_ACCESS_KEY", "another")], [("AWS_SKIP_SIGNATURE", "true")]]
    {
        for error in refused(&server, object, &others) {
            let text = error.to_string();
            assert_eq!((error.kind(), error.errno()), (Kind::Environment, Some(13)), "{text}");
            assert!(text.starts_with("s3://bucket/data/set") && text.contains("AWS_ACCESS_KEY_ID"), "{text}");
            assert!(!text.contains("hush") && !text.contains("AKANOTHER"), "{text}");
            println!("{text}");
        }
    }
    for error in refused(&server, "s3://missing/data/x", &[]) {
        println!("{error}");
        assert_eq!(error.errno(), Some(2), "{error}");
    }
    let (store, _) = store(object, options(&server, &[]));
    let error = store.open(Path::new("data/none")).map(|_| ()).unwrap_err();
    println!("{error}");
    assert_eq!((error.kind(), error.errno()), (Kind::Environment, Some(2)), "{error}");
}

#[test]
fn a_public_bucket_needs_no_key() {
    let (dir, _) = folder();
    let server = Server::public(dir.path());
    let others = [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", ""), ("AWS_SKIP_SIGNATURE", "true")];
    let (store, path) = store("s3://bucket/top", options(&server, &others));
    assert_eq!(store.open(&path).unwrap().read_all(9).unwrap(), b"top");
    assert_eq!(store.list(Path::new("")).unwrap().len(), 2);
}

#[test]
fn a_long_listing_comes_in_pages() {
    let (dir, _) = folder();
    let many = dir.path().join("bucket/many");
    std::fs::create_dir(&many).unwrap();
    for n in 0..2345 {
        std::fs::write(many.join(format!("{n:05}")), b"").unwrap();
    }
    let server = Server::new(dir.path());
    let (store, path) = store("s3://bucket/many", options(&server, &[]));
    let mut names = store.list(&path).unwrap();
    names.sort();
    assert_eq!(names, (0..2345).map(|n| PathBuf::from(format!("{n:05}"))).collect::<Vec<_>>());
}

#[test]
fn invalid_settings_are_refused_before_any_request() {
    let open = |options| Stores::new(options).open(&Location::parse("s3://bucket/x").unwrap()).map(|_| ()).unwrap_err();
    let options = |name: &str, value: &str| RemoteOptions {
        s3: [(name.to_owned(), value.to_owned())].into(),
        ..RemoteOptions::default()
    };
    for (name, value) in [
        ("AWS_ENDPOINTS", "x"),
        ("AWS_ENDPOINT_URL", "127.0.0.1:9000"),
        ("AWS_ACCESS_KEY_ID", "only this"),
        ("AWS_SKIP_SIGNATURE", "perhaps"),
    ] {
        let error = open(options(name, value));
        println!("{error}");
        assert_eq!(error.kind(), Kind::Config, "{error}");
    }
}

/// Writes `bytes` in pieces of odd lengths.
fn written(mut file: Box<dyn StoreFile>, bytes: &[u8]) -> Box<dyn StoreFile> {
    bytes.chunks(700_001).for_each(|piece| file.write_all(piece).unwrap());
    file
}

/// A writable bucket, and the names in it.
fn empty_bucket() -> (tempfile::TempDir, impl Fn() -> Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let bucket = dir.path().join("bucket");
    std::fs::create_dir_all(&bucket).unwrap();
    let names = move || {
        let entries = std::fs::read_dir(&bucket).unwrap().map(|entry| entry.unwrap().file_name());
        // The server keeps what it knows of objects and uploads in hidden files.
        let mut names: Vec<_> =
            entries.map(|name| name.into_string().unwrap()).filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    };
    (dir, names)
}

#[test]
fn objects_of_any_length_are_written() {
    let (dir, _) = empty_bucket();
    let server = Server::new(dir.path());
    let options = RemoteOptions { part: 5 << 20, ..options(&server, &[]) };
    let (store, root) = store("s3://bucket/out", options);
    let part = 5 << 20;
    for (n, len) in [0, 1, part - 1, part, part + 1, 3 * part, 3 * part + 17].into_iter().enumerate() {
        let bytes: Vec<u8> = (0..len as u64).map(|i| ((i * (n as u64 + 3)) >> 7) as u8).collect();
        let path = root.join(format!("ä {n}.bin"));
        let file = store.upload(&path, false).unwrap().unwrap();
        written(file, &bytes).sync_and_close().unwrap();
        assert_eq!(store.open(&path).unwrap().read_all(1 << 30).unwrap(), bytes, "{len} bytes");
    }
}

#[test]
fn the_first_bytes_of_an_object_may_come_last() {
    let (dir, _) = empty_bucket();
    let server = Server::new(dir.path());
    let options = RemoteOptions { part: 5 << 20, ..options(&server, &[]) };
    let (store, root) = store("s3://bucket/out", options);
    for len in [100, (5 << 20) - 1, 5 << 20, (5 << 20) + 1, (12 << 20) + 3] {
        let mut bytes = vec![7; len];
        let mut file = written(store.upload(&root.join("x.h5"), true).unwrap().unwrap(), &bytes);
        file.write_head(b"the head").unwrap();
        file.sync_and_close().unwrap();
        bytes[..8].copy_from_slice(b"the head");
        assert!(store.open(&root.join("x.h5")).unwrap().read_all(1 << 30).unwrap() == bytes, "{len} bytes");
    }
}

#[test]
fn an_object_appears_only_when_it_is_complete() {
    let (dir, names) = empty_bucket();
    let server = Server::new(dir.path());
    let (store, _) = store("s3://bucket", RemoteOptions { part: 5 << 20, ..options(&server, &[]) });
    let path = Path::new("x.tar");
    let bytes = vec![1; 11 << 20];
    drop(written(store.upload(path, false).unwrap().unwrap(), &bytes));
    assert!(names().is_empty() && store.stat(path, true).unwrap_err().is_not_found());
    let (one, two) = (store.upload(path, false).unwrap().unwrap(), store.upload(path, false).unwrap().unwrap());
    let (one, two) = (written(one, &bytes), written(two, &bytes));
    assert!(names().is_empty());
    two.sync_and_close().unwrap();
    one.sync_and_close().unwrap();
    assert_eq!(names(), ["x.tar"]);
    assert!(store.open(path).unwrap().read_all(1 << 30).unwrap() == bytes);
    store.remove(path).unwrap();
    store.remove(path).unwrap();
    assert!(names().is_empty());
}

#[test]
fn a_place_that_takes_no_objects_is_named() {
    let (dir, _) = empty_bucket();
    let server = Server::new(dir.path());
    let refused = |location: &str, others: &[(&str, &str)]| {
        let (store, path) = store(location, options(&server, others));
        store.upload(&path, false).unwrap().unwrap().sync_and_close().unwrap_err()
    };
    let error = refused("s3://bucket/x", &[("AWS_SECRET_ACCESS_KEY", "other")]);
    assert!(error.is_denied() && error.to_string().contains("AWS_SECRET_ACCESS_KEY"), "{error}");
    let (web, path) = store("http://127.0.0.1:9/x", options(&server, &[]));
    assert_eq!(web.upload(&path, false).map(|_| ()).unwrap_err().kind(), Kind::Unsupported);
}

#[test]
fn groups_of_files_are_published_as_objects() {
    let (dir, names) = empty_bucket();
    let server = Server::new(dir.path());
    let stores: Arc<dyn Store> = Arc::new(Stores::new(options(&server, &[])));
    let out = Path::new("s3://bucket");
    let staging = Staging::open(stores.clone(), out).unwrap();
    let group = |text: &str| {
        let mut stage = staging.stage("s-0").unwrap();
        stage.write(".tar", text.as_bytes()).unwrap();
        let mut head = stage.patchable(".h5").unwrap();
        head.write_all(b"....body").unwrap();
        head.finish(b"head").unwrap();
        stage
    };
    let refused = group("one").publish_if(|files| Err(Error::content(format!("{} files", files.len()))));
    assert_eq!(refused.unwrap_err().message(), "2 files");
    assert!(names().is_empty());
    let published = group("two").publish().unwrap();
    assert_eq!(names(), ["s-0.h5", "s-0.tar"]);
    for file in &published {
        let bytes = stores.open(&out.join(&file.name)).unwrap().read_all(1 << 20).unwrap();
        assert_eq!((file.bytes, file.blake3), (bytes.len() as u64, blake3::hash(&bytes)), "{}", file.name);
    }
    staging.document("dataset.json", b"{}").unwrap();
    drop(staging);
    assert!(names().contains(&"dataset.json".to_owned()));
}
