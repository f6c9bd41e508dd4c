//! Scans in parts: the plan of their listings is the one that a single process makes. `PACKHORSE_KILLS` is the number of
//! kills at random moments (10 where it is not set).

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod inputs;
    pub(crate) mod process;
}

use common::inputs::{tar, write};
use common::process::packhorse;
use packhorse::core::{Error, Kind, SplitMix64, Store};
use packhorse::dataset::{LISTINGS, listing_name};
use packhorse::pack::{Depth, Part};
use packhorse::storage::Local;
use packhorse::{OnError, Recipe, Session};
use packhorse_testkit::faults::{CallKind, FailingStore, StoreFault};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A folder with more subfolders than two parts list together, files at every depth, and much that is not a sample.
fn photos(dir: &Path) -> PathBuf {
    let photos = dir.join("photos");
    for n in 0..220 {
        let day = photos.join(format!("{}/day{n:03}", ["a", "b c", "b%c"][n % 3]));
        for picture in 0..n % 4 {
            write(&day.join(format!("{picture}.jpg")), format!("picture {n} {picture}"));
            write(&day.join(format!("{picture}.cls")), "1");
        }
        write(&day.join(".hidden"), "");
    }
    for name in ["top.jpg", "README", "notes.tmp", ".hidden.jpg", "a/flat1.jpg", "a/flat2.jpg", "a/deep/er/est/x.jpg"] {
        write(&photos.join(name), name);
    }
    write(&photos.join(OsStr::from_bytes(b"a/odd\xff.jpg")), "odd");
    write(&photos.join("b c/more.tar"), tar(&["t/1.jpg", "t/1.cls", "t/2.jpg", "2.jpg", ".x.jpg"]));
    write(&photos.join("top.tar"), tar(&["top.cls", "other.jpg"]));
    std::fs::create_dir(photos.join("empty")).unwrap();
    std::os::unix::fs::symlink(dir.join("photos"), photos.join("a/loop")).unwrap();
    std::os::unix::fs::symlink(photos.join("a/deep"), photos.join("linked")).unwrap();
    std::os::unix::fs::symlink(photos.join("nowhere"), photos.join("broken.jpg")).unwrap();
    photos
}

/// The bytes of the plan of `recipe`, made by one process of the inputs.
fn plan(session: &Session, recipe: &Recipe) -> Vec<u8> {
    let mut bytes = Vec::new();
    session.plan(recipe).unwrap().write(&mut bytes).unwrap();
    bytes
}

fn scan_all(session: &Session, recipe: &Recipe, parts: u32) {
    // Not in their order.
    let first = |part: u32| (part * 7 + 3) % parts + 1;
    let mut order: Vec<u32> = (1..=parts).collect();
    order.sort_by_key(|part| first(*part));
    for part in order {
        session.scan_part(recipe, Part::new(part, parts).unwrap()).unwrap();
    }
}

/// Checks that listings of 1, 3 and 64 parts give the plan of `recipe`, whose folder is not there yet.
fn same_from_parts(recipe: &Recipe) {
    let session = packhorse::session();
    let wanted = plan(&session, recipe);
    for parts in [1, 3, 64] {
        scan_all(&session, recipe, parts);
        let found = plan(&session.clone().from_listings(true), recipe);
        assert!(found == wanted, "{parts} parts of {:?}", recipe.input);
        std::fs::remove_dir_all(recipe.out.as_ref().unwrap()).unwrap();
    }
}

#[test]
fn folders_archives_and_links() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Recipe::new(photos(dir.path()), "webdataset", dir.path().join("out"));
    let recipe = Recipe { exclude: vec!["*.tmp".to_owned()], on_error: OnError::Skip, ..recipe };
    same_from_parts(&recipe);
    let exclude = vec!["*.tmp".to_owned(), "*.cls".to_owned(), "*.tar".to_owned()];
    same_from_parts(&Recipe { exclude, labels: Some("folders".parse().unwrap()), ..recipe.clone().shuffle(7) });
    // The dataset lies among its inputs.
    same_from_parts(&Recipe { out: Some(dir.path().join("photos/a/out")), ..recipe });
}

