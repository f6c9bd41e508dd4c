//! Inventories: the plan of what a table lists is the plan of what a walk finds.
#![cfg(feature = "remote")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bucket;
    pub(crate) mod inputs;
    pub(crate) mod moto;
    pub(crate) mod process;
}

#[cfg(feature = "s3-tests")]
use common::bucket::InProcess;
use common::bucket::{Files, Server, place};
use common::inputs::{tar, write};
use common::moto::Moto;
use common::process::packhorse;
use packhorse::core::{Kind, Store};
use packhorse::pack::{Depth, Part};
use packhorse::storage::Local;
use packhorse::{Labels, OnError, Recipe, Session};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Samples of two fields in many folders, names that CSV quotes, archives, and what no walk takes.
fn files() -> Files {
    let mut files = Files::new();
    for n in 0..300 {
        let folder = ["cat", "dog, large", "bird \"b\"", "deep/er/fish"][n % 4];
        files.insert(format!("{folder}/{n:03}.jpg"), format!("picture {n}").into());
        files.insert(format!("{folder}/{n:03}.txt"), "t".repeat(n % 7).into());
    }
    files.insert("cat/.hidden/1.jpg".to_owned(), b"hidden".to_vec());
    files.insert("cat/.2.jpg".to_owned(), b"hidden".to_vec());
    files.insert("cat/plus+and%41 space é.jpg".to_owned(), b"odd".to_vec());
    files.insert("cat/more.tar".to_owned(), tar(&["t/1.jpg", "t/1.txt", "t/2.jpg"]));
    files.insert("README".to_owned(), b"no field".to_vec());
    files
}

