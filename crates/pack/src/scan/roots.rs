//! Where a scan starts: folders, single files, or a list of files.

use super::files_from::listed_files;
use super::folder_walk::{Chain, Folder, FolderWalk, Task};
use super::inventory;
use super::listing::{ListingBuilder, WalkEvent, without_extension};
use super::view_walk::ViewWalk;
use super::work_queue::WorkQueue;
use super::{Scan, ScanOptions};
use crate::input_format::{FILES, main_file};
use crate::real_path::real_path;
use crate::recorded_files::sealed_manifest;
use crate::request_error::with_suggestion;
use crate::{OnError, Part, Recipe};
use packhorse_core::{Code, Error, Event, FileKind, FileStat, InputTable, Kind, Options, Result, Store};
use packhorse_dataset::{Digest, MANIFEST, VIEW};
use packhorse_storage::{Location, Staging, paths_of};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Runs one part of the walk, and calls `each` with what it finds. Returns the digest of the folders that all parts list.
pub(super) fn walk(
    context: Scan<'_>,
    options: &ScanOptions<'_>,
    (starts, part): (Vec<Task>, Part),
    each: &mut dyn FnMut(WalkEvent) -> Result<()>,
) -> Result<Digest> {
    run(context, options, (starts, part, false), each)
}

/// A digest of the inputs: folders, single files, paths of a list, samples of views. Roots are known by their numbers.
pub(super) fn digest(starts: &[Task]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    let mut text = |kind: u8, root: u32, path: &Path| {
        hasher.update(&[kind]).update(&root.to_le_bytes()).update(path.as_os_str().as_bytes()).update(&[0]);
    };
    for task in starts {
        match task {
            Task::Folder(folder) => text(0, folder.root, Path::new("")),
            Task::Listed(folder, paths) => paths.iter().for_each(|path| text(1, folder.root, path)),
            Task::View(walk) => walk.name(&mut |part| text(2, 0, Path::new(part))),
            Task::Inventory(table) => text(3, 0, Path::new(&format!("{:?} {}", table.version, table.path.display()))),
            _ => {}
        }
    }
    hasher.finalize().into()
}

/// The views among the first tasks.
pub(super) fn views(starts: Vec<Task>) -> impl Iterator<Item = Arc<ViewWalk>> {
    starts.into_iter().filter_map(|task| match task {
        Task::View(walk) => Some(walk),
        _ => None,
    })
}

/// Runs the walk and feeds `builder`.
pub(super) fn collect(context: Scan<'_>, options: &ScanOptions<'_>, builder: &mut ListingBuilder) -> Result<()> {
    let starts = starts(context, options, builder)?;
    run(context, options, (starts, Part::ALL, false), &mut |batch| builder.take(batch)).map(drop)
}

/// The tables of all inputs, by path. Under [`OnError::Skip`] bad inputs are left out.
pub(super) fn tables(context: Scan<'_>, options: &ScanOptions<'_>) -> Result<BTreeMap<PathBuf, Vec<InputTable>>> {
    let mut found = BTreeMap::new();
    let starts = starts(context, options, &mut options.builder())?;
    run(context, options, (starts, Part::ALL, true), &mut |batch| match batch {
        WalkEvent::Tables { path, tables } => {
            found.insert(path, tables);
            Ok(())
        }
        WalkEvent::Fault(error) if options.recipe.on_error == OnError::Fail => Err(error),
        _ => Ok(()),
    })
    .map(|_| found)
}

