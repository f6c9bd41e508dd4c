//! Parquet and Arrow IPC: columns of typed values in files that describe themselves.
//!
//! * **Specifications**: <https://parquet.apache.org/docs/file-format/> and
//!   <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>, through
//!   the crates `parquet` and `arrow-ipc` of Apache Arrow.
//! * **Who else reads them**: pyarrow, pandas, polars, DuckDB, Spark; Hugging Face's `datasets`, which shows our image
//!   fields as images and knows the names of classes.
//! * **The bytes we write**:
//!
//!   ```text
//!   Parquet  "PAR1"
//!            row group   100 rows or 32 MB where there are blobs, 100,000 rows or 128 MB else, never over 1 GB
//!              column    pages; images 64 KiB a page, plain, uncompressed, without statistics;
//!                        floats byte stream split; dictionaries where they help; zstd
//!              Bloom filter of __key__
//!            column and offset indexes
//!            footer      schema; metadata "ARROW:schema", "huggingface", "packhorse.schema"
//!            i32 length  "PAR1"
//!   Arrow    "ARROW1"    schema with the same metadata, record batches (cut like row groups), footer, "ARROW1"
//!   ```
//!
//!   How each kind of field is a column: an encoded image (a blob whose name ends in jpg, jpeg, png, webp, gif, bmp,
//!   tif or tiff) is `struct<bytes: binary, path: string>` with the path `KEY.FIELD`; a tensor is nested fixed-size
//!   lists, lists if it has no elements; a ragged tensor is `struct<data, shape>`; dates and times are Arrow's; types
//!   without an Arrow twin are fixed-size binary. `packhorse.schema` says what each field was, so that our source gives back the same rows.
//! * **What we read**: any Parquet file but encrypted, brotli and LZO ones; Arrow files and streams, little-endian,
//!   without growing dictionaries. Which column becomes which field: `docs/parquet.md`. Only the row groups that a
//!   range of samples touches are read, and of those only the pages where the file has an offset index.
//! * **Options** of the sinks: `row-group` (`batch` for Arrow), rows, for at most 1 GB; `compression`: `zstd` (default),
//!   `none`, `snappy`; for Arrow `none` (default), `zstd`, `lz4`; `level` of zstd, 3; `tensor-ext=on`: tensors as
//!   `arrow.fixed_shape_tensor`, which Hugging Face's `load_dataset` refuses; Arrow's `stream=on`: the stream format.
//!   The classes' names are taken from the schema's metadata `packhorse.classes`, a JSON list, for the field `cls`.
//!   Options of the sources: `columns`, globs separated by commas; `unread`, fields that are delivered as missing, one a
//!   line; `unsupported`: `fail` (default) or `skip`.
//! * **Revisions**: 1, the first; 2, dates and times in their own types, 16-bit floats without byte stream split, ragged
//!   tensors that may be null as pyarrow reads them.

mod columns;
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
mod mapping;
mod note;
mod options;
mod pages;
mod properties;
mod sink;
mod source;
mod stored;
mod temporal;
mod thrift;
mod trial;
mod wave;
mod window;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Sink, Source};

/// The format `parquet`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parquet;

static PARQUET: FormatInfo = FormatInfo { id: "parquet", revision: 2, extensions: &["parquet"], fields: &[] };

impl Format for Parquet {
    fn info(&self) -> &'static FormatInfo {
        &PARQUET
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        let choice = options::Choice::parse(options)?;
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
    FormatInfo { id: "arrow", revision: 2, extensions: &["arrow", "arrows", "feather", "ipc"], fields: &[] };

impl Format for ArrowIpc {
    fn info(&self) -> &'static FormatInfo {
        &ARROW
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        Ok(Box::new(ipc::IpcSource { choice: options::Choice::parse(options)?, limits }))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(ipc::IpcSink { options: options::IpcOptions::parse(options)? }))
    }
}
