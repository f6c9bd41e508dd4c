//! Scans one part of the inputs, and writes what it found as a partial listing.

use super::folder_walk::Task;
use super::listing::{FoundFile, FoundMember, Items, ListingBuilder, TableInput, WalkEvent, refusal};
use super::sealed::ChosenPlace;
use super::{Scan, ScanOptions, roots};
use crate::{OnError, Part, Setting, Shuffle, Splits, Takes};
use packhorse_core::{Error, Event, Field, FileStat, Result, Schema};
use packhorse_dataset::{
    Digest, FieldRecord, ListedDataset, ListedFault, ListedFiles, ListedMembers, ListedTable, ListingHeader,
    ListingRecord, ListingWriter, PathText, TableKind,
};
use packhorse_storage::Location;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What one part of a scan found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Files, members of archives, and inputs of typed rows.
    pub inputs: u64,
    /// Bad inputs, which were skipped.
    pub skipped: u64,
    /// Parts whose listings are there now, this one among them.
    pub listed: u64,
}

/// The start of a scan: its roots, and the first tasks of its walk.
pub(crate) struct Prepared {
    /// It numbers the roots, and takes nothing.
    builder: ListingBuilder,
    starts: Vec<Task>,
}

/// Looks for the inputs.
///
/// Errors: inputs that are not there or overlap.
pub(crate) fn prepare(context: Scan<'_>, options: &ScanOptions<'_>) -> Result<Prepared> {
    let mut builder = options.builder();
    let starts = roots::starts(context, options, &mut builder)?;
    Ok(Prepared { builder, starts })
}

/// Scans `part` of the inputs and writes its listing to `out`.
///
/// Errors: as [`scan`](super::scan), of this part alone.
pub(crate) fn scan_part(
    context: Scan<'_>,
    options: &ScanOptions<'_>,
    (prepared, part): (Prepared, Part),
    out: &mut (dyn Write + Send),
) -> Result<Scanned> {
    let Prepared { builder, starts } = prepared;
    let inputs = roots::digest(&starts);
    let writer = ListingWriter::new(out, &header(context, options, (builder.roots(), inputs), part))?;
    let mut listing = PartListing {
        writer,
        roots: builder.roots(),
        ignored: BTreeMap::new(),
        faults: Vec::new(),
        columns: HashMap::new(),
        scanned: Scanned::default(),
    };
    let shared = roots::walk(context, options, (starts, part), &mut |event| listing.take(event))?;
    listing.faults.sort_by_cached_key(|e| (e.input().map(str::to_owned), e.sample().map(str::to_owned)));
    if let (OnError::Fail, Some(first)) = (options.recipe.on_error, listing.faults.first()) {
        return Err(refusal(first, listing.faults.len()));
    }
    listing.faults.iter().for_each(|fault| context.observer.event(&Event::Skipped(fault)));
    let scanned = Scanned { skipped: listing.faults.len() as u64, ..listing.scanned };
    // Parts that read other lists of files do not share the inputs either.
    let mut hasher = blake3::Hasher::new();
    hasher.update(shared.as_bytes()).update(inputs.as_bytes());
    listing.end()?.finish(hasher.finalize().into())?;
    Ok(scanned)
}

/// The settings that decide what a walk finds; those of sources come on top.
const SETTINGS: [&str; 9] =
    ["classes", "exclude", "files-from", "from", "include", "inventory", "metadata", "rows", "symlinks"];

