//! Inventories: tables of files or objects with their sizes and times, which take the place of listing them.
//!
//! * [S3 Inventory](https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory.html): a `manifest.json` that names its files, in
//!   CSV (without a line of names; keys are URL-encoded) or Parquet.
//! * Any table in CSV, whose first line names the columns, or Parquet; or a folder of such tables: those of Google Cloud Storage
//!   and Azure, or what `find -printf` printed.
//!
//! Columns are known by the names that these services give them, whatever their case.

use super::Scan;
use super::folder_walk::{Folder, Task};
use super::inventory_columns::Columns;
use super::inventory_values::{instant, time, unquoted, whole, word};
use super::listing::ListingBuilder;
use crate::csv_rows::{RowLimit, csv_error};
use crate::request_error::as_request_error;
use arrow_array::{Array, ArrayRef, RecordBatch};
use packhorse_core::{Error, FileKind, Input, Kind, Options, Result, value_bytes};
use packhorse_storage::{Compression, Location, decompressed};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest `manifest.json`: of ten thousand files it has a megabyte.
const MOST_MANIFEST: u64 = 256 << 20;

/// A table of an inventory.
pub(super) struct InventoryTable {
    pub(super) path: PathBuf,
    /// Bytes and time of the file, to notice another inventory of the same name.
    pub(super) version: (u64, i64),
    /// Of a table of S3 Inventory in CSV its columns, which it does not name.
    s3: Option<Vec<String>>,
    /// The bucket of keys whose rows do not name it.
    bucket: Option<String>,
    /// The inputs, in their order.
    homes: Arc<[Home]>,
}

/// An input that keys may lie below.
struct Home {
    folder: Arc<Folder>,
    /// Where it is, from the root on.
    absolute: PathBuf,
    /// Of a bucket its name, and what keys start with there.
    object: Option<(String, String)>,
    /// In Azure's inventories keys start with the container.
    azure: bool,
}

/// Takes a row and its number.
pub(super) type Each<'e> = dyn FnMut(Listed<'_>, u64) -> Result<()> + 'e;

/// A row of an inventory.
pub(super) struct Listed<'a> {
    /// The input that it lies below, and its path there; `None` if it lies below none.
    pub(super) place: Option<(&'a Arc<Folder>, &'a Path)>,
    /// Its key, as it is in the table.
    pub(super) key: &'a [u8],
    /// Bytes, and nanoseconds since 1970.
    pub(super) stat: Result<(u64, i64)>,
}

/// A manifest of S3 Inventory.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    source_bucket: String,
    destination_bucket: String,
    file_format: String,
    file_schema: String,
    files: Vec<ManifestFile>,
}

#[derive(Deserialize)]
struct ManifestFile {
    key: String,
}

/// The first tasks of a scan of an inventory, one for each of its tables. Where listings of parts take its place, it is not read again.
pub(super) fn starts(
    context: Scan<'_>,
    (path, read): (&Path, bool),
    inputs: &[PathBuf],
    builder: &mut ListingBuilder,
) -> Result<Vec<Task>> {
    let home = |input: &PathBuf| Home::new(input, builder.root(input));
    let homes: Arc<[Home]> = inputs.iter().map(home).collect();
    if !read {
        return Ok(Vec::new());
    }
    let tables = tables(context, path, &homes).map_err(|e| as_request_error(e).in_input(path.display()))?;
    if tables.is_empty() {
        return Err(Error::config("holds no table in CSV or Parquet").in_input(path.display()));
    }
    Ok(tables.into_iter().map(|table| Task::Inventory(Arc::new(table))).collect())
}

