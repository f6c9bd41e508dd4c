//! A file system that fails or loses power at any call: no bad file is ever under its final name, the
//! error comes out, and the same work asked for again ends in equal bytes.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod bytes;
    pub(crate) mod request;
}

use common::request::Request;
use packhorse::Recipe;
use packhorse::core::{Cancel, Consumer, Error, Event, Kind, Observer, Result, Store};
use packhorse::dataset::Receipt;
use packhorse::pack::{Depth, OnError, Part};
use packhorse::storage::Local;
use packhorse_testkit::faults::{Call, CallKind, FailingStore, Loss, Mutant, PowerStore, StoreFault};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// Whatever has its final name is whole: receipts tell the truth, and a manifest even more so.
fn check(store: &Arc<dyn Store>, out: &Path) -> Result<(), String> {
    let read = |name: &Path| {
        let input = store.open(&out.join(name)).map_err(|e| e.to_string())?;
        input.read_all(1 << 30).map_err(|e| e.to_string())
    };
    for name in store.list(out).unwrap_or_default() {
        if name.to_string_lossy().ends_with(".receipt.json") {
            let receipt = Receipt::decode(&read(&name)?).map_err(|e| format!("{}: {e}", name.display()))?;
            for file in &receipt.files {
                let bytes = read(Path::new(&file.name))?;
                if packhorse::dataset::Digest::of(&bytes) != file.blake3 {
                    return Err(format!("{}: {} is not what it says", name.display(), file.name));
                }
            }
        }
        if name == Path::new("dataset.json") {
            let found = packhorse::session().store(store.clone()).verify(out, Depth::Full);
            let damages = found.map_err(|e| e.to_string())?.damages;
            // Leftovers of a dead run are not damage.
            let damages: Vec<_> = damages.into_iter().filter(|d| d.file != ".staging").collect();
            if !damages.is_empty() {
                return Err(format!("{damages:?}"));
            }
        }
    }
    Ok(())
}

fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => drop(files.insert(path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap())),
            }
        }
    }
    files
}

fn local() -> Arc<dyn Store> {
    Arc::new(Local)
}

/// A temporary folder, in memory where there is such a place: thousands of syncs take their time.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn inputs(request: &Request, dir: &Path) -> PathBuf {
    let input = dir.join("in");
    fs::create_dir(&input).unwrap();
    request.inputs.iter().for_each(|(name, bytes)| fs::write(input.join(name), bytes).unwrap());
    input
}

/// Whichever call fails, no bad file stays, and a second run completes.
fn every_call_fails(request: &Request) {
    let dir = in_memory();
    let input = inputs(request, dir.path());
    let counting = FailingStore::counting(local());
    let reference = dir.path().join("reference");
    request.run(&(Arc::new(counting.clone()) as Arc<dyn Store>), &input, &reference).unwrap();
    let whole = tree(&reference);
    assert!(counting.calls() > 60, "{}", counting.calls());
    packhorse_testkit::external::count(counting.calls(), "failing calls of the file system");
    for errno in [ENOSPC, EIO] {
        for k in 0..counting.calls() + 5 {
            let out = dir.path().join("out");
            let failing = FailingStore::new(local(), move |call| call.number == k, StoreFault::Errno(errno));
            let done = request.run(&(Arc::new(failing.clone()) as Arc<dyn Store>), &input, &out);
            let what = format!("call {k} {:?} fails with {errno}: {:?}", failing.hit(), done.as_ref().map(|_| ()));
            // A full disk is never tried again, so it must come out.
            if let Some((kind, _)) = failing.hit().first().filter(|(kind, _)| errno == ENOSPC && kind.matters()) {
                let error = done.as_ref().expect_err(&what);
                assert_eq!((error.kind(), error.errno()), (Kind::Environment, Some(errno)), "{kind:?} {what}");
            }
            check(&local(), &out).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(done.is_err() || tree(&out) == whole, "{what}: done, with other files");
            request.run(&local(), &input, &out).unwrap_or_else(|e| panic!("{what}: again: {e}"));
            assert!(tree(&out) == whole, "{what}: other files after a second run");
            fs::remove_dir_all(&out).unwrap();
        }
    }
}