#[test]
fn lists_of_files_and_single_ones() {
    let dir = tempfile::tempdir().unwrap();
    let photos = photos(dir.path());
    let list = dir.path().join("list");
    std::fs::write(&list, "a/flat1.jpg\ntop.jpg\ntop.tar\nb c/day001/0.jpg\nb c/day001/0.cls\nmissing.jpg\n").unwrap();
    let recipe = Recipe::new(&photos, "webdataset", dir.path().join("out"));
    let recipe = Recipe { on_error: OnError::Skip, ..recipe };
    same_from_parts(&Recipe { files_from: Some(list), ..recipe.clone() });
    let input = [photos.join("top.tar"), photos.join("b c"), photos.join("a/flat2.jpg")].into();
    same_from_parts(&Recipe { input, ..recipe });
}

#[test]
fn tables_text_datasets_and_views() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for n in 0..9 {
        write(&at(&format!("tables/{n}.csv")), format!("x,y\n{n},a\n{n},b\n"));
        let lines: String = (0..50 * n + 1).map(|line| format!("{{\"text\": \"document {line}\"}}\n")).collect();
        write(&at(&format!("text/{n}.jsonl")), &lines);
        write(&at(&format!("text/{n}c.jsonl.zst")), zstd::encode_all(lines.as_bytes(), 1).unwrap());
    }
    write(&at("tables/broken.parquet"), "PAR1, but nothing else");
    let skipping = |recipe: Recipe| Recipe { on_error: OnError::Skip, ..recipe };
    same_from_parts(&skipping(Recipe::new(at("tables"), "parquet", at("out"))));
    same_from_parts(&Recipe::new(at("text"), "parquet", at("out")));
    // Counted, and in another order.
    let shares = "train=0.8,val=0.2".parse().unwrap();
    same_from_parts(&Recipe { limit: Some(30), ..Recipe::new(at("text"), "parquet", at("out")) });
    let plain = Recipe { exclude: vec!["*.zst".to_owned()], ..Recipe::new(at("text"), "parquet", at("out")) };
    same_from_parts(&Recipe { split: shares, ..plain.shuffle(3) });

    for n in 0..90 {
        write(&at(&format!("sets/{}/{n:02}.jpg", if n % 3 == 0 { "val" } else { "train" })), format!("picture {n}"));
    }
    let shards = Recipe { split: "folders".parse().unwrap(), ..Recipe::new(at("sets"), "webdataset", at("shards")) };
    packhorse::session().pack(&Recipe { samples_per_shard: Some(20), ..shards }).unwrap();
    same_from_parts(&skipping(Recipe::new(at("shards"), "hdf5", at("out"))));
    packhorse(&["view", at("shards").to_str().unwrap(), "--split", "val", "--out", at("view").to_str().unwrap()])
        .succeed();
    same_from_parts(&skipping(Recipe::new(at("view"), "parquet", at("out"))));
    let of_one = std::fs::read_dir(at("shards")).unwrap().map(|entry| entry.unwrap().path());
    let input: Vec<PathBuf> = of_one.filter(|path| path.extension() == Some(OsStr::new("tar"))).take(3).collect();
    same_from_parts(&skipping(Recipe { input, ..Recipe::new("", "webdataset", at("out")) }));
}

/// NumPy's format 1.0 of one array of float32.
fn npy(shape: &[usize]) -> Vec<u8> {
    let dims: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({dims}), }}");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + shape.iter().product::<usize>() * 4, 1);
    bytes
}

