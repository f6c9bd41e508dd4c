//! A parallel walk over folders: names, sizes and times. Opens only containers.

use super::companions;
use super::decode::is_single;
use super::division::Division;
use super::files_from::{hidden, is_hidden, of_list};
use super::inventory::InventoryTable;
use super::listing::{FoundFile, HIDDEN, WalkEvent};
use super::recipe_tables::RecipeTables;
use super::view_walk::ViewWalk;
use super::work_queue::WorkQueue;
use super::{Scan, ScanOptions, twins};
use crate::glob::Globs;
use crate::input_format::{NameRules, container, unread};
use crate::key_ends::SourcePath;
use crate::refuse_view::refuse_view;
use crate::{Part, Symlinks};
use crossbeam_channel::Sender;
use packhorse_core::{Code, Codec, DirEntry, Error, Event, FileKind, FileStat, Format, Kind, Options, Result, Source};
use packhorse_dataset::{MANIFEST, VIEW, is_of_packing, is_plan_name, not_sealed};
use packhorse_storage::Compression;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const EXCLUDED: &str = "not wanted by `include` and `exclude`";
const LINK: &str = "a symbolic link";
pub(super) const OUTPUT: &str = "the folder of the dataset itself";
const COMPANION: &str = "a part of a file beside it";
const NESTED: &str = "give the view itself as an input, or leave its folder out with `exclude`";
const TABLE: &str = "a table of metadata, or a list of classes or splits";
const BESIDE: &str = "beside the shards of a sealed dataset and not part of it";
const LOOP: &str = "a symbolic link to a folder above it";

/// The most samples of a table (2⁴⁰): a header may claim any number, and runs are planned for it.
pub(super) const MOST_SAMPLES: u64 = 1 << 40;

/// Names per task, so that one huge folder keeps all threads busy.
pub(super) const CHUNK: usize = 512;

/// A walk over the inputs.
pub(super) struct FolderWalk<'a> {
    pub(super) context: Scan<'a>,
    pub(super) globs: Globs,
    pub(super) names: NameRules,
    /// Whether only the tables of inputs are listed.
    pub(super) tables: bool,
    /// Whether the warning about indivisible files was sent.
    pub(super) said: AtomicBool,
    /// Files that were looked at for fields that are not taken.
    pub(super) looks: AtomicUsize,
    pub(super) options: &'a ScanOptions<'a>,
    pub(super) named: RecipeTables,
    /// Device and inode of the dataset's folder, if it exists.
    pub(super) output: Option<(u64, u64)>,
    pub(super) found: Sender<WalkEvent>,
    /// The folders that were checked for a manifest.
    pub(super) seen: Mutex<BTreeSet<PathBuf>>,
    /// The containers that were looked into.
    pub(super) containers: Mutex<BTreeSet<PathBuf>>,
    /// The sources of the formats found, by id.
    pub(super) sources: Mutex<BTreeMap<&'static str, Arc<dyn Source>>>,
    /// The encoded fields of which one was found to be a single array.
    pub(super) singles: Mutex<BTreeSet<String>>,
    /// What this process looks at.
    pub(super) division: Division<Folder>,
}

/// A task of the walk.
pub(super) enum Task {
    /// A folder with all below it.
    Folder(Folder),
    /// Some names in a folder.
    Names(Arc<Folder>, Vec<PathBuf>),
    /// Some paths of a list, relative to a root.
    Listed(Arc<Folder>, Vec<PathBuf>),
    /// What a table of an inventory lists.
    Inventory(Arc<InventoryTable>),
    /// Files of a folder below a root whose headers are read.
    Files(Arc<Folder>, PathBuf, Vec<FoundFile>),
    /// A view.
    View(Arc<ViewWalk>),
    /// A shard with samples of a view.
    ViewShard(Arc<ViewWalk>, u32),
    /// The members of an archive.
    Archive { root: u32, base: Arc<PathBuf>, path: PathBuf, stat: FileStat },
}

/// A folder to visit.
pub(super) struct Folder {
    pub(super) root: u32,
    pub(super) base: Arc<PathBuf>,
    pub(super) path: PathBuf,
    pub(super) above: Option<Arc<Chain>>,
    /// Whether its files are inputs that the user named.
    pub(super) named: bool,
    /// Whether every part of a scan lists it, and looks at its share of the names. Of other folders one part looks at all.
    pub(super) shared: bool,
    /// What its listing told of the files in it, by name.
    pub(super) stats: BTreeMap<PathBuf, FileStat>,
}

