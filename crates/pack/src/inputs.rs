//! Reads the inputs of a plan: whole files, and ranges of archives, which are opened once.

use crate::block_buffer::BlockBuffer;
use crate::cancellable_input::CancellableInput;
use crate::decompressor_cache::DecompressorCache;
use crate::input_format::{compression, open};
use crate::kept_tables::KeptTables;
use crate::open_archives::OpenArchives;
use crate::open_input::{OpenTable, SharedFile};
use crate::recorded_files::FirstReadCheck;
use crate::watched_input::WatchedInput;
use packhorse_core::{
    Cancel, Code, Error, Event, FileKind, FileStat, Input, InputRange, Kind, Limits, Observer, Result, Store, counted,
};
use packhorse_dataset::FieldSource;
use packhorse_storage::{Compression, Inside, Location, decompressed_len, descriptors, free_space, spool};
use std::io::ErrorKind;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Files planned with up to this many bytes are read without a check of their current size first.
const SMALL: u64 = 1 << 20;

/// The inputs of a plan, shared by all reading threads.
pub(crate) struct Inputs<'a> {
    store: &'a dyn Store,
    roots: &'a [PathBuf],
    scratch: &'a Path,
    limits: Limits,
    cancel: &'a Cancel,
    /// Archives that are read as they are, and those whose decompressed bytes are in a scratch file.
    plain: OpenArchives,
    spooled: OpenArchives,
    /// Hears once that archives are decompressed again and again.
    observer: Option<&'a dyn Observer>,
    told: AtomicBool,
    decompressors: DecompressorCache,
    /// Verifies shards of sealed datasets before their first read; `None` if turned off.
    first_reads: Option<FirstReadCheck>,
    /// Whether a file with another modification time is another file.
    compares_times: bool,
    /// Tables opened before, and the limits that they must have been opened with.
    kept: Option<(&'a KeptTables, Limits)>,
    /// An input on a server that could be read.
    readable: OnceLock<PathBuf>,
}

/// A range of an archive.
struct Section {
    archive: Arc<SharedFile>,
    name: String,
    offset: u64,
    len: u64,
}

impl Input for Section {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> Option<u64> {
        Some(self.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len) {
            return Err(Error::past_end(buf.len() as u64, offset, self.len).in_input(&self.name));
        }
        self.archive.input.read_at(self.offset + offset, buf)
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(InputRange { input: self, offset: 0, len: self.len }))
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        self.archive.input.stat()
    }
}

impl<'a> Inputs<'a> {
    pub(crate) fn new(
        store: &'a dyn Store,
        roots: &'a [PathBuf],
        scratch: &'a Path,
        limits: Limits,
        cancel: &'a Cancel,
    ) -> Self {
        Self {
            store,
            roots,
            scratch,
            limits,
            cancel,
            plain: OpenArchives::new(),
            spooled: OpenArchives::new(),
            observer: None,
            told: AtomicBool::new(false),
            decompressors: DecompressorCache::default(),
            first_reads: Some(FirstReadCheck::default()),
            compares_times: true,
            kept: None,
            readable: OnceLock::new(),
        }
    }