/// Runs the part of the walk from the tasks on, and calls `each` with what it finds. Returns the digest of the folders that
/// all parts list.
fn run(
    context: Scan<'_>,
    options: &ScanOptions<'_>,
    (starts, part, tables): (Vec<Task>, Part, bool),
    each: &mut dyn FnMut(WalkEvent) -> Result<()>,
) -> Result<Digest> {
    // A walk that fails stops alone, and not what its caller does next.
    let cancel = context.cancel.part();
    let context = Scan { cancel: &cancel, ..context };
    let (sender, receiver) = crossbeam_channel::bounded(1024);
    let walk = FolderWalk::new(context, options, sender, (part, tables))?;
    let top = |task| match task {
        Task::Folder(folder) => Task::Folder(Folder { shared: part != Part::ALL, ..folder }),
        other => other,
    };
    let mut tasks: Vec<Task> = starts.into_iter().map(top).collect();
    std::thread::scope(|threads| {
        let walking = std::thread::Builder::new().spawn_scoped(threads, move || {
            // Drops the sender when the walk ends, or the receiver would block forever.
            let walk = walk;
            while !tasks.is_empty() {
                WorkQueue::run(tasks, options.io_threads, &|task, queue| walk.run(task, queue));
                tasks = walk.next_level();
            }
            if part == Part::ALL && !tables {
                walk.globs.unused().for_each(|glob| {
                    let text = format!("{glob} matches none of the inputs, whose paths start below INPUT");
                    context.observer.event(&Event::Warning(&text));
                });
            }
            walk.division.digest()
        });
        let walking = walking.map_err(Error::thread)?;
        // Dropped when the scan fails, or senders would block forever.
        let receiver = receiver;
        let taken = receiver.iter().try_for_each(|batch| match batch {
            WalkEvent::Abort(error) => Err(error),
            batch => each(batch),
        });
        // Nothing takes what the walk would still find.
        taken.inspect_err(|_| context.cancel.cancel())?;
        walking.join().map_err(|_| Error::bug("a thread of the scan panicked"))
    })
}

/// The first tasks of the walk. Where listings of parts take its place, a list or an inventory is not read again.
pub(super) fn starts(context: Scan<'_>, options: &ScanOptions<'_>, builder: &mut ListingBuilder) -> Result<Vec<Task>> {
    // Staged files are unfinished, and are removed when their process ends.
    let unfinished = options.recipe.out.as_deref().map(|out| [Staging::folder(out), Staging::replacing(out)]);
    let unfinished: Vec<PathBuf> = unfinished.into_iter().flatten().map(|dir| Location::absolute(&dir)).collect();
    let staged = |root: &&PathBuf| {
        let root = Location::absolute(root);
        unfinished.iter().any(|dir| root.starts_with(dir))
    };
    let input = match (&options.recipe.inventory, &options.recipe.files_from) {
        (None, None) => matched(context.store, &options.recipe.input)?,
        _ => options.recipe.input.clone(),
    };
    if let Some(root) = input.iter().find(staged) {
        let message = "lies where unfinished shards of this dataset are staged; move it out, or choose another `out`";
        return Err(Error::config(message).in_input(root.display()));
    }
    if let Some(path) = &options.recipe.inventory {
        let read = options.listings.is_none();
        return inventory::starts(context, (path, read), &options.recipe.input, builder);
    }
    match &options.recipe.files_from {
        Some(_) if options.listings.is_some() => listed(&[], &options.recipe.input, builder),
        Some(list) => listed(&listed_files(list)?, &options.recipe.input, builder),
        None => {
            let paired = options.recipe.from.as_deref() != Some(FILES);
            let input = if paired { without_companions(context, input) } else { input };
            let bases = bases_of_namesakes(context, options.recipe, &input);
            let starts = input.iter().map(|root| start((context, paired), root, bases.get(root.as_path()), builder));
            let starts = starts.collect::<Result<Vec<_>>>()?;
            alone(&starts)?;
            apart(&starts)?;
            Ok(starts)
        }
    }
}

/// The inputs without those whose main file is one of them too: a pattern may match both.
fn without_companions(context: Scan<'_>, input: Vec<PathBuf>) -> Vec<PathBuf> {
    let mains: Vec<PathBuf> = input.iter().map(|path| main_file(context.registry, context.store, path)).collect();
    let all: BTreeSet<&PathBuf> = input.iter().collect();
    let is_companion = |(path, main): (&PathBuf, &PathBuf)| main != path && all.contains(main);
    let kept: Vec<bool> = input.iter().zip(&mains).map(|pair| !is_companion(pair)).collect();
    input.into_iter().zip(kept).filter_map(|(path, keep)| keep.then_some(path)).collect()
}

/// The inputs, with what patterns match in their place.
pub(crate) fn matched(store: &dyn Store, inputs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all = Vec::with_capacity(inputs.len());
    for input in inputs {
        let found = paths_of(store, input).map_err(|error| error.in_input(input.display()))?;
        if found.is_empty() {
            return Err(Error::config("matches no file").with_code(Code::NoSuchFile).in_input(input.display()));
        }
        all.extend(found);
    }
    Ok(all)
}

