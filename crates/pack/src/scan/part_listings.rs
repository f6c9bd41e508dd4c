//! Puts the listings of all parts together. They take the place of a walk: the builder does not depend on the order in which
//! it is told what there is.

use super::listing::{FoundFile, FoundMember, Items, ListingBuilder, TableInput, WalkEvent};
use super::part_listing::header;
use super::sealed::{ChosenPlace, SealedInput};
use super::{Scan, ScanOptions, roots};
use crate::parallel_map::parallel_map;
use crate::{OnError, Part};
use packhorse_core::{Code, Error, Field, FileKind, FileStat, Kind, Omission, Result, Schema, Store, some_of};
use packhorse_dataset::{
    Digest, FieldRecord, LISTING_SUFFIX, LISTINGS, ListedDataset, ListedFault, ListedFiles, ListedTable, ListingHeader,
    ListingReader, ListingRecord, TableKind, listed_part, listing_name,
};
use packhorse_storage::{Compression, Frame, Frames};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Tells `builder` what the listings in the folder `out` of a dataset hold.
///
/// Errors: `Incomplete` if a part is missing; `Config` for listings that were made with other settings, or of folders that
/// changed between the parts; `Content` for a damaged one.
pub(super) fn collect(
    context: Scan<'_>,
    options: &ScanOptions<'_>,
    out: &Path,
    builder: &mut ListingBuilder,
) -> Result<()> {
    let starts = roots::starts(context, options, builder)?;
    // A list of files, or an inventory, is not read again.
    let listed = options.recipe.files_from.is_some() || options.recipe.inventory.is_some();
    let inputs = (!listed).then(|| roots::digest(&starts));
    for view in roots::views(starts) {
        builder.take(WalkEvent::Sealed(Box::new(view.sealed(context)?)))?;
    }
    let count = complete(context.store, out)?;
    let parts = (1..=count).map(|index| Part::new(index, count)).collect::<Result<Vec<_>>>()?;
    let name = |part: &Part| out.join(listing_name(part.index(), part.count()));
    let (sender, receiver) = crossbeam_channel::bounded(1024);
    let wanted = header(context, options, (builder.roots(), inputs.unwrap_or(Digest::of(&[]))), Part::ALL);
    let roots = builder.roots().to_vec();
    std::thread::scope(|threads| {
        let reading = std::thread::Builder::new().spawn_scoped(threads, || {
            // Dropped when all is read, or the receiver would block forever.
            let sender = sender;
            let datasets = Mutex::default();
            let reading = Reading { context, wanted: &wanted, inputs, roots: &roots, datasets };
            let send = |event| sender.send(event).map_err(|_| Error::cancelled());
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(options.io_threads);
            let shared = parallel_map(&parts, threads, &|part| {
                reading.listing(*part, &name(part), &send).map_err(|e| e.in_input(name(part).display()))
            })?;
            match shared.windows(2).zip(parts.windows(2)).find(|(pair, _)| pair.first() != pair.last()) {
                None => Ok(()),
                Some((_, parts)) => Err(changed(parts, &name)),
            }
        });
        let reading = reading.map_err(Error::thread)?;
        let taken = {
            let receiver = receiver;
            receiver.iter().try_for_each(|event| builder.take(event))
        };
        let read = reading.join().map_err(|_| Error::bug("a thread that reads listings panicked"))?;
        // What the builder refuses stops the reading.
        taken.and(read)
    })
}

fn changed(parts: &[Part], name: &dyn Fn(&Part) -> PathBuf) -> Error {
    let shown = |part: Option<&Part>| part.map_or(String::new(), |part| name(part).display().to_string());
    let message = format!(
        "was made of other inputs than {}: upper folders, or a list of files, changed between the two or could not be read",
        shown(parts.first())
    );
    Error::config(message).hint("scan all parts again").in_input(shown(parts.last()))
}

