//! Interoperability with pyarrow, DuckDB, polars and Hugging Face's datasets.
//!
//! `PACKHORSE_PYTHON` names a Python with `tests/interop/requirements.txt`; without it these tests pass without a
//! check.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

mod common;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::{
    ArrayRef, BinaryViewArray, FixedSizeListArray, Float16Array, Float32Array, Int32Array, Int64Array, ListArray,
    RecordBatch, StringViewArray, StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use common::{options, oracle};
use packhorse_core::{
    DataType, Field, FieldType, Format, KEY, Limits, MemoryInput, NUMPY, Options, Rows, Schema, array_of, with_metadata,
};
use packhorse_parquet::{ArrowIpc, Parquet};
use packhorse_testkit::external::python;
use packhorse_testkit::typed;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A PNG of two pixels.
const PNG: &[u8] = &[
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 2, 0, 0, 0, 1, 8, 0, 0, 0, 0, 209, 73, 32,
    86, 0, 0, 0, 11, 73, 68, 65, 84, 120, 218, 99, 96, 96, 0, 0, 0, 3, 0, 1, 43, 9, 77, 132, 0, 0, 0, 0, 73, 69, 78,
    68, 174, 66, 96, 130,
];

fn tensor(name: &str, element: DataType, shape: &[usize], bytes: Vec<u8>, n: usize) -> (Field, ArrayRef) {
    let size: usize = shape.iter().product();
    let values = array_of(&element, Buffer::from(bytes), n * size).unwrap();
    let field = FieldType::Tensor { element, shape: shape.to_vec() }.field(name, false);
    let DataType::FixedSizeList(item, _) = field.data_type() else { unreachable!() };
    let array = FixedSizeListArray::try_new(item.clone(), size as i32, values, None).unwrap();
    (field, Arc::new(array))
}

fn halves(n: usize) -> (Field, ArrayRef) {
    let values = Float16Array::from_iter_values((0..n).map(|i| half::f16::from_f64(i as f64 / 2.0)));
    (FieldType::Scalar(DataType::Float16).field("h", false), Arc::new(values))
}

fn ticks(name: &str, numpy: &str, n: usize, tick: impl Fn(i64) -> i64) -> (Field, ArrayRef) {
    let field = FieldType::Scalar(DataType::FixedSizeBinary(8)).field(name, false);
    let bytes: Vec<u8> = (0..n as i64).flat_map(|i| tick(i).to_le_bytes()).collect();
    let values = array_of(&DataType::FixedSizeBinary(8), Buffer::from(bytes), n).unwrap();
    (with_metadata(field, NUMPY, numpy), values)
}

/// Ragged tensors; every third is null.
fn ragged(n: usize) -> (Field, ArrayRef) {
    let field = FieldType::Ragged { element: DataType::Float32, rank: 1 }.field("r", true);
    let DataType::Struct(parts) = field.data_type() else { unreachable!() };
    let (DataType::List(item), DataType::FixedSizeList(dim, _)) = (parts[0].data_type(), parts[1].data_type()) else {
        unreachable!()
    };
    let len = |i: usize| if i % 3 == 1 { 0 } else { i % 5 };
    let flat: Float32Array = (0..n).flat_map(|i| (0..len(i)).map(move |_| Some(i as f32))).collect();
    let data = ListArray::try_new(item.clone(), OffsetBuffer::from_lengths((0..n).map(len)), Arc::new(flat), None);
    let shapes = Int32Array::from_iter_values((0..n).map(|i| len(i) as i32));
    let shape = FixedSizeListArray::try_new(dim.clone(), 1, Arc::new(shapes), None).unwrap();
    let valid = NullBuffer::from_iter((0..n).map(|i| i % 3 != 1));
    let children: Vec<ArrayRef> = vec![Arc::new(data.unwrap()), Arc::new(shape)];
    (field.clone(), Arc::new(StructArray::try_new(parts.clone(), children, Some(valid)).unwrap()))
}

/// The samples that `oracle.py written` expects.
fn samples() -> Rows {
    let n = 250;
    let item = Arc::new(Field::new("item", DataType::Int32, false));
    let mut lists = ListBuilder::new(Int32Builder::new()).with_field(item);
    for i in 0..n {
        (0..i % 4).for_each(|j| lists.values().append_value(j));
        lists.append(true);
    }
    let n = n as usize;
    let floats = (0..n).flat_map(|i| (0..3).flat_map(move |j| (i as f32 + j as f32 * 0.5).to_le_bytes()));
    let bytes = (0..n).flat_map(|i| (0..4).map(move |j| ((i + j) % 256) as u8));
    let text = (0..n).map(|i| "ä".repeat(i % 7));
    let blobs = (0..n).map(|i| vec![(i % 256) as u8; i % 9]).collect::<Vec<_>>();
    let mut columns: Vec<(Field, ArrayRef)> = vec![
        (
            FieldType::Text.field(KEY, false),
            Arc::new(StringViewArray::from_iter_values((0..n).map(|i| format!("a/{i:04}")))),
        ),
        (FieldType::Blob.field("bin", false), Arc::new(BinaryViewArray::from_iter_values(blobs))),
        (
            FieldType::Scalar(DataType::Int64).field("cls", false),
            Arc::new(Int64Array::from_iter_values((0..n as i64).map(|i| i % 3))),
        ),
        (
            FieldType::Blob.field("img.png", false),
            Arc::new(BinaryViewArray::from_iter_values(std::iter::repeat_n(PNG, n))),
        ),
        (FieldType::List { element: DataType::Int32, depth: 1 }.field("l", false), Arc::new(lists.finish())),
        tensor("m", DataType::UInt8, &[2, 2], bytes.collect(), n),
        (FieldType::Text.field("txt", false), Arc::new(StringViewArray::from_iter_values(text))),
    ];
    columns.extend([halves(n), ragged(n), ticks("second", "<M8[s]", n, |i| i * 1_000_000)]);
    columns.push(ticks("when", "<M8[us]", n, |i| i * 1_000_000_000_000 + 7));
    columns.push(tensor("v", DataType::Float32, &[3], floats.collect(), n));
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let metadata = [("packhorse.classes", r#"["cat","dog","cow"]"#)];
    RecordBatch::try_new(Arc::new(Schema::new_with_metadata(fields, metadata)), arrays).unwrap()
}

fn write(format: &dyn Format, pairs: &[(&str, &str)], rows: &Rows, path: &Path) -> String {
    let sink = format.sink(&options(pairs)).unwrap();
    let files = typed::write(&*sink, rows, &[rows.num_rows()]);
    std::fs::OpenOptions::new().create(true).truncate(true).write(true).open(path).unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, &files[sink.suffix()]).unwrap();
    path.display().to_string()
}

#[test]
fn others_read_what_we_write() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let rows = samples();
    let parquet = write(&Parquet, &[], &rows, &dir.path().join("x.parquet"));
    let arrow = write(&ArrowIpc, &[], &rows, &dir.path().join("x.arrow"));
    let stream = write(&ArrowIpc, &[("stream", "on")], &rows, &dir.path().join("stream.arrow"));
    assert_eq!(oracle(&python, &["written".to_owned(), parquet, arrow, stream]).trim(), "ok");
}

#[test]
fn hugging_face_loads_every_kind_of_field() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut arguments = vec!["loads".to_owned()];
    for (name, rows) in typed::corpus().into_iter().filter(|(_, rows)| rows.num_rows() > 0) {
        arguments.push(write(&Parquet, &[], &rows, &dir.path().join(format!("{name}.parquet"))));
        arguments.push(write(&ArrowIpc, &[], &rows, &dir.path().join(format!("{name}.arrow"))));
    }
    assert_eq!(oracle(&python, &arguments).trim(), "ok");
}

