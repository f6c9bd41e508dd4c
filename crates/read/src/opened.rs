//! The open shards, up to a limit; the least recently used one is closed first.

use crate::dataset::{Content, Looked, Shard};
use crate::mapping::Mapping;
use crate::on_error::is_of_lost;
use crate::reader::{ReadOptions, Verify};
use crate::spans::TARGET;
use crate::{Access, Dataset};
use packhorse_core::{Code, Error, Input, Kind, Members, Result, Table};
use packhorse_dataset::{Digest, MANIFEST, PART};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Opens shard `number` by other means than its store, and says whether a nearer copy will be there soon.
pub(crate) type Opener = Box<dyn Fn(u32, &Shard) -> Result<(Box<dyn Input>, bool)> + Send + Sync>;

/// The open files of all readers of this process.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// So many of them.
struct OpenFiles(usize);

impl OpenFiles {
    fn new(files: usize) -> Self {
        OPEN.fetch_add(files, Ordering::Relaxed);
        Self(files)
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        OPEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The most files that a thread has open while it opens a shard: the shard and its index.
const OPENING: usize = 2;
/// The same where it may copy the shard to a cache first: a lock, the original, and the copy or two folders and a step into one.
const COPYING: usize = 6;

/// An open shard.
pub(crate) struct Opened {
    pub(crate) input: Arc<dyn Input>,
    pub(crate) map: Option<Arc<Mapping>>,
    pub(crate) content: Content,
    /// Its table, if its samples are typed rows.
    pub(crate) table: Option<Box<dyn Table>>,
    /// Whether the index has checksums.
    pub(crate) checksums: bool,
    used: AtomicU64,
    /// When it is opened again, for a nearer copy.
    until: Option<Instant>,
    /// On a server they hold no file.
    _counted: Option<OpenFiles>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("input", &self.input.name()).finish_non_exhaustive()
    }
}

impl Opened {
    pub(crate) fn members(&self) -> Option<&Members> {
        match &self.content {
            Content::Members(members) => Some(members),
            Content::Table { .. } => None,
        }
    }
}

/// Why a shard could not be opened. Until it is opened again, each batch with a sample of it has this error.
struct Failure {
    error: Error,
    again: Instant,
}

/// A shard that fails to open is left alone for so many times as long as that took: finding damage may have meant to hash a whole file.
const PAUSE: u32 = 20;
/// The longest such time.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a shard is read from where it is while another process copies it to a cache.
const SOON: Duration = Duration::from_secs(5);

/// The folders above a shard, of which one is its dataset's.
const DEEPEST: usize = 4;

/// The open shards of a reader.
pub(crate) struct Shards {
    open: RwLock<HashMap<u32, Arc<Opened>>>,
    /// For each shard that a thread opens, or that failed to open: a lock, so that it is not opened twice, and the failure.
    opening: Mutex<HashMap<u32, Arc<Mutex<Option<Failure>>>>>,
    most: usize,
    /// The most of all readers of the process, as far as this one can close some.
    most_of_all: usize,
    /// The shards that it keeps all the same.
    pub(crate) least: usize,
    clock: AtomicU64,
    map: bool,
    verify: Verify,
    opener: Option<Opener>,
}

impl Shards {
    pub(crate) fn new(options: &ReadOptions, opener: Option<Opener>) -> Self {
        let descriptors = packhorse_storage::descriptors();
        Self {
            open: RwLock::default(),
            opening: Mutex::default(),
            most: options.open.min(descriptors / 2).max(1),
            most_of_all: descriptors / 4 * 3,
            least: (descriptors / 32).clamp(8, 512),
            clock: AtomicU64::new(0),
            map: options.access == Access::Map,
            verify: options.verify,
            opener,
        }
    }

    pub(crate) fn get(&self, dataset: &Dataset, number: u32) -> Result<Arc<Opened>> {
        if let Some(found) = self.find(number) {
            return Ok(found);
        }
        let opening = || self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Arc::clone(opening().entry(number).or_default());
        let mut failure = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.find(number) {
            return Ok(found);
        }
        let begun = Instant::now();
        if let Some(failure) = failure.as_ref().filter(|failure| begun < failure.again) {
            return Err(failure.error.clone());
        }
        let shard = dataset.shards().get(number as usize);
        let shard = shard.ok_or_else(|| Error::bug(format!("there is no shard {number}")))?;
        let span = tracing::debug_span!(target: TARGET, "open", fname = shard.name, size = shard.bytes);
        let counted = OpenFiles::new(if self.opener.is_some() { COPYING } else { OPENING });
        self.make_room(&mut self.open.write().unwrap_or_else(PoisonError::into_inner));
        let opened = span.in_scope(|| self.open(number, shard)).map_err(|error| {
            let error = vanished(error, shard).in_input(&shard.name);
            if is_of_lost(error.kind()) {
                let now = Instant::now();
                let again = now + (now - begun).saturating_mul(PAUSE).min(LONGEST);
                *failure = Some(Failure { error: error.clone(), again });
            }
            error
        });
        let opened = Arc::new(opened?);
        drop(counted);
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        self.make_room(&mut open);
        open.insert(number, Arc::clone(&opened));
        opening().remove(&number);
        Ok(opened)
    }