/// The folders above, to detect loops of links.
pub(super) struct Chain {
    id: (u64, u64),
    above: Option<Arc<Chain>>,
}

impl Chain {
    /// A folder with nothing above it.
    pub(super) fn root(stat: &FileStat) -> Arc<Self> {
        Arc::new(Self { id: stat.id, above: None })
    }

    fn holds(&self, id: (u64, u64)) -> bool {
        self.id == id || self.above.as_ref().is_some_and(|above| above.holds(id))
    }
}

fn missing_shard(path: &Path) -> Error {
    Error::new(Kind::Incomplete, "is missing, and the dataset.json beside it lists it")
        .with_code(Code::ShardMissing)
        .hint("`packhorse repair` packs it again; if dataset.json is not of these files, move it elsewhere")
        .in_input(path.display())
}

/// Whether `name` is the manifest, the plan, hidden, or that of a shard, whose names start with `stems`.
fn is_beside(name: &Path, stems: &BTreeSet<&[u8]>) -> bool {
    let stem = stem(name.as_os_str());
    name == Path::new(MANIFEST) || is_plan_name(&name.to_string_lossy()) || stem.is_empty() || stems.contains(stem)
}

/// A file name up to its first dot.
fn stem(name: &OsStr) -> &[u8] {
    name.as_bytes().split(|byte| *byte == b'.').next().unwrap_or_default()
}

impl<'a> FolderWalk<'a> {
    pub(super) fn new(
        context: Scan<'a>,
        options: &'a ScanOptions<'a>,
        found: Sender<WalkEvent>,
        (part, tables): (Part, bool),
    ) -> Result<Self> {
        let recipe = options.recipe;
        let globs = Globs::new(&recipe.include, &recipe.exclude)?;
        let output = recipe.out.as_ref().and_then(|path| Some(context.store.stat(path, true).ok()?.id));
        // Compressed files of JSON (`.json.gz`) hold JSON lines where text becomes tokens.
        let names = NameRules { from: recipe.from.clone(), rows: recipe.rows, lines: recipe.tokenizer.is_some() };
        Ok(Self {
            context,
            globs,
            names,
            said: AtomicBool::new(false),
            looks: AtomicUsize::new(0),
            tables,
            options,
            named: RecipeTables::of(recipe),
            output,
            found,
            seen: Mutex::default(),
            containers: Mutex::default(),
            sources: Mutex::default(),
            singles: Mutex::default(),
            division: Division::new(part),
        })
    }

    pub(super) fn send(&self, batch: WalkEvent) {
        // The receiver is gone only after the scan failed.
        let _ = self.found.send(batch);
    }

    pub(super) fn send_ignored(&self, why: &'static str, path: PathBuf) {
        self.send(WalkEvent::Ignored(Cow::Borrowed(why), 1, path));
    }

    /// Sends so many inputs that are ignored for a reason, of which this is the first.
    pub(super) fn send_outside(&self, why: &'static str, count: u64, first: PathBuf) {
        self.send(WalkEvent::Ignored(Cow::Borrowed(why), count, first));
    }

    pub(super) fn fault(&self, error: Error) {
        let batch = match error.kind() {
            Kind::Content | Kind::Limit => WalkEvent::Fault(error),
            _ => WalkEvent::Abort(error),
        };
        self.send(batch);
    }

    /// The folders to go on with when the queue is empty.
    pub(super) fn next_level(&self) -> Vec<Task> {
        let with = |shared: bool| move |folder: Folder| Task::Folder(Folder { shared, ..folder });
        let (folders, shared) = self.division.next_level(|folder| (folder.root, folder.path.clone()));
        folders.into_iter().map(with(shared)).collect()
    }

    /// Whether this process looks at `path` in a folder.
    fn owns(&self, folder: &Folder, path: &Path) -> bool {
        !folder.shared || self.division.owns(folder.root, path)
    }

    /// Runs one task; further tasks go to the queue.
    pub(super) fn run(&self, task: Task, queue: &WorkQueue<Task>) {
        match task {
            Task::Folder(folder) => self.folder(queue, folder),
            Task::Names(folder, names) => self.names(queue, &folder, &names),
            Task::Listed(folder, paths) => self.listed(&folder, &paths),
            Task::Inventory(table) => self.inventory(queue, &table),
            Task::Files(root, folder, files) => self.files(&root, &folder, files),
            Task::View(walk) => self.view(queue, &walk),
            Task::ViewShard(walk, shard) => self.view_shard(&walk, shard),
            Task::Archive { root, base, path, stat } => self.archive(root, &base, path, stat),
        }
    }

