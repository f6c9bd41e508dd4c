//! Tables whose rows become the `.json` members of samples.
//!
//! A table is a CSV, TSV, JSONL, JSON or columnar (Parquet) file, or a list in a text file, with one row per sample, or with
//! several that become a list. Its *key column* names the sample of each row. A row is kept as the JSON text of one object,
//! exactly as it is written to the shard. This module knows tables, keys and JSON text; it knows no plan, no shard and no
//! command line.
//!
//! # Keys
//!
//! A key value is text: `0001` in a CSV file stays `0001`, and integers of JSON and Parquet stand for their decimal
//! digits. It may name a file or a sample: `dress/0001.jpg` and `dress/0001` both mean the key `dress/0001`. A value
//! with an extension is split and escaped by [`packhorse_core::split_name`]; any other goes through the same
//! [`packhorse_core::escape`] as a whole. What follows the
//! first dot is an extension unless it is a number: `v1.2` is a key. Colliding keys are an error.

mod column_choice;
mod csv;
mod encode;
mod folder_tables;
mod json;
mod jsonl;
mod lines;
mod lists;
mod one_line;
mod plain_records;
mod record_reader;
mod records;
mod table;
mod table_kind;
mod table_options;

use crate::key_ends::SourcePath;
use crate::request_error::as_request_error;
use crate::{KeyEnds, MetadataRows, Recipe};
use column_choice::ColumnRequest;
use folder_tables::FolderTables;
pub(crate) use folder_tables::InputFolders;
use hashbrown::HashTable;
use lists::Chains;
use one_line::one_line;
use packhorse_core::{Code, Error, Kind, Limits, NameFault, Registry, Result, counted, escape, folder_key};
use packhorse_storage::{Local, paths_of};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use table_options::TableOptions;

/// The rows of a table by key, each as the JSON text of one object.
///
/// Holds tens of millions of rows: keys and texts are in one arena, and a row takes about 30 bytes more.
#[derive(Debug, Default)]
pub struct Metadata {
    /// Of every row in turn, its key and its JSON text.
    arena: String,
    rows: Vec<Row>,
    /// The folders whose samples alone may have rows; empty if all samples may have all.
    folders: FolderTables,
    /// Positions in `rows`, by the hash of the folder's number and the key.
    index: HashTable<u32>,
    hasher: RandomState,
    /// One bit a row, in the order of `rows`.
    used: Vec<AtomicU64>,
    /// The unit of positions in the table: `"line"` or `"row"`.
    unit: &'static str,
    /// How file names among the keys are split; `None` keeps keys as they are.
    key_ends: Option<KeyEnds>,
    /// The rows of each key, where a key may have several; the index has the last of them.
    chains: Option<Chains>,
    /// How many rows had no key, and where the first of them is.
    keyless: Option<(u64, u64)>,
    /// What else is to be told of the table.
    notes: Vec<String>,
}

/// The position of a row in the arena (up to the next row) and in the table.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: usize,
    key_len: u32,
    at: u32,
}

impl Metadata {
    /// Reads the metadata of a recipe: the table `path`, or the tables that a pattern matches (`laion/*.parquet`). Of a pattern
    /// for folders (`*/metadata.jsonl`) around or below inputs, each is for the samples in and below its folder, and names of
    /// files may start there. The extension selects CSV, TSV, JSONL, JSON or a format of `registry`; that of a compression may
    /// follow. Settings of the recipe say how other text is written.
    ///
    /// The key column `key` names samples, or files, which are split as those of the samples were. The objects hold the columns
    /// of the recipe, in that order, or all columns in the order of the table, the key column included. See the modules of each
    /// format for what becomes of its types.
    ///
    /// Errors: `Config` for an unknown extension and for a missing column (with those that exist); `Content` for a bad
    /// row, a missing key and two rows of one key; `Limit` for a row of a table that is not a JSON file longer than
    /// `limits.header`; `Unsupported` for data that JSON can't hold.
    pub(crate) fn of(
        registry: &Registry,
        recipe: &Recipe,
        (path, key): (&Path, &str),
        limits: Limits,
        folders: InputFolders<'_>,
    ) -> Result<Self> {
        let options = TableOptions::parse(&recipe.metadata_read)?;
        let columns = (!recipe.columns.is_empty()).then_some(&recipe.columns[..]);
        let request = ColumnRequest::new(key, columns, limits).map(|request| ColumnRequest {
            key_ends: Some(&recipe.key_ends),
            options: &options,
            lists: recipe.metadata_rows == MetadataRows::List,
            ..request
        });
        Self::read_table(registry, path, request, folders)
    }