#[test]
fn parts_look_at_arrays_and_the_plan_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for n in 0..300 {
        write(&at(&format!("in/{}/{n}.x.npy", n % 7)), npy(&[2, 3]));
        write(&at(&format!("in/{}/{n}.y.npy", n % 7)), npy(&[n % 5 + 1]));
    }
    write(&at("in/broken.x.npy"), "no array");
    let recipe = Recipe { on_error: OnError::Skip, ..Recipe::new(at("in"), "hdf5", at("out")) };
    same_from_parts(&Recipe { ragged: true, ..recipe.clone() });
    same_from_parts(&recipe);
    same_from_parts(&Recipe { to: Some("webdataset".to_owned()), ..recipe.clone() });
    scan_all(&packhorse::session(), &recipe, 3);
    let opened = FailingStore::new(
        Arc::new(Local),
        |call| call.kind == CallKind::Open && call.path.extension() == Some(OsStr::new("npy")),
        StoreFault::Meanwhile(Box::new(|| ())),
    );
    let session = packhorse::session().store(Arc::new(opened.clone())).from_listings(true);
    assert!(session.plan(&recipe).unwrap().samples().unwrap() > 50);
    let names: Vec<PathBuf> = opened.hit().into_iter().map(|(_, path)| path).collect();
    assert!(names.iter().all(|name| name.ends_with("broken.x.npy")), "{names:?}");
    // Columns are named after fields, and these end elsewhere now.
    let other = Recipe { key_ends: "last-dot".parse().unwrap(), ..recipe };
    assert!(refused(&other).to_string().contains("other settings for arrays (`key-ends`"), "{}", refused(&other));
}

#[test]
fn the_dataset_is_that_of_one_process_and_listings_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let photos = photos(dir.path());
    let recipe =
        |out: &str| Recipe { on_error: OnError::Skip, ..Recipe::new(&photos, "webdataset", at(out)).shuffle(1) };
    let session = packhorse::session();
    let one = session.pack(&recipe("one")).unwrap();
    scan_all(&session, &recipe("two"), 3);
    assert!(at("two").join(LISTINGS).is_dir());
    let two = session.clone().from_listings(true).pack(&recipe("two")).unwrap();
    assert_eq!(one.manifest, two.manifest);
    assert!(!at("two").join(LISTINGS).exists());
    // Over a dataset that stays until the new one is sealed.
    let other = recipe("two").shuffle(2);
    scan_all(&session, &other, 2);
    assert_eq!(session.verify(at("two"), Depth::Full).unwrap().damages, []);
    session.clone().from_listings(true).replacing(true).pack(&other).unwrap();
    assert!(!at("two").join(LISTINGS).exists());
    assert_eq!(session.status(at("two")).unwrap().damages, []);
}

#[test]
fn new_samples_are_listed_in_parts_too() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for n in 0..40 {
        write(&at(&format!("{}/{n}.jpg", if n < 30 { "old" } else { "new" })), format!("picture {n}"));
    }
    let session = packhorse::session();
    let more = Recipe::new(at("new"), "webdataset", at("out"));
    let roots = [false, true].map(|listed| {
        session.pack(&Recipe::new(at("old"), "webdataset", at("out"))).unwrap();
        if listed {
            scan_all(&session, &more, 3);
        }
        let root = session.clone().from_listings(listed).append(at("out"), &more).unwrap().manifest.root;
        assert!(!at("out").join(LISTINGS).exists());
        std::fs::remove_dir_all(at("out")).unwrap();
        root
    });
    assert_eq!(roots[0], roots[1]);
}

fn refused(recipe: &Recipe) -> Error {
    packhorse::session().from_listings(true).plan(recipe).map(drop).unwrap_err()
}

