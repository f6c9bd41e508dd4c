//! Plans of more inputs than fit memory: with a small bound their bytes are those of a plan that is made in memory, and the messages
//! are the same.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

mod common {
    pub(crate) mod inputs;
}

use common::inputs::{tar, write};
use packhorse::core::{Cancel, Event, Kind, Observer, SplitMix64};
use packhorse::pack::{Depth, LongKeys, Part, Plan, SplitBy, Splits};
use packhorse::{Labels, OnError, Recipe, Session, Shuffle};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Samples of one field and of several, in folders, archives and at the top; names that are escaped, too long, empty files, and inputs that
/// are there twice.
fn photos(dir: &Path) -> PathBuf {
    let photos = dir.join("photos");
    let mut random = SplitMix64::new(3);
    for n in 0..300 {
        let folder = photos.join(["train/cat", "train/a b", "val/cat", "val/b%c", "val/deep/er"][n % 5]);
        write(&folder.join(format!("{n:04}.jpg")), vec![7; random.below(900) as usize]);
        if n % 3 > 0 {
            write(&folder.join(format!("{n:04}.txt")), format!("{n}"));
        }
    }
    write(&photos.join("train/more.tar"), tar(&["x/1.jpg", "x/1.txt", "x/2.jpg", "__3.jpg", "x/long.jpg"]));
    write(&photos.join("val/cat/odd.JPG"), "odd");
    write(&photos.join("val").join(OsStr::from_bytes(b"odd\xff.jpg")), "odd");
    write(&photos.join(format!("val/cat/{}.jpg", "l".repeat(200))), "long");
    write(&photos.join("val/cat/archive.zip"), "zip");
    write(&photos.join("val/cat/v.1.jpg"), "one of two pictures");
    write(&photos.join("val/cat/v.2.jpg"), "that are one sample");
    photos
}

/// The messages while a plan is made, and whether pictures that may be samples of their own are told of.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>, bool);

impl Observer for Told {
    fn event(&self, event: &Event<'_>) {
        let text = match event {
            // Seen on disk where it is among the first samples.
            Event::Warning(text) if text.contains("several files of one kind") && !self.1 => return,
            Event::Warning(text) => (*text).to_owned(),
            Event::Skipped(error) => error.to_string(),
            _ => return,
        };
        // Examples are told of plans in memory only.
        let ends =
            [", such as ", " (and ", "; readers"].map(|end| text.find(end).filter(|_| text.starts_with("only ")));
        let text = text[..ends.into_iter().flatten().min().unwrap_or(text.len())].to_owned();
        self.0.lock().unwrap().push(text);
    }
}

/// A plan, its bytes, and what was told.
fn planned(session: &Session, recipe: &Recipe) -> Result<(Plan, Vec<u8>, Vec<String>), String> {
    let told = Told::default();
    let plan = session.clone().observe(told.clone()).plan(recipe).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    let digests = plan.write(&mut bytes).unwrap();
    assert_eq!(plan.write(std::io::sink()).unwrap(), digests, "again");
    let mut told = std::mem::take(&mut *told.0.lock().unwrap());
    told.sort();
    Ok((plan, bytes, told))
}

/// Checks that the plan of `recipe` is the same in memory and on disk, whatever fits memory.
fn same(recipe: &Recipe) -> Option<Vec<u8>> {
    let mut last = None;
    for many in [0, 1, 7, 40, 250] {
        let session = |spills| packhorse::session().many_inputs(many, spills);
        let (wanted, found) = (planned(&session(false), recipe), planned(&session(true), recipe));
        let (wanted, found) = match (wanted, found) {
            (Ok(wanted), Ok(found)) => (wanted, found),
            (wanted, found) => {
                assert_eq!(found.map(drop), wanted.map(drop), "{many} of {recipe:?}");
                return None;
            }
        };
        assert!(found.1 == wanted.1, "{many} of {recipe:?}");
        assert_eq!(found.2, wanted.2, "{many} of {recipe:?}");
        let facts = |plan: &Plan| {
            let shards: Vec<_> =
                plan.shards().map(|(name, split, n)| (name.to_owned(), split.map(str::to_owned), n)).collect();
            let skipped: Vec<_> = plan.skipped().iter().map(|skip| skip.reason.clone()).collect();
            (shards, plan.samples(), plan.bytes(), plan.class_counts(), skipped, plan.header().clone())
        };
        assert_eq!(facts(&found.0), facts(&wanted.0), "{many} of {recipe:?}");
        last = Some(wanted.1);
    }
    last
}

fn recipe(dir: &Path) -> Recipe {
    let recipe = Recipe::new(photos(dir), "webdataset", dir.join("out"));
    Recipe { exclude: vec!["*.zip".to_owned()], on_error: OnError::Skip, ..recipe }
}

#[test]
fn plans_do_not_depend_on_what_fits_memory() {
    let dir = tempfile::tempdir().unwrap();
    let plain = recipe(dir.path());
    let mut all = Vec::new();
    for shuffle in [Shuffle::No, Shuffle::Global { seed: 7 }, Shuffle::Global { seed: 8 }] {
        let plain = Recipe { shuffle, ..plain.clone() };
        let labels = |labels| Recipe { labels: Some(labels), ..plain.clone() };
        all.extend([
            plain.clone(),
            plain.clone().shard_size(20_000),
            Recipe { shard_count: Some(7), limit: Some(123), ..plain.clone() },
            Recipe { samples_per_shard: Some(11), exclude: Vec::new(), ..plain.clone() },
            Recipe { split: Splits::Folders, ..labels(Labels::Parent) }.shard_size(20_000),
            Recipe { split: Splits::Names, ..labels(Labels::Folders) },
            Recipe { split: "path:/(train|val)/".parse().unwrap(), ..labels(Labels::Parent) },
            Recipe { split: "train=0.8,val=0.1,test=0.1".parse().unwrap(), ..labels(Labels::Parent) }.shard_size(9_000),
            labels(Labels::Folders),
            Recipe { long_keys: LongKeys::Hash, ..plain.clone() }.shard_size(30_000),
            Recipe { on_error: OnError::Fail, ..plain.clone() },
            Recipe { key_ends: "last-dot".parse().unwrap(), ..plain },
        ]);
    }
    let plans: Vec<_> = all.iter().map(same).collect();
    assert!(plans.iter().filter(|plan| plan.is_some()).count() >= 24);
    // Each seed has its order, which is not that of the keys.
    assert!(plans[0] != plans[10] && plans[10] != plans[20] && plans[0].is_some());
}

