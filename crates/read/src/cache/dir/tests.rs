use super::*;
use crate::cache::Check;
use crate::cache::room::COUNTING;
use packhorse_core::Store;
use packhorse_core::{FileStat, StoreFile};
use packhorse_dataset::Digest;
use packhorse_storage::Local;
use std::path::PathBuf;
use std::sync::Mutex;

/// A local store that counts opened files and can return wrong bytes or wait.
#[derive(Default)]
struct Remote {
    opened: Mutex<Vec<PathBuf>>,
    slow: AtomicBool,
}

impl Store for Remote {
    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        self.opened.lock().unwrap().push(path.to_owned());
        if self.slow.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK * 10);
        }
        Local.open(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        Local.list(dir)
    }
    fn stat(&self, path: &Path, follow: bool) -> Result<FileStat> {
        Local.stat(path, follow)
    }
    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        Local.create(path)
    }
    fn sync_file(&self, path: &Path) -> Result<()> {
        Local.sync_file(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        Local.rename(from, to)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        Local.sync_dir(dir)
    }
    fn create_dir(&self, dir: &Path) -> Result<()> {
        Local.create_dir(dir)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        Local.remove(path)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        Local.remove_dir(dir)
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Observer for Heard {
    fn event(&self, event: &Event<'_>) {
        if let Event::Warning(text) = event {
            self.0.lock().unwrap().push((*text).to_owned());
        }
    }
}

/// A dataset of shards of 10,000 bytes, and a folder for its copies.
struct Here {
    dir: tempfile::TempDir,
    store: Arc<Remote>,
    heard: Arc<Heard>,
    files: Vec<CacheFile>,
}

const BYTES: usize = 10_000;

fn bytes(i: usize) -> Vec<u8> {
    (0..BYTES).map(|k| (k * 31 + i * 7 + k / 200) as u8).collect()
}

impl Here {
    fn new(shards: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("far/data")).unwrap();
        let file = |i| {
            let name = format!("data/s-{i:03}.tar");
            std::fs::write(dir.path().join("far").join(&name), bytes(i)).unwrap();
            CacheFile { name, bytes: BYTES as u64, check: Check::Digest(Digest::of(&bytes(i))) }
        };
        let files = (0..shards).map(file).collect();
        Self { dir, store: Arc::default(), heard: Arc::default(), files }
    }

    /// The folder of the originals.
    fn far(&self) -> PathBuf {
        self.dir.path().join("far")
    }

    fn options(&self) -> DirOptions {
        DirOptions::new(self.dir.path().join("cache"))
    }

    fn open_as(&self, dataset: &str, options: DirOptions) -> DirCache {
        let source = CacheSource::foreign(self.store.clone(), self.far(), dataset);
        DirCache::open(source, options, self.heard.clone()).unwrap()
    }

    fn open(&self, options: DirOptions) -> DirCache {
        self.open_as("one", options)
    }

    /// The numbers of the existing copies.
    fn copies(&self, cache: &DirCache) -> Vec<usize> {
        let there = |i: &usize| cache.dir().join(&self.files[*i].name).exists();
        (0..self.files.len()).filter(there).collect()
    }

    fn opened(&self) -> usize {
        self.store.opened.lock().unwrap().len()
    }
}

fn content(input: Option<Box<dyn Input>>) -> Vec<u8> {
    input.unwrap().read_all(1 << 20).unwrap()
}

#[test]
fn a_copy_is_made_once_and_answers_from_then_on() {
    let here = Here::new(3);
    let cache = here.open(here.options());
    for _ in 0..3 {
        for (i, file) in here.files.iter().enumerate() {
            assert_eq!(content(cache.file(file).unwrap()), bytes(i));
        }
    }
    assert_eq!(here.opened(), 3);
    let path = cache.file(&here.files[1]).unwrap().unwrap().local_path().unwrap().to_owned();
    assert_eq!(path, cache.dir().join("data/s-001.tar"));
    drop(cache);
    // Another process finds the copies; another dataset does not.
    let again = here.open(here.options());
    assert_eq!(content(again.present(&here.files[2]).unwrap()), bytes(2));
    assert_eq!(here.opened(), 3);
    let other = here.open_as("two", here.options());
    assert!(other.present(&here.files[2]).unwrap().is_none());
    assert_ne!(again.dir(), other.dir());
    assert!(!again.dir().join(".staging").exists());
}

#[test]
fn what_is_not_beside_a_copy_is_beside_the_original() {
    let here = Here::new(1);
    std::fs::write(here.far().join("data/s-000.idx"), b"index").unwrap();
    let cache = here.open(here.options());
    let copy = cache.file(&here.files[0]).unwrap().unwrap();
    assert_eq!(content(copy.sibling("s-000.idx").unwrap()), b"index");
    assert!(copy.sibling("s-000.other").unwrap().is_none());
}

#[test]
fn an_original_with_another_digest_is_an_error_and_not_copied() {
    let here = Here::new(1);
    let path = here.far().join("data/s-000.tar");
    let cache = here.open(here.options());
    for damaged in [&bytes(1)[..], &bytes(0)[..99]] {
        std::fs::write(&path, damaged).unwrap();
        let error = cache.file(&here.files[0]).err().unwrap();
        assert_eq!((error.kind(), error.input()), (Kind::Content, path.to_str()), "{error}");
        assert!(here.copies(&cache).is_empty());
    }
    assert_eq!(here.opened(), 4, "each is tried twice");
    std::fs::write(&path, bytes(0)).unwrap();
    assert_eq!(content(cache.file(&here.files[0]).unwrap()), bytes(0));
    assert!(here.heard.0.lock().unwrap().is_empty());
}

#[test]
fn a_half_file_is_not_taken_for_whole() {
    let here = Here::new(1);
    let cache = here.open(here.options());
    let path = cache.dir().join("data/s-000.tar");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, &bytes(0)[..5000]).unwrap();
    assert!(cache.present(&here.files[0]).unwrap().is_none());
    assert_eq!(content(cache.file(&here.files[0]).unwrap()), bytes(0));
}