#[test]
fn listings_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let photos = photos(dir.path());
    let recipe = Recipe { on_error: OnError::Skip, ..Recipe::new(&photos, "webdataset", at("out")) };
    let session = packhorse::session();
    assert!(refused(&recipe).to_string().contains("holds no listing; `packhorse scan` makes them"));
    let part = |recipe: &Recipe, index, count| session.scan_part(recipe, Part::new(index, count).unwrap()).unwrap();
    part(&recipe, 1, 4);
    part(&recipe, 3, 4);
    let missing = refused(&recipe);
    assert_eq!(missing.kind(), Kind::Incomplete);
    assert!(missing.to_string().contains("lacks the listings of 2/4, 4/4"), "{missing}");
    let status = session.status(at("out")).unwrap_err().to_string();
    assert!(status.contains("2 of 4 parts of the inputs are listed"), "{status}");
    // Listings of another number of parts are those of another scan.
    part(&recipe, 1, 1);
    let several = refused(&recipe).to_string();
    assert!(several.contains("several scans (1 of 1 in *-of-1.jsonl.zst, 2 of 4 in *-of-4.jsonl.zst)"), "{several}");
    std::fs::remove_file(at("out").join(listing_name(1, 1))).unwrap();
    part(&recipe, 2, 4);
    assert_eq!(part(&recipe, 4, 4).listed, 4);
    plan(&session.clone().from_listings(true), &recipe);

    let other = Recipe { exclude: vec!["*.tmp".to_owned()], ..recipe.clone() };
    assert!(refused(&other).to_string().contains("`exclude`: not given there, *.tmp now"), "{}", refused(&other));
    let other = Recipe { input: vec![photos.join("a")], ..recipe.clone() };
    assert!(refused(&other).to_string().contains("was made of"), "{}", refused(&other));
    // Nor is a list of splits an input.
    std::fs::write(at("names"), "top\n").unwrap();
    let lists = format!("lists:train={}", at("names").display());
    let other = Recipe { split: lists.parse().unwrap(), ..recipe.clone() };
    assert!(refused(&other).to_string().contains("`split`: not given there, lists:train="), "{}", refused(&other));
    // What the walk does not ask for may differ.
    plan(&session.clone().from_listings(true), &Recipe { samples_per_shard: Some(3), ..recipe.clone().shuffle(4) });

    // A folder with other files is refused before the work, not after it.
    write(&at("taken/eel"), "");
    let taken = session.scan_part(&Recipe { out: Some(at("taken")), ..recipe.clone() }, Part::ALL).unwrap_err();
    assert!(taken.to_string().contains("is not empty (it holds eel)"), "{taken}");
    let missing = Recipe { input: vec![at("nothing")], out: Some(at("none")), ..recipe.clone() };
    assert!(session.scan_part(&missing, Part::ALL).is_err() && !at("none").exists());

    // A new upper folder changes how the rest is shared, and so do fewer.
    std::fs::create_dir(photos.join("a/new")).unwrap();
    part(&recipe, 2, 4);
    let changed = refused(&recipe).to_string();
    assert!(changed.contains("was made of other inputs than") && changed.contains("scan all parts again"));
    std::fs::remove_dir(photos.join("a/new")).unwrap();
    part(&recipe, 2, 4);
    plan(&session.clone().from_listings(true), &recipe);
    let listing = at("out").join(listing_name(3, 4));
    let mut bytes = std::fs::read(&listing).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&listing, bytes).unwrap();
    let damaged = refused(&recipe);
    assert!(damaged.input().unwrap().ends_with("3-of-4.jsonl.zst"), "{damaged}");
}

#[test]
fn settings_for_text_matter_where_there_is_text() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    (0..3).for_each(|n| write(&at(&format!("text/{n}.jsonl")), "{\"text\": \"a\"}\n{\"text\": \"b\"}\n"));
    let recipe = Recipe::new(at("text"), "parquet", at("out"));
    let session = packhorse::session();
    scan_all(&session, &recipe, 2);
    plan(&session.clone().from_listings(true), &recipe);
    let counting = refused(&Recipe { limit: Some(1), ..recipe.clone() }).to_string();
    assert!(counting.contains("other settings for text (`samples`: not counted there, counted now)"), "{counting}");
    // Bad inputs fail a part as they fail a plan, and are not forgotten.
    write(&at("text/bad.parquet"), "PAR1, but nothing else");
    let failed: Vec<Error> =
        (1..=2).filter_map(|part| session.scan_part(&recipe, Part::new(part, 2).unwrap()).err()).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].input().unwrap().ends_with("bad.parquet"), "{failed:?}");
}

