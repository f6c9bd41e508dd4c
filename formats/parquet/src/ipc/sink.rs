//! The sink: samples as Arrow IPC shards.

use crate::contain::arrow_error;
use crate::cut::{BLOBS, GroupLimit, SAMPLE_OF_BATCH, Then, most_of, size_check};
use crate::groups::{self, BUFFER, GroupWriter, Groups};
use crate::options::IpcOptions;
use crate::stored_schema::{StoredSchema, Style, plain};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use packhorse_core::{
    Context, Error, Outlet, Result, RowCheck, Rows, Schema, SchemaRef, Sealed, ShardWriter, Sink,
    write_huggingface_config,
};
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// The alignment of column buffers, so that a mapped file can be used in place.
const ALIGNMENT: usize = 64;

pub(crate) struct IpcSink {
    pub(crate) options: IpcOptions,
}

impl IpcSink {
    fn style(&self) -> Style {
        Style { tensor_ext: self.options.tensor_ext, parquet: false }
    }
}

impl Sink for IpcSink {
    fn typed(&self) -> bool {
        true
    }

    fn gathers(&self, schema: &SchemaRef) -> u64 {
        // A batch, and its copy with those of its columns that are converted.
        self.options.batch.map_or(BLOBS, |rows| 2 * most_of(schema, rows))
    }

    fn suffix(&self) -> &'static str {
        ".arrow"
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        groups::accept(schema, self.style())
    }

    fn row_check(&self, schema: &SchemaRef) -> Option<RowCheck> {
        size_check(schema, SAMPLE_OF_BATCH)
    }

    fn admit(&self, _: &str, field: &str, bytes: u64) -> Result<()> {
        groups::admit(field, bytes)
    }

    fn size_of(&self, bytes: u64) -> u64 {
        bytes.saturating_add(16)
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        let stored = StoredSchema::new(schema, self.style())?;
        let columns = Schema::new_with_metadata(stored.schema.fields().clone(), groups::notes(schema, &stored)?);
        let settings = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)
            .and_then(|settings| settings.try_with_compression(self.options.compression))
            .map_err(failed)?;
        let out = Counted { out: BufWriter::with_capacity(BUFFER, out.stream(".arrow")?), bytes: 0 };
        let out = match self.options.stream {
            true => Out::Stream(StreamWriter::try_new_with_options(out, &columns, settings).map_err(failed)?),
            false => Out::File(FileWriter::try_new_with_options(out, &columns, settings).map_err(failed)?),
        };
        let full = GroupLimit::batch(stored.fields().map(|(kind, _)| kind), self.options.batch);
        let shard = Shard { out, stored, columns: Arc::new(columns) };
        Ok(Box::new(GroupWriter::new(shard, schema, full)))
    }

    fn seal(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        write_huggingface_config(dataset.shards, self.suffix(), out)
    }
}

/// A writer that counts its bytes.
struct Counted {
    out: BufWriter<Box<dyn Write + Send>>,
    bytes: u64,
}

impl Write for Counted {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(buf)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

enum Out {
    File(FileWriter<Counted>),
    Stream(StreamWriter<Counted>),
}

struct Shard {
    out: Out,
    stored: StoredSchema,
    columns: SchemaRef,
}

impl Groups for Shard {
    fn write(&mut self, rows: &Rows, _: Then) -> Result<()> {
        let columns = self.stored.columns(rows)?;
        let arrays = self.columns.fields().iter().zip(columns.columns()).map(|(f, array)| plain(array, f.data_type()));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.columns), arrays, &options);
        let batch = batch.map_err(|e| Error::bug(e.to_string()))?;
        match &mut self.out {
            Out::File(out) => out.write(&batch),
            Out::Stream(out) => out.write(&batch),
        }
        .map_err(failed)
    }
    fn end(&mut self) -> Result<u64> {
        let out = match &mut self.out {
            Out::File(out) => {
                out.finish().map_err(failed)?;
                out.get_mut()
            }
            Out::Stream(out) => {
                out.finish().map_err(failed)?;
                out.get_mut()
            }
        };
        out.flush().context("write")?;
        Ok(out.bytes)
    }
}

fn failed(error: arrow_schema::ArrowError) -> Error {
    match error {
        arrow_schema::ArrowError::IoError(_, error) => match error.downcast::<Error>() {
            Ok(ours) => ours,
            Err(error) => Error::io("write", error),
        },
        other => arrow_error(other, "Arrow").with_kind(packhorse_core::Kind::Bug),
    }
}