    /// The same with the keys as they are in the table.
    pub(crate) fn read_exact(registry: &Registry, path: &Path, key: &str, columns: Option<&[String]>) -> Result<Self> {
        let request = ColumnRequest::new(key, columns, Limits::default());
        let request = request.map(|request| ColumnRequest { is_metadata: false, key_ends: None, ..request });
        Self::read_table(registry, path, request, InputFolders::default())
    }

    fn read_table(
        registry: &Registry,
        path: &Path,
        request: Result<ColumnRequest<'_>>,
        folders: InputFolders<'_>,
    ) -> Result<Self> {
        let named = |path: &Path, e: Error| as_request_error(e).in_input(path.display());
        let request = request.map_err(|e| named(path, e))?;
        let tables = tables(path).map_err(|e| named(path, e))?;
        let mut all: Option<Self> = None;
        for (table, place) in folder_tables::places(tables, path, folders) {
            let read = match &place {
                Some(place) => Self::read_in_folder(registry, (&table, place), &request),
                None => table_kind::read(registry, &table, &request),
            };
            let read = read.map_err(|e| named(&table, e))?;
            match &mut all {
                None => all = Some(read),
                Some(all) => all.absorb(read).map_err(|e| named(&table, e))?,
            }
        }
        let all = all.ok_or_else(|| named(path, Error::config("matches no file")))?;
        if all.chains.is_some() { all.listed().map_err(|e| named(path, e)) } else { Ok(all) }
    }

    /// Adds the rows of another table.
    fn absorb(&mut self, other: Self) -> Result<()> {
        self.folders.extend(other.folders.iter(), self.rows.len());
        let folder = self.folders.last();
        for row in 0..other.rows.len() as u32 {
            let (key, json) = other.parts(row).unwrap_or_default();
            if self.find_in(folder, key).is_some() && self.chains.is_none() {
                let (unit, at) = (other.unit, other.rows.get(row as usize).map_or(0, |row| row.at));
                let text =
                    format!("{unit} {at}: the key {key:?} is in a table before it too; leave one row for each sample");
                return Err(Error::content(text).with_code(Code::KeyTwice));
            }
            self.add(key, json, 0)?;
        }
        self.notes.extend(other.notes);
        if let Some((rows, first)) = other.keyless {
            let (before, first_before) = self.keyless.unwrap_or((0, first));
            self.keyless = Some((before + rows, first_before));
        }
        Ok(())
    }

    /// An empty table, whose positions are counted in `unit`s.
    fn empty(unit: &'static str, request: &ColumnRequest<'_>) -> Self {
        let (key_ends, chains) = (request.key_ends.cloned(), request.lists.then(Chains::default));
        Self { unit, key_ends, chains, ..Self::default() }
    }

    /// Names of samples in lines, which may be there twice.
    pub(crate) fn of_names(key_ends: &KeyEnds) -> Self {
        Self { unit: "line", key_ends: Some(key_ends.clone()), chains: Some(Chains::default()), ..Self::default() }
    }

    /// Counts the row at this place, which has no key.
    fn without_key(&mut self, at: u64) {
        let (rows, first) = self.keyless.unwrap_or((0, at));
        self.keyless = Some((rows + 1, first));
    }

    /// A warning of rows that have no key, if there are some.
    pub(crate) fn keyless(&self) -> Option<String> {
        let (rows, first) = self.keyless?;
        let unit = self.unit;
        Some(format!(
            "{} of the metadata without a key, the first in {unit} {first}: no sample gets them",
            counted(rows, "row")
        ))
    }