#[test]
fn whichever_call_fails_samples_are_whole_after_a_second_run() {
    // With an index that is written by its path.
    every_call_fails(&Request::samples("wids,energon"));
}

#[test]
fn whichever_call_fails_tokens_are_whole_after_a_second_run() {
    every_call_fails(&Request::documents());
}

/// Samples and bytes that were told as packed, and how many samples as skipped.
#[derive(Default)]
struct Seen(Mutex<(u64, u64, u64)>);

impl Observer for Seen {
    fn event(&self, event: &Event<'_>) {
        let mut seen = self.0.lock().unwrap();
        match event {
            Event::Packed { samples, bytes } => (seen.0, seen.1) = (seen.0 + samples, seen.1 + bytes),
            Event::Skipped(_) => seen.2 += 1,
            _ => {}
        }
    }
}

#[test]
fn a_shard_that_is_written_once_more_is_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let input = inputs(&Request::samples("wids"), dir.path());
    let recipe = |out: &str| {
        let recipe = Recipe::new(&input, "webdataset", dir.path().join(out)).on_error(OnError::Skip).image("check");
        recipe.with("include", "*.jpg").unwrap().with("include", "*.txt").unwrap()
    };
    let seen = |store: Arc<dyn Store>, out: &str| {
        let seen = Arc::new(Seen::default());
        packhorse::session().store(store).observe(seen.clone()).pack(&recipe(out)).unwrap();
        *seen.0.lock().unwrap()
    };
    let failed = AtomicBool::new(false);
    let fails = move |call: &Call<'_>| {
        let of_shard = call.kind == CallKind::Sync && call.path.to_string_lossy().contains("shard-000000.tar");
        of_shard && !failed.swap(true, Ordering::Relaxed)
    };
    let failing = FailingStore::new(local(), fails, StoreFault::Errno(EIO));
    let once_more = seen(Arc::new(failing.clone()), "out");
    assert_eq!(failing.hit().len(), 1);
    let once = seen(local(), "plain");
    assert_eq!(once_more, once);
    assert!(once.0 >= 4 && once.2 >= 2, "{once:?}");
}

#[test]
fn a_short_listing_of_the_output_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let request = Request::samples("wids,dali");
    let input = inputs(&request, dir.path());
    let reference = dir.path().join("reference");
    request.run(&local(), &input, &reference).unwrap();
    let out = dir.path().join("out");
    let below = out.clone();
    let short = FailingStore::new(
        local(),
        move |call| call.kind == CallKind::List && call.path.starts_with(&below),
        StoreFault::ShortList,
    );
    request.run(&(Arc::new(short.clone()) as Arc<dyn Store>), &input, &out).unwrap();
    assert!(!short.hit().is_empty());
    request.run(&local(), &input, &out).unwrap();
    assert!(tree(&out) == tree(&reference));
}

/// A file system with the inputs, about to lose power.
fn powered(request: &Request) -> (PowerStore, Arc<dyn Store>) {
    let power = PowerStore::new();
    request.inputs.iter().for_each(|(name, bytes)| power.put(&Path::new("/in").join(name), bytes));
    (power.clone(), Arc::new(power))
}

/// Cuts the power after each change in turn; the first thing that is wrong then, if anything is.
fn power_cuts(request: &Request, mutant: Mutant, loss: Loss) -> Result<(), String> {
    let (input, out) = (Path::new("/in"), Path::new("/deep/down/out"));
    let (reference, store) = powered(request);
    request.run(&store, input, out).unwrap();
    let whole = reference.files(out);
    let total = reference.changes();
    assert!(total > 60 && whole.len() > 8, "{total} changes, {} files", whole.len());
    for k in 0..=total {
        let (power, honest) = powered(request);
        let store: Arc<dyn Store> = Arc::new(power.mutant(mutant));
        power.fail_after(k);
        let done = request.run(&store, input, out);
        power.cut(loss);
        check(&honest, out).map_err(|e| format!("power cut after change {k}: {e}"))?;
        if let Ok(manifest) = done {
            let found = honest.open(&out.join("dataset.json")).map_err(|e| format!("sealed, then: {e}"))?;
            assert_eq!(found.read_all(1 << 20).unwrap(), manifest.encode().unwrap());
            check_whole(&power, out, &whole).map_err(|e| format!("sealed, then power cut: {e}"))?;
        }
        request.run(&honest, input, out).map_err(|e| format!("power cut after change {k}, again: {e}"))?;
        check_whole(&power, out, &whole).map_err(|e| format!("power cut after change {k}, again: {e}"))?;
    }
    packhorse_testkit::external::count(total + 1, "power cuts");
    Ok(())
}

