//! Parquet and Arrow IPC: self-describing files of typed columns.
//!
//! * **Specifications**: <https://parquet.apache.org/docs/file-format/> and
//!   <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>, through
//!   the crates `parquet` and `arrow-ipc` of Apache Arrow.
//! * **Who else reads them**: pyarrow, pandas, polars, DuckDB, Spark; Hugging Face's `datasets`, which decodes image
//!   fields as images and labels with their class names.
//! * **The bytes** that the sinks write:
//!
//!   ```text
//!   Parquet  "PAR1"
//!            row group   100 rows or 32 MB with blobs, else 100,000 rows or 128 MB; never over 1 GB
//!              column    pages; images in pages of 64 KiB, plain, uncompressed, without statistics;
//!                        floats byte stream split; dictionaries if they help; zstd
//!              Bloom filter of __key__
//!            column and offset indexes
//!            footer      schema; metadata "ARROW:schema", "huggingface", "packhorse.schema"
//!            i32 length  "PAR1"
//!   Arrow    "ARROW1"    schema with the same metadata, record batches (100 rows or 32 MB with blobs, else 100,000 rows or 8 MB), footer, "ARROW1"
//!   ```
//!
//!   Columns: an encoded image (a blob whose name ends in jpg, jpeg, png, webp, gif, bmp, tif or tiff) is
//!   `struct<bytes: binary, path: string>` with the path `KEY.FIELD`; a tensor is nested fixed-size lists, or lists if
//!   it has no elements; a ragged tensor is `struct<data, shape>`; dates and times use Arrow's types; types without an
//!   Arrow equivalent are fixed-size binary. `packhorse.schema` records the original fields, so that our source gives
//!   back the same rows.
//! * **The sources** read any Parquet file except encrypted, brotli and LZO ones, and little-endian Arrow files and
//!   streams without delta dictionaries. Which column becomes which field: `docs/parquet.md`. Only the row groups in
//!   the requested range are read, and of these only the needed pages if the file has an offset index.
//! * **Options** of the sinks: `row-group` (`batch` for Arrow), a number of rows, at most 1 GB; `compression`: `zstd`
//!   (default), `none`, `snappy`; for Arrow `none` (default), `zstd`, `lz4`; `level` of zstd, default 3;
//!   `tensor-ext=on`: tensors as `arrow.fixed_shape_tensor`, which Hugging Face's `load_dataset` refuses; Arrow's
//!   `stream=on`: the stream format. Class names for the field `cls` come from the schema's metadata
//!   `packhorse.classes`, a JSON list. Options of the sources: `columns`, comma-separated globs; `json`, comma-separated
//!   columns that are read as JSON text; `unread`, fields that are delivered as null, one per line; `unsupported`: `fail` (default) or `skip`.
//! * **Revisions**: 1, the first; 2, dates and times in their own types, 16-bit floats without byte stream split,
//!   nullable ragged tensors in a form that pyarrow reads correctly; 3 (Parquet only), row groups are encoded in pieces of
//!   8 MB (32 MB with blobs), so that pages of larger groups may end at other rows; 5 (Parquet only), elements of tensors with `tensor-ext` may be
//!   null, without which Arrow's libraries do not recognise the type;
//!   4 (Arrow only), record batches of 8 MB, where they were 128 MB: who reads one row reads its whole batch.

mod byte_cursor;
mod column_reader;
mod contain;
mod cut;
mod declared;
mod decode;
mod delta;
mod depth;
mod fetch;
mod footer;
mod groups;
mod huggingface;
mod index;
mod ipc;
mod json_text;
mod locate;
mod mapping;
mod note;
mod options;
mod pages;
mod properties;
mod row_window;
mod runs;
mod sink;
mod source;
mod stored_schema;
mod temporal;
mod thrift;
mod trial;
mod wave;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Sink, Source};

/// The format `parquet`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parquet;

static PARQUET: FormatInfo =
    FormatInfo { id: "parquet", revision: 5, extensions: &["parquet", "parq", "pq"], fields: &[] };

impl Format for Parquet {
    fn info(&self) -> &'static FormatInfo {
        &PARQUET
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        let choice = options::ColumnSelection::parse(options)?;
        Ok(Box::new(source::ParquetSource { choice, limits, buffers: Default::default() }))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(sink::ParquetSink { options: options::ParquetOptions::parse(options)? }))
    }
}

/// The format `arrow`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrowIpc;

static ARROW: FormatInfo =
    FormatInfo { id: "arrow", revision: 4, extensions: &["arrow", "arrows", "feather", "ipc"], fields: &[] };

impl Format for ArrowIpc {
    fn info(&self) -> &'static FormatInfo {
        &ARROW
    }

    /// Those of Hugging Face's `save_to_disk`.
    fn folder_files(&self) -> &'static [&'static str] {
        &["dataset_dict.json", "dataset_info.json", "state.json"]
    }

    /// What `map`, `filter` and `shuffle` keep in a folder of `save_to_disk`.
    fn is_beside(&self, name: &str) -> bool {
        name.ends_with(".arrow") && (name.starts_with("cache-") || name.starts_with("tmp"))
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        Ok(Box::new(ipc::IpcSource::new(options::ColumnSelection::parse(options)?, limits)))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(ipc::IpcSink { options: options::IpcOptions::parse(options)? }))
    }
}