    /// The JSON text of the row of `key`, a canonical key as [`packhorse_core::split_name`] makes it. Marks the row
    /// used.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.text(self.find(key)?)
    }

    /// The row of exactly this key. Does not mark it.
    pub(crate) fn find(&self, key: &str) -> Option<u32> {
        self.find_in(0, key)
    }

    /// The same among the tables of the folder of this number; of 0 where all samples may have all rows.
    pub(crate) fn find_in(&self, folder: usize, key: &str) -> Option<u32> {
        let same = |row: &u32| self.key(*row) == key && self.folders.of_row(*row) == folder;
        self.index.find(self.hasher.hash_one((folder, key)), same).copied()
    }

    /// Warnings of the table.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        self.keyless().into_iter().chain(self.notes.iter().cloned())
    }

    /// Whether the rows of a sample are a list.
    pub(crate) fn is_of_lists(&self) -> bool {
        self.chains.is_some()
    }

    /// The keys of all rows, in the order of the table.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        (0..self.rows.len() as u32).map(|row| self.key(row))
    }

    /// The JSON text of a row. Marks it used.
    pub(crate) fn text(&self, row: u32) -> Option<&str> {
        self.used.get(row as usize / 64)?.fetch_or(1 << (row % 64), Ordering::Relaxed);
        self.parts(row).map(|(_, json)| json)
    }

    /// The JSON texts of all rows, in the order of the table.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        (0..self.rows.len() as u32).filter_map(|row| self.parts(row).map(|(_, json)| json))
    }

    /// The number of rows.
    pub fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Whether the table has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of rows that [`Metadata::get`] never returned, and the key of the first of them in table order.
    pub fn unused(&self) -> (u64, Option<&str>) {
        let used = self.used.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum::<u64>();
        (self.len().saturating_sub(used), self.first_unused().map(|row| self.key(row)))
    }

    fn first_unused(&self) -> Option<u32> {
        let full = self.used.iter().take_while(|word| word.load(Ordering::Relaxed) == u64::MAX).count();
        let ones = self.used.get(full).map_or(0, |word| word.load(Ordering::Relaxed).trailing_ones());
        let row = u32::try_from(full * 64).ok()?.checked_add(ones)?;
        ((row as usize) < self.rows.len()).then_some(row)
    }

    /// Adds the row which stands `at` the table's line or row, counted from 1, and whose key column holds `value`.
    pub(crate) fn insert(&mut self, value: &str, json: &str, at: u64) -> Result<()> {
        let unit = self.unit;
        let key = match &self.key_ends {
            Some(key_ends) => canonical(value, key_ends),
            None if value.is_empty() => Err(NONE),
            None => Ok(value.to_owned()),
        };
        let key = key.map_err(|fault| Error::content(format!("{unit} {at}: the key {value:?} {fault}")))?;
        let before = self.find_in(self.folders.last(), &key);
        if let Some(row) = before.filter(|_| self.chains.is_none()) {
            let first = self.rows.get(row as usize).map_or(0, |row| row.at);
            let text = format!("{unit}s {first} and {at} have the same key {key:?}; leave one row for each sample");
            let error = Error::content(text).with_code(Code::KeyTwice);
            let list = "or make the rows of a sample a list with `metadata-rows=list`";
            return Err(if self.key_ends.is_some() { error.hint(list) } else { error });
        }
        self.add(&key, json, u32::try_from(at).map_err(|_| too_many())?)
    }

    /// Adds a row. No row has its key, unless a key may have several.
    fn add(&mut self, key: &str, json: &str, at: u32) -> Result<()> {
        let row = u32::try_from(self.rows.len()).map_err(|_| too_many())?;
        let key_len = u32::try_from(key.len()).map_err(|_| Error::new(Kind::Limit, "has a key over 4 GiB"))?;
        self.rows.push(Row { start: self.arena.len(), key_len, at });
        self.arena.push_str(key);
        self.arena.push_str(&one_line(json));
        if row % 64 == 0 {
            self.used.push(AtomicU64::new(0));
        }
        let folder = self.folders.last();
        let hash = self.hasher.hash_one((folder, key));
        if let Some(chains) = &mut self.chains {
            let is_key = |row| parts(&self.arena, &self.rows, row).is_some_and(|(known, _)| known == key);
            let same = |row: &u32| is_key(*row) && self.folders.of_row(*row) == folder;
            match self.index.find_mut(hash, same) {
                Some(last) => {
                    chains.follow(std::mem::replace(last, row), row);
                    return Ok(());
                }
                None => chains.begin(row),
            }
        }
        self.remember(hash, row);
        Ok(())
    }

    fn remember(&mut self, hash: u64, row: u32) {
        let Self { arena, rows, folders, index, hasher, .. } = self;
        let key = |row| parts(arena, rows, row).map_or("", |(key, _)| key);
        index.insert_unique(hash, row, |row| hasher.hash_one((folders.of_row(*row), key(*row))));
    }

    /// The key of a row.
    pub(crate) fn key(&self, row: u32) -> &str {
        self.parts(row).map_or("", |(key, _)| key)
    }

    /// The key and the JSON text of `row`.
    fn parts(&self, row: u32) -> Option<(&str, &str)> {
        parts(&self.arena, &self.rows, row)
    }
}

fn too_many() -> Error {
    Error::new(Kind::Limit, format!("has more than {} rows; split it", u32::MAX))
}

/// The tables that a path names: itself, or those that a pattern matches.
pub(crate) fn tables(path: &Path) -> Result<Vec<PathBuf>> {
    paths_of(&Local, path)
}

fn parts<'a>(arena: &'a str, rows: &[Row], row: u32) -> Option<(&'a str, &'a str)> {
    let this = rows.get(row as usize)?;
    let end = rows.get(row as usize + 1).map_or(arena.len(), |next| next.start);
    arena.get(this.start..end)?.split_at_checked(this.key_len as usize)
}

const NONE: &str = "names no sample; give every row the key of its sample";

/// The key of the sample that the file of this name is of, if it has the extension of a file.
pub(crate) fn key_of_file(name: &str, key_ends: &KeyEnds) -> Option<String> {
    let (_, extension) = name.rsplit('/').next()?.rsplit_once('.')?;
    let is_file = EXTENSIONS.contains(&&*extension.to_ascii_lowercase());
    is_file.then(|| canonical(name, key_ends).ok())?
}