/// What a run that died left in its staging folder stays while this process lives.
fn check_whole(power: &PowerStore, out: &Path, whole: &BTreeMap<PathBuf, Vec<u8>>) -> Result<(), String> {
    let mut files = power.files(out);
    files.retain(|path, _| !path.starts_with(out.join(".staging")));
    match files == *whole {
        true => Ok(()),
        false => Err(format!("other files: {:?}", files.keys())),
    }
}

#[test]
fn a_power_cut_after_any_change_leaves_no_bad_file_and_loses_nothing_sealed() {
    for (what, request) in [("samples", Request::samples("wids,dali")), ("tokens", Request::documents())] {
        for loss in [Loss::Names, Loss::Bytes] {
            power_cuts(&request, Mutant::None, loss).unwrap_or_else(|e| panic!("{what}, {loss:?} lost: {e}"));
        }
    }
}

#[test]
fn a_store_that_does_not_sync_is_found_out() {
    let request = Request::samples("wids,dali");
    for (mutant, loss) in [
        (Mutant::FilesUnsynced, Loss::Bytes),
        (Mutant::FilesUnsynced, Loss::Names),
        (Mutant::FoldersUnsynced, Loss::Names),
        (Mutant::SyncAfterRename, Loss::Bytes),
    ] {
        assert!(power_cuts(&request, mutant, loss).is_err(), "{mutant:?} went unnoticed when {loss:?} were lost");
    }
}

/// Whenever a job of another plan starts in the folder of a job, one of both makes its dataset, and the other one fails.
#[test]
fn a_job_of_another_plan_may_start_at_any_call() {
    let dir = in_memory();
    let folder = |name: &str, files: usize| {
        let folder = dir.path().join(name);
        fs::create_dir(&folder).unwrap();
        (0..files).for_each(|i| fs::write(folder.join(format!("{i}.bin")), [i as u8; 3000]).unwrap());
        folder
    };
    let (first, other, failed) = (folder("first", 5), folder("other", 7), folder("failed", 3));
    for (format, left) in [("webdataset", false), ("webdataset", true), ("parquet", false), ("parquet", true)] {
        let mut won = [0, 0];
        for k in 0.. {
            let out = dir.path().join(format!("{format}-{left}-{k}"));
            let recipe = |input: &Path, format| Recipe::new(input, format, &out).samples_per_shard(2);
            if left {
                let (session, recipe) = (packhorse::session(), recipe(&failed, format));
                session.store_plan(&recipe, &session.plan(&recipe).unwrap()).unwrap();
            }
            let (sender, receiver) = mpsc::channel();
            let meanwhile = recipe(&other, "webdataset");
            let work = move || sender.send(packhorse::session().pack(&meanwhile)).unwrap();
            let store = FailingStore::new(local(), move |call| call.number == k, StoreFault::Meanwhile(Box::new(work)));
            let session = packhorse::session().store(Arc::new(store.clone())).jobs(1).io_threads(1);
            let mine = session.pack(&recipe(&first, format));
            if store.hit().is_empty() {
                break;
            }
            let when = format!("{format}, call {k} {:?}", store.hit());
            let theirs = receiver.recv().unwrap();
            let made = match (&mine, &theirs) {
                (Ok(made), Err(e)) | (Err(e), Ok(made)) => {
                    assert_eq!(e.kind(), Kind::Config, "{when}: {e}");
                    made
                }
                _ => panic!("{when}: {mine:?} and {theirs:?}"),
            };
            assert_eq!(made.report.samples, if mine.is_ok() { 5 } else { 7 }, "{when}");
            check(&local(), &out).unwrap_or_else(|e| panic!("{when}: {e}"));
            won[usize::from(theirs.is_ok())] += 1;
        }
        assert!(won[0] > 20 && won[1] > 5, "{won:?}");
        packhorse_testkit::external::count(won[0] + won[1], "jobs that started in another one's folder");
    }
}