/// Rewrites `from` as an Arrow file at `to`, reading it in ranges; returns the names of its fields.
fn rewrite(format: &dyn Format, from: &Path, to: &Path) -> Vec<String> {
    let source = format.source(&Options::new(), Limits::default()).unwrap();
    let input = MemoryInput::new(from.display().to_string(), std::fs::read(from).unwrap());
    let info = source.open(Arc::new(&input)).unwrap().info().unwrap();
    assert_eq!(info.items, 1000);
    let mut blocks = Vec::new();
    for range in [0..1, 1..299, 299..650, 650..1000] {
        blocks.extend(typed::read(&*source, &input, range));
    }
    let rows = arrow_select::concat::concat_batches(&info.schema, &blocks).unwrap();
    write(&ArrowIpc, &[], &rows, to);
    info.schema.fields().iter().map(|field| field.name().clone()).collect()
}

#[test]
fn third_party_files_are_read_as_by_pyarrow() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    oracle(&python, &["foreign".to_owned(), dir.path().display().to_string()]);
    let reference = dir.path().join("x.parquet").display().to_string();
    let mut jobs = Vec::new();
    for name in [
        "x.parquet",
        "indexed.parquet",
        "plain.arrow",
        "lz4.arrow",
        "zstd.arrow",
        "plain.stream",
        "lz4.stream",
        "x.feather",
    ] {
        let format: &dyn Format = if name.ends_with("parquet") { &Parquet } else { &ArrowIpc };
        let made = dir.path().join(format!("{name}.ours"));
        let names = rewrite(format, &dir.path().join(name), &made);
        assert_eq!(names.len(), 32, "{name}: {names:?}");
        jobs.push((reference.clone(), made.display().to_string(), names));
    }
    for job in jobs {
        let found = oracle(&python, &["compare".to_owned(), serde_json::to_string(&[&job]).unwrap()]);
        let found: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(&found).unwrap();
        let odd: Vec<_> = found[&reference].iter().filter(|(_, outcome)| *outcome != "equal").collect();
        assert!(odd.is_empty() && found[&reference].len() == 32, "{}: {odd:?}", job.1);
    }
}