/// The header of a listing, by which a plan knows whether it can be made of it.
pub(super) fn header(
    context: Scan<'_>,
    options: &ScanOptions<'_>,
    (roots, inputs): (&[PathBuf], Digest),
    part: Part,
) -> ListingHeader {
    let recipe = options.recipe;
    let shown = |setting: &Setting, text: &OsString| match setting.takes {
        Takes::File | Takes::Path if text != "-" => Location::absolute(Path::new(text)).display().to_string(),
        _ => text.to_string_lossy().into_owned(),
    };
    let given = |names: &'static [&'static str]| {
        let given = recipe.given().into_iter().filter(|(setting, _)| names.contains(&setting.name));
        given.map(|(setting, texts)| {
            let texts: Vec<String> = texts.iter().map(|text| shown(setting, text)).collect();
            (setting.name.to_owned(), texts.join(", "))
        })
    };
    let mut settings: BTreeMap<String, String> = given(&SETTINGS).collect();
    // Nor are lists of splits inputs.
    if let Splits::Lists(lists) = &recipe.split {
        settings.insert("split".to_owned(), lists.absolute().to_string());
    }
    // Larger values are bad inputs.
    settings.insert("memory".to_owned(), context.limits.blob.to_string());
    if recipe.tokenizer.is_some() {
        settings.insert("tokenizer".to_owned(), "given".to_owned());
    }
    let of_sources = options.sources.values().flat_map(|options| options.iter());
    let table_settings = of_sources.map(|(name, value)| (setting(name).to_owned(), value.replace('\n', ", ")));
    // Columns of encoded files are named after their fields.
    let table_settings = table_settings.chain(given(&["key-ends"]));
    let counted = if options.count { "counted" } else { "not counted" };
    let order = if recipe.shuffle == Shuffle::No { "sorted" } else { "shuffled" };
    let texts = [
        ("samples", counted.to_owned()),
        ("order", order.to_owned()),
        ("shard-size", options.fits.to_string()),
        ("on-error", recipe.on_error.to_string()),
    ];
    ListingHeader {
        packhorse_listing: ListingHeader::VERSION,
        part: part.to_string(),
        roots: roots.iter().map(|root| PathText::from(Location::absolute(root).as_os_str())).collect(),
        inputs,
        settings,
        table_settings: table_settings.collect(),
        text_settings: texts.map(|(name, value)| (name.to_owned(), value)).into(),
    }
}

/// The most different columns that are remembered.
const MOST_COLUMNS: usize = 1 << 18;

/// The setting that an option of sources comes from.
fn setting(option: &str) -> &str {
    match option {
        "columns" => "select",
        "unread" => "drop",
        "skip" => "skip-header",
        other => other,
    }
}

/// Members of an archive, or samples of a view, on one line.
const TOGETHER: usize = 4096;

/// Starts of samples on one line.
const STARTS: usize = 1 << 16;

/// A listing that is being written.
struct PartListing<'a> {
    writer: ListingWriter<'a>,
    roots: &'a [PathBuf],
    /// Ignored inputs by reason: how many, and the first by name.
    ignored: BTreeMap<Cow<'static, str>, (u64, PathBuf)>,
    faults: Vec<Error>,
    /// The numbers of the columns of encoded files.
    columns: HashMap<Vec<Field>, u32>,
    scanned: Scanned,
}

impl<'a> PartListing<'a> {
    fn take(&mut self, event: WalkEvent) -> Result<()> {
        match event {
            WalkEvent::Files { root, folder, files } => {
                self.scanned.inputs += files.len() as u64;
                let mut columns = Vec::new();
                if files.iter().any(|file| file.columns.is_some()) {
                    columns = files.iter().map(|file| self.columns(file)).collect::<Result<_>>()?;
                }
                let file = |file: &FoundFile| (PathText::new(&file.name), file.size, file.mtime);
                let (folder, files) = (PathText::from(folder.as_os_str()), files.iter().map(file).collect());
                self.writer.record(&ListingRecord::Files(ListedFiles { root, folder, files, columns }))
            }
            WalkEvent::Members { root, archive, stat: FileStat { size, mtime, .. }, members } => {
                self.scanned.inputs += members.len() as u64;
                let member = |FoundMember { name, offset, len }: &FoundMember| (PathText::new(name), *offset, *len);
                members.chunks(TOGETHER).try_for_each(|members| {
                    let (path, members) = (PathText::from(archive.as_os_str()), members.iter().map(member).collect());
                    self.writer.record(&ListingRecord::Members(ListedMembers { root, path, size, mtime, members }))
                })
            }
            WalkEvent::Table { root, path, stat, table } => self.table(root, &path, &stat, &table),
            // A plan opens the view again.
            WalkEvent::Sealed(sealed) if sealed.chosen.is_some() => Ok(()),
            WalkEvent::Sealed(sealed) => {
                let (root, folder, whole) = (sealed.root, PathText::from(sealed.folder.as_os_str()), sealed.whole);
                self.writer.record(&ListingRecord::Sealed(ListedDataset { root, folder, whole }))
            }
            WalkEvent::Chosen { root, places } => {
                let place = |place: &ChosenPlace| (place.shard, place.offset, place.position, place.row);
                places.chunks(TOGETHER).try_for_each(|places| {
                    self.writer.record(&ListingRecord::Chosen { root, places: places.iter().map(place).collect() })
                })
            }
            WalkEvent::Fault(error) => {
                self.faults.push(error);
                Ok(())
            }
            WalkEvent::Ignored(why, inputs, path) => {
                let (n, first) = self.ignored.entry(why).or_insert_with(|| (0, path.clone()));
                *n += inputs;
                if path < *first {
                    *first = path;
                }
                Ok(())
            }
            WalkEvent::Tables { .. } => Err(Error::bug("tables in a listing of samples")),
            WalkEvent::Abort(error) => Err(error),
        }
    }