    fn folder(&self, queue: &WorkQueue<Task>, mut folder: Folder) {
        if self.context.cancel.is_cancelled() {
            return self.fault(Error::cancelled());
        }
        let own = self.owns(&folder, &folder.path);
        let path = folder.base.join(&folder.path);
        let entries = self.context.store.entries(&path);
        if folder.shared {
            self.division.share(folder.root, &folder.path, entries.is_ok());
        }
        let mut entries = match entries {
            Ok(entries) => entries,
            // Web servers do not list folders, but a dataset says what it has.
            Err(e) if e.kind() == Kind::Unsupported => match self.sealed(folder.root, &folder.path, &path, true) {
                Ok(Some((shards, _))) => return self.queue_names(queue, folder, shards.into_iter().map(PathBuf::from)),
                Ok(None) => return self.of_name(own, of_input(e)),
                Err(e) => return self.fault(e),
            },
            Err(e) => return self.of_name(own, of_input(e)),
        };
        if let Some((folder, names)) = twins::take(&folder, &mut entries) {
            self.queue_names(queue, folder, names.into_iter());
        }
        // Names that are surely not of folders concern one part alone.
        let leaf = |entry: &DirEntry| matches!(entry.kind, Some(FileKind::File | FileKind::Special));
        let looked = |entry: &&DirEntry| !leaf(entry) || self.owns(&folder, &folder.path.join(&entry.name));
        let stats = entries.iter().filter(looked).filter_map(|entry| Some((entry.name.clone(), entry.stat?))).collect();
        let ours: Option<BTreeSet<PathBuf>> =
            folder.shared.then(|| entries.iter().filter(looked).map(|entry| entry.name.clone()).collect());
        folder.stats = stats;
        let mut names: Vec<PathBuf> = entries.into_iter().map(|entry| entry.name).collect();
        let place = if folder.path == Path::new("") { &*folder.base } else { &path };
        let has = |wanted: &str| names.iter().any(|name| name.as_os_str() == wanted);
        if names.iter().any(|name| is_of_packing(name)) && !has(MANIFEST) && !has(VIEW) {
            // Its shards may be a part of a dataset, and the files beside them hold no sample.
            let error = not_sealed(self.context.store, place, "");
            return self.fault(error.hint("or give its shards by a pattern, if these are all"));
        }
        if names.iter().any(|name| name.as_os_str() == MANIFEST)
            && let Err(e) = self.shards_alone(&folder, own, &mut names)
        {
            return self.fault(e);
        }
        if names.iter().any(|name| name.as_os_str() == VIEW)
            && let Err(e) = refuse_view(self.context.store, place)
        {
            return self.send(WalkEvent::Abort(e.hint(NESTED)));
        }
        let takes = |name: &Path| self.globs.takes(&folder.path.join(name));
        if let Some(error) = companions::zarr(place, &names, takes).filter(|_| self.names.has_containers()) {
            return self.of_name(own, error);
        }
        if self.names.from.is_none() {
            let parts = companions::take(self.context.registry, &mut names);
            self.ignored(own, COMPANION, &folder, parts.into_iter());
        }
        let (hidden, names): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| is_hidden(name));
        self.ignored(own, HIDDEN, &folder, hidden.into_iter());
        let looked = |name: &PathBuf| ours.as_ref().is_none_or(|ours| ours.contains(name));
        self.queue_names(queue, folder, names.into_iter().filter(looked));
    }

    fn queue_names(&self, queue: &WorkQueue<Task>, folder: Folder, names: impl Iterator<Item = PathBuf>) {
        let (names, folder) = (names.collect::<Vec<_>>(), Arc::new(folder));
        for chunk in names.chunks(CHUNK) {
            queue.add(Task::Names(folder.clone(), chunk.to_vec()));
        }
    }

    /// Leaves of the names in the folder of a sealed dataset those of its shards: nothing else there is an input.
    fn shards_alone(&self, folder: &Folder, own: bool, names: &mut Vec<PathBuf>) -> Result<()> {
        let path = folder.base.join(&folder.path);
        let Some((shards, documents)) = self.sealed(folder.root, &folder.path, &path, true)? else { return Ok(()) };
        let beside: Vec<_> = names.extract_if(.., |name| !shards.contains(name.as_os_str())).collect();
        let there: BTreeSet<_> = names.iter().map(|name| name.as_os_str()).collect();
        if let Some(missing) = shards.iter().find(|shard| !there.contains(shard.as_os_str())) {
            return Err(missing_shard(&path.join(missing)));
        }
        let stems: BTreeSet<&[u8]> = shards.iter().map(|shard| stem(shard)).collect();
        let other = |name: &PathBuf| !documents.contains(name.as_os_str()) && !is_beside(name, &stems);
        self.ignored(own, BESIDE, folder, beside.into_iter().filter(other));
        Ok(())
    }

    /// Sends names in a folder that are not inputs, unless another part does.
    fn ignored(&self, own: bool, why: &'static str, folder: &Folder, names: impl Iterator<Item = PathBuf>) {
        names.filter(|_| own).for_each(|name| self.send_ignored(why, folder.path.join(name)));
    }

    /// Reports the error of one name, unless it is a bad input that another part reports.
    fn of_name(&self, own: bool, error: Error) {
        if own || !matches!(error.kind(), Kind::Content | Kind::Limit) {
            self.fault(error);
        }
    }

    fn names(&self, queue: &WorkQueue<Task>, folder: &Folder, names: &[PathBuf]) {
        if self.context.cancel.is_cancelled() {
            return self.fault(Error::cancelled());
        }
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let path = folder.path.join(name);
            let own = self.owns(folder, &path);
            match self.look(folder, &path) {
                Ok(Look::Folder(above)) => {
                    let (root, base, stats) = (folder.root, folder.base.clone(), BTreeMap::new());
                    let below = Folder { root, base, path, above: Some(above), named: false, shared: false, stats };
                    match folder.shared {
                        true => self.division.add(below),
                        false => queue.add(Task::Folder(below)),
                    }
                }
                Ok(_) if !own => {}
                Ok(Look::File(stat)) => files.push(found(name, &stat)),
                Ok(Look::Archive(stat)) => {
                    queue.add(Task::Archive { root: folder.root, base: folder.base.clone(), path, stat });
                }
                Ok(Look::Ignored(why)) => self.send_ignored(why, path),
                Err(e) => self.of_name(own, of_input(e)),
            }
        }
        self.files(folder, &folder.path, files);
    }

    /// Paths of a list, relative to the root.
    fn listed(&self, root: &Folder, paths: &[PathBuf]) {
        if self.context.cancel.is_cancelled() {
            return self.fault(Error::cancelled());
        }
        for path in paths.iter().filter(|path| self.division.owns(root.root, path)) {
            let folder = path.parent().unwrap_or(Path::new(""));
            let name = Path::new(path.file_name().unwrap_or_default());
            match self.look(root, path) {
                Ok(Look::File(_)) if is_hidden(path) => self.fault(hidden(path)),
                Ok(Look::File(stat)) => self.files(root, folder, vec![found(name, &stat)]),
                Ok(Look::Archive(stat)) => self.archive(root.root, &root.base, path.clone(), stat),
                Ok(Look::Folder(_)) => {
                    self.fault(Error::content("is a folder; a list names files").in_input(path.display()));
                }
                Ok(Look::Ignored(why)) => self.send_ignored(why, path.clone()),
                Err(e) => self.fault(of_list(of_input(e))),
            }
        }
    }

    /// Sends files of the folder `path` below that of `root`.
    pub(super) fn files(&self, root: &Folder, path: &Path, mut files: Vec<FoundFile>) {
        if files.is_empty() {
            return;
        }
        self.context.observer.event(&Event::Scanned { files: files.len() as u64 });
        if self.options.probes {
            self.probe(root, path, &mut files);
        }
        self.send(WalkEvent::Files { root: root.root, folder: path.to_owned(), files });
    }

    /// Looks at the headers of encoded files. Those that can't be read are looked at again, and reported, by the plan.
    fn probe(&self, root: &Folder, path: &Path, files: &mut [FoundFile]) {
        let folder = root.base.join(path);
        let input = crate::real_path::name_of(&root.base);
        let Scan { registry, store, limits, .. } = self.context;
        let mut codecs: BTreeMap<String, Option<Box<dyn Codec>>> = BTreeMap::new();
        for file in files {
            if self.context.cancel.is_cancelled() {
                return;
            }
            let name = SourcePath { input: input.as_bytes(), folder: path.as_os_str().as_bytes(), base: &file.name };
            let Ok((_, name)) = self.options.recipe.key_ends.split_path(name) else { continue };
            let field = name.field.clone();
            let codec = codecs.entry(name.field).or_insert_with(|| {
                registry.by_field(&field).and_then(|format| format.codec(&Options::new(), limits).ok())
            });
            let Some(codec) = codec.as_ref().filter(|_| self.is_decoded(&field)) else { continue };
            let input = store.open(&folder.join(OsStr::from_bytes(&file.name)));
            let Ok(columns) = input.and_then(|input| codec.probe(&field, &*input)) else { continue };
            if is_single(&**codec, &field, &columns) {
                self.singles.lock().unwrap_or_else(PoisonError::into_inner).insert(field);
            }
            file.columns = Some(columns.into());
        }
    }

    /// Whether the plan will ask for the columns of a field. A format of bytes takes a field that is one array as it is.
    fn is_decoded(&self, field: &str) -> bool {
        self.options.typed || !self.singles.lock().unwrap_or_else(PoisonError::into_inner).contains(field)
    }

    /// The kind of input at `path`.
    fn look(&self, folder: &Folder, path: &Path) -> Result<Look> {
        let full = folder.base.join(path);
        let told = path.file_name().and_then(|name| folder.stats.get(Path::new(name)));
        let mut stat = told.map_or_else(|| self.context.store.stat(&full, false), |stat| Ok(*stat))?;
        if stat.kind == FileKind::Symlink {
            if self.options.recipe.symlinks == Symlinks::Skip {
                return Ok(Look::Ignored(LINK));
            }
            stat = match self.context.store.stat(&full, true) {
                Err(error) if error.is_absent() && self.globs.takes(path) => return Err(broken_link(&full)),
                Err(error) if error.is_absent() => return Ok(Look::Ignored(EXCLUDED)),
                stat => stat?,
            };
        }
        self.judge(folder, path, stat)
    }

    /// The kind of input that has this stat, no symbolic link.
    pub(super) fn judge(&self, folder: &Folder, path: &Path, stat: FileStat) -> Result<Look> {
        let full = folder.base.join(path);
        match stat.kind {
            FileKind::Directory => Ok(self.below(folder, path, &stat)),
            _ if !self.globs.takes(path) => Ok(Look::Ignored(EXCLUDED)),
            FileKind::File if self.named.has(&full) => Ok(Look::Ignored(TABLE)),
            FileKind::File if self.is_input(folder, path) => Ok(Look::Archive(stat)),
            FileKind::File => match unread(self.context.registry, path).filter(|_| self.names.has_containers()) {
                None => Ok(Look::File(stat)),
                Some(program) => Err(Error::content(format!(
                    "is compressed in a way that packhorse can't read, so its content would be packed as one field; \
                     decompress it first ({program})"
                ))
                .in_input(full.display())),
            },
            FileKind::Symlink | FileKind::Special => {
                Err(Error::content("is a FIFO, a socket or a device, and holds no sample").in_input(full.display()))
            }
        }
    }

    fn below(&self, folder: &Folder, path: &Path, stat: &FileStat) -> Look {
        if self.globs.prunes(path) {
            Look::Ignored(EXCLUDED)
        } else if self.output == Some(stat.id) {
            Look::Ignored(OUTPUT)
        } else if folder.above.as_ref().is_some_and(|above| above.holds(stat.id)) {
            Look::Ignored(LOOP)
        } else {
            Look::Folder(Arc::new(Chain { id: stat.id, above: folder.above.clone() }))
        }
    }

    /// Whether the file at `path` is a container, not a field of a sample.
    fn is_input(&self, folder: &Folder, path: &Path) -> bool {
        let named = folder.named || self.names.from.is_some();
        self.container(path).is_some_and(|(format, _)| named || format.in_folders())
    }

    pub(super) fn container(&self, path: &Path) -> Option<(&'a Arc<dyn Format>, Option<Compression>)> {
        container(self.context.registry, &self.names, path)
    }
}

/// The kind of an input.
pub(super) enum Look {
    File(FileStat),
    Archive(FileStat),
    Folder(Arc<Chain>),
    /// None, for this reason.
    Ignored(&'static str),
}

pub(super) fn found(name: &Path, stat: &FileStat) -> FoundFile {
    FoundFile { name: name.as_os_str().as_bytes().into(), size: stat.size, mtime: stat.mtime, columns: None }
}

fn broken_link(path: &Path) -> Error {
    let error = Error::content("is a symbolic link to a missing file").in_input(path.display());
    error.hint("`symlinks=skip` passes over all links, `exclude` over some")
}

/// Tells the error of one input from a failing file system: a missing permission, a broken link and a too long name
/// concern only this input.
pub(crate) fn of_input(error: Error) -> Error {
    let alone = match error.io_kind() {
        Some(ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::InvalidFilename) => true,
        _ => error.is_loop(),
    };
    if alone && error.kind() == Kind::Environment { error.with_kind(Kind::Content) } else { error }
}