#[test]
fn without_a_digest_size_and_time_count() {
    let here = Here::new(1);
    let path = here.far().join("data/s-000.tar");
    let cache = here.open(here.options());
    let source = CacheSource::foreign(here.store.clone(), here.far(), "one");
    let now = || source.file("data/s-000.tar", &Local.stat(&path, true).unwrap());
    let file = now();
    assert_eq!(content(cache.file(&file).unwrap()), bytes(0));
    assert!(cache.present(&file).unwrap().is_some() && here.opened() == 1);
    std::fs::write(&path, bytes(5)).unwrap();
    let newer = now();
    assert_eq!(content(cache.file(&newer).unwrap()), bytes(5));
    assert_eq!(cache.file(&file).err().unwrap().kind(), Kind::Changed);
}

#[test]
fn what_was_used_last_stays_and_what_is_in_use_too() {
    let here = Here::new(6);
    let cache = here.open(DirOptions { limit: Some(3 * BYTES as u64 + 10), ..here.options() });
    let open = |i: usize| {
        // Access times are compared, and may have a resolution of milliseconds.
        std::thread::sleep(LOOK);
        cache.file(&here.files[i]).unwrap()
    };
    let zero = open(0);
    (1..3).for_each(|i| drop(open(i)));
    drop(open(1));
    assert_eq!(here.copies(&cache), [0, 1, 2]);
    drop(open(3));
    assert_eq!(here.copies(&cache), [0, 1, 3], "2 was used before 1, and 0 is in use");
    let (one, three) = (open(1), open(3));
    assert!(open(4).is_none(), "all are in use");
    assert_eq!(content(zero), bytes(0));
    drop((one, three));
    // Copies of another dataset in the same folder are evicted as well.
    let other = here.open_as("two", DirOptions { limit: Some(2 * BYTES as u64), ..here.options() });
    drop((other.file(&here.files[5]).unwrap(), other.file(&here.files[4]).unwrap()));
    assert!(here.copies(&cache).is_empty());
    assert_eq!(here.copies(&other), [4, 5]);
    let none = here.open(DirOptions { limit: Some(BYTES as u64 - 1), ..here.options() });
    assert!(none.file(&here.files[0]).unwrap().is_none() && here.copies(&other).len() == 2);
}

#[test]
fn a_part_is_kept() {
    let here = Here::new(60);
    let cache = here.open(DirOptions { fraction: 0.5, ..here.options() });
    let fill = |cache: &DirCache| here.files.iter().filter(|file| cache.file(file).unwrap().is_some()).count();
    let filled = fill(&cache);
    let copies = here.copies(&cache);
    assert!(filled == copies.len() && (18..43).contains(&filled), "{filled}");
    assert!(here.files.iter().enumerate().all(|(i, file)| cache.wants(file) == copies.contains(&i)));
    let missing = (0..60).find(|i| !copies.contains(i)).unwrap();
    assert!(cache.file(&here.files[missing]).unwrap().is_none());
    let more = here.open(DirOptions { fraction: 0.7, ..here.options() });
    fill(&more);
    assert!(copies.iter().all(|i| here.copies(&more).contains(i)));
    let bad = DirOptions { fraction: 1.5, ..here.options() };
    let source = CacheSource::foreign(here.store.clone(), here.far(), "one");
    assert!(DirCache::open(source, bad, Arc::new(())).is_err());
}

#[test]
fn others_wait_or_read_the_original_meanwhile() {
    let here = Here::new(1);
    here.store.slow.store(true, Ordering::Relaxed);
    let waiting = || here.open(DirOptions { wait: true, ..here.options() });
    let (first, waits, hurries) = (waiting(), waiting(), here.open(here.options()));
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| content(first.file(&here.files[0]).unwrap()));
        while here.opened() == 0 {
            std::thread::yield_now();
        }
        assert!(hurries.file(&here.files[0]).unwrap().is_none());
        assert_eq!(content(waits.file(&here.files[0]).unwrap()), bytes(0));
        assert_eq!(copying.join().unwrap(), bytes(0));
    });
    assert_eq!(here.opened(), 1);
}