/// Refuses a view beside its dataset or another view of it: samples of both would be inputs twice.
fn alone(starts: &[Task]) -> Result<()> {
    let places = starts.iter().map(|task| match task {
        Task::Folder(Folder { base, .. }) => Some(real_path(base)),
        Task::View(walk) => Some(real_path(&walk.opened.base)),
        _ => None,
    });
    let places: Vec<Option<PathBuf>> = places.collect();
    for (at, task) in starts.iter().enumerate() {
        let Task::View(walk) = task else { continue };
        let twice = places.iter().enumerate().any(|(other, place)| other != at && places.get(at) == Some(place));
        if twice {
            let message =
                "is a view of a dataset that is another input too; give one view that has the samples of both";
            return Err(Error::config(message).in_input(walk.opened.dir.display()));
        }
    }
    Ok(())
}

/// Refuses an input that lies in another one: its samples would be inputs twice.
fn apart(starts: &[Task]) -> Result<()> {
    let folder = |task: &Task| match task {
        Task::Folder(Folder { base, .. }) => Some(real_path(base)),
        _ => None,
    };
    let file = |task: &Task| match task {
        Task::Listed(folder, names) => names.first().map(|name| real_path(&folder.base.join(name))),
        task => folder(task),
    };
    let around = |task: &Task| match task {
        // Shards of other folders may be inputs beside a view.
        Task::View(walk) => Some(real_path(&walk.opened.base)),
        task => folder(task),
    };
    let folders: HashSet<PathBuf> = starts.iter().filter_map(around).collect();
    let mut seen = HashSet::new();
    for task in starts {
        let Some(path) = file(task) else { continue };
        let above = path.ancestors().skip(1).find(|above| folders.contains(*above));
        let twice = matches!(task, Task::Folder(_)) && !seen.insert(path.clone());
        if let Some(above) = above.or(twice.then_some(&path)) {
            let message = format!("lies in {}, which is an input too; give one of them", above.display());
            return Err(Error::config(message).in_input(path.display()));
        }
    }
    Ok(())
}

/// The folders that the keys of tables of one name are relative to (`2024/a.csv` and `2025/a.csv`), by table: the one around all of
/// them, since their samples would have the same keys.
fn bases_of_namesakes<'i>(context: Scan<'_>, recipe: &Recipe, inputs: &'i [PathBuf]) -> HashMap<&'i Path, PathBuf> {
    let mut alike: HashMap<_, Vec<&Path>> = HashMap::new();
    // With ids of their own, keys do not clash.
    for path in inputs.iter().filter(|path| recipe.id_field.is_none() && Location::url(path).is_none()) {
        let name = path.file_name().map(|name| without_extension(Path::new(name)));
        alike.entry((path.is_absolute(), name)).or_default().push(path);
    }
    let mut bases = HashMap::new();
    for paths in alike.into_values().filter(|paths| paths.len() > 1) {
        let climbs = |path: &&Path| path.components().any(|part| part == Component::ParentDir);
        if paths.iter().any(climbs) || !paths.iter().all(|path| is_table(context, recipe, path)) {
            continue;
        }
        let Some(first) = paths.first() else { continue };
        let around = first.ancestors().skip(1).find(|folder| paths.iter().all(|path| path.starts_with(folder)));
        let Some(around) = around else { continue };
        let base = if around.as_os_str().is_empty() { Path::new(".") } else { around };
        bases.extend(paths.iter().map(|path| (*path, base.to_owned())));
    }
    bases
}

/// Whether `from` or the extension of a file says that it is a table.
fn is_table(context: Scan<'_>, recipe: &Recipe, path: &Path) -> bool {
    let format = match &recipe.from {
        Some(from) => context.registry.get(from).ok(),
        None => path.file_name().and_then(|name| context.registry.by_name(name.as_bytes())),
    };
    let source = format.and_then(|format| format.source(&Options::new(), context.limits).ok());
    source.is_some_and(|source| !source.lists())
}

