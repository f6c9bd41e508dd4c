//! Builds a listing.

use super::spilled::{Found, Spill, SpillOptions};
use super::walk_event::{FoundFile, FoundMember, HIDDEN, NO_FIELD, NO_MATCH, WalkEvent};
use super::{Listing, PieceRef, SourceFolder, TableInput};
use crate::key_ends::SourcePath;
use crate::scan::sealed::ChosenPlace;
use crate::{KeyEnds, Recipe};
use packhorse_core::{Code, Error, Field, FileStat, NameFault, Result, escape, folder_key, shard_number};
use packhorse_storage::Compression;
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
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
    /// The numbers of columns.
    columns: HashMap<Arc<[Field]>, u32>,
    /// Where inputs go that are too many for memory.
    spill: Option<Spill>,
}

impl ListingBuilder {
    /// An empty listing, whose keys are made as `recipe` says.
    pub(in crate::scan) fn new(recipe: &Recipe) -> Self {
        let listing = Listing { key_ends: recipe.key_ends.clone(), ..Listing::default() };
        Self { archive_folders: recipe.archive_folders, ..Self::of(listing) }
    }

    /// Adds to a listing without inputs.
    pub(super) fn of(listing: Listing) -> Self {
        let (known, columns) = (hashbrown::HashMap::default(), HashMap::new());
        Self { listing, archive_folders: false, known, columns, spill: None }
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
        if let Some(i) = self.listing.roots.iter().position(|r| r == path) {
            return i as u32;
        }
        self.listing.roots.push(path.to_owned());
        (self.listing.roots.len() - 1) as u32
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
        let input = self.listing.roots.get(root as usize).and_then(|root| root.file_name()).map(OsStr::as_bytes);
        let input = input.unwrap_or_default().to_vec();
        let place = (!self.listing.key_ends.takes_folders()).then(|| self.place(root, &path, &key, None));
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
        let mut last: Option<(&[u8], u32)> = None;
        let name = without_extension(archive);
        let input = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let outer = if self.archive_folders { [&name, &b"/"[..]].concat() } else { Vec::new() };
        let outer_key = folder_key(&outer).unwrap_or_default();
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

    /// Adds a table input as one entry, as if it were a folder of its samples.
    fn table(&mut self, root: u32, path: &Path, stat: &FileStat, table: TableInput) {
        let key = match folder_key(&without_extension(path)) {
            Ok(key) => key,
            Err(fault) => return self.ignore(self.reason(fault), 1, path.to_owned()),
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

/// The pieces to keep of a sample whose files have several names that only their key makes one (`a b` and `a%20b`): those with the name of
/// most, rather with the one that was not escaped. `None` where all have one name.
fn of_one_name(listing: &Listing, sample: &[PieceRef], faults: &mut Vec<Error>) -> Option<Vec<PieceRef>> {
    let first = sample.first().filter(|_| sample.len() > 1)?;
    let is_escaped = |piece: &PieceRef| {
        let folder = listing.places.get(piece.place as usize).is_some_and(|place| place.folder_key.contains('%'));
        folder || listing.stem(piece).contains(&b'%')
    };
    if !is_escaped(first) {
        return None;
    }
    let mut names: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    sample.iter().filter_map(|piece| raw_stem(listing, piece)).for_each(|name| *names.entry(name).or_default() += 1);
    let rank = |(name, pieces): &(&Vec<u8>, &usize)| (**pieces, !name.contains(&b'%'));
    let (name, _) = names.iter().max_by_key(rank).filter(|_| names.len() > 1)?;
    let is_other = |piece: &&PieceRef| raw_stem(listing, piece).is_some_and(|other| other != *name);
    let (strangers, kept): (Vec<&PieceRef>, Vec<&PieceRef>) = sample.iter().partition(is_other);
    let shown = String::from_utf8_lossy(name).into_owned();
    faults.extend(strangers.into_iter().map(|piece| {
        let message = format!("it would have the key of {shown}, though their names differ; rename one of them");
        Error::content(message).with_code(Code::KeyTwice).in_input(listing.full_path(piece).display())
    }));
    Some(kept.into_iter().copied().collect())
}

/// The key of a file as the file system has it; `None` for members of archives, whose folders don't tell their names.
fn raw_stem(listing: &Listing, piece: &PieceRef) -> Option<Vec<u8>> {
    if listing.is_table(piece) || listing.places.get(piece.place as usize)?.archive.is_some() {
        return None;
    }
    let path = listing.path(piece);
    let base = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    if listing.key_ends.takes_folders() {
        let source = source_path(listing, piece, &path, base)?;
        return listing.key_ends.key_and_field(source).map(|(key, _)| key);
    }
    let gives = |end: &usize| {
        let mut stem = String::new();
        escape(path.get(base..*end).unwrap_or_default(), false, &mut stem);
        stem.as_bytes() == listing.stem(piece)
    };
    let mut dots = path.iter().enumerate().skip(base).filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
    let end = dots.find(gives)?;
    path.get(..end).map(<[u8]>::to_vec)
}

/// The path of a file below its input.
fn source_path<'a>(listing: &'a Listing, piece: &PieceRef, path: &'a [u8], base: usize) -> Option<SourcePath<'a>> {
    let root = listing.roots.get(listing.places.get(piece.place as usize)?.root as usize)?;
    let (folder, base) = path.split_at_checked(base)?;
    Some(SourcePath { input: root.file_name().unwrap_or_default().as_bytes(), folder, base })
}

/// The pieces to keep of a sample that has fields twice: nothing tells which of two pictures a text belongs to, so they are what the folder
/// or archive of the first one holds. Of an archive that has fields twice itself, they are those of a sample with one field alone.
fn untangled(listing: &Listing, sample: &[PieceRef], faults: &mut Vec<Error>) -> Vec<PieceRef> {
    let mut kept: Vec<PieceRef> = Vec::new();
    if sample.iter().any(|piece| listing.is_table(piece)) {
        for piece in sample {
            match kept.last() {
                Some(last) if listing.clash(last, piece) => faults.push(twice(listing, last, piece)),
                _ => kept.push(*piece),
            }
        }
        return kept;
    }
    let home = sample.iter().min_by_key(|piece| listing.origin(piece)).map(|piece| piece.place);
    let at_home: Vec<&PieceRef> = sample.iter().filter(|piece| Some(piece.place) == home).collect();
    let mut pairs = at_home.iter().zip(at_home.iter().skip(1)).map(|(a, b)| listing.clash(a, b));
    // Two samples of one archive have one key. Without other fields there is nothing to mix up.
    let is_archive =
        home.and_then(|home| listing.places.get(home as usize)).is_some_and(|place| place.archive.is_some());
    let mixed = is_archive && pairs.clone().any(|clash| clash) && !pairs.all(|clash| clash);
    let (mut first, mut clash, mut others): (Option<&PieceRef>, _, Vec<&PieceRef>) = (None, None, Vec::new());
    for piece in sample {
        // Those of one field come one after the other, that of the home first.
        let before = first.filter(|first| listing.clash(first, piece));
        match before {
            None if Some(piece.place) == home && !mixed => kept.push(*piece),
            Some(first) => faults.push(twice(listing, first, piece)),
            None => others.push(piece),
        }
        clash = clash.or(before.map(|first| (first, piece)));
        first = before.or(Some(piece));
    }
    faults.extend(clash.into_iter().flat_map(|clash| others.iter().map(move |piece| unclear(listing, clash, piece))));
    kept
}

/// The fault of a file that could belong to either of two, which `clash`.
fn unclear(listing: &Listing, (first, second): (&PieceRef, &PieceRef), piece: &PieceRef) -> Error {
    let field = String::from_utf8_lossy(listing.field(first)).into_owned();
    let [a, b] = [first, second].map(|piece| shown(listing, piece));
    let (a, b) = if a == b { (listing.full_path(first), listing.full_path(second)) } else { (a, b) };
    let message =
        format!("could be of two samples, since both {} and {} are the field {field}", a.display(), b.display());
    field_twice(listing, piece, Error::content(message).hint(remedy(listing, first, second)))
}

/// The error of a piece of a sample that has a field twice.
fn field_twice(listing: &Listing, piece: &PieceRef, error: Error) -> Error {
    let key = listing.places.get(piece.place as usize).map_or("", |place| place.folder_key.as_str());
    let key = format!("{key}{}", String::from_utf8_lossy(listing.stem(piece)));
    error.with_code(Code::KeyTwice).in_input(listing.full_path(piece).display()).in_sample(key)
}

/// Whether fields that are named after folders would tell two files apart.
fn folders_differ(listing: &Listing, first: &PieceRef, second: &PieceRef) -> bool {
    let named = |piece: &PieceRef| {
        let path = listing.path(piece);
        let base = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        KeyEnds::FieldFolders.split_path(source_path(listing, piece, &path, base)?).ok()
    };
    let differ = || named(first).zip(named(second)).is_some_and(|((_, a), (_, b))| a.field != b.field);
    !listing.key_ends.takes_folders() && differ()
}

/// What to do about two files that are one field of a sample.
fn remedy(listing: &Listing, first: &PieceRef, second: &PieceRef) -> &'static str {
    let archives =
        [first, second].map(|piece| listing.places.get(piece.place as usize).filter(|p| p.archive.is_some()));
    match archives {
        [Some(a), Some(b)] if (a.root, &a.path) != (b.root, &b.path) => {
            "pass `archive-folders`, with which keys begin with the names of archives"
        }
        [None, None] if folders_differ(listing, first, second) => {
            "pass `key-ends=field-folders`, which names fields after folders, or rename one of them"
        }
        _ => "rename one of them",
    }
}

/// Its path below its input.
fn shown(listing: &Listing, piece: &PieceRef) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(listing.path(piece)))
}

/// The fault of `second`, whose sample has the field of `first` twice.
fn twice(listing: &Listing, first: &PieceRef, second: &PieceRef) -> Error {
    if listing.is_table(first) || listing.is_table(second) {
        let first = listing.full_path(first);
        let message = format!("its samples would have the keys of those of {}; rename one of the two", first.display());
        let error = Error::content(message).with_code(Code::KeyTwice).in_input(listing.full_path(second).display());
        let table =
            listing.places.get(second.place as usize).and_then(|place| listing.tables.get(place.table? as usize));
        return match table.is_some_and(|table| table.format == "tokens") {
            true => error.hint("`packhorse merge` makes one dataset of several, whatever their names"),
            false => error,
        };
    }
    let field = String::from_utf8_lossy(listing.field(first)).into_owned();
    // Files of two folders that were given may have one relative path.
    let kept = match listing.path(first) == listing.path(second) {
        true => listing.full_path(first),
        false => shown(listing, first),
    };
    let message = format!("the sample has its field {field} already from {}", kept.display());
    field_twice(listing, second, Error::content(message).hint(remedy(listing, first, second)))
}
