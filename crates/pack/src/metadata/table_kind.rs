//! What a table is, by its name.

use super::{ColumnRequest, Metadata, csv, json, jsonl, table};
use packhorse_core::{Context, Error, Format, Input, Options, Registry, Result, Store};
use packhorse_storage::{Compression, Local, decompressed};
use std::path::Path;
use std::sync::Arc;

/// Reads the table `path`; see [`Metadata::of`].
pub(super) fn read(registry: &Registry, path: &Path, request: &ColumnRequest<'_>) -> Result<Metadata> {
    let name = path.as_os_str().as_encoded_bytes();
    let inside = Compression::of(name);
    let inner = inside.as_ref().map_or(name, |(_, inside)| inside);
    let extension = inner.rsplit(|byte| *byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    let open = || open(path, inside.as_ref().map(|(compression, _)| *compression));
    let kind = match &*extension {
        b"jsonl" | b"ndjson" => TableKind::Lines,
        b"json" => TableKind::Json,
        b"tsv" | b"tab" => TableKind::Text("\t"),
        b"csv" => TableKind::Text(","),
        _ => match registry.by_name(name) {
            Some(format) => TableKind::Columns(format),
            None if request.options.delimiter.is_some() => TableKind::Text(","),
            None => return Err(unknown(request)),
        },
    };
    request.options.check(matches!(kind, TableKind::Text(_)), matches!(kind, TableKind::Json))?;
    match kind {
        TableKind::Lines => jsonl::read(open()?.stream()?, request),
        TableKind::Json => json::read(&*open()?, request),
        TableKind::Text(delimiter) => csv::read(&*open()?, delimiter, request),
        TableKind::Columns(format) => {
            let source = format.source(&Options::new(), request.limits)?;
            table::read(&*source, &*Local.open(path)?, request)?.ok_or_else(|| unknown(request))
        }
    }
}

/// How a table is read.
enum TableKind<'r> {
    /// JSON lines.
    Lines,
    Json,
    /// Lines with this delimiter, unless settings name another.
    Text(&'static str),
    Columns(&'r Arc<dyn Format>),
}

/// The error of a file that is read as none of them.
fn unknown(request: &ColumnRequest<'_>) -> Error {
    let error = Error::config(
        "is not a table that this build reads; its name must end in .csv, .tsv, .jsonl, .json or .parquet",
    );
    let list = "a list in a text file needs `metadata-read=delimiter=spaces`, or what else is between its columns";
    if request.is_metadata { error.hint(list) } else { error }
}

/// Opens a regular file; a FIFO would hang, and CSV is read twice.
fn open(path: &Path, compression: Option<Compression>) -> Result<Box<dyn Input>> {
    if !std::fs::metadata(path).context("open")?.is_file() {
        return Err(Error::content("is not a regular file; write the table to a file first"));
    }
    let file = Local.open(path)?;
    Ok(match compression {
        Some(compression) => decompressed(file, compression),
        None => file,
    })
}
