//! Samples as Arrow IPC shards.

use crate::contain::arrow_error;
use crate::cut::{Cutter, Full};
use crate::huggingface::{KEY_OF_FEATURES, features};
use crate::note::{KEY_OF_NOTE, Note};
use crate::options::IpcOptions;
use crate::sink::admit;
use crate::stored::{Stored, plain};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use packhorse_core::{Context, Error, Outlet, Result, Rows, Schema, SchemaRef, ShardSummary, ShardWriter, Sink};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Where the bytes of a column are aligned to, so that they can be mapped into memory and used as they are.
const ALIGNMENT: usize = 64;

pub(crate) struct IpcSink {
    pub(crate) options: IpcOptions,
}

impl Sink for IpcSink {
    fn typed(&self) -> bool {
        true
    }

    fn suffix(&self) -> &'static str {
        ".arrow"
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        let stored = Stored::new(schema, self.options.tensor_ext)?;
        features(schema, &stored).map(drop)
    }

    fn admit(&self, _: &str, field: &str, bytes: u64) -> Result<()> {
        admit(field, bytes)
    }

    fn size_of(&self, bytes: u64) -> u64 {
        bytes.saturating_add(16)
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        let stored = Stored::new(schema, self.options.tensor_ext)?;
        let metadata = [(KEY_OF_FEATURES, features(schema, &stored)?), (KEY_OF_NOTE, Note::write(schema)?)];
        let metadata: BTreeMap<_, _> = metadata.into_iter().map(|(key, text)| (key.to_owned(), text)).collect();
        let columns = Schema::new_with_metadata(stored.schema.fields().clone(), metadata);
        let settings = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)
            .and_then(|settings| settings.try_with_compression(self.options.compression))
            .map_err(failed)?;
        let out = Counted { out: out.stream(".arrow")?, bytes: 0 };
        let out = match self.options.stream {
            true => Out::Stream(StreamWriter::try_new_with_options(out, &columns, settings).map_err(failed)?),
            false => Out::File(FileWriter::try_new_with_options(out, &columns, settings).map_err(failed)?),
        };
        let full = Full::of(stored.fields().map(|(kind, _)| kind), self.options.batch);
        let cutter = Cutter::new(full, Arc::clone(schema));
        Ok(Box::new(IpcWriter { shard: Shard { out, stored, columns: Arc::new(columns), samples: 0 }, cutter }))
    }
}

/// A stream that knows how many bytes went through.
struct Counted {
    out: Box<dyn Write + Send>,
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
    stored: Stored,
    columns: SchemaRef,
    samples: u64,
}

impl Shard {
    fn write(&mut self, rows: &Rows) -> Result<()> {
        let columns = self.stored.columns(rows)?;
        let arrays = self.columns.fields().iter().zip(columns.columns()).map(|(f, array)| plain(array, f.data_type()));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.columns), arrays, &options);
        let batch = batch.map_err(|e| Error::bug(e.to_string()))?;
        self.samples += rows.num_rows() as u64;
        match &mut self.out {
            Out::File(out) => out.write(&batch),
            Out::Stream(out) => out.write(&batch),
        }
        .map_err(failed)
    }
}

struct IpcWriter {
    shard: Shard,
    cutter: Cutter,
}

impl ShardWriter for IpcWriter {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        let Self { shard, cutter } = self;
        cutter.push(rows, |group| shard.write(&group))
    }

    fn finish(mut self: Box<Self>) -> Result<ShardSummary> {
        let Self { shard, cutter } = &mut *self;
        cutter.flush(&mut |group| shard.write(&group))?;
        let out = match &mut shard.out {
            Out::File(out) => {
                out.finish().map_err(failed)?;
                out.get_mut()
            }
            Out::Stream(out) => {
                out.finish().map_err(failed)?;
                out.get_mut()
            }
        };
        out.flush().doing("write")?;
        Ok(ShardSummary { samples: shard.samples, bytes: out.bytes, ..ShardSummary::default() })
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