/// Parts that see other inputs than the rest do not share them, whatever each of them finds.
#[test]
fn parts_of_other_inputs_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let session = packhorse::session();
    let part =
        |session: &Session, recipe: &Recipe, index| session.scan_part(recipe, Part::new(index, 2).unwrap()).unwrap();
    let both = |recipe: &Recipe| {
        part(&session, recipe, 1);
        part(&session, recipe, 2);
        plan(&session.clone().from_listings(true), recipe);
    };
    // A folder that one node can't read: to it the folder is a bad input of another part, or empty.
    let photos = photos(dir.path());
    let recipe = Recipe { on_error: OnError::Skip, ..Recipe::new(&photos, "webdataset", at("out")) };
    for errno in [nix::libc::EACCES, nix::libc::ENOENT] {
        for folder in ["", "a"] {
            let closed = photos.join(folder);
            let store = FailingStore::new(
                Arc::new(Local),
                move |call| call.kind == CallKind::List && call.path == closed,
                StoreFault::Errno(errno),
            );
            for blind in [1, 2] {
                both(&recipe);
                part(&packhorse::session().store(Arc::new(store.clone())), &recipe, blind);
                let refused = refused(&recipe).to_string();
                assert!(refused.contains("was made of other inputs than"), "{folder}: {refused}");
            }
        }
    }
    // A list of files that is another one for one part.
    let list = at("list");
    let listed = Recipe { files_from: Some(list.clone()), out: Some(at("listed")), ..recipe.clone() };
    std::fs::write(&list, "top.jpg\na/flat1.jpg\n").unwrap();
    both(&listed);
    std::fs::write(&list, "top.jpg\na/flat1.jpg\na/flat2.jpg\n").unwrap();
    part(&session, &listed, 2);
    assert!(refused(&listed).to_string().contains("a list of files"), "{}", refused(&listed));
    // Other inputs below the same root, and another view of the same dataset.
    let one = Recipe { input: vec![photos.join("top.tar")], out: Some(at("single")), ..recipe.clone() };
    both(&one);
    let more = Recipe { input: vec![photos.join("top.tar"), photos.join("top.jpg")], ..one.clone() };
    let other = refused(&more).to_string();
    assert!(other.contains("was made of other inputs, or of a view that is another one now"), "{other}");
    let shards = Recipe { samples_per_shard: Some(20), out: Some(at("shards")), ..recipe.clone() };
    session.pack(&shards).unwrap();
    let view = |seed| {
        let _ = std::fs::remove_dir_all(at("view"));
        let fold = packhorse::open(at("shards").to_str().unwrap()).unwrap().without_fold(1, 5, seed).unwrap();
        fold.write_view(at("view")).unwrap();
    };
    view(7);
    let of_view = Recipe { out: Some(at("of-view")), ..Recipe::new(at("view"), "webdataset", "") };
    both(&of_view);
    view(8);
    assert!(refused(&of_view).to_string().contains("a view that is another one now"), "{}", refused(&of_view));
    // An archive that was not read to its end: whether it is damaged is not known.
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::copy(&mut &std::fs::read(photos.join("top.tar")).unwrap()[..], &mut gz).unwrap();
    std::fs::create_dir(at("zipped")).unwrap();
    std::fs::write(at("zipped").join("top.tar.gz"), gz.finish().unwrap()).unwrap();
    let zipped = Recipe::new(at("zipped"), "webdataset", at("of-zipped"));
    both(&zipped);
    let skipping = Recipe { on_error: OnError::Skip, ..zipped.clone() };
    let other = refused(&skipping).to_string();
    assert!(other.contains("other settings for compressed archives (`on-error`: fail there, skip now)"), "{other}");
    both(&skipping);
    assert!(plan(&session.clone().from_listings(true), &zipped) == plan(&session, &zipped));
    // A listing under the name of another part.
    both(&recipe);
    std::fs::copy(at("out").join(listing_name(1, 2)), at("out").join(listing_name(2, 2))).unwrap();
    assert!(refused(&recipe).to_string().contains("is the listing of part 1/2"), "{}", refused(&recipe));
}