    /// Which tells `observer` what costs much time.
    pub(crate) fn telling(self, observer: &'a dyn Observer) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// With tables opened before, for sources of these limits.
    pub(crate) fn keeping(self, kept: &'a KeptTables, limits: Limits) -> Self {
        Self { kept: Some((kept, limits)), ..self }
    }

    /// Without comparing modification times, if `known`: the digests of the shards are recorded.
    pub(crate) fn of_known_digests(self, known: bool) -> Self {
        Self { compares_times: !known, ..self }
    }

    /// With `verify`, shards of sealed datasets are compared with their recorded digests before they are read.
    pub(crate) fn verifying(mut self, verify: bool) -> Self {
        self.first_reads = verify.then(FirstReadCheck::default);
        self
    }

    /// `Err(Cancelled)` after a request to stop. Checked before each sample: on slow storage a block takes long.
    pub(crate) fn check_cancel(&self) -> Result<()> {
        self.cancel.check()
    }

    /// Appends the bytes of `piece` to `out`.
    ///
    /// Errors: `Changed` for an input that differs from the plan; `Content` for one without permission to read.
    pub(crate) fn read(&self, piece: &FieldSource, out: &mut BlockBuffer) -> Result<()> {
        let path = self.path(piece);
        let done = match piece.extent {
            None => self.file(&path, piece, out),
            Some((offset, len)) => self.range(&path, piece, offset, len, out),
        };
        self.planned(done, &path)
    }

    /// Reads the whole file `name` below a root.
    pub(crate) fn whole(&self, root: u32, name: &str, most: u64) -> Result<Vec<u8>> {
        let path = self.roots.get(root as usize).map_or_else(|| PathBuf::from(name), |root| root.join(name));
        let bytes = self.store.open(&path).and_then(|input| input.read_all(most));
        self.planned(bytes, &path)
    }

    /// What became of the planned input `path`; a failure is [classified](Self::as_planned).
    fn planned<T>(&self, done: Result<T>, path: &Path) -> Result<T> {
        if done.is_ok() && Location::url(path).is_some() {
            self.readable.get_or_init(|| path.to_owned());
        }
        done.map_err(|e| self.as_planned(e, path).in_input(path.display()))
    }

    /// Classifies the failure of the planned input `path`: missing or shorter is `Changed`, a missing permission is `Content`,
    /// anything else stays a failure of the file system. So does the refusal of a server that now refuses an input, too, that it
    /// gave before: credentials end while a job runs. Before the first input its folder is asked for, which buckets have.
    pub(crate) fn as_planned(&self, error: Error, path: &Path) -> Error {
        let known = || self.readable.get().map(PathBuf::as_path).or(path.parent());
        let still_reads = || known().is_some_and(|known| self.store.stat(known, true).is_ok());
        match error.kind() {
            // A server that may not say whether it is there.
            Kind::Environment if error.is_absent() && error.code() == Code::NoPermission => error,
            Kind::Environment if error.is_absent() => Error::new(Kind::Changed, "vanished since the plan was made")
                .with_code(Code::InputVanished)
                .hint("restore it, or plan again into a new folder; or, if the inputs have another path here, give both paths as `moved` to `packhorse pack plan` or `packhorse repair`")
                .caused_by(error),
            Kind::Environment if error.io_kind() == Some(ErrorKind::PermissionDenied) => {
                match Location::url(path).is_none() || still_reads() {
                    true => error.with_kind(Kind::Content),
                    false => error,
                }
            }
            Kind::Content if error.code() == Code::CutShort => changed("it is shorter now"),
            _ => error,
        }
    }

    pub(crate) fn path(&self, piece: &FieldSource) -> PathBuf {
        let relative = piece.path.to_path();
        self.roots.get(piece.root as usize).map_or(relative.clone(), |root| root.join(relative))
    }

    /// The bytes of `piece` as an input.
    pub(crate) fn view(&self, piece: &FieldSource) -> Result<Box<dyn Input>> {
        let path = self.path(piece);
        let opened = match piece.extent {
            None => self.open(&path, None),
            Some((offset, len)) => self.opened(&path).map(|archive| -> Box<dyn Input> {
                let name = format!("{}: {}", path.display(), piece.field);
                Box::new(Section { archive, name, offset, len })
            }),
        };
        self.planned(opened, &path)
    }

    /// Opens a table input, once for all readers. A compressed one is opened for each run, and streamed unless the plan
    /// has a seek point.
    pub(crate) fn table(&self, piece: &FieldSource) -> Result<OpenTable> {
        let path = self.path(piece);
        let opened = match (compression(&path), piece.seek_point, piece.items) {
            (None, ..) => self.opened(&path).map(OpenTable::SharedFile),
            (Some(compression), Some(entrance), Some((from, to, _))) => {
                let open = |frame| {
                    let file = CancellableInput::new(self.open(&path, None)?, self.cancel);
                    Ok(Inside::new(Box::new(file), compression, entrance.len, frame))
                };
                let range = from.saturating_sub(1)..to.saturating_sub(1);
                self.decompressors.take(&path, range, entrance, open).map(OpenTable::Inside)
            }
            (compressed, ..) => self
                .check_first(&path)
                .and_then(|()| self.open(&path, compressed))
                .map(|input| OpenTable::SharedFile(Arc::new(SharedFile::new(input)))),
        };
        let opened = opened.and_then(|opened| {
            self.check_stamp(opened.input().stat()?, piece)?;
            Ok(opened)
        });
        self.planned(opened, &path)
    }

    /// Whether a table input is read from its start each time.
    pub(crate) fn is_streamed(&self, piece: &FieldSource) -> bool {
        compression(&self.path(piece)).is_some()
    }

    /// Decompresses a compressed table input, once: its checksums may come behind all samples.
    pub(crate) fn check_stream(&self, piece: &FieldSource) -> Result<()> {
        let path = self.path(piece);
        let Some(compression) = compression(&path) else { return Ok(()) };
        self.decompressors.check(&path, || {
            let file = CancellableInput::new(self.open(&path, None)?, self.cancel);
            decompressed_len(Box::new(file), compression).map(drop)
        })
    }

    /// `Changed` unless `opened` is still the file that was planned and opened.
    pub(crate) fn check(&self, opened: &OpenTable, piece: &FieldSource) -> Result<()> {
        let checked = opened.input().stat().and_then(|now| self.check_stamp(now, piece));
        checked.map_err(|e| e.in_input(self.path(piece).display()))
    }

    /// `Changed` unless `view`, the view of `piece`, is still the file that was planned.
    pub(crate) fn unchanged(&self, view: &dyn Input, piece: &FieldSource) -> Result<()> {
        self.check_stamp(view.stat()?, piece)
    }

    /// Returns the table of a finished run of `piece`, so that a later run goes on from there.
    pub(crate) fn leave(&self, opened: OpenTable, piece: &FieldSource) {
        let ended = piece.items.zip(piece.seek_point).is_none_or(|((_, to, _), inside)| to >= inside.len);
        if let (OpenTable::Inside(inside), false) = (opened, ended) {
            self.decompressors.put(self.path(piece), inside);
        }
    }

    fn opened(&self, path: &Path) -> Result<Arc<SharedFile>> {
        let (archives, place) = match compression(path) {
            None => (&self.plain, self.plain.place(path, |open, _| open < descriptors() / 8, || ())),
            Some(_) => {
                // Others need disk too, and the dataset that is packed first of all.
                let has_room = |_, bytes: u64| free_space(self.scratch).is_none_or(|free| free / 4 >= bytes);
                (&self.spooled, self.spooled.place(path, has_room, || self.tell_crowded()))
            }
        };
        place.get_or_init(|| self.open_archive(path)).clone().inspect_err(|failure| {
            // Retried by the next call, unless the archive is too large: that takes long to find out.
            if failure.kind() != Kind::Limit {
                archives.forget(path);
            }
        })
    }

    fn tell_crowded(&self) {
        if let (Some(observer), false) = (self.observer, self.told.swap(true, Ordering::Relaxed)) {
            observer.event(&Event::Warning(
                "compressed archives are decompressed several times: the order of the samples needs more of them at once \
                 than have room beside the dataset; make room, decompress them first, or pack without `shuffle`",
            ));
        }
    }

    fn check_stamp(&self, now: Option<FileStat>, piece: &FieldSource) -> Result<()> {
        match now {
            Some(now) if now.size != piece.size => Err(changed("its size differs")),
            Some(now) if self.compares_times && !is_time(now.mtime, piece.mtime) => {
                Err(changed("its modification time differs")
                    .hint("if it is a copy, copy it with its time (`cp -p`, `rsync -t`, or a tar in the format posix)"))
            }
            _ => Ok(()),
        }
    }

    /// Opens a file that was regular when it was planned.
    fn open(&self, path: &Path, compression: Option<Compression>) -> Result<Box<dyn Input>> {
        let input = open(self.store, path, compression).map_err(|e| match e.kind() {
            Kind::Content => changed("it is not a regular file now"),
            _ => e,
        })?;
        Ok(Box::new(WatchedInput::new(input)?))
    }

    fn file(&self, path: &Path, piece: &FieldSource, out: &mut BlockBuffer) -> Result<()> {
        if piece.size <= SMALL {
            let read = self.store.read(path, out.grow(self.limits.blob(piece.size)?)?);
            return match read {
                Ok(Some(now)) if now.size != piece.size => Err(resized(piece, now.size)),
                Ok(now) => self.check_stamp(now, piece),
                Err(e) if e.kind() == Kind::Content => Err(match self.store.stat(path, true)? {
                    now if now.kind == FileKind::File => resized(piece, now.size),
                    _ => changed("it is not a regular file now"),
                }),
                Err(e) => Err(e),
            };
        }
        let input = self.open(path, None)?;
        if input.len() != Some(piece.size) {
            return Err(resized(piece, input.len().unwrap_or_default()));
        }
        self.append(&*input, 0, piece.size, out)?;
        self.check_stamp(input.stat()?, piece)
    }

    fn range(&self, path: &Path, piece: &FieldSource, offset: u64, len: u64, out: &mut BlockBuffer) -> Result<()> {
        let archive = self.opened(path)?;
        self.append(&*archive.input, offset, len, out)?;
        self.check_stamp(archive.input.stat()?, piece)
    }

    fn append(&self, input: &dyn Input, offset: u64, len: u64, out: &mut BlockBuffer) -> Result<()> {
        // Checked before memory is allocated.
        if let Some(have) = input.len().filter(|have| offset.saturating_add(len) > *have) {
            // Decompressed bytes end where the file is damaged, which their reader says.
            let damage = input.read_at(have, &mut [0]).err().filter(|e| e.code() != Code::CutShort);
            return Err(damage.unwrap_or_else(|| changed("it is shorter now")));
        }
        input.read_at(offset, out.grow(self.limits.blob(len)?)?)
    }

    /// Whether `path` still names this open file, unchanged.
    fn is_at(&self, open: &dyn Input, path: &Path) -> Result<bool> {
        let now = self.store.stat(path, true)?;
        Ok(open.stat().is_ok_and(|open| open.is_none_or(|open| open.id == now.id)))
    }

    /// Before the first read of a shard of a sealed dataset, compares its digest.
    fn check_first(&self, path: &Path) -> Result<()> {
        self.first_reads.as_ref().map_or(Ok(()), |first_reads| first_reads.check(self.store, path, self.cancel))
    }

    fn open_archive(&self, path: &Path) -> Result<Arc<SharedFile>> {
        let compression = compression(path);
        self.check_first(path)?;
        if let Some(file) = self.kept.and_then(|(kept, limits)| kept.get(path, limits))
            && self.is_at(&*file.input, path)?
        {
            return Ok(file);
        }
        let input = self.open(path, compression)?;
        let input = match compression {
            None => input,
            Some(_) => spool(&*input, self.scratch, &self.limits, self.cancel)?,
        };
        Ok(Arc::new(SharedFile::new(input)))
    }
}

/// Whether `now` is the planned time of modification, in nanoseconds. A planned time in whole seconds, milliseconds or microseconds, as
/// inventories have it, is compared as precisely as that.
fn is_time(now: i64, planned: i64) -> bool {
    let step = [1_000_000_000, 1_000_000, 1000].into_iter().find(|step| planned % step == 0).unwrap_or(1);
    now - now.rem_euclid(step) == planned
}

fn resized(piece: &FieldSource, now: u64) -> Error {
    changed(&format!("it had {} and has {now} now", counted(piece.size, "byte")))
}

fn changed(what: &str) -> Error {
    Error::new(Kind::Changed, format!("changed since the plan was made: {what}"))
        .hint("restore it, or plan again into a new folder")
}
