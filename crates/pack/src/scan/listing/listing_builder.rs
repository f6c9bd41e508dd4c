//! Builds a listing.

use super::clashes::{named_twice, of_one_name, untangled};
use super::spilled::{Found, Spill, SpillOptions};
use super::walk_event::{FoundFile, FoundMember, HIDDEN, NO_FIELD, NO_MATCH, WalkEvent};
use super::{Listing, PieceRef, SourceFolder, TableInput};
use crate::key_ends::SourcePath;
use crate::real_path::name_of;
use crate::scan::files_from::hidden;
use crate::scan::sealed::ChosenPlace;
use crate::{KeyEnds, Recipe};
use packhorse_core::{Error, Field, FileStat, NameFault, Result, folder_key, shard_number};
use packhorse_storage::{Compression, Location};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::hash::RandomState;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// From this many pieces on, they are sorted in parallel.
const PARALLEL_SORT: usize = 1 << 16;

/// Root, path and key of a folder.
#[derive(PartialEq, Eq, Hash)]
struct PlaceKey(u32, Vec<u8>, String);

/// The same without an allocation.
impl hashbrown::Equivalent<PlaceKey> for (u32, &[u8], &str) {
    fn equivalent(&self, key: &PlaceKey) -> bool {
        *self == (key.0, &key.1[..], &key.2[..])
    }
}

/// Builds a listing from the events of a walk, in any order.
pub(in crate::scan) struct ListingBuilder {
    pub(super) listing: Listing,
    /// Whether keys of members begin with the name of their archive.
    archive_folders: bool,
    known: hashbrown::HashMap<PlaceKey, u32, RandomState>,
    /// The numbers of roots.
    roots: HashMap<PathBuf, u32>,
    /// The containers by their whole paths, as the root and the path below it that they were found under first.
    containers: HashMap<PathBuf, (u32, PathBuf)>,
    /// Those that were found again, and hidden ones: of which the fault is noted.
    doubled: BTreeSet<PathBuf>,
    hidden: BTreeSet<PathBuf>,
    /// The numbers of columns.
    columns: HashMap<Arc<[Field]>, u32>,
    /// Where inputs go that are too many for memory.
    spill: Option<Spill>,
}

impl ListingBuilder {
    /// An empty listing, whose keys are made as the recipe says. `has_ids`: documents may have ids of their own, which tell them apart.
    pub(in crate::scan) fn new(recipe: &Recipe, has_ids: bool) -> Self {
        // Tokens have no keys; those of an append are made by the dataset's tokenizer.
        let documents_are_places = !has_ids && !recipe.writes_tokens();
        let listing = Listing { key_ends: recipe.key_ends.clone(), documents_are_places, ..Listing::default() };
        Self { archive_folders: recipe.archive_folders, ..Self::of(listing) }
    }

    /// Adds to a listing without inputs.
    pub(super) fn of(listing: Listing) -> Self {
        let (known, columns, containers) = (hashbrown::HashMap::default(), HashMap::new(), HashMap::new());
        let (doubled, hidden) = (BTreeSet::new(), BTreeSet::new());
        let roots = listing.roots.iter().cloned().zip(0..).collect();
        Self { listing, archive_folders: false, known, roots, containers, doubled, hidden, columns, spill: None }
    }

    /// Inputs that are too many for memory go to disk, if they are nothing but files and members of archives.
    pub(in crate::scan) fn spilling(self, options: Option<SpillOptions>) -> Self {
        Self { spill: options.map(Spill::new), ..self }
    }

    /// Where paths start.
    pub(in crate::scan) fn roots(&self) -> &[PathBuf] {
        &self.listing.roots
    }

    /// The number of the root `path`.
    pub(in crate::scan) fn root(&mut self, path: &Path) -> u32 {
        if let Some(number) = self.roots.get(path) {
            return *number;
        }
        let number = self.listing.roots.len() as u32;
        self.listing.roots.push(path.to_owned());
        self.roots.insert(path.to_owned(), number);
        number
    }