/// The number of parts whose listings in the folder `out` are complete.
fn complete(store: &dyn Store, out: &Path) -> Result<u32> {
    let found = parts(store, out)?;
    let missing = |count: u32, there: &BTreeSet<u32>| (1..=count).filter(|part| !there.contains(part)).count();
    let folder = out.join(LISTINGS);
    let several = found.len() > 1;
    match found.last_key_value() {
        Some((count, there)) if !several && missing(*count, there) == 0 => Ok(*count),
        None => {
            let error = Error::config("holds no listing").with_code(Code::NoPlan);
            Err(error.hint("`packhorse scan` makes them").in_input(folder.display()))
        }
        Some((count, there)) if !several => {
            let missing: Vec<String> =
                (1..=*count).filter(|part| !there.contains(part)).map(|part| format!("{part}/{count}")).collect();
            let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
            let message = format!("lacks the listings of {}", some_of(&missing));
            Err(Error::new(Kind::Incomplete, message).hint("scan these parts").in_input(folder.display()))
        }
        Some(_) => {
            let scan = |(count, there): (&u32, &BTreeSet<u32>)| {
                format!("{} of {count} in *-of-{count}{LISTING_SUFFIX}", there.len())
            };
            let scans = found.iter().map(scan).collect::<Vec<_>>().join(", ");
            let message = format!("holds listings of several scans ({scans})");
            Err(Error::config(message).hint("remove the files of all but one").in_input(folder.display()))
        }
    }
}

/// The parts with a listing in the folder `out`, by their number.
fn parts(store: &dyn Store, out: &Path) -> Result<BTreeMap<u32, BTreeSet<u32>>> {
    let names = match store.list(&out.join(LISTINGS)) {
        Err(e) if e.is_absent() => Vec::new(),
        names => names?,
    };
    let mut found: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (index, count) in names.iter().filter_map(|name| listed_part(name.to_str()?)) {
        found.entry(count).or_default().insert(index);
    }
    Ok(found)
}

/// How far a scan in parts is: `(parts listed, parts)`, `None` without a listing. With listings of several scans, that with
/// the most parts.
pub(crate) fn progress(store: &dyn Store, out: &Path) -> Option<(u64, u64)> {
    let found = parts(store, out).ok()?;
    found.last_key_value().map(|(count, there)| (there.len() as u64, u64::from(*count)))
}

/// Removes the listings in the folder `out`, whose dataset is sealed. Never fails: they do no harm.
pub(crate) fn forget(store: &Arc<dyn Store>, out: &Path) {
    let Ok(found) = parts(&**store, out) else { return };
    if found.is_empty() {
        return;
    }
    // Through no link.
    let store = store.beneath(out).ok().flatten().unwrap_or_else(|| Arc::clone(store));
    for (count, there) in found {
        there.iter().for_each(|index| drop(store.remove(&out.join(listing_name(*index, count)))));
    }
    let _ = store.remove_dir(&out.join(LISTINGS));
}

/// What reading all listings shares.
struct Reading<'a> {
    context: Scan<'a>,
    wanted: &'a ListingHeader,
    /// What the inputs must be; `None` where that is not known.
    inputs: Option<Digest>,
    roots: &'a [PathBuf],
    /// The sealed datasets that were opened: all parts see those in upper folders.
    datasets: Mutex<BTreeSet<ListedDataset>>,
}