    /// The number of a file's columns, which are written when they are first met.
    fn columns(&mut self, file: &FoundFile) -> Result<Option<u32>> {
        let Some(columns) = &file.columns else { return Ok(None) };
        if let Some(number) = self.columns.get(&**columns) {
            return Ok(Some(*number));
        }
        let next = self.columns.len();
        // Where every file has a shape of its own, the plan looks at the rest.
        if next == MOST_COLUMNS {
            return Ok(None);
        }
        self.writer.record(&ListingRecord::Columns(FieldRecord::of(&Schema::new(columns.to_vec()))))?;
        self.columns.insert(columns.to_vec(), next as u32);
        Ok(Some(next as u32))
    }

    fn table(&mut self, root: u32, path: &Path, stat: &FileStat, table: &TableInput) -> Result<()> {
        self.scanned.inputs += 1;
        let kind = match &table.kind {
            Items::Samples => TableKind::Samples,
            Items::Positions => TableKind::Positions,
            Items::Counted { places, .. } => TableKind::Counted { positions: *places },
        };
        let points = |frames: &packhorse_storage::Frames| {
            (frames.inside(), frames.points().iter().map(|frame| (frame.offset, frame.start)).collect())
        };
        self.writer.record(&ListingRecord::Table(Box::new(ListedTable {
            root,
            path: PathText::from(path.as_os_str()),
            size: stat.size,
            mtime: stat.mtime,
            format: table.format.to_owned(),
            schema: FieldRecord::of(&table.schema),
            metadata: table.schema.metadata().iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            items: table.items,
            bytes: table.bytes,
            kind,
            frames: table.frames.as_ref().map(points),
            omitted: table.omitted.iter().map(|o| (o.field.clone(), o.reason.clone())).collect(),
            empty: table.omitted.iter().filter(|o| o.empty).map(|o| o.field.clone()).collect(),
        })))?;
        let Items::Counted { starts, .. } = &table.kind else { return Ok(()) };
        let mut before = 0;
        for starts in starts.chunks(STARTS) {
            let distance = |start: &u64| start.wrapping_sub(std::mem::replace(&mut before, *start));
            self.writer.record(&ListingRecord::Starts(starts.iter().map(distance).collect()))?;
        }
        Ok(())
    }

    /// Writes what was counted and kept.
    fn end(mut self) -> Result<ListingWriter<'a>> {
        for (why, (inputs, first)) in std::mem::take(&mut self.ignored) {
            let first = PathText::from(first.as_os_str());
            self.writer.record(&ListingRecord::Ignored { why: why.into_owned(), inputs, first })?;
        }
        for fault in &self.faults {
            // A plan may be made where relative roots start elsewhere.
            let inside = |(number, root): (usize, &PathBuf)| {
                let path = Path::new(fault.input()?).strip_prefix(root).ok()?.to_str()?;
                Some((number as u32, path))
            };
            let input = self.roots.iter().enumerate().find_map(inside);
            self.writer.record(&ListingRecord::Fault(Box::new(ListedFault::of(fault, input))))?;
        }
        Ok(self.writer)
    }
}