    pub(in crate::scan) fn take(&mut self, batch: WalkEvent) -> Result<()> {
        if let WalkEvent::Table { .. } | WalkEvent::Sealed(_) = &batch
            && let Some(spill) = self.spill.take()
        {
            spill.give_back(self)?;
        }
        match batch {
            WalkEvent::Files { root, folder, files } => self.files(root, &folder, &files),
            WalkEvent::Members { root, archive, stat, members } => self.members(root, &archive, &stat, &members),
            WalkEvent::Table { root, path, stat, table } => self.table(root, &path, &stat, table),
            WalkEvent::Sealed(sealed) => self.listing.sealed.push(*sealed),
            WalkEvent::Chosen { root, places } => self.chosen(root, places),
            WalkEvent::Tables { .. } => return Err(Error::bug("tables in a listing of samples")),
            WalkEvent::Fault(error) => self.listing.faults.push(error),
            WalkEvent::Ignored(why, inputs, first) => self.ignore(why, inputs, first),
            WalkEvent::Abort(error) => return Err(error),
        }
        if let Some(spill) = self.spill.as_mut().filter(|spill| spill.is_due(self.listing.pieces.len())) {
            spill.take(&mut self.listing)?;
            self.known.clear();
        }
        self.check_count()
    }

    /// Errors: `Limit` for more inputs than a listing numbers.
    pub(super) fn check_count(&self) -> Result<()> {
        match u32::try_from(self.listing.pieces.len()) {
            Ok(n) if n < u32::MAX => Ok(()),
            _ => Err(Error::new(packhorse_core::Kind::Limit, "more than 4 billion inputs; make several datasets")),
        }
    }

    fn chosen(&mut self, root: u32, places: Vec<ChosenPlace>) {
        let views = self.listing.sealed.iter_mut().filter(|sealed| sealed.root == root);
        views.filter_map(|view| view.chosen.as_mut()).for_each(|chosen| chosen.places.extend(&places));
    }

    /// Counts ignored inputs; the example shown is the first by name.
    fn ignore(&mut self, why: Cow<'static, str>, inputs: u64, path: PathBuf) {
        let (n, first) = self.listing.ignored.entry(why).or_insert_with(|| (0, path.clone()));
        *n += inputs;
        if path < *first {
            *first = path;
        }
    }