fn tables(context: Scan<'_>, path: &Path, homes: &Arc<[Home]>) -> Result<Vec<InventoryTable>> {
    let table = |path: PathBuf, s3: Option<Vec<String>>, bucket: Option<String>| {
        let stat = context.store.stat(&path, true).map_err(|e| e.in_input(path.display()))?;
        Ok(InventoryTable { path, version: (stat.size, stat.mtime), s3, bucket, homes: homes.clone() })
    };
    if context.store.stat(path, true)?.kind == FileKind::Directory {
        let mut names = context.store.list(path)?;
        names.sort_unstable();
        let names = names.iter().filter(|name| is_table(name));
        return names.map(|name| table(path.join(name), None, None)).collect();
    }
    if path.extension().is_none_or(|end| !end.eq_ignore_ascii_case("json")) {
        return Ok(vec![table(path.to_owned(), None, None)?]);
    }
    let manifest = manifest(context, path)?;
    let s3 = match manifest.file_format.as_str() {
        "CSV" => Some(manifest.file_schema.split(',').map(|name| name.trim().to_owned()).collect()),
        "Parquet" => None,
        other => {
            let message = format!("is of {other} files; ask for an inventory in CSV or Parquet");
            return Err(Error::unsupported(message));
        }
    };
    let files = manifest.files.iter().map(|file| {
        table(data_file(context, path, &manifest, &file.key), s3.clone(), Some(manifest.source_bucket.clone()))
    });
    files.collect()
}

fn manifest(context: Scan<'_>, path: &Path) -> Result<Manifest> {
    let input = context.store.open(path)?;
    let len = input.len().unwrap_or(u64::MAX);
    if len > MOST_MANIFEST {
        return Err(Error::new(Kind::Limit, format!("has {len} bytes; manifests have {MOST_MANIFEST} at most")));
    }
    let mut text = vec![0; usize::try_from(len).unwrap_or(0)];
    input.read_at(0, &mut text)?;
    serde_json::from_slice(&text).map_err(|e| Error::content(format!("is not a manifest of S3 Inventory: {e}")))
}

/// Where a file of a manifest is: in the bucket that the manifest names, or, where that was copied, beside it or in `data` beside its folder.
fn data_file(context: Scan<'_>, path: &Path, manifest: &Manifest, key: &str) -> PathBuf {
    let bucket = manifest.destination_bucket.rsplit(':').next().unwrap_or_default();
    if Location::url(path).is_some_and(|url| url.starts_with("s3://")) {
        return PathBuf::from(format!("s3://{bucket}/{key}"));
    }
    let name = key.rsplit('/').next().unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new(""));
    let places =
        [folder.join(name), folder.join("data").join(name), folder.join("../data").join(name), folder.join(key)];
    let there = places.iter().find(|place| context.store.stat(place, true).is_ok());
    there.unwrap_or(&places[0]).clone()
}

fn is_table(name: &Path) -> bool {
    let inside = Compression::of(name.as_os_str().as_bytes())
        .map_or_else(|| name.as_os_str().as_bytes().to_vec(), |found| found.1);
    let end = Path::new(OsStr::from_bytes(&inside)).extension().map(OsStr::to_ascii_lowercase);
    end.is_some_and(|end| end == "csv" || end == "parquet")
}

impl Home {
    fn new(input: &Path, root: u32) -> Self {
        let url = Location::url(input).and_then(|url| url.split_once("://"));
        let scheme = url.map_or_else(String::new, |(scheme, _)| scheme.to_ascii_lowercase());
        let azure = matches!(scheme.as_str(), "az" | "abfs" | "abfss");
        let object = url.filter(|_| azure || matches!(scheme.as_str(), "s3" | "gs")).map(|(_, rest)| {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            // `container@account.dfs.core.windows.net`.
            let bucket = bucket.split('@').next().unwrap_or_default();
            (bucket.to_owned(), prefix.trim_end_matches('/').to_owned())
        });
        let folder = Folder {
            root,
            base: Arc::new(input.to_owned()),
            path: PathBuf::new(),
            above: None,
            named: false,
            shared: false,
            stats: BTreeMap::new(),
        };
        Self { folder: Arc::new(folder), absolute: Location::absolute(input), object, azure }
    }