/// The first task of a root; of a file below `base`, if there is one. A missing root is always an error. `paired`: whether a file may
/// stand for the main one of a pair.
fn start(
    (context, paired): (Scan<'_>, bool),
    root: &Path,
    base: Option<&PathBuf>,
    builder: &mut ListingBuilder,
) -> Result<Task> {
    // The manifest stands for its dataset.
    let folder = root.parent().filter(|_| root.file_name().is_some_and(|name| name == MANIFEST));
    let root = match folder.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder }) {
        Some(folder) => match sealed_manifest(context.store, folder) {
            Ok(Some(_)) => folder,
            Err(e) if e.kind() == Kind::Environment && !e.is_absent() => return Err(e),
            _ => root,
        },
        None => root,
    };
    let stat = context.store.stat(root, true).or_else(|e| match Location::url(root).filter(|_| e.is_absent()) {
        // A web server may have a dataset in a folder that it does not know.
        Some(_) if context.store.stat(&root.join(MANIFEST), true).is_ok() => {
            Ok(FileStat { kind: FileKind::Directory, size: 0, mtime: 0, ctime: 0, id: (0, 0) })
        }
        _ => Err(with_suggestion(context.store, root, e)),
    })?;
    if stat.kind == FileKind::Directory {
        let is_dataset = |name: &&str| context.store.stat(&root.join(name), true).is_ok();
        if !paired && [MANIFEST, VIEW].iter().any(is_dataset) {
            let message = "is a dataset, and with `from=files` its shards would be samples; leave `from` out";
            return Err(Error::config(message).in_input(root.display()));
        }
        if let Some(walk) = ViewWalk::of(context, root, builder)? {
            return Ok(Task::View(walk));
        }
        let number = builder.root(root);
        return Ok(Task::Folder(Folder {
            root: number,
            base: Arc::new(root.to_owned()),
            path: PathBuf::new(),
            above: Some(Chain::root(&stat)),
            named: false,
            shared: false,
            stats: BTreeMap::new(),
        }));
    }
    let root = &if paired { main_file(context.registry, context.store, root) } else { root.to_owned() };
    let parent = root.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let base = base.map_or(parent, PathBuf::as_path);
    let name = match root.strip_prefix(base) {
        Ok(below) => below.to_owned(),
        Err(_) if base == Path::new(".") => root.to_owned(),
        Err(_) => return Err(Error::config("is not a file").in_input(root.display())),
    };
    let number = builder.root(base);
    let path = PathBuf::new();
    let folder = Folder {
        root: number,
        base: Arc::new(base.to_owned()),
        path,
        above: None,
        named: true,
        shared: false,
        stats: BTreeMap::new(),
    };
    Ok(Task::Listed(Arc::new(folder), vec![name]))
}

/// Paths of a list: relative ones start at the first root (or the working folder), absolute ones must be below a root.
fn listed(paths: &[PathBuf], roots: &[PathBuf], builder: &mut ListingBuilder) -> Result<Vec<Task>> {
    let here = [PathBuf::from(".")];
    let roots = if roots.is_empty() { &here[..] } else { roots };
    let mut below: Vec<(Arc<PathBuf>, u32, Vec<PathBuf>)> =
        roots.iter().map(|root| (Arc::new(root.clone()), builder.root(root), Vec::new())).collect();
    let absolute: Vec<PathBuf> = roots.iter().map(|root| Location::absolute(root)).collect();
    for path in paths {
        let home = below.iter_mut().zip(&absolute).find_map(|((root, _, list), absolute)| {
            let below = match path.is_relative() && Location::url(path).is_none() {
                true => path.as_path(),
                false => path.strip_prefix(&**root).or_else(|_| path.strip_prefix(absolute)).ok()?,
            };
            let climbs = below.components().any(|part| part == Component::ParentDir);
            (!climbs).then_some((below, list))
        });
        let (relative, list) = home.ok_or_else(|| {
            Error::config("is not below any INPUT; give the folder that keys are relative to as INPUT")
                .in_input(path.display())
        })?;
        list.push(relative.to_owned());
    }
    let tasks = below.into_iter().flat_map(|(base, root, list)| {
        let (path, stats) = (PathBuf::new(), BTreeMap::new());
        let folder = Arc::new(Folder { root, base, path, above: None, named: false, shared: false, stats });
        list.chunks(512).map(|paths| Task::Listed(folder.clone(), paths.to_vec())).collect::<Vec<_>>()
    });
    Ok(tasks.collect())
}