/// Name, size and time of each file below `root`, not in their order.
fn stats(store: &dyn Store, root: &Path, files: &Files) -> Vec<(String, u64, i64)> {
    let stat = |name: &String| {
        let stat = store.stat(&root.join(name), true).unwrap();
        (name.clone(), stat.size, stat.mtime)
    };
    let mut stats: Vec<_> = files.keys().map(stat).collect();
    stats.sort_by_key(|(name, ..)| name.bytes().rev().collect::<Vec<u8>>());
    stats
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// A time of the years 1970 to 2099 as RFC 3339 has it.
fn date(nanos: i64, digits: usize) -> String {
    let (mut day, seconds) = (nanos / 1_000_000_000 / 86_400, nanos / 1_000_000_000 % 86_400);
    let days = |year: i64| if year % 4 == 0 { 366 } else { 365 };
    let mut year = 1970;
    while day >= days(year) {
        day -= days(year);
        year += 1;
    }
    let mut month = 1;
    for length in [31, days(year) - 337, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        (day, month) = (day - length, month + 1);
    }
    let fraction = &format!("{:09}", nanos % 1_000_000_000)[..digits];
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{fraction}Z", day + 1)
}

/// A table with a line of names, and times in seconds.
fn table(stats: &[(String, u64, i64)]) -> String {
    let mut text = "Name,Content-Length,Last-Modified,Etag\n".to_owned();
    for (name, size, mtime) in stats {
        let (seconds, nanos) = (mtime / 1_000_000_000, mtime % 1_000_000_000);
        writeln!(text, "{},{size},{seconds}.{nanos:09},\"x\"", quoted(name)).unwrap();
    }
    text
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn plan(session: &Session, recipe: &Recipe) -> Vec<u8> {
    let mut bytes = Vec::new();
    session.plan(recipe).unwrap().write(&mut bytes).unwrap();
    bytes
}

/// Folders that a test may change.
fn place_of(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

#[test]
fn tables_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let (files, photos) = (files(), dir.path().join("photos"));
    files.iter().for_each(|(name, bytes)| write(&photos.join(name), bytes));
    let stats = stats(&Local, &photos, &files);
    let walked = Recipe::new(&photos, "webdataset", dir.path().join("out")).labels(Labels::Folders).shuffle(3);
    let session = packhorse::session();
    let wanted = plan(&session, &walked);
    let at = |name: &str| place_of(dir.path(), name);
    write(&at("one.csv"), table(&stats));
    write(&at("one.csv.gz"), gzip(table(&stats).as_bytes()));
    // Absolute paths, and two tables in a folder.
    let absolute = |(name, size, time): &(String, u64, i64)| (photos.join(name).display().to_string(), *size, *time);
    let absolute: Vec<_> = stats.iter().map(absolute).collect();
    write(&at("two/b.csv"), table(&absolute[..200]));
    write(&at("two/a.csv.gz"), gzip(table(&absolute[200..]).as_bytes()));
    write(&at("two/notes.txt"), "no table");
    let dated = stats.iter().map(|(name, size, mtime)| format!("{},{size},{}\n", quoted(name), date(*mtime, 9)));
    write(&at("dated.csv"), format!("key,size,mtime\n{}", dated.collect::<String>()));
    session.pack(&Recipe::new(at("dated.csv"), "parquet", at("one"))).unwrap();
    for name in ["one.csv", "one.csv.gz", "two", "one/shard-000000.parquet"] {
        let recipe = Recipe { inventory: Some(at(name)), ..walked.clone() };
        assert!(plan(&session, &recipe) == wanted, "{name}");
        for parts in [1, 3, 16] {
            for part in 1..=parts {
                session.scan_part(&recipe, Part::new(part, parts).unwrap()).unwrap();
            }
            assert!(plan(&session.clone().from_listings(true), &recipe) == wanted, "{parts} parts of {name}");
            std::fs::remove_dir_all(dir.path().join("out")).unwrap();
        }
    }
    // The dataset lies among its inputs.
    let inside = Recipe { inventory: Some(at("inside.csv")), out: Some(photos.join("cat/out")), ..walked.clone() };
    write(&at("inside.csv"), format!("{}cat/out/old.jpg,1,1,x\n", table(&stats)));
    assert!(plan(&session, &inside) == wanted);
    // Listings are of this inventory.
    let other = Recipe { inventory: Some(at("one.csv")), ..walked.clone() };
    session.scan_part(&other, Part::ALL).unwrap();
    for inventory in [None, Some(at("two"))] {
        let recipe = Recipe { inventory, ..walked.clone() };
        assert_eq!(session.clone().from_listings(true).plan(&recipe).err().unwrap().kind(), Kind::Config);
    }
    std::fs::remove_dir_all(dir.path().join("out")).unwrap();
    // It packs what it lists, and no more.
    let few = Recipe { inventory: Some(at("few.csv")), ..walked };
    write(&at("few.csv"), table(&stats[..40]));
    session.pack(&few).unwrap();
    let found = session.verify(dir.path().join("out"), Depth::Full).unwrap();
    assert!(found.samples < 41 && found.samples > 15, "{}", found.samples);
}

#[test]
fn bad_tables() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    write(&photos.join("a.jpg"), "a");
    let refused = |text: &str, kind: Kind, message: &str| {
        write(&dir.path().join("t.csv"), text);
        let recipe = Recipe::new(&photos, "webdataset", dir.path().join("out"));
        let recipe = Recipe { inventory: Some(dir.path().join("t.csv")), ..recipe };
        let error = packhorse::session().plan(&recipe).err().unwrap();
        assert!(error.kind() == kind && error.to_string().contains(message), "{error:?}");
        assert!(error.to_string().contains("t.csv") || kind == Kind::Environment, "{error}");
    };
    refused("", Kind::Content, "is empty");
    refused("key,size\na.jpg,1\n", Kind::Config, "no column of times; call it lastmodifieddate");
    refused("key,size,mtime\na.jpg,many,1\n", Kind::Content, "the size is \"many\"");
    refused("key,size,mtime\na.jpg,1,1\na.jpg,1,today\n", Kind::Content, "the time is \"today\"");
    refused("key,size,mtime\na.jpg,1\n", Kind::Content, "can't be read as CSV");
    refused("key,size,mtime\n/elsewhere/a.jpg,1,1\n", Kind::Config, "1 below no INPUT");
    refused("key,size,mtime\ncat//a.jpg,1,1\n", Kind::Content, "a part between slashes that is empty");
    refused("key,size,mtime\n../photos/a.jpg,1,1\n", Kind::Content, "row 1 of");
    // Its samples are those of its shards, not its files.
    let sealed = Recipe::new(&photos, "webdataset", photos.join("shards"));
    packhorse::session().pack(&sealed).unwrap();
    refused("key,size,mtime\nshards/dataset.json,1,1\n", Kind::Config, "is a sealed dataset");
    // A file of another size or time is noticed when it is read.
    write(&dir.path().join("t.csv"), "key,size,mtime\na.jpg,7,1\n");
    let recipe = Recipe::new(&photos, "webdataset", dir.path().join("out"));
    let recipe = Recipe { inventory: Some(dir.path().join("t.csv")), ..recipe };
    assert_eq!(packhorse::session().pack(&recipe).unwrap_err().kind(), Kind::Changed);
    // Bad rows are skipped, and no others; the rest of a table that is cut off is unknown.
    write(&photos.join("b.jpg"), "b");
    let rows = "key,size,mtime\na.jpg,many,1\n../c.jpg,1,1\ncat//a.jpg,1,1\nb.jpg,1,1\nelsewhere\"b.jpg,1,1\n";
    write(&dir.path().join("t.csv"), rows);
    let skipping = Recipe { on_error: OnError::Skip, exclude: vec!["else*".to_owned()], ..recipe.clone() };
    let plan = packhorse::session().plan(&skipping).unwrap();
    assert_eq!((plan.samples(), plan.skipped().len()), (Some(1), 3));
    let whole = gzip(table(&[("b.jpg".to_owned(), 1, 1)]).repeat(500).as_bytes());
    write(&dir.path().join("t.csv.gz"), &whole[..whole.len() - 9]);
    let cut = Recipe { inventory: Some(dir.path().join("t.csv.gz")), ..skipping };
    assert!(packhorse::session().plan(&cut).is_err());
    // A quote that nothing closes takes no memory.
    let open = format!("key,size,mtime\n\"a.jpg,1,1\n{}", "b.jpg,1,1\n".repeat(4 << 20));
    refused(&open, Kind::Limit, "is there a quote never closed?");
    // Without an input keys are relative to nothing.
    let recipe = Recipe { input: Vec::new(), files_from: None, ..recipe };
    assert_eq!(packhorse::session().plan(&recipe).err().unwrap().kind(), Kind::Config);
}

/// S3 Inventory of a bucket: all of it, older versions and what was deleted among it, in several files.
fn of_a_bucket(server: &dyn Server) {
    let dir = tempfile::tempdir().unwrap();
    let files = files();
    server.fill("photos", &files);
    server.fill("other", &Files::from([("1.jpg".to_owned(), b"outside".to_vec())]));
    let stores = Arc::new(server.stores());
    let session = packhorse::session().store(stores.clone());
    let walked = Recipe::new(place("photos"), "webdataset", dir.path().join("out")).labels(Labels::Folders);
    let walked = Recipe { on_error: OnError::Skip, ..walked };
    let wanted = plan(&session, &walked);
    let encoded = |key: &str| {
        key.bytes().fold(String::new(), |mut text, byte| {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => text.push(byte.into()),
                b' ' => text.push('+'),
                _ => write!(text, "%{byte:02X}").unwrap(),
            }
            text
        })
    };
    let mut rows: Vec<String> = Vec::new();
    for (name, size, mtime) in stats(&*stores, &place("photos"), &files) {
        let (key, date) = (encoded(&format!("photos/{name}")), date(mtime, 3));
        rows.push(format!("\"bucket\",\"{key}\",\"v2\",\"true\",\"false\",\"{size}\",\"{date}\""));
        rows.push(format!("\"bucket\",\"{key}\",\"v1\",\"false\",\"false\",\"12345\",\"{date}\""));
    }
    rows.push("\"bucket\",\"photos/gone.jpg\",\"v3\",\"true\",\"true\",\"\",\"2024-01-01T00:00:00.000Z\"".to_owned());
    rows.push("\"bucket\",\"photos/cat/\",\"v3\",\"true\",\"false\",\"0\",\"2024-01-01T00:00:00.000Z\"".to_owned());
    rows.push("\"bucket\",\"other/1.jpg\",\"v3\",\"true\",\"false\",\"7\",\"2024-01-01T00:00:00.000Z\"".to_owned());
    // The same in Parquet, whose keys are plain.
    let plain = rows.iter().map(|row| row.replace('+', " ").replace("%2B", "+").replace("%25", "%"));
    let plain: Vec<String> =
        plain.map(|row| row.replace("%20", " ").replace("%2C", ",").replace("%C3%A9", "é")).collect();
    let plain = plain.join("\n").replace("%22", "\"\"");
    let names = "bucket,key,version_id,is_latest,is_delete_marker,size,last_modified_date";
    write(&dir.path().join("plain.csv"), format!("{names}\n{plain}\n"));
    packhorse::session().pack(&Recipe::new(dir.path().join("plain.csv"), "parquet", dir.path().join("plain"))).unwrap();
    let data: Vec<_> = rows.chunks(250).map(|rows| gzip(rows.join("\n").as_bytes())).collect();
    let names: Vec<_> = (0..data.len()).map(|n| format!("bucket/daily/data/{n:02}.csv.gz")).collect();
    let keys: Vec<_> = names.iter().map(|name| format!("{{\"key\": \"inventory/{name}\", \"size\": 1}}")).collect();
    let manifest = format!(
        "{{\"sourceBucket\": \"bucket\", \"destinationBucket\": \"arn:aws:s3:::bucket\", \"version\": \"2016-11-30\", \
         \"creationTimestamp\": \"1\", \"fileFormat\": \"CSV\", \"fileSchema\": \
         \"Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate\", \"files\": [{}]}}",
        keys.join(", ")
    );
    let mut inventory: Files = names.iter().cloned().zip(data).collect();
    inventory.insert("bucket/daily/2024-01-01T00-00Z/manifest.json".to_owned(), manifest.into_bytes());
    server.fill("inventory", &inventory);
    // In the bucket, and a copy of it in a folder.
    inventory.iter().for_each(|(name, bytes)| write(&dir.path().join("copied").join(name), bytes));
    let name = "bucket/daily/2024-01-01T00-00Z/manifest.json";
    for path in [place("inventory").join(name), dir.path().join("copied").join(name)] {
        let recipe = Recipe { inventory: Some(path.clone()), ..walked.clone() };
        assert!(plan(&session, &recipe) == wanted, "{}", path.display());
        for part in 1..=3 {
            session.scan_part(&recipe, Part::new(part, 3).unwrap()).unwrap();
        }
        assert!(plan(&session.clone().from_listings(true), &recipe) == wanted, "parts of {}", path.display());
        std::fs::remove_dir_all(dir.path().join("out")).unwrap();
    }
    let parquet = dir.path().join("plain/shard-000000.parquet");
    assert!(plan(&session, &Recipe { inventory: Some(parquet), ..walked.clone() }) == wanted);
    let recipe = Recipe { inventory: Some(place("inventory").join(name)), ..walked };
    session.pack(&recipe).unwrap();
    assert_eq!(session.verify(dir.path().join("out"), Depth::Full).unwrap().samples, 303);
}