    /// The path of a key below this input.
    fn path<'k>(&self, bucket: Option<&str>, key: &'k [u8]) -> Option<&'k Path> {
        let Some((own, prefix)) = &self.object else {
            // As `find .` prints them.
            let path = Path::new(OsStr::from_bytes(key.strip_prefix(b"./").unwrap_or(key)));
            let below = || path.strip_prefix(&**self.folder.base).or_else(|_| path.strip_prefix(&self.absolute));
            return if path.is_absolute() { below().ok() } else { Some(path) };
        };
        if bucket.is_some_and(|bucket| bucket != own) {
            return None;
        }
        let key = match self.azure {
            true => key.strip_prefix(own.as_bytes())?.strip_prefix(b"/")?,
            false => key,
        };
        let below = match prefix.is_empty() {
            true => key,
            false => key.strip_prefix(prefix.as_bytes())?.strip_prefix(b"/")?,
        };
        Some(Path::new(OsStr::from_bytes(below)))
    }
}

impl InventoryTable {
    /// Calls `each` with what it lists, in its order, and the number of the row (from 1).
    ///
    /// Errors: those of `each`; `Config` for a missing column; `Content` for a damaged table, whose rows from there on are not read.
    pub(super) fn rows(&self, context: Scan<'_>, each: &mut Each<'_>) -> Result<()> {
        let name = self.path.as_os_str().as_bytes();
        let input = context.store.open(&self.path)?;
        let (inside, compression) = match Compression::of(name) {
            Some((compression, inside)) => (inside, Some(compression)),
            None => (name.to_vec(), None),
        };
        let most = context.limits.header;
        let is_csv = self.s3.is_some() || inside.to_ascii_lowercase().ends_with(b".csv");
        match (is_csv, compression) {
            (true, Some(compression)) => self.csv(&*decompressed(input, compression), most, each),
            (true, None) => self.csv(&*input, most, each),
            (false, None) => self.columns(context, &*input, each),
            (false, Some(_)) => Err(Error::config("is compressed as a whole; decompress it first")),
        }
    }

    fn csv(&self, input: &dyn Input, most: u64, each: &mut Each<'_>) -> Result<()> {
        let (bytes, start) = RowLimit::new(input.stream()?, b',', most);
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(bytes);
        let mut record = csv::ByteRecord::new();
        let mut next = |record: &mut csv::ByteRecord| {
            start.set(reader.position().byte());
            let more = reader.read_byte_record(record).map_err(csv_error)?;
            match reader.get_ref().has_stray_text(reader.position().byte()) {
                true => {
                    Err(Error::content(format!("line {}: has text behind a closing quote", reader.position().line())))
                }
                false => Ok(more),
            }
        };
        let columns = match &self.s3 {
            Some(columns) => Columns::of(columns.iter().map(String::as_str))?,
            None => {
                if !next(&mut record)? {
                    return Err(Error::content("is empty; its first line names the columns"));
                }
                let names: Vec<Cow<'_, str>> = record.iter().map(String::from_utf8_lossy).collect();
                Columns::of(names.iter().map(|name| name.trim_start_matches('\u{feff}')))?
            }
        };
        let mut number = 0;
        while next(&mut record)? {
            number += 1;
            let at = |column: usize| record.get(column).unwrap_or_default();
            if columns.leave_out(|column| column.map(at)) {
                continue;
            }
            let stat = || {
                let size = text(at(columns.size)).and_then(|text| text.parse().ok());
                let size = size.ok_or_else(|| bad("size", at(columns.size)))?;
                Ok((size, time(at(columns.time)).ok_or_else(|| bad("time", at(columns.time)))?))
            };
            let key = if self.s3.is_some() { unquoted(at(columns.key)) } else { Cow::Borrowed(at(columns.key)) };
            let bucket = columns.bucket.and_then(|column| text(at(column)));
            self.listed(&key, bucket, stat(), &mut |listed| each(listed, number))?;
        }
        Ok(())
    }

    fn columns(&self, context: Scan<'_>, input: &dyn Input, each: &mut Each<'_>) -> Result<()> {
        let unknown = || Error::config("is not a table of an inventory: give CSV, Parquet, or a manifest.json");
        let format = context.registry.by_name(self.path.as_os_str().as_encoded_bytes()).ok_or_else(unknown)?;
        let source = format.source(&Options::new(), context.limits)?;
        let mut found = None;
        let blocks = source.columns(input, &mut |schema| {
            let columns = Columns::of(schema.fields().iter().map(|field| field.name().as_str()))?;
            let roots = columns.all();
            found = Some(columns.among(&roots));
            Ok(roots)
        })?;
        let (Some(blocks), Some(columns)) = (blocks, found) else { return Err(unknown()) };
        let mut number = 0;
        for block in blocks {
            self.block(&block?, &columns, &mut number, each)?;
        }
        Ok(())
    }