impl Reading<'_> {
    /// Reads a listing; returns the digest of the folders that its part shared with the others.
    fn listing(&self, part: Part, path: &Path, send: &dyn Fn(WalkEvent) -> Result<()>) -> Result<Digest> {
        let input = self.context.store.open(path)?;
        let (reader, header) = ListingReader::open(&*input)?;
        self.check(&header, part)?;
        // To skip bad inputs, compressed archives are read to their ends.
        let on_error = |header: &ListingHeader| -> BTreeMap<String, String> {
            header.text_settings.clone().into_iter().filter(|(name, _)| name == "on-error").collect()
        };
        let (policy, wanted) = (on_error(&header), on_error(self.wanted));
        let skips = wanted.values().any(|policy| *policy == OnError::Skip.to_string());
        // A table whose starts may follow.
        let mut open: Option<OpenTable> = None;
        let mut columns: Vec<Arc<[Field]>> = Vec::new();
        for record in reader {
            self.context.cancel.check()?;
            let record = match (record?, &mut open) {
                (ListingRecord::Starts(distances), Some(table)) => {
                    table.add(&distances)?;
                    continue;
                }
                (record, _) => record,
            };
            if let Some(table) = open.take() {
                send(table.event()?)?;
            }
            match record {
                ListingRecord::End(end) => return Ok(end.shared),
                ListingRecord::Table(table) => {
                    same("tables", &header.table_settings, &self.wanted.table_settings)?;
                    if table.kind != TableKind::Samples {
                        same("text", &header.text_settings, &self.wanted.text_settings)?;
                    }
                    open = Some(self.table(*table)?);
                }
                ListingRecord::Columns(records) => {
                    same("arrays", &header.table_settings, &self.wanted.table_settings)?;
                    let fields = FieldRecord::schema(&records)?;
                    columns.push(fields.fields().iter().map(|field| field.as_ref().clone()).collect());
                }
                ListingRecord::Members(found) => {
                    if skips && Compression::of(&found.path.to_bytes()).is_some() {
                        same("compressed archives", &policy, &wanted)?;
                    }
                    self.event(ListingRecord::Members(found))?.map_or(Ok(()), send)?;
                }
                ListingRecord::Files(found) => send(self.files(&found, &columns)?)?,
                record => self.event(record)?.map_or(Ok(()), send)?,
            }
        }
        Err(Error::bug("a listing without an end was read"))
    }

    fn check(&self, header: &ListingHeader, part: Part) -> Result<()> {
        if header.part != part.to_string() {
            return Err(Error::content(format!("is the listing of part {}", header.part)).hint("scan this part again"));
        }
        let roots =
            |header: &ListingHeader| header.roots.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        // As paths, a slash at the end decides nothing.
        let same_roots = || {
            let paths = |header: &ListingHeader| header.roots.iter().map(|root| root.to_path()).collect::<Vec<_>>();
            paths(header) == paths(self.wanted)
        };
        if !same_roots() {
            let message = format!("was made of {}, and not of {}", roots(header), roots(self.wanted));
            return Err(Error::config(message).hint("scan all parts again, or give the inputs of the scan"));
        }
        if self.inputs.is_some_and(|inputs| inputs != header.inputs) {
            let message = "was made of other inputs, or of a view that is another one now";
            return Err(Error::config(message).hint("scan all parts again, or give the inputs of the scan"));
        }
        same("inputs", &header.settings, &self.wanted.settings)
    }

    /// Files, which name their columns by position in `columns`.
    fn files(&self, found: &ListedFiles, columns: &[Arc<[Field]>]) -> Result<WalkEvent> {
        let mut files = Vec::with_capacity(found.files.len());
        for (at, (name, size, mtime)) in found.files.iter().enumerate() {
            let columns = match found.columns.get(at) {
                Some(Some(number)) => Some(columns.get(*number as usize).ok_or_else(damaged)?.clone()),
                _ => None,
            };
            files.push(FoundFile { name: name.to_bytes().into(), size: *size, mtime: *mtime, columns });
        }
        Ok(WalkEvent::Files { root: self.root(found.root)?, folder: found.folder.to_path(), files })
    }

    fn event(&self, record: ListingRecord) -> Result<Option<WalkEvent>> {
        Ok(Some(match record {
            ListingRecord::Members(found) => {
                let member = |(name, offset, len): &(packhorse_dataset::PathText, u64, u64)| FoundMember {
                    name: name.to_bytes().into(),
                    offset: *offset,
                    len: *len,
                };
                WalkEvent::Members {
                    root: self.root(found.root)?,
                    archive: found.path.to_path(),
                    stat: stat(found.size, found.mtime),
                    members: found.members.iter().map(member).collect(),
                }
            }
            ListingRecord::Sealed(found) => return self.sealed(found),
            ListingRecord::Chosen { root, places } => {
                let place = |(shard, offset, position, row)| ChosenPlace { shard, offset, position, row };
                WalkEvent::Chosen { root: self.root(root)?, places: places.into_iter().map(place).collect() }
            }
            ListingRecord::Fault(fault) => WalkEvent::Fault(self.fault(&fault)?),
            ListingRecord::Ignored { why, inputs, first } => {
                WalkEvent::Ignored(Cow::Owned(why), inputs, first.to_path())
            }
            ListingRecord::Columns(_)
            | ListingRecord::Files(_)
            | ListingRecord::Table(_)
            | ListingRecord::Starts(_)
            | ListingRecord::End(_) => return Err(damaged()),
        }))
    }

    fn root(&self, root: u32) -> Result<u32> {
        if (root as usize) < self.roots.len() { Ok(root) } else { Err(damaged()) }
    }

    /// A sealed dataset, if no other listing told of it.
    fn sealed(&self, found: ListedDataset) -> Result<Option<WalkEvent>> {
        let root = self.roots.get(found.root as usize).ok_or_else(damaged)?;
        let folder = found.folder.to_path();
        let (number, whole) = (found.root, found.whole);
        if !self.datasets.lock().unwrap_or_else(PoisonError::into_inner).insert(found) {
            return Ok(None);
        }
        let Scan { registry, store, cancel, .. } = self.context;
        let path = root.join(&folder);
        let sealed = SealedInput::read(registry, store, cancel, (number, &folder, &path), whole)?;
        let gone = || Error::new(Kind::Changed, "was a sealed dataset when it was listed").in_input(path.display());
        Ok(Some(WalkEvent::Sealed(Box::new(sealed.ok_or_else(gone)?))))
    }

    fn fault(&self, fault: &ListedFault) -> Result<Error> {
        let input = match (fault.root, &fault.input) {
            (Some(root), Some(path)) => {
                let root = self.roots.get(root as usize).ok_or_else(damaged)?;
                Some(root.join(path).display().to_string())
            }
            (_, input) => input.clone(),
        };
        fault.error(input)
    }

    fn table(&self, found: ListedTable) -> Result<OpenTable> {
        let schema = FieldRecord::schema(&found.schema)?;
        let frame = |(offset, start)| Frame { offset, start };
        let omission = |(field, reason)| Omission { empty: found.empty.contains(&field), field, reason };
        let table = TableInput {
            format: self.context.registry.named(&found.format)?.info().id,
            schema: Arc::new(Schema::new_with_metadata(
                schema.fields().clone(),
                found.metadata.into_iter().collect::<HashMap<_, _>>(),
            )),
            items: found.items,
            bytes: found.bytes,
            kind: match found.kind {
                TableKind::Samples => Items::Samples,
                TableKind::Positions => Items::Positions,
                TableKind::Counted { positions } => Items::Counted { starts: Vec::new(), places: positions },
            },
            frames: found.frames.map(|(len, points)| Frames::known(points.into_iter().map(frame).collect(), len)),
            omitted: found.omitted.into_iter().map(omission).collect(),
        };
        let stat = stat(found.size, found.mtime);
        Ok(OpenTable { root: self.root(found.root)?, path: found.path.to_path(), stat, table })
    }
}

