//! Folders in memory: inputs with siblings.
use arrow_array::{BinaryViewArray, RecordBatch, StringViewArray};
use packhorse_core::{
    DataType, Field, FieldType, Format, Input, KEY, Limits, MemoryInput, Options, Result, Rows, Schema, ShardSummary,
    Sink, Source,
};
use packhorse_testkit::memory::{MemoryOutlet, StreamInput};
use packhorse_testkit::typed;
use packhorse_tfrecord::TfRecord;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

pub(crate) fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().copied().collect()
}

pub(crate) fn sink(pairs: &[(&str, &str)]) -> Box<dyn Sink> {
    TfRecord.sink(&options(pairs)).unwrap()
}

pub(crate) fn source(pairs: &[(&str, &str)]) -> Box<dyn Source> {
    TfRecord.source(&options(pairs), Limits::default()).unwrap()
}

/// The files of a folder; those of a shard have the stem `part`.
#[derive(Clone)]
pub(crate) struct Folder {
    files: BTreeMap<String, Vec<u8>>,
    streamed: bool,
}

impl Folder {
    pub(crate) fn of(stem: &str, files: BTreeMap<String, Vec<u8>>) -> Self {
        let files = files.into_iter().map(|(suffix, bytes)| (format!("{stem}{suffix}"), bytes)).collect();
        Self { files, streamed: false }
    }

    pub(crate) fn without(&self, suffix: &str) -> Self {
        let mut other = self.clone();
        other.files.retain(|name, _| !name.ends_with(suffix));
        other
    }

    pub(crate) fn with(&self, name: &str, bytes: Vec<u8>) -> Self {
        let mut other = self.clone();
        other.files.insert(name.to_owned(), bytes);
        other
    }

    /// The same folder with data files as streams, as of compressed inputs.
    pub(crate) fn streamed(&self) -> Self {
        Self { streamed: true, ..self.clone() }
    }

    pub(crate) fn bytes(&self, suffix: &str) -> Vec<u8> {
        self.files.get(&format!("part{suffix}")).unwrap().clone()
    }

    pub(crate) fn input(&self, suffix: &str) -> Beside {
        let name = format!("some/part{suffix}");
        let bytes = self.bytes(suffix);
        let input: Box<dyn Input> = match self.streamed {
            false => Box::new(MemoryInput::new(name, bytes)),
            true if suffix.ends_with(".gz") => {
                let mut inside = Vec::new();
                flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut inside).unwrap();
                Box::new(StreamInput::new(&name, inside))
            }
            true => Box::new(StreamInput::new(&name, bytes)),
        };
        Beside { input, folder: self.clone() }
    }
}

/// An input with siblings.
pub(crate) struct Beside {
    input: Box<dyn Input>,
    folder: Folder,
}

impl Input for Beside {
    packhorse_core::forward_input!(input: name len read_at stream);

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        let found = self.folder.files.get(name);
        Ok(found.map(|bytes| Box::new(MemoryInput::new(name, bytes.clone())) as Box<dyn Input>))
    }
}

/// The corpus of typed rows, and rows without keys.
pub(crate) fn corpus() -> Vec<(&'static str, Rows)> {
    let mut all = typed::corpus();
    let mixed: Vec<usize> = vec![0, 1, 5];
    for i in mixed {
        let rows = all[i].1.clone();
        let without_key: Vec<usize> = (1..rows.num_columns()).collect();
        all.push(("no keys", rows.project(&without_key).unwrap()));
    }
    all
}

/// `n` samples of a blob of `size` bytes.
pub(crate) fn blobs(n: usize, size: usize) -> Rows {
    let schema = vec![Field::new(KEY, DataType::Utf8View, false), FieldType::Blob.field("jpg", false)];
    let keys = StringViewArray::from_iter_values((0..n).map(|i| format!("k{i}")));
    let blob = |i: usize| (0..size).map(|j| ((i * 31 + j * 7) >> 3) as u8).collect::<Vec<u8>>();
    let blobs = BinaryViewArray::from_iter_values((0..n).map(blob));
    RecordBatch::try_new(Arc::new(Schema::new(schema)), vec![Arc::new(keys), Arc::new(blobs)]).unwrap()
}

/// The files that `sink` writes for `rows`, and the summary.
pub(crate) fn write_to(sink: &dyn Sink, rows: &Rows) -> (Folder, ShardSummary) {
    let mut outlet = MemoryOutlet::new();
    let mut writer = sink.create(&rows.schema(), &mut outlet).unwrap();
    writer.push(rows).unwrap();
    let summary = writer.finish().unwrap();
    (Folder::of("part", outlet.files()), summary)
}
