//! The table of a shard's documents, `.documents.parquet`.

use crate::lists::Lists;
use arrow_array::builder::{FixedSizeBinaryBuilder, Int64Builder, StringBuilder};
use arrow_array::{Array, RecordBatch, StringViewArray};
use packhorse_core::{Context, DataType, Error, Field, Result, Schema};
use packhorse_core::{Outlet, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use std::io::Write;
use std::sync::Arc;
use twox_hash::XxHash3_128;

const SUFFIX: &str = ".documents.parquet";
/// Rows of a row group.
const GROUP: usize = 1 << 17;
/// Bytes of a digest.
const DIGEST: usize = 16;

pub(crate) struct DocumentTable {
    writer: ArrowWriter<Box<dyn Write + Send>>,
    schema: SchemaRef,
    documents: i64,
}

impl DocumentTable {
    pub(crate) fn create(out: &mut dyn Outlet) -> Result<Self> {
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("document", DataType::Int64, false),
            Field::new("key", DataType::Utf8, true),
            Field::new("source", DataType::Utf8, true),
            Field::new("offset", DataType::Int64, true),
            Field::new("tokens", DataType::Int64, false),
            Field::new("digest", DataType::FixedSizeBinary(DIGEST as i32), false),
        ]));
        let writer = ArrowWriter::try_new(out.stream(SUFFIX)?, schema.clone(), Some(properties()?));
        Ok(Self { writer: writer.map_err(parquet_error)?, schema, documents: 0 })
    }

    /// Adds a row for each list of `tokens`, whose elements have `width` bytes.
    pub(crate) fn push(&mut self, keys: Option<&StringViewArray>, tokens: &Lists, width: usize) -> Result<()> {
        let mut rows = Columns::default();
        for row in 0..tokens.ends.len() {
            rows.numbers.append_value(self.documents);
            rows.key(keys.filter(|keys| keys.is_valid(row)).map(|keys| keys.value(row)));
            let (from, to) = tokens.range(row);
            rows.tokens.append_value(i64::try_from(to - from).map_err(bug)?);
            let digest = XxHash3_128::oneshot(tokens.bytes(row, width));
            rows.digests.append_value(digest.to_be_bytes()).map_err(bug)?;
            self.documents += 1;
        }
        let batch = rows.finish(&self.schema)?;
        self.writer.write(&batch).map_err(parquet_error)
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.writer.finish().map_err(parquet_error)?;
        self.writer.inner_mut().flush().context("write")
    }
}

struct Columns {
    numbers: Int64Builder,
    keys: StringBuilder,
    sources: StringBuilder,
    offsets: Int64Builder,
    tokens: Int64Builder,
    digests: FixedSizeBinaryBuilder,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            numbers: Int64Builder::new(),
            keys: StringBuilder::new(),
            sources: StringBuilder::new(),
            offsets: Int64Builder::new(),
            tokens: Int64Builder::new(),
            digests: FixedSizeBinaryBuilder::new(DIGEST as i32),
        }
    }
}

impl Columns {
    /// Adds a key, and its parts around the last slash.
    fn key(&mut self, key: Option<&str>) {
        self.keys.append_option(key);
        let (source, place) = match key.and_then(|key| key.rsplit_once('/')) {
            Some((source, place)) => (Some(source), place),
            None => (None, key.unwrap_or_default()),
        };
        let digits = place.bytes().all(|b| b.is_ascii_digit());
        self.sources.append_option(source);
        self.offsets.append_option(place.parse().ok().filter(|_| digits));
    }

    fn finish(mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns: Vec<Arc<dyn Array>> = vec![
            Arc::new(self.numbers.finish()),
            Arc::new(self.keys.finish()),
            Arc::new(self.sources.finish()),
            Arc::new(self.offsets.finish()),
            Arc::new(self.tokens.finish()),
            Arc::new(self.digests.finish()),
        ];
        RecordBatch::try_new(schema.clone(), columns).map_err(bug)
    }
}

/// Only `source` repeats its values and has a dictionary. The other columns use delta encodings, for ascending numbers
/// and texts with common prefixes.
fn properties() -> Result<WriterProperties> {
    let level = ZstdLevel::try_new(1).map_err(parquet_error)?;
    let column = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("packhorse-tokens version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP))
        .set_column_compression(column("digest"), Compression::UNCOMPRESSED)
        .set_column_dictionary_enabled(column("digest"), false)
        .set_column_statistics_enabled(column("digest"), EnabledStatistics::None);
    for (name, encoding) in [
        ("document", Encoding::DELTA_BINARY_PACKED),
        ("key", Encoding::DELTA_BYTE_ARRAY),
        ("offset", Encoding::DELTA_BINARY_PACKED),
        ("tokens", Encoding::DELTA_BINARY_PACKED),
    ] {
        properties = properties.set_column_dictionary_enabled(column(name), false);
        properties = properties.set_column_encoding(column(name), encoding);
    }
    Ok(properties.build())
}

fn parquet_error(error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(error) => Err::<(), _>(*error).context("write").err().unwrap_or_else(|| Error::bug("no error")),
            Err(other) => Error::bug(format!("can't write the table of documents: {other}")),
        },
        other => Error::bug(format!("can't write the table of documents: {other}")),
    }
}

fn bug(error: impl std::fmt::Display) -> Error {
    Error::bug(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    #[test]
    fn a_key_is_split_into_source_and_offset() {
        let mut columns = Columns::default();
        let keys = [Some("a/b/000000000012"), Some("a/b/x"), Some("7"), Some("a/+7"), Some("a/"), None];
        for key in keys {
            columns.key(key);
        }
        let (sources, offsets) = (columns.sources.finish(), columns.offsets.finish());
        assert_eq!(sources.iter().collect::<Vec<_>>(), [Some("a/b"), Some("a/b"), None, Some("a"), Some("a"), None]);
        let offsets: Vec<_> = (&offsets as &dyn Array).as_primitive::<Int64Type>().iter().collect();
        assert_eq!(offsets, [Some(12), None, Some(7), None, None, None]);
    }
}
