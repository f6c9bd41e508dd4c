//! Samples as Parquet shards.

use crate::contain::parquet_error;
use crate::cut::{Cutter, Full, MOST};
use crate::huggingface::{KEY_OF_FEATURES, features};
use crate::note::{KEY_OF_NOTE, Note};
use crate::options::ParquetOptions;
use crate::properties::properties;
use crate::stored::{Stored, viewed};
use arrow_array::RecordBatch;
use packhorse_core::{Context, Error, Kind, Outlet, Result, Rows, Schema, SchemaRef, ShardSummary, ShardWriter, Sink};
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowLeafColumn, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, encode_arrow_schema};
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use rayon::prelude::*;
use std::io::Write;
use std::sync::Arc;

pub(crate) struct ParquetSink {
    pub(crate) options: ParquetOptions,
}

impl Sink for ParquetSink {
    fn typed(&self) -> bool {
        true
    }

    fn suffix(&self) -> &'static str {
        ".parquet"
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        let stored = Stored::new(schema, self.options.tensor_ext)?;
        features(schema, &stored).map(drop)
    }

    fn admit(&self, _: &str, field: &str, bytes: u64) -> Result<()> {
        admit(field, bytes)
    }

    fn size_of(&self, bytes: u64) -> u64 {
        // Its length, its path, and its share of page headers and indexes.
        bytes.saturating_add(64)
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        let stored = Stored::new(schema, self.options.tensor_ext)?;
        let notes = notes(schema, &stored)?;
        let columns = Arc::new(viewed(&stored.schema));
        let descriptor = ArrowSchemaConverter::new().schema_root("schema").convert(&columns).map_err(parquet_error)?;
        let properties = Arc::new(properties(&self.options, &stored, notes));
        let out = out.stream(".parquet")?;
        let file = SerializedFileWriter::new(out, descriptor.root_schema_ptr(), properties).map_err(parquet_error)?;
        let full = Full::of(stored.fields().map(|(kind, _)| kind), self.options.row_group);
        Ok(Box::new(ParquetWriter {
            factory: ArrowRowGroupWriterFactory::new(&file, columns),
            shard: Shard { file, stored, groups: 0, samples: 0 },
            cutter: Cutter::new(full, Arc::clone(schema)),
        }))
    }
}

/// Refuses a field larger than a column holds.
pub(crate) fn admit(field: &str, bytes: u64) -> Result<()> {
    match bytes <= MOST {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Content,
            format!("field {field} has {bytes} bytes; columns hold at most {MOST} a value: pack it as webdataset"),
        )),
    }
}

/// The file's metadata. What is noted stands in Arrow's schema once more, as pyarrow looks for it only there.
fn notes(schema: &Schema, stored: &Stored) -> Result<Vec<KeyValue>> {
    let notes = [(KEY_OF_FEATURES, features(schema, stored)?), (KEY_OF_NOTE, Note::write(schema)?)];
    let arrow = Schema::new_with_metadata(stored.schema.fields().clone(), notes.clone());
    let arrow = (ARROW_SCHEMA_META_KEY, encode_arrow_schema(&arrow));
    Ok([arrow].into_iter().chain(notes).map(|(key, text)| KeyValue::new(key.to_owned(), text)).collect())
}

struct ParquetWriter {
    factory: ArrowRowGroupWriterFactory,
    shard: Shard,
    cutter: Cutter,
}

struct Shard {
    file: SerializedFileWriter<Box<dyn Write + Send>>,
    stored: Stored,
    groups: usize,
    samples: u64,
}

impl ShardWriter for ParquetWriter {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        let Self { factory, shard, cutter } = self;
        cutter.push(rows, |group| shard.write(factory, &group))
    }

    fn finish(mut self: Box<Self>) -> Result<ShardSummary> {
        let Self { factory, shard, cutter } = &mut *self;
        cutter.flush(&mut |group| shard.write(factory, &group))?;
        shard.file.finish().map_err(parquet_error)?;
        let bytes = shard.file.bytes_written() as u64;
        shard.file.inner_mut().flush().doing("write")?;
        Ok(ShardSummary { samples: shard.samples, bytes, ..ShardSummary::default() })
    }
}

impl Shard {
    /// Writes a row group; its columns are encoded side by side.
    fn write(&mut self, factory: &ArrowRowGroupWriterFactory, rows: &Rows) -> Result<()> {
        let columns = self.stored.columns(rows)?;
        let leaves = leaves(&columns)?;
        let writers = factory.create_column_writers(self.groups).map_err(parquet_error)?;
        if writers.len() != leaves.len() {
            return Err(Error::bug("there are other columns to write than the schema has"));
        }
        let encode = |(mut writer, leaf): (parquet::arrow::arrow_writer::ArrowColumnWriter, ArrowLeafColumn)| {
            writer.write(&leaf)?;
            writer.close()
        };
        let chunks: Vec<ArrowColumnChunk> = writers
            .into_par_iter()
            .zip(leaves)
            .map(encode)
            .collect::<Result<_, parquet::errors::ParquetError>>()
            .map_err(parquet_error)?;
        let mut group = self.file.next_row_group().map_err(parquet_error)?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut group).map_err(parquet_error)?;
        }
        group.close().map_err(parquet_error)?;
        self.groups += 1;
        self.samples += rows.num_rows() as u64;
        Ok(())
    }
}

fn leaves(columns: &RecordBatch) -> Result<Vec<ArrowLeafColumn>> {
    let mut leaves = Vec::new();
    for (field, array) in columns.schema_ref().fields().iter().zip(columns.columns()) {
        leaves.extend(compute_leaves(field, array).map_err(parquet_error)?);
    }
    Ok(leaves)
}