/// A table that is being read.
struct OpenTable {
    root: u32,
    path: PathBuf,
    stat: FileStat,
    table: TableInput,
}

impl OpenTable {
    /// Adds starts of samples.
    fn add(&mut self, distances: &[u64]) -> Result<()> {
        let Items::Counted { starts, .. } = &mut self.table.kind else { return Err(damaged()) };
        for distance in distances {
            let before = starts.last().copied().unwrap_or(0);
            starts.push(before.checked_add(*distance).ok_or_else(damaged)?);
        }
        Ok(())
    }

    fn event(self) -> Result<WalkEvent> {
        let Self { root, path, stat, table } = self;
        match &table.kind {
            Items::Counted { starts, .. } if starts.len() as u64 != table.items => Err(damaged()),
            _ => Ok(WalkEvent::Table { root, path, stat, table }),
        }
    }
}

fn stat(size: u64, mtime: i64) -> FileStat {
    FileStat { kind: FileKind::File, size, mtime, ctime: 0, id: (0, 0) }
}

fn damaged() -> Error {
    Error::content("is a damaged listing").hint("scan this part again")
}

/// Refuses a listing that was made with other settings.
fn same(what: &str, old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Result<()> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let value =
        |of: &BTreeMap<String, String>, name: &String| of.get(name).map_or("not given", String::as_str).to_owned();
    let differs = |name: &&String| old.get(*name) != new.get(*name);
    let differences: Vec<String> = names
        .into_iter()
        .filter(differs)
        .map(|name| format!("`{name}`: {} there, {} now", value(old, name), value(new, name)))
        .collect();
    match differences.is_empty() {
        true => Ok(()),
        false => {
            let message = format!("was made with other settings for {what} ({})", differences.join("; "));
            Err(Error::config(message).hint("scan all parts again with these settings"))
        }
    }
}