    fn reason(&self, fault: NameFault) -> Cow<'static, str> {
        Cow::Borrowed(match (fault, &self.listing.key_ends) {
            (NameFault::Hidden, _) => HIDDEN,
            (NameFault::NoField, KeyEnds::FirstDot | KeyEnds::LastDot) => NO_FIELD,
            (NameFault::NoField, _) => NO_MATCH,
        })
    }

    fn files(&mut self, root: u32, folder: &Path, files: &[FoundFile]) {
        let mut path = folder.as_os_str().as_bytes().to_vec();
        let Ok(key) = folder_key(&path) else { return };
        if !path.is_empty() {
            path.push(b'/');
        }
        let takes_folders = self.listing.key_ends.takes_folders();
        let input = self.listing.roots.get(root as usize).filter(|_| takes_folders).map(|root| name_of(root));
        let input = input.unwrap_or_default().into_vec();
        let place = (!takes_folders).then(|| self.place(root, &path, &key, None));
        for file in files {
            let name = match place {
                Some(place) => self.listing.key_ends.split(&file.name).map(|name| (place, name)),
                None => {
                    let whole = SourcePath { input: &input, folder: &path, base: &file.name };
                    let split = self.listing.key_ends.split_path(whole);
                    split.map(|(key, name)| (self.place(root, &path, &key, None), name))
                }
            };
            match name {
                Ok((place, name)) => {
                    let probed = self.probed(file.columns.as_ref());
                    self.push(place, (&name.key, &name.field), &file.name, (file.size, file.mtime), probed);
                }
                Err(fault) => {
                    self.ignore(self.reason(fault), 1, folder.join(OsStr::from_bytes(&file.name)));
                }
            }
        }
    }

    fn members(&mut self, root: u32, archive: &Path, stat: &FileStat, members: &[FoundMember]) {
        if self.is_known(root, archive) {
            return;
        }
        let mut last: Option<(&[u8], u32)> = None;
        let name = without_extension(archive);
        let input = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let outer = if self.archive_folders { [&name, &b"/"[..]].concat() } else { Vec::new() };
        let Ok(outer_key) = folder_key(&outer) else { return self.hidden(root, archive) };
        for member in members {
            let base = member.name.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
            let (inner, base) = member.name.split_at(base);
            let inside = || archive.join(OsStr::from_bytes(&member.name));
            // Where a folder is a sample, its archive is around it. Other rules are for paths in the archive.
            let (folder, around) = match &self.listing.key_ends {
                _ if outer.is_empty() => (Cow::Borrowed(inner), ""),
                KeyEnds::FieldFolders | KeyEnds::Path(_) => (Cow::Borrowed(inner), &*outer_key),
                _ => (Cow::Owned([&outer, inner].concat()), ""),
            };
            let (key, name) = match self.listing.key_ends.split_path(SourcePath { input, folder: &folder, base }) {
                Ok((key, name)) => (format!("{around}{key}"), name),
                Err(fault) => {
                    self.ignore(self.reason(fault), 1, inside());
                    continue;
                }
            };
            let place = match last.filter(|_| !self.listing.key_ends.takes_folders()) {
                Some((same, place)) if same == inner => place,
                _ => self.place(root, archive.as_os_str().as_bytes(), &key, Some((stat.size, stat.mtime))),
            };
            last = Some((inner, place));
            self.push(place, (&name.key, &name.field), b"", (member.offset, member.len as i64), 0);
        }
    }

    /// Notes the fault of a hidden container, once.
    fn hidden(&mut self, root: u32, path: &Path) {
        let whole = self.listing.roots.get(root as usize).map_or(path.to_owned(), |root| root.join(path));
        if self.hidden.insert(whole.clone()) {
            self.listing.faults.push(hidden(&whole));
        }
    }

    /// Whether a container was found under another path before, as by another part of a scan; notes the fault.
    fn is_known(&mut self, root: u32, path: &Path) -> bool {
        let whole = self.listing.roots.get(root as usize).map_or(path.to_owned(), |root| root.join(path));
        let first = self.containers.entry(Location::absolute(&whole)).or_insert_with(|| (root, path.to_owned()));
        if (first.0, &*first.1) == (root, path) {
            return false;
        }
        if self.doubled.insert(whole.clone()) {
            self.listing.faults.push(named_twice(&whole));
        }
        true
    }

    /// Adds a table input as one entry, as if it were a folder of its samples.
    fn table(&mut self, root: u32, path: &Path, stat: &FileStat, table: TableInput) {
        if self.is_known(root, path) {
            return;
        }
        let key = match folder_key(&without_extension(path)) {
            Ok(key) => key,
            // Walks pass over hidden names, so it was named.
            Err(_) => return self.hidden(root, path),
        };
        let bytes = table.bytes as i64;
        let place = self.place(root, path.as_os_str().as_bytes(), &key, Some((stat.size, stat.mtime)));
        if let Some(place) = self.listing.places.get_mut(place as usize) {
            place.table = Some(self.listing.tables.len() as u32);
        }
        let format = table.format;
        self.listing.omitted.add(&table.omitted, path);
        self.listing.tables.push(table);
        self.push(place, ("", format), b"", (0, bytes), 0);
    }

    pub(super) fn place(&mut self, root: u32, path: &[u8], folder_key: &str, archive: Option<(u64, i64)>) -> u32 {
        if let Some(number) = self.known.get(&(root, path, folder_key)) {
            return *number;
        }
        let number = self.listing.places.len() as u32;
        let (path, folder_key) = (path.to_vec(), folder_key.to_owned());
        self.known.insert(PlaceKey(root, path.clone(), folder_key.clone()), number);
        self.listing.places.push(SourceFolder { root, path, folder_key, archive, table: None, rank: 0, shard: None });
        number
    }

    /// The number of these columns, from 1; 0 for none.
    fn probed(&mut self, columns: Option<&Arc<[Field]>>) -> u32 {
        let Some(columns) = columns else { return 0 };
        if let Some(number) = self.columns.get(columns) {
            return *number;
        }
        self.listing.probed.push(Arc::clone(columns));
        let number = self.listing.probed.len() as u32;
        self.columns.insert(Arc::clone(columns), number);
        number
    }

    pub(super) fn push(
        &mut self,
        place: u32,
        (stem, field): (&str, &str),
        raw: &[u8],
        (a, b): (u64, i64),
        probed: u32,
    ) {
        let mut stem = Cow::Borrowed(stem);
        // Before the duplicate check, which must see the escaped name.
        if stem.starts_with("__") && self.listing.places.get(place as usize).is_some_and(|p| p.folder_key.is_empty()) {
            stem.to_mut().replace_range(..1, "%5F");
        }
        let canonical = raw.is_empty()
            || raw.strip_prefix(stem.as_bytes()).and_then(|r| r.strip_prefix(b".")) == Some(field.as_bytes());
        let raw = if canonical { b"" } else { raw };
        let lens = (u16::try_from(stem.len()), u16::try_from(field.len()), u16::try_from(raw.len()));
        let (Ok(stem_len), Ok(field_len), Ok(raw_len)) = lens else {
            let start: String = stem.chars().take(40).collect();
            return self
                .listing
                .faults
                .push(Error::content(format!("a name of over 65,535 bytes ({start}…) can't be packed")));
        };
        let arena = &mut self.listing.arena;
        let name_at = arena.len() as u64;
        [stem.as_bytes(), field.as_bytes(), raw].iter().for_each(|part| arena.extend_from_slice(part));
        self.listing.pieces.push(PieceRef { name_at, a, b, place, probed, stem_len, field_len, raw_len });
    }

    /// The listing, in memory or on disk.
    pub(in crate::scan) fn found(mut self) -> Result<Found> {
        match self.spill.take() {
            Some(spill) => spill.finish(self),
            None => Ok(Found::Whole(self.finish())),
        }
    }

    /// Groups the pieces into samples in the order in which they came, one sample after the other.
    pub(super) fn finish_sorted(mut self) -> Listing {
        rank(&mut self.listing.places);
        let pieces = std::mem::take(&mut self.listing.pieces);
        group(&mut self.listing, pieces);
        self.listing
    }

    /// Sorts the pieces and groups them into samples.
    pub(in crate::scan) fn finish(mut self) -> Listing {
        drop(self.known);
        self.listing.inputs = self.listing.pieces.len() as u64;
        rank(&mut self.listing.places);
        let mut pieces = std::mem::take(&mut self.listing.pieces);
        let listing = &self.listing;
        let order =
            |a: &PieceRef, b: &PieceRef| listing.order(a, b).then_with(|| listing.origin(a).cmp(&listing.origin(b)));
        // No two pieces are equal, so both sorts give one order.
        match pieces.len() < PARALLEL_SORT {
            true => pieces.sort_unstable_by(order),
            false => pieces.par_sort_unstable_by(order),
        }
        group(&mut self.listing, pieces);
        self.listing.find_shards();
        self.listing
    }
}