/// What makes a value the name of a file where keys may have dots.
#[rustfmt::skip]
const EXTENSIONS: [&str; 64] = [
    "aac", "arrow", "avi", "avif", "bin", "bmp", "cls", "csv", "dcm", "exr", "feather", "flac", "gif", "h5", "hdf5", "hdr",
    "heic", "html", "jp2", "jpeg", "jpg", "json", "jsonl", "m4a", "mat", "md", "mkv", "mov", "mp3", "mp4", "mpeg", "mpg",
    "nc", "nii", "npy", "npz", "ogg", "opus", "parquet", "pbm", "pdf", "pgm", "pickle", "pkl", "png", "pnm", "ppm", "pt",
    "pth", "root", "srt", "svg", "tif", "tiff", "tsv", "txt", "vtt", "wav", "webm", "webp", "xml", "yaml", "yml", "zip",
];

/// Whether the last part of a field's name is the extension of a file.
pub(crate) fn is_extension(field: &str) -> bool {
    let last = field.rsplit('.').next().unwrap_or(field);
    EXTENSIONS.contains(&&*last.to_ascii_lowercase())
}

/// Whether a field has the name of a number, or of numbers with dots.
pub(crate) fn is_number(field: &str) -> bool {
    !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The sample key of a value of the key column; or the problem and its remedy.
fn canonical(value: &str, key_ends: &KeyEnds) -> Result<String, &'static str> {
    const HIDDEN: &str = "names a hidden file (it starts with a dot), which is never packed; drop the row";
    let (dir, base) = value.split_at(value.rfind('/').map_or(0, |slash| slash + 1));
    if key_ends.takes_folders() {
        return key_of_path(value, (dir, base), key_ends);
    }
    match key_ends.split(base.as_bytes()) {
        Ok(name) if name.key.is_empty() => return Err(NONE),
        // Where keys have dots, `v1.5` and `a.v2` are keys.
        Ok(name) if matches!(key_ends, KeyEnds::LastDot) && !EXTENSIONS.contains(&&*name.field) => {}
        // `P1.5` is not a file of `P1`, unless `P1` has such a field.
        Ok(name) if is_number(&name.field) => {}
        Ok(name) => return key_of(dir, &name.key).map_err(|_| HIDDEN),
        Err(NameFault::Hidden) => return Err(HIDDEN),
        Err(NameFault::NoField) => {}
    }
    if base.is_empty() {
        return Err(NONE);
    }
    let mut escaped = String::with_capacity(base.len());
    escape(base.as_bytes(), false, &mut escaped);
    key_of(dir, &escaped).map_err(|_| HIDDEN)
}

/// The same where folders decide: a value is the path of a file, or a key.
fn key_of_path(value: &str, (dir, base): (&str, &str), key_ends: &KeyEnds) -> Result<String, &'static str> {
    // The name of a folder may have a dot, and is a key then.
    let is_file = !matches!(key_ends, KeyEnds::SampleFolders) || base.contains('.') && is_extension(base);
    let path = SourcePath { input: b"input", folder: dir.as_bytes(), base: base.as_bytes() };
    let parts = || value.split('/').filter(|part| !part.is_empty()).map(folder_part);
    match key_ends.split_path(path).ok().filter(|_| is_file) {
        Some((folder, name)) => Ok(folder + &name.key),
        None => Some(parts().collect::<String>()).filter(|key| !key.is_empty()).ok_or(NONE),
    }
    .map(|key| key.trim_end_matches('/').to_owned())
}

/// A folder in a key, hidden or not.
pub(crate) fn folder_part(name: &str) -> String {
    let mut key = String::with_capacity(name.len() + 1);
    escape(name.as_bytes(), false, &mut key);
    key + "/"
}

/// The key of the sample `base`, which is escaped already, in the folder `dir`.
fn key_of(dir: &str, base: &str) -> Result<String, NameFault> {
    // An input may lie in a hidden folder.
    let folder = match dir.strip_prefix('/') {
        Some(dir) => dir.split('/').filter(|name| !name.is_empty()).map(folder_part).collect(),
        None => folder_key(dir.as_bytes())?,
    };
    // Keys that start with `__` belong to readers; split_name has the same rule.
    Ok(match base.strip_prefix("__").filter(|_| folder.is_empty()) {
        Some(rest) => format!("%5F_{rest}"),
        None => folder + base,
    })
}

/// The start of a JSON member: the name as a string, and the colon.
fn member_name(name: &str) -> Result<String> {
    let text = serde_json::to_string(name);
    text.map(|text| text + ":").map_err(|e| Error::bug("writing a name as JSON failed").caused_by(e))
}

#[cfg(test)]
mod tests;