#[test]
fn s3_inventory() {
    #[cfg(feature = "s3-tests")]
    of_a_bucket(&InProcess::new());
    if let Some(moto) = Moto::new() {
        of_a_bucket(&moto);
    }
}

#[test]
fn the_command_takes_it() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("in/a.jpg"), "a");
    let stat = Local.stat(&dir.path().join("in/a.jpg"), true).unwrap();
    write(&dir.path().join("t.csv"), table(&[("a.jpg".to_owned(), 1, stat.mtime)]));
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (files, table, out) = (at("in"), at("t.csv"), at("out"));
    let pack = ["pack", &files, "--inventory", &table, "--to", "webdataset", "--out", &out];
    packhorse(&pack).succeed();
    let both = [&pack[..], &["--files-from", &table]].concat();
    assert_eq!(packhorse(&both).run().status.code(), Some(2));
}

/// As `find -printf '%p,%s,%Ts'` lists files: absolute paths, and times in whole seconds.
#[test]
fn times_may_be_of_whole_seconds_and_paths_absolute() {
    let dir = tempfile::tempdir().unwrap();
    let root = std::fs::canonicalize(dir.path()).unwrap();
    write(&root.join("in/a.jpg"), "a");
    let stat = Local.stat(&root.join("in/a.jpg"), true).unwrap();
    for (at, step) in [1_000_000_000, 1_000_000, 1000, 1].into_iter().enumerate() {
        let name = root.join("in/a.jpg").display().to_string();
        write(&root.join("t.csv"), table(&[(name, 1, stat.mtime - stat.mtime % step)]));
        let out = format!("out{at}");
        let pack = ["pack", "in", "--inventory", "t.csv", "--to", "webdataset", "--out", &out];
        let mut pack = packhorse(&pack);
        pack.0.current_dir(&root);
        pack.succeed();
    }
}