#[test]
fn the_last_user_removes_it_on_request() {
    let here = Here::new(1);
    let options = DirOptions { remove: true, ..here.options() };
    let (one, two) = (here.open(options.clone()), here.open(options));
    let dir = one.dir().to_owned();
    assert_eq!(content(one.file(&here.files[0]).unwrap()), bytes(0));
    drop(one);
    assert_eq!(content(two.present(&here.files[0]).unwrap()), bytes(0));
    drop(two);
    assert!(!dir.exists());
}

#[test]
fn what_the_file_system_refuses_is_said_once() {
    let here = Here::new(3);
    let cache = here.open(here.options());
    drop(cache.file(&here.files[0]).unwrap());
    // Puts a file in the place of a folder.
    std::fs::remove_dir_all(cache.dir().join(".staging")).unwrap();
    std::fs::write(cache.dir().join(".staging"), b"").unwrap();
    assert!(cache.file(&here.files[1]).unwrap().is_none());
    assert!(cache.file(&here.files[2]).unwrap().is_none());
    assert_eq!(content(cache.file(&here.files[0]).unwrap()), bytes(0), "existing copies stay");
    let heard = here.heard.0.lock().unwrap();
    assert!(heard.len() == 1 && heard[0].contains("is not filled any further"), "{heard:?}");
}

#[test]
fn a_folder_that_can_not_be_written_to_is_read() {
    let here = Here::new(2);
    let cache = here.open(here.options());
    drop(cache.file(&here.files[0]).unwrap());
    let users = cache.dir().join(".users");
    drop(cache);
    std::fs::remove_file(&users).unwrap();
    std::fs::create_dir(&users).unwrap();
    let cache = here.open(here.options());
    assert_eq!(content(cache.file(&here.files[0]).unwrap()), bytes(0));
    assert!(cache.file(&here.files[1]).unwrap().is_none());
    assert_eq!(here.heard.0.lock().unwrap().len(), 1);
}

#[test]
fn a_dataset_is_no_folder_for_a_cache() {
    let here = Here::new(1);
    std::fs::write(here.far().join("dataset.json"), b"").unwrap();
    for dir in ["", "data", "data/cache"] {
        let source = CacheSource::foreign(here.store.clone(), here.far(), "one");
        let opened = DirCache::open(source, DirOptions::new(here.far().join(dir)), Arc::new(()));
        assert_eq!(opened.err().unwrap().kind(), Kind::Config, "{dir}");
    }
}

#[test]
fn what_the_dead_left_is_removed() {
    let here = Here::new(1);
    let dir = here.open(here.options()).dir().to_owned();
    let staging = dir.join(".staging");
    std::fs::create_dir_all(&staging).unwrap();
    std::fs::write(staging.join("lock,abc"), b"").unwrap();
    let living = Lock::make(&staging.join("lock,def")).unwrap();
    let cache = here.open(here.options());
    assert!(!staging.join("lock,abc").exists() && staging.join("lock,def").exists());
    drop((living, cache));
    here.open(here.options());
    assert!(!staging.exists());
}

#[test]
fn a_name_outside_is_refused() {
    let here = Here::new(1);
    let cache = here.open(here.options());
    let file = CacheFile { name: "../../x".to_owned(), ..here.files[0].clone() };
    assert_eq!(cache.file(&file).err().unwrap().kind(), Kind::Content);
}

/// Concurrent caches: bytes are correct, and the limit is never exceeded.
#[test]
fn many_who_push_each_other_out_stay_below_the_limit() {
    let here = Here::new(8);
    let limit = 3 * BYTES as u64;
    let total = |cache: &DirCache| -> u64 {
        // Holding this lock prevents evictions, and new copies have their space reserved.
        let path = cache.options.dir.join(COUNTING);
        let _counting = loop {
            match Lock::make(&path).unwrap() {
                Some(lock) => break lock,
                None => std::thread::sleep(LOOK),
            }
        };
        let files = std::fs::read_dir(cache.dir().join("data")).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
    };
    let copied = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for who in 0..4 {
            let (here, copied) = (&here, &copied);
            scope.spawn(move || {
                let cache = here.open(DirOptions { limit: Some(limit), ..here.options() });
                for step in 0..40 {
                    let i = (who * 5 + step * 3 + step / 7) % 8;
                    if let Some(copy) = cache.file(&here.files[i]).unwrap() {
                        assert_eq!(content(Some(copy)), bytes(i));
                        copied.fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(total(&cache) <= limit);
                }
            });
        }
    });
    assert!(here.heard.0.lock().unwrap().is_empty(), "{:?}", here.heard.0.lock().unwrap());
    assert!(copied.into_inner() > 20);
}
