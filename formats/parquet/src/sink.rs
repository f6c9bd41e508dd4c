//! The sink: samples as Parquet shards.

use crate::contain::parquet_error;
use crate::cut::{GATHERED, GroupLimit, PIECE, SAMPLE, Then, most_of, size_check};
use crate::groups::{self, BUFFER, GroupWriter, Groups};
use crate::options::ParquetOptions;
use crate::properties::properties;
use crate::stored_schema::{StoredSchema, Style, viewed};
use crate::temporal;
use arrow_array::{Array as _, RecordBatch};
use packhorse_core::{
    Context, Error, Field, Outlet, Result, RowCheck, Rows, Schema, SchemaRef, Sealed, ShardWriter, Sink,
    write_huggingface_config,
};
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowLeafColumn, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, encode_arrow_schema};
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use rayon::prelude::*;
use std::io::{BufWriter, Write};
use std::sync::Arc;

pub(crate) struct ParquetSink {
    pub(crate) options: ParquetOptions,
}

impl ParquetSink {
    fn style(&self) -> Style {
        Style { tensor_ext: self.options.tensor_ext, parquet: true }
    }
}

impl Sink for ParquetSink {
    fn typed(&self) -> bool {
        true
    }

    fn gathers(&self, schema: &SchemaRef) -> u64 {
        // An encoded group, and a piece of it: its rows, their copies, and the levels of lists.
        self.options.row_group.map_or(GATHERED, |rows| most_of(schema, rows)) + 12 * PIECE
    }

    fn suffix(&self) -> &'static str {
        ".parquet"
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        groups::accept(schema, self.style())
    }

    fn row_check(&self, schema: &SchemaRef) -> Option<RowCheck> {
        let times = schema.fields().iter().any(|field| changes(field));
        match (size_check(schema, SAMPLE), times) {
            (sizes, false) => sizes,
            (None, true) => Some(Box::new(check_times)),
            (Some(sizes), true) => Some(Box::new(move |rows| sizes(rows).and_then(|()| check_times(rows)))),
        }
    }

    fn admit(&self, _: &str, field: &str, bytes: u64) -> Result<()> {
        groups::admit(field, bytes)
    }

    fn size_of(&self, bytes: u64) -> u64 {
        // The length, the path, and a share of page headers and indexes.
        bytes.saturating_add(64)
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        let stored = StoredSchema::new(schema, self.style())?;
        let notes = notes(schema, &stored)?;
        let columns = Arc::new(viewed(&stored.schema));
        let descriptor = ArrowSchemaConverter::new().schema_root("schema").convert(&columns).map_err(parquet_error)?;
        let properties = Arc::new(properties(&self.options, &stored, notes));
        let out = BufWriter::with_capacity(BUFFER, out.stream(".parquet")?);
        let file = SerializedFileWriter::new(out, descriptor.root_schema_ptr(), properties).map_err(parquet_error)?;
        let factory = ArrowRowGroupWriterFactory::new(&file, columns);
        let full = GroupLimit::of(stored.fields().map(|(kind, _)| kind), self.options.row_group);
        let shard = Shard { factory, file, stored, groups: 0, open: Vec::new() };
        Ok(Box::new(GroupWriter::new(shard, schema, full)))
    }

    fn seal(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        write_huggingface_config(dataset.shards, self.suffix(), out)
    }
}

/// Whether the times of a field have another unit in the file, which some may not fit.
fn changes(field: &Field) -> bool {
    temporal::logical(field).is_some_and(|logical| temporal::in_parquet(logical.clone()) != logical)
}

/// Refuses times that the file can't hold, so that a sample with one costs itself alone.
fn check_times(rows: &Rows) -> Result<()> {
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()).filter(|(field, _)| changes(field)) {
        if temporal::written(field, column, true).is_ok() {
            continue;
        }
        for row in 0..column.len() {
            let alone = temporal::written(field, &column.slice(row, 1), true);
            alone.map_err(|e| e.in_field(field.name()).in_row_of(rows, row))?;
        }
    }
    Ok(())
}

/// The file's metadata. Arrow's schema repeats the notes, since pyarrow only looks there.
fn notes(schema: &Schema, stored: &StoredSchema) -> Result<Vec<KeyValue>> {
    let notes = groups::notes(schema, stored)?;
    let arrow = Schema::new_with_metadata(stored.schema.fields().clone(), notes.clone());
    let arrow = (ARROW_SCHEMA_META_KEY.to_owned(), encode_arrow_schema(&arrow));
    Ok([arrow].into_iter().chain(notes).map(|(key, text)| KeyValue::new(key, text)).collect())
}

struct Shard {
    factory: ArrowRowGroupWriterFactory,
    file: SerializedFileWriter<BufWriter<Box<dyn Write + Send>>>,
    stored: StoredSchema,
    groups: usize,
    /// The columns of the open group; none before its first piece.
    open: Vec<ArrowColumnWriter>,
}

impl Groups for Shard {
    /// Encodes a piece of a row group, its columns in parallel; a group is written when it is complete.
    fn write(&mut self, rows: &Rows, then: Then) -> Result<()> {
        let leaves = leaves(&self.stored.columns(rows)?)?;
        if self.open.is_empty() {
            self.open = self.factory.create_column_writers(self.groups).map_err(parquet_error)?;
        }
        if self.open.len() != leaves.len() {
            return Err(Error::bug("the columns to write differ from the schema"));
        }
        if then == Then::More {
            let encode = |(writer, leaf): (&mut ArrowColumnWriter, ArrowLeafColumn)| writer.write(&leaf);
            return self.open.par_iter_mut().zip(leaves).try_for_each(encode).map_err(parquet_error);
        }
        let encode = |(mut writer, leaf): (ArrowColumnWriter, ArrowLeafColumn)| {
            writer.write(&leaf)?;
            writer.close()
        };
        let writers = std::mem::take(&mut self.open);
        let chunks: Result<Vec<ArrowColumnChunk>, _> = writers.into_par_iter().zip(leaves).map(encode).collect();
        let mut group = self.file.next_row_group().map_err(parquet_error)?;
        for chunk in chunks.map_err(parquet_error)? {
            chunk.append_to_row_group(&mut group).map_err(parquet_error)?;
        }
        group.close().map_err(parquet_error)?;
        self.groups += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<u64> {
        self.file.finish().map_err(parquet_error)?;
        let bytes = self.file.bytes_written() as u64;
        self.file.inner_mut().flush().context("write")?;
        Ok(bytes)
    }
}

fn leaves(columns: &RecordBatch) -> Result<Vec<ArrowLeafColumn>> {
    let mut leaves = Vec::new();
    for (field, array) in columns.schema_ref().fields().iter().zip(columns.columns()) {
        leaves.extend(compute_leaves(field, array).map_err(parquet_error)?);
    }
    Ok(leaves)
}