/// A failing call fails the part, or changes nothing: no input is lost in silence.
#[test]
fn failing_calls_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let photos = photos(dir.path());
    let recipe = Recipe { on_error: OnError::Skip, ..Recipe::new(&photos, "webdataset", dir.path().join("out")) };
    let wanted = plan(&packhorse::session(), &recipe);
    let counting = FailingStore::counting(Arc::new(Local));
    let of = |store: FailingStore| packhorse::session().store(Arc::new(store)).io_threads(1);
    let part = |n| Part::new(n, 3).unwrap();
    of(counting.clone()).scan_part(&recipe, part(1)).unwrap();
    scan_all(&packhorse::session(), &recipe, 3);
    let (mut failed, step) = (0, (counting.calls() / 60).max(1));
    for number in (0..counting.calls()).step_by(step as usize) {
        let store =
            FailingStore::new(Arc::new(Local), move |call| call.number == number, StoreFault::Errno(nix::libc::EIO));
        if of(store).scan_part(&recipe, part(1)).is_err() {
            failed += 1;
            // The listing of the scan before is gone too, unless the failure came before it began.
            let there = dir.path().join("out").join(listing_name(1, 3)).exists();
            assert!(there || refused(&recipe).to_string().contains("lacks the listings of 1/3"), "call {number}");
            packhorse::session().scan_part(&recipe, part(1)).unwrap();
        }
        let found = plan(&packhorse::session().from_listings(true), &recipe);
        assert!(found == wanted, "call {number}");
    }
    assert!(failed > 50, "{failed}");
}

#[test]
fn killed_parts_are_scanned_again() {
    let dir = tempfile::tempdir().unwrap();
    let (photos, out) = (photos(dir.path()), dir.path().join("out"));
    let recipe = Recipe { on_error: OnError::Skip, ..Recipe::new(&photos, "webdataset", &out) };
    let wanted = plan(&packhorse::session(), &recipe);
    let kills = std::env::var("PACKHORSE_KILLS").map_or(10, |kills| kills.parse().unwrap());
    let (mut random, mut killed) = (SplitMix64::new(5), 0);
    let words = [photos.to_str().unwrap(), "--to", "webdataset", "--out", out.to_str().unwrap()];
    let scan = |part: &str| packhorse(&[&["scan"], &words[..], &["--on-error", "skip", "--part", part]].concat());
    for round in 0..kills {
        let part = format!("{}/3", round % 3 + 1);
        let mut running = scan(&part).start();
        if !running.ends_within(Duration::from_micros(random.below(30_000))) {
            running.kill();
            killed += 1;
        }
        running.end();
    }
    for part in ["2/3", "3/3", "1/3"] {
        scan(part).succeed();
    }
    let found = plan(&packhorse::session().from_listings(true), &recipe);
    assert!(found == wanted, "after {killed} kills");
    let left: Vec<PathBuf> = Local.list(&out).unwrap();
    assert_eq!(left, [Path::new(LISTINGS)], "what killed processes left");
}

#[test]
fn a_part_comes_from_the_scheduler() {
    let dir = tempfile::tempdir().unwrap();
    photos(dir.path());
    let words = ["photos", "--to", "webdataset", "--out", "out", "--on-error", "skip"];
    let task = |verb: &str, more: &[&str]| {
        let mut program = packhorse(&[&[verb], &words[..], more].concat());
        program.0.current_dir(dir.path());
        program
    };
    for number in ["1", "2"] {
        let mut scan = task("scan", &["--json"]);
        for (name, value) in [("ID", number), ("MIN", "1"), ("MAX", "2"), ("STEP", "1"), ("COUNT", "2")] {
            scan.0.env(format!("SLURM_ARRAY_TASK_{name}"), value);
        }
        let said: serde_json::Value = serde_json::from_str(&scan.succeed().printed).unwrap();
        assert_eq!(said["part"], format!("{number}/2"));
        assert!(said["inputs"].as_u64().unwrap() > 100, "{said}");
    }
    task("plan", &["--from-listings"]).succeed();
    let one = packhorse::session()
        .plan(&Recipe { on_error: OnError::Skip, ..Recipe::new(dir.path().join("photos"), "webdataset", "x") });
    assert_eq!(packhorse::session().status(dir.path().join("out")).unwrap().samples, one.unwrap().samples());
}
