//! Samples whose files can't all be theirs: two of one field, or of names that only their key makes one.

use super::{Listing, PieceRef, RowKeys, SourceFolder};
use crate::KeyEnds;
use crate::key_ends::SourcePath;
use crate::real_path::name_of;
use crate::scan::split_names::alone;
use packhorse_core::{Code, Error, escape};
use packhorse_storage::Location;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// The pieces to keep of a sample whose files have several names that only their key makes one (`a b` and `a%20b`): those with the name of
/// most, rather with the one that was not escaped. `None` where all have one name.
pub(super) fn of_one_name(listing: &Listing, sample: &[PieceRef], faults: &mut Vec<Error>) -> Option<Vec<PieceRef>> {
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
        let (input, [folder, base]) = source_path(listing, piece, &path)?;
        let source = SourcePath { input: input.as_bytes(), folder, base };
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

/// The name of the input of a file, and `path`, that of the file below it, in two parts.
fn source_path<'a>(listing: &Listing, piece: &PieceRef, path: &'a [u8]) -> Option<(OsString, [&'a [u8]; 2])> {
    let root = listing.roots.get(listing.places.get(piece.place as usize)?.root as usize)?;
    let (folder, base) = path.split_at(path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1));
    Some((name_of(root), [folder, base]))
}

/// The pieces to keep of a sample that has fields twice: nothing tells which of two pictures a text belongs to, so they are what the folder
/// or archive of the first one holds. Of an archive that has fields twice itself, they are those of a sample with one field alone.
pub(super) fn untangled(listing: &Listing, sample: &[PieceRef], faults: &mut Vec<Error>) -> Vec<PieceRef> {
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
    let message = match a == b {
        true => format!("has the field {field} of the sample twice, so its other fields could be of two samples"),
        false => {
            format!("could be of two samples, since both {} and {} are the field {field}", a.display(), b.display())
        }
    };
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
        let (input, [folder, base]) = source_path(listing, piece, &path)?;
        KeyEnds::FieldFolders.split_path(SourcePath { input: input.as_bytes(), folder, base }).ok()
    };
    let differ = || named(first).zip(named(second)).is_some_and(|((_, a), (_, b))| a.field != b.field);
    !listing.key_ends.takes_folders() && differ()
}

/// Whether two files lie in inputs whose names are those of two splits.
fn of_two_splits(listing: &Listing, first: &PieceRef, second: &PieceRef) -> bool {
    let split = |piece: &PieceRef| {
        let root = listing.roots.get(listing.places.get(piece.place as usize)?.root as usize)?;
        alone(&name_of(root).to_string_lossy())
    };
    split(first).zip(split(second)).is_some_and(|(a, b)| a != b)
}

/// The folder around two inputs that hold files of one path.
fn common_folder(listing: &Listing, first: &PieceRef, second: &PieceRef) -> Option<PathBuf> {
    let root = |piece: &PieceRef| listing.roots.get(listing.places.get(piece.place as usize)?.root as usize);
    let (a, b) = root(first).zip(root(second)).filter(|(a, b)| a != b)?;
    let is_plain =
        |root: &Path| Location::url(root).is_none() && root.components().all(|part| part != Component::ParentDir);
    let around = a.ancestors().skip(1).find(|folder| b.starts_with(folder) && *folder != Path::new("/"))?;
    if !(is_plain(a) && is_plain(b)) {
        return None;
    }
    Some(if around.as_os_str().is_empty() { Path::new(".") } else { around }.to_owned())
}

/// What to do about two files that are one field of a sample.
fn remedy(listing: &Listing, first: &PieceRef, second: &PieceRef) -> &'static str {
    const AROUND: &str =
        "give the folder that holds both as the input, so that their folders are in the keys, or rename one of them";
    if of_two_splits(listing, first, second) {
        return AROUND;
    }
    let archives =
        [first, second].map(|piece| listing.places.get(piece.place as usize).filter(|p| p.archive.is_some()));
    match archives {
        [Some(a), Some(b)] if a.root != b.root && without_extension(a) == without_extension(b) => {
            "give the folder that holds both archives as the input and pass `archive-folders`, with which keys begin with the \
             folders and names of archives, or rename one of them"
        }
        [Some(a), Some(b)] if (a.root, &a.path) != (b.root, &b.path) => {
            "pass `archive-folders`, with which keys begin with the names of archives"
        }
        [None, None] if folders_differ(listing, first, second) => match common_folder(listing, first, second) {
            Some(_) => {
                "pass `key-ends=field-folders`, which names fields after folders; or give the folder that holds both as the input, \
                 so that their folders are in the keys; or rename one of them"
            }
            None => "pass `key-ends=field-folders`, which names fields after folders, or rename one of them",
        },
        [None, None] if common_folder(listing, first, second).is_some() => AROUND,
        _ => "rename one of them",
    }
}

/// The path of an archive below its input, as keys have it.
fn without_extension(archive: &SourceFolder) -> Vec<u8> {
    super::without_extension(Path::new(OsStr::from_bytes(&archive.path)))
}

/// Its path below its input.
fn shown(listing: &Listing, piece: &PieceRef) -> PathBuf {
    PathBuf::from(OsString::from_vec(listing.path(piece)))
}

/// The error of an input that is named twice.
pub(in crate::scan) fn named_twice(path: &Path) -> Error {
    Error::content("is among the inputs twice; give it once").with_code(Code::KeyTwice).in_input(path.display())
}

/// The fault of `second`, whose sample has the field of `first` twice.
fn twice(listing: &Listing, first: &PieceRef, second: &PieceRef) -> Error {
    let file = listing.full_path(second);
    if listing.places.get(second.place as usize).is_some_and(|p| p.archive.is_none())
        && listing.full_path(first) == file
    {
        return named_twice(&file);
    }
    if listing.is_table(first) || listing.is_table(second) {
        let message = format!(
            "its samples would have the keys of those of {}; rename one of the two",
            listing.full_path(first).display()
        );
        let error = Error::content(message).with_code(Code::KeyTwice).in_input(file.display());
        let table =
            listing.places.get(second.place as usize).and_then(|place| listing.tables.get(place.table? as usize));
        if table.is_some_and(|table| table.format == "tokens") {
            return error.hint("`packhorse merge` makes one dataset of several, whatever their names");
        }
        return match (common_folder(listing, first, second), listing.row_keys(second)) {
            (Some(folder), _) => error.hint(format!(
                "or give the folder that holds both as the input ({}), so that keys begin with their folders",
                folder.display()
            )),
            (None, RowKeys::Places) => error.hint("or pack each into a dataset of its own"),
            _ => error,
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