    fn block(&self, block: &RecordBatch, columns: &Columns, number: &mut u64, each: &mut Each<'_>) -> Result<()> {
        let none: ArrayRef = Arc::new(arrow_array::NullArray::new(block.num_rows()));
        let column = |place: Option<usize>| place.and_then(|place| block.columns().get(place)).unwrap_or(&none);
        let (keys, sizes, times) = (column(Some(columns.key)), column(Some(columns.size)), column(Some(columns.time)));
        for row in 0..block.num_rows() {
            *number += 1;
            if columns.leave_out(|place| word(column(place), row)) {
                continue;
            }
            let wrong = |what: &str, column: &ArrayRef| match column.is_null(row) {
                true => Error::content(format!("the {what} is missing")),
                false => Error::content(format!("the {what} is of the type {}", column.data_type())),
            };
            let stat = || {
                let size = whole(sizes, row).and_then(|size| u64::try_from(size).ok());
                let size = size.ok_or_else(|| wrong("size", sizes))?;
                Ok((size, instant(times, row).ok_or_else(|| wrong("time", times))?))
            };
            let (key, stat) = match value_bytes(keys, row) {
                Some(key) => (key, stat()),
                None => (&b""[..], Err(wrong("key", keys))),
            };
            let bucket = value_bytes(column(columns.bucket), row).and_then(text);
            self.listed(key, bucket, stat, &mut |listed| each(listed, *number))?;
        }
        Ok(())
    }

    /// Finds the place of a row. Objects have times of whole seconds, as their stores say them.
    fn listed(
        &self,
        key: &[u8],
        bucket: Option<&str>,
        stat: Result<(u64, i64)>,
        each: &mut dyn FnMut(Listed<'_>) -> Result<()>,
    ) -> Result<()> {
        let bucket = bucket.or(self.bucket.as_deref());
        let place = self.homes.iter().find_map(|home| Some((home, home.path(bucket, key)?)));
        let seconds = place.is_some_and(|(home, _)| home.object.is_some());
        let rounded =
            |(size, mtime): (u64, i64)| (size, if seconds { mtime - mtime.rem_euclid(1_000_000_000) } else { mtime });
        each(Listed { place: place.map(|(home, path)| (&home.folder, path)), key, stat: stat.map(rounded) })
    }
}

fn bad(what: &str, value: &[u8]) -> Error {
    Error::content(format!("the {what} is {:?}", String::from_utf8_lossy(value)))
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_keys() {
        let at = |input: &str, bucket: Option<&str>, key: &str| {
            Home::new(Path::new(input), 0).path(bucket, key.as_bytes()).map(|path| path.display().to_string())
        };
        assert_eq!(at("s3://b/photos/", None, "photos/cat/1.jpg").as_deref(), Some("cat/1.jpg"));
        assert_eq!(at("s3://b", Some("b"), "photos/1.jpg").as_deref(), Some("photos/1.jpg"));
        assert_eq!(at("s3://b/photos", Some("c"), "photos/1.jpg"), None);
        assert_eq!(at("s3://b/photos", None, "photos2/1.jpg"), None);
        assert_eq!(at("/data", None, "cat/1.jpg").as_deref(), Some("cat/1.jpg"));
        assert_eq!(at("/data", None, "/data/cat/1.jpg").as_deref(), Some("cat/1.jpg"));
        assert_eq!(at("/data", None, "./cat/1.jpg").as_deref(), Some("cat/1.jpg"));
        assert_eq!(at("/data", None, "/other/1.jpg"), None);
        // Azure's reports name the container first.
        assert_eq!(at("az://photos/train", None, "photos/train/1.jpg").as_deref(), Some("1.jpg"));
        assert_eq!(at("abfss://photos@a.dfs.core.windows.net", None, "photos/1.jpg").as_deref(), Some("1.jpg"));
        assert_eq!(at("az://photos", None, "other/1.jpg"), None);
    }
}