/// Runs `work` on a thread of its own; panics if it does not end.
fn ends<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(Duration::from_secs(30)).expect("still at work after 30 seconds")
}

#[test]
fn a_scan_that_fails_among_thousands_of_folders_ends() {
    let power = PowerStore::new();
    for i in 0..3000 {
        power.put(Path::new(&format!("/in/{i}/x.jpg")), b"x");
    }
    let failing = FailingStore::new(
        Arc::new(power),
        |call| call.kind == CallKind::List && call.number > 100,
        StoreFault::Errno(EIO),
    );
    let error: Error = ends(move || {
        let request = Request::samples("wids");
        request
            .run(&(Arc::new(failing) as Arc<dyn Store>), Path::new("/in"), Path::new("/out"))
            .map(|_| ())
            .unwrap_err()
    });
    assert_eq!((error.kind(), error.errno()), (Kind::Environment, Some(EIO)));
}

#[test]
fn a_scan_that_is_cancelled_among_thousands_of_folders_ends() {
    let power = PowerStore::new();
    for i in 0..3000 {
        power.put(Path::new(&format!("/in/{i}/x.jpg")), b"x");
    }
    let cancel = Cancel::default();
    let raise = cancel.clone();
    let store = FailingStore::new(
        Arc::new(power),
        |call| call.number == 100,
        StoreFault::Meanwhile(Box::new(move || raise.cancel())),
    );
    let error = ends(move || {
        let session = packhorse::session().store(Arc::new(store)).cancel(cancel);
        session.scan(&Recipe::new("/in", "webdataset", "/out")).map(|_| ()).unwrap_err()
    });
    assert_eq!(error.kind(), Kind::Cancelled);
}

#[test]
fn an_input_that_changes_while_it_is_read_is_not_packed_torn() {
    type Tampering = fn(&Path);
    let tamperings: [(&str, Tampering); 3] = [
        ("shortened", |path| fs::File::options().write(true).open(path).unwrap().set_len(1000).unwrap()),
        ("grown", |path| fs::write(path, [8; 5000]).unwrap()),
        ("written over", |path| {
            std::thread::sleep(Duration::from_millis(20));
            fs::write(path, [8; 3000]).unwrap();
        }),
    ];
    for policy in [OnError::Fail, OnError::Skip] {
        for (what, tamper) in tamperings {
            let dir = tempfile::tempdir().unwrap();
            let (input, out) = (inputs(&Request::samples("wids"), dir.path()), dir.path().join("out"));
            let victim = input.join("b.jpg");
            let recipe = Recipe::new(input, "webdataset", &out);
            let session = packhorse::session();
            session.store_plan(&recipe, &session.plan(&recipe).unwrap()).unwrap();
            let store = Arc::new(FailingStore::new(
                local(),
                |call| call.kind == CallKind::Read && call.path.ends_with("b.jpg"),
                StoreFault::Meanwhile(Box::new(move || tamper(&victim))),
            ));
            let error = session.store(store.clone()).on_error(policy).fill(&out, Part::ALL).unwrap_err();
            assert_eq!(error.kind(), Kind::Changed, "{what}: {error}");
            assert!(!store.hit().is_empty() && error.to_string().contains("b.jpg"), "{what}: {error}");
            assert!(!out.join("shard-000000.tar").exists(), "{what}");
        }
    }
}

#[test]
fn a_shard_that_cannot_be_read_is_not_called_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let input = inputs(&Request::samples("wids"), dir.path());
    let out = dir.path().join("out");
    packhorse::session().pack(&Recipe::new(&input, "webdataset", &out).on_error(OnError::Skip)).unwrap();
    let shards = [out.join("shard-000000.tar")];
    let (registry, options, readers) = (packhorse::registry(), Default::default(), [Consumer::Wids]);
    let check = |store: &dyn Store| {
        packhorse::pack::check_consumers(&registry, store, &shards, &options, &readers, &Cancel::default())
    };
    assert_eq!(check(&Local).unwrap().shards, 1);
    let failing = FailingStore::new(local(), |call| call.kind == CallKind::Read, StoreFault::Errno(EIO));
    assert_eq!(check(&failing).unwrap_err().kind(), Kind::Environment);
}
