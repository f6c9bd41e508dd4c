//! Folders in memory, and documents as rows.

use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StringViewArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use packhorse_core::{
    DataType, Field, FieldType, Format, Input, KEY, Limits, MemoryInput, Options, Result, Rows, Schema, ShardSummary,
    Sink, Source, array_of, bytes_of,
};
use packhorse_testkit::memory::MemoryOutlet;
use packhorse_tokens::Tokens;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().copied().collect()
}

pub(crate) fn sink(pairs: &[(&str, &str)]) -> Box<dyn Sink> {
    Tokens::default().sink(&options(pairs)).unwrap()
}

pub(crate) fn source(pairs: &[(&str, &str)]) -> Box<dyn Source> {
    Tokens::default().source(&options(pairs), Limits::default()).unwrap()
}

/// The files of a folder; those of a shard have the stem `part`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Folder(pub(crate) BTreeMap<String, Vec<u8>>);

impl Folder {
    pub(crate) fn of(files: BTreeMap<String, Vec<u8>>) -> Self {
        Self(files.into_iter().map(|(suffix, bytes)| (format!("part{suffix}"), bytes)).collect())
    }

    pub(crate) fn with(&self, suffix: &str, bytes: Vec<u8>) -> Self {
        let mut other = self.clone();
        other.0.insert(format!("part{suffix}"), bytes);
        other
    }

    pub(crate) fn bytes(&self, suffix: &str) -> &Vec<u8> {
        self.0.get(&format!("part{suffix}")).unwrap_or_else(|| panic!("no {suffix}"))
    }

    pub(crate) fn input(&self, suffix: &str) -> Beside {
        let input = MemoryInput::new(format!("some/part{suffix}"), self.bytes(suffix).clone());
        Beside { input, folder: self.clone() }
    }
}

/// An input with siblings.
pub(crate) struct Beside {
    input: MemoryInput,
    folder: Folder,
}

impl Input for Beside {
    packhorse_core::forward_input!(input: name len read_at stream);

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        let found = self.folder.0.get(name);
        Ok(found.map(|bytes| Box::new(MemoryInput::new(format!("some/{name}"), bytes.clone())) as Box<dyn Input>))
    }
}

/// The sequences of a document.
pub(crate) type Document = Vec<Vec<i64>>;

/// Documents of one sequence each, or empty.
pub(crate) fn flat(lens: &[usize], seed: i64, vocabulary: i64) -> Vec<Document> {
    let mut at = seed;
    let mut next = || {
        at = (at * 48_271 + 11) % 2_147_483_647;
        at % vocabulary
    };
    lens.iter()
        .map(|len| match len {
            0 => Vec::new(),
            len => vec![(0..*len).map(|_| next()).collect()],
        })
        .collect()
}

fn bytes(element: &DataType, ids: &[i64]) -> Vec<u8> {
    let width = packhorse_core::element_width(element).unwrap();
    match element {
        DataType::Float32 => ids.iter().flat_map(|id| (*id as f32).to_le_bytes()).collect(),
        DataType::Float64 => ids.iter().flat_map(|id| (*id as f64).to_le_bytes()).collect(),
        _ => ids.iter().flat_map(|id| id.to_le_bytes()[..width].to_vec()).collect(),
    }
}

pub(crate) fn list(element: &DataType, lists: &[Vec<i64>]) -> ArrayRef {
    let all: Vec<i64> = lists.concat();
    let values = array_of(element, Buffer::from_vec(bytes(element, &all)), all.len()).unwrap();
    let item = Arc::new(Field::new("item", element.clone(), false));
    let offsets = OffsetBuffer::from_lengths(lists.iter().map(Vec::len));
    Arc::new(ListArray::try_new(item, offsets, values, None).unwrap())
}

/// Documents as rows, optionally with keys and lengths.
pub(crate) fn rows(documents: &[Document], element: &DataType, keys: bool, lengths: bool) -> Rows {
    let kind = |element: &DataType| FieldType::List { element: element.clone(), depth: 1 };
    let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    if keys {
        fields.push(Field::new(KEY, DataType::Utf8View, false));
        let names = (0..documents.len()).map(|i| format!("books/{:09}", i * 7));
        columns.push(Arc::new(StringViewArray::from_iter_values(names)));
    }
    if lengths {
        fields.push(kind(&DataType::Int32).field("lengths", false));
        let all: Vec<Vec<i64>> = documents.iter().map(|d| d.iter().map(|s| s.len() as i64).collect()).collect();
        columns.push(list(&DataType::Int32, &all));
    }
    fields.push(kind(element).field("tokens", false));
    let all: Vec<Vec<i64>> = documents.iter().map(|d| d.concat()).collect();
    columns.push(list(element, &all));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// The files that `sink` writes for `rows`, pushed in groups of `each`.
pub(crate) fn write(sink: &dyn Sink, rows: &Rows, each: usize) -> (Folder, ShardSummary) {
    let mut outlet = MemoryOutlet::new();
    let mut writer = sink.create(&rows.schema(), &mut outlet).unwrap();
    for from in (0..rows.num_rows()).step_by(each) {
        writer.push(&rows.slice(from, each.min(rows.num_rows() - from))).unwrap();
    }
    let summary = writer.finish().unwrap();
    (Folder::of(outlet.files()), summary)
}

/// The pair of these documents, without a table of documents.
pub(crate) fn pair(documents: &[Document], element: &DataType, lengths: bool) -> Folder {
    write(&*sink(&[("documents", "off")]), &rows(documents, element, false, lengths), 100).0
}

/// All blocks of an input.
pub(crate) fn read(source: &dyn Source, input: &dyn Input, items: std::ops::Range<u64>) -> Result<Vec<Rows>> {
    source.open(Arc::new(input)).and_then(|table| table.info())?;
    source.open(Arc::new(input))?.rows(items)?.collect()
}

/// The tokens of each row.
pub(crate) fn tokens(blocks: &[Rows]) -> Vec<Vec<u8>> {
    let of = |rows: &Rows| {
        let lists = rows.column_by_name("tokens").unwrap().clone();
        let lists = lists.as_any().downcast_ref::<ListArray>().unwrap().clone();
        (0..lists.len()).map(|i| bytes_of(&lists.value(i)).unwrap().to_vec()).collect::<Vec<_>>()
    };
    blocks.iter().flat_map(of).collect()
}