#[test]
fn inputs_that_are_there_twice_are_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let plain = recipe(dir.path());
    let photos = dir.path().join("photos");
    write(&photos.join("train/twice.tar"), tar(&["cat/0000.jpg", "cat/0005.txt", "new.jpg"]));
    write(&photos.join("train/cat/1.jpg.jpg"), "a");
    assert!(same(&plain).is_some());
    assert!(same(&Recipe { on_error: OnError::Fail, ..plain.clone() }.shuffle(1)).is_none());
    // Two folders with the same samples.
    write(&dir.path().join("other/train/cat/0000.jpg"), "other");
    let input = vec![photos.clone(), dir.path().join("other")];
    assert!(same(&Recipe { input: input.clone(), ..plain.clone() }.shuffle(2)).is_some());
    assert!(same(&Recipe { input, on_error: OnError::Fail, ..plain }).is_none());
}

/// Recipes that need all inputs in memory, and inputs that are more than files and members.
#[test]
fn what_needs_memory_is_planned_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let plain = recipe(dir.path());
    let shares = Recipe { split: "train=0.5,val=0.5".parse().unwrap(), split_by: SplitBy::Order, ..plain.clone() };
    for recipe in [
        shares,
        Recipe { dedup: true, ..plain.clone() },
        Recipe { shuffle: Shuffle::Blocks { seed: 1, size: 8 }, ..plain.clone() },
        Recipe { image: vec!["check".to_owned()], ..plain.clone() },
        Recipe { to: Some("parquet".to_owned()), ..plain.clone() },
    ] {
        assert!(same(&recipe).is_some());
    }
    // Typed rows among the files, found after some of them.
    write(&dir.path().join("photos/val/rows.csv"), "a,b\n1,2\n3,4\n");
    assert!(same(&plain).is_some());
}

/// Files about the dataset are passed over, and kept among samples that are text, wherever they come in the order of the plan.
#[test]
fn files_about_the_data_are_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    let plain = Recipe::new(&photos, "webdataset", dir.path().join("out"));
    for n in 0..60 {
        write(&photos.join(format!("{}/{n:02}.jpg", ["cat", "dog"][n % 2])), "x");
    }
    let pictures = same(&plain).unwrap();
    write(&photos.join("README.md"), "about");
    write(&photos.join("zoo/LICENSE.txt"), "all rights");
    assert!(same(&plain).unwrap() == pictures);
    for seed in 0..3 {
        assert!(same(&Recipe { labels: Some(Labels::Folders), ..plain.clone() }.shuffle(seed)).is_some());
    }
    write(&photos.join("dog/x.txt"), "text");
    assert!(same(&plain.shuffle(3)).unwrap() != pictures);
}

/// Listings of parts, a plan of them, packed and read.
#[test]
fn many_inputs_are_packed() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Recipe { labels: Some(Labels::Parent), ..recipe(dir.path()) }.shuffle(5).shard_size(30_000);
    let session = packhorse::session().many_inputs(50, true);
    for part in 1..=3 {
        session.scan_part(&recipe, Part::new(part, 3).unwrap()).unwrap();
    }
    let from_listings = session.clone().from_listings(true);
    let (plan, bytes, _) = planned(&from_listings, &recipe).unwrap();
    assert!(bytes == planned(&packhorse::session().many_inputs(50, false), &recipe).unwrap().1);
    from_listings.store_plan(&recipe, &plan).unwrap();
    let out = recipe.out.clone().unwrap();
    for part in 1..=2 {
        session.fill(&out, Part::new(part, 2).unwrap()).unwrap();
    }
    let manifest = session.seal(&out).unwrap();
    assert_eq!(Some(manifest.samples), plan.samples());
    assert!(session.verify(&out, Depth::Full).unwrap().damages.is_empty());
    let keys = packhorse::open(out.to_str().unwrap()).unwrap().len();
    assert_eq!(keys, manifest.samples);
}

#[test]
fn pictures_of_one_sample_are_told_of() {
    let dir = tempfile::tempdir().unwrap();
    ["v.1.jpg", "v.2.jpg", "w.3.jpg"].iter().for_each(|name| write(&dir.path().join("photos").join(name), name));
    let told = Told(Arc::default(), true);
    let session = packhorse::session().many_inputs(1, true).observe(told.clone());
    session.plan(&Recipe::new(dir.path().join("photos"), "webdataset", dir.path().join("out"))).unwrap();
    let told = told.0.lock().unwrap();
    let found = told.iter().find(|text| text.contains("several files of one kind"));
    assert!(found.is_some_and(|text| text.starts_with("among the first samples, 1 sample holds")), "{told:?}");
}

#[test]
fn a_plan_of_many_inputs_ends_when_it_is_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = Cancel::default();
    cancel.cancel();
    let session = packhorse::session().many_inputs(5, true).cancel(cancel);
    assert_eq!(session.plan(&recipe(dir.path())).map(drop).unwrap_err().kind(), Kind::Cancelled);
}