    /// Closes the least recently used shards until one more fits.
    fn make_room(&self, open: &mut HashMap<u32, Arc<Opened>>) {
        let is_full = |open: usize| open >= self.least && OPEN.load(Ordering::Relaxed) > self.most_of_all;
        while open.len() >= self.most || is_full(open.len()) {
            let oldest = open.iter().min_by_key(|(_, opened)| opened.used.load(Ordering::Relaxed)).map(|(n, _)| *n);
            if oldest.and_then(|oldest| open.remove(&oldest)).is_none() {
                break;
            }
        }
    }

    pub(crate) fn find(&self, number: u32) -> Option<Arc<Opened>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let found = Arc::clone(open.get(&number)?);
        drop(open);
        if found.until.is_some_and(|until| Instant::now() >= until) {
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            if open.get(&number).is_some_and(|now| Arc::ptr_eq(now, &found)) {
                open.remove(&number);
            }
            return None;
        }
        found.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(found)
    }

    /// Closes a shard, which the next batch that needs it opens again.
    pub(crate) fn close(&self, number: u32) {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    fn open(&self, number: u32, shard: &Shard) -> Result<Opened> {
        let (input, soon) = match &self.opener {
            Some(opener) => opener(number, shard).and_then(|(input, soon)| Ok((shard.checked(input)?, soon)))?,
            None => (shard.open()?, false),
        };
        let input: Arc<dyn Input> = input.into();
        let compared = || match shard.open_data()? {
            Some(data) => verify(&*data, &shard.digest).map_err(|error| error.in_input(data.name())),
            None => verify(&*input, &shard.digest),
        };
        let Looked { content, table, checksums, vouched } = shard.look(&input).or_else(|error| {
            // Damage may look like columns that do not fit what was asked for.
            if shard.sealed && matches!(error.kind(), Kind::Config | Kind::Unsupported) {
                compared()?;
            }
            Err(error)
        })?;
        let indexed = matches!(content, Content::Members(_));
        if self.verify == Verify::Full && shard.sealed && !vouched {
            compared()?;
        }
        let map = if self.map && indexed { Mapping::of(&*input)?.map(Arc::new) } else { None };
        let used = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
        // To open it may mean to hash all of it.
        let until = (soon && (vouched || self.verify != Verify::Full)).then(|| Instant::now() + SOON);
        let _counted = input.local_path().map(|_| OpenFiles::new(1));
        Ok(Opened { input, map, content, table, checksums, used, until, _counted })
    }
}

/// The error of opening a shard; of one that is not there, though its dataset is, what to do about it.
fn vanished(error: Error, shard: &Shard) -> Error {
    let is_there = |path: &Path| shard.store.stat(path, true).is_ok();
    let has_documents = |folder: &Path| [MANIFEST, PART].iter().any(|document| is_there(&folder.join(document)));
    let has_dataset = || match shard.sealed {
        true => shard.path.ancestors().skip(1).take(DEEPEST).any(has_documents),
        false => shard.path.parent().is_some_and(is_there),
    };
    if !error.is_absent() || !has_dataset() {
        return error;
    }
    let (message, hint) = match shard.sealed {
        true => (
            "is missing, a shard of a sealed dataset",
            "`packhorse verify` says what else is, `packhorse repair` packs it again",
        ),
        false => ("is missing: it was there when the dataset was opened", "open the dataset again"),
    };
    let missing = Error::new(Kind::Incomplete, message).with_code(Code::ShardMissing);
    missing.hint(hint).in_input(shard.path.display())
}

/// Compares the digest of a whole file.
fn verify(input: &dyn Input, wanted: &Digest) -> Result<()> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(input.stream()?).map_err(|error| Error::io("read", error))?;
    match Digest::from(hasher.finalize()) == *wanted {
        true => Ok(()),
        false => {
            let message = "its bytes are not those that were packed (its BLAKE3 is not the manifest's); fetch it again";
            Err(Error::content(message))
        }
    }
}