/// The path of a table or an archive, up to the last dot of its name and without that of a compression, unlike the name of a sample.
pub(in crate::scan) fn without_extension(path: &Path) -> Vec<u8> {
    let base = path.file_name().unwrap_or_default().as_bytes();
    let base = Compression::of(base).map_or_else(|| base.to_vec(), |(_, inside)| inside);
    // The number of a shard may follow the extension.
    let (base, number) = base.split_at(shard_number(&base));
    let stem = base.iter().rposition(|byte| *byte == b'.').and_then(|dot| base.get(..dot)).unwrap_or(base);
    let stem = [stem, number].concat();
    path.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(&stem)).into_os_string().into_vec()
}

pub(super) fn rank(places: &mut [SourceFolder]) {
    let mut order: Vec<usize> = (0..places.len()).collect();
    let key = |places: &[SourceFolder], i: usize| places.get(i).map(|p| p.folder_key.clone()).unwrap_or_default();
    order.sort_by_cached_key(|i| key(places, *i));
    let (mut rank, mut last) = (0, None);
    for i in order {
        let now = key(places, i);
        rank += u32::from(last.as_ref().is_some_and(|last| *last != now));
        if let Some(place) = places.get_mut(i) {
            place.rank = rank;
        }
        last = Some(now);
    }
}

/// Finds the start of each sample, and removes fields of samples that have one twice.
fn group(listing: &mut Listing, mut sorted: Vec<PieceRef>) {
    let (mut starts, mut faults) = (Vec::new(), Vec::new());
    let (mut from, mut kept) = (0, 0);
    while let Some(first) = sorted.get(from) {
        let of_one = |piece: &&PieceRef| listing.same_sample(first, piece) || listing.clash(first, piece);
        let to = from + 1 + sorted.iter().skip(from + 1).take_while(of_one).count();
        let sample = sorted.get(from..to).unwrap_or_default();
        let alike = of_one_name(listing, sample, &mut faults);
        let sample = alike.as_deref().unwrap_or(sample);
        let mut pairs = sample.iter().zip(sample.iter().skip(1));
        let left = match pairs.any(|(a, b)| listing.clash(a, b)) {
            true => Some(untangled(listing, sample, &mut faults)),
            false => alike,
        };
        let len = left.as_ref().map_or(to - from, Vec::len);
        match left {
            Some(left) => sorted.iter_mut().skip(kept).zip(left).for_each(|(place, piece)| *place = piece),
            None => sorted.copy_within(from..to, kept),
        }
        if len > 0 {
            starts.push(kept as u32);
        }
        (from, kept) = (to, kept + len);
    }
    sorted.truncate(kept);
    (listing.pieces, listing.starts) = (sorted, starts);
    listing.faults.extend(faults);
}
