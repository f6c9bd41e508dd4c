//! Typed rows for tests of columnar formats: a corpus with every type of field, and round-trip checks.

use crate::memory::MemoryOutlet;
use arrow_array::builder::{BinaryViewBuilder, Float64Builder, ListBuilder, PrimitiveBuilder, StringViewBuilder};
use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, FixedSizeListArray, Int64Array, ListArray, RecordBatch, StringViewArray,
    StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use packhorse_core::{
    DataType, Field, FieldType, Format, Input, KEY, Limits, MemoryInput, NUMPY, Options, Result, Rows, Schema, Sink,
    Source, Table, array_of, element_width, with_metadata,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Batches with every type of field, by name: `scalars`, `tensors`, `numpy` (elements without an Arrow type),
/// `ragged`, `lists`, `blobs` (bytes, text and a label), `nulls` (each type of field, some missing), `none` (no
/// samples), `pictures` (lists of bytes). Deterministic.
pub fn corpus() -> Vec<(&'static str, Rows)> {
    let n = 23;
    vec![
        ("scalars", batch(n, scalars(n))),
        ("tensors", batch(n, tensors(n))),
        ("numpy", batch(n, numpy(n))),
        ("ragged", batch(n, ragged(n))),
        ("lists", batch(n, lists(n))),
        ("blobs", batch(n, blobs(n))),
        ("nulls", nulls(n)),
        ("none", batch(n, tensors(n)).slice(0, 0)),
        ("pictures", batch(n, pictures(n))),
    ]
}

type Column = (Field, ArrayRef);

fn batch(n: usize, mut columns: Vec<Column>) -> Rows {
    columns.sort_by(|a, b| a.0.name().cmp(b.0.name()));
    let keys: Vec<String> = (0..n).map(|i| format!("klasse/größe{i:03}")).collect();
    let mut fields = vec![Field::new(KEY, DataType::Utf8View, false)];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(StringViewArray::from_iter_values(keys))];
    for (field, array) in columns {
        fields.push(field);
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Finite numbers only: NaN does not equal itself.
fn values(element: &DataType, n: usize, seed: usize) -> ArrayRef {
    let float = |i: usize| ((i * 37 + seed) % 1000) as f64 * 0.25 - 60.0;
    let bytes: Vec<u8> = match element {
        DataType::Float64 => (0..n).flat_map(|i| float(i).to_le_bytes()).collect(),
        DataType::Float32 => (0..n).flat_map(|i| (float(i) as f32).to_le_bytes()).collect(),
        // 0x3c00 is 1.0; mantissas from there give numbers below 2.
        DataType::Float16 => (0..n).flat_map(|i| (0x3c00 + ((i + seed) % 1024) as u16).to_le_bytes()).collect(),
        DataType::Boolean => (0..n).map(|i| u8::from((i + seed).is_multiple_of(3))).collect(),
        other => {
            let width = element_width(other).unwrap();
            (0..n * width).map(|i| ((i * 131 + seed * 17) >> 2) as u8).collect()
        }
    };
    array_of(element, Buffer::from(bytes), n).unwrap()
}

const ELEMENTS: [DataType; 12] = [
    DataType::Boolean,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float16,
    DataType::Float32,
    DataType::Float64,
];

fn scalars(n: usize) -> Vec<Column> {
    let one = |(i, element): (usize, &DataType)| {
        let name = format!("s_{}", element.to_string().to_lowercase());
        (FieldType::Scalar(element.clone()).field(&name, false), values(element, n, i))
    };
    ELEMENTS.iter().enumerate().map(one).collect()
}

fn tensors(n: usize) -> Vec<Column> {
    let shapes = [vec![3, 4], vec![1], vec![2, 2, 2], vec![5, 0]];
    let one = |(i, element): (usize, &DataType)| {
        let name = format!("t_{}", element.to_string().to_lowercase());
        tensor(&name, element, &shapes[i % shapes.len()], n, i)
    };
    ELEMENTS.iter().enumerate().map(one).collect()
}

fn tensor(name: &str, element: &DataType, shape: &[usize], n: usize, seed: usize) -> Column {
    let size: usize = shape.iter().product();
    let field = FieldType::Tensor { element: element.clone(), shape: shape.to_vec() }.field(name, false);
    let DataType::FixedSizeList(item, _) = field.data_type() else { unreachable!() };
    let values = values(element, n * size, seed);
    let array = FixedSizeListArray::try_new_with_length(item.clone(), size as i32, values, None, n).unwrap();
    (field, Arc::new(array))
}

fn numpy(n: usize) -> Vec<Column> {
    let named = |(field, array): Column, numpy: &str| (with_metadata(field, NUMPY, numpy), array);
    let wide = |width: i32, seed: usize| {
        let element = DataType::FixedSizeBinary(width);
        (FieldType::Scalar(element.clone()).field(&format!("n_{width}_{seed}"), false), values(&element, n, seed))
    };
    vec![
        named(wide(8, 1), "<c8"),
        named(wide(16, 2), "<c16"),
        named(wide(5, 3), "|S5"),
        named(wide(7, 4), "|V7"),
        named(tensor("n_times", &DataType::FixedSizeBinary(8), &[2], n, 5), "<M8[ns]"),
    ]
}

fn ragged(n: usize) -> Vec<Column> {
    [DataType::UInt8, DataType::Float32].iter().map(|element| ragged_one(element, n)).collect()
}

fn ragged_one(element: &DataType, n: usize) -> Column {
    let field =
        FieldType::Ragged { element: element.clone(), rank: 2 }.field(&format!("r_{element}").to_lowercase(), false);
    let DataType::Struct(parts) = field.data_type() else { unreachable!() };
    let shapes: Vec<i32> = (0..n).flat_map(|i| [(i % 4) as i32, (i % 3 + 1) as i32]).collect();
    let lens: Vec<usize> = shapes.chunks(2).map(|d| (d[0] * d[1]) as usize).collect();
    let (DataType::List(item), DataType::FixedSizeList(dim, _)) = (parts[0].data_type(), parts[1].data_type()) else {
        unreachable!()
    };
    let flat = values(element, lens.iter().sum(), 3);
    let data = ListArray::try_new(item.clone(), OffsetBuffer::from_lengths(lens), flat, None).unwrap();
    let dims = Arc::new(arrow_array::Int32Array::from(shapes));
    let shape = FixedSizeListArray::try_new(dim.clone(), 2, dims, None).unwrap();
    let array = StructArray::try_new(parts.clone(), vec![Arc::new(data), Arc::new(shape)], None).unwrap();
    (field, Arc::new(array))
}

fn lists(n: usize) -> Vec<Column> {
    let item = |t: DataType| Arc::new(Field::new("item", t, false));
    let mut flat = ListBuilder::new(PrimitiveBuilder::<Float32Type>::new()).with_field(item(DataType::Float32));
    let inner = ListBuilder::new(PrimitiveBuilder::<Int32Type>::new()).with_field(item(DataType::Int32));
    let inner_type = DataType::List(item(DataType::Int32));
    let mut nested = ListBuilder::new(inner).with_field(item(inner_type));
    let mut words = ListBuilder::new(StringViewBuilder::new()).with_field(item(DataType::Utf8View));
    for i in 0..n {
        (0..i % 5).for_each(|j| flat.values().append_value(i as f32 + j as f32 * 0.5));
        flat.append(true);
        for j in 0..i % 3 {
            (0..j + i % 2).for_each(|k| nested.values().values().append_value((i * 100 + j * 10 + k) as i32));
            nested.values().append(true);
        }
        nested.append(true);
        (0..i % 4).for_each(|j| words.values().append_value("ä".repeat(j * 7)));
        words.append(true);
    }
    let list = |element, depth, name| FieldType::List { element, depth }.field(name, false);
    vec![
        (list(DataType::Float32, 1, "l_flat"), Arc::new(flat.finish())),
        (list(DataType::Int32, 2, "l_nested"), Arc::new(nested.finish())),
        (list(DataType::Utf8View, 1, "l_words"), Arc::new(words.finish())),
    ]
}

/// Lists of bytes: of none, one and several, some missing, and lists of these.
fn pictures(n: usize) -> Vec<Column> {
    let item = |t: DataType| Arc::new(Field::new("item", t, false));
    let list = || ListBuilder::new(BinaryViewBuilder::new()).with_field(item(DataType::BinaryView));
    let (mut all, mut some) = (list(), list());
    let mut nested = ListBuilder::new(list()).with_field(item(DataType::List(item(DataType::BinaryView))));
    let bytes = |i: usize, j: usize| (0..(i * j * 5) % 40).map(|k| (i * 7 + j * 3 + k) as u8).collect::<Vec<u8>>();
    for i in 0..n {
        (0..i % 4).for_each(|j| all.values().append_value(bytes(i, j)));
        all.append(true);
        if i % 3 != 1 {
            (0..i % 5).for_each(|j| some.values().append_value(bytes(j, i)));
        }
        some.append(i % 3 != 1);
        for j in 0..i % 3 {
            (0..j + i % 2).for_each(|k| nested.values().values().append_value(bytes(k, j)));
            nested.values().append(true);
        }
        nested.append(true);
    }
    let list = |depth, name, nullable| FieldType::List { element: DataType::BinaryView, depth }.field(name, nullable);
    vec![
        (list(1, "p_all", false), Arc::new(all.finish())),
        (list(1, "p_some", true), Arc::new(some.finish())),
        (list(2, "p_nested", false), Arc::new(nested.finish())),
    ]
}

fn blobs(n: usize) -> Vec<Column> {
    let bytes: Vec<Vec<u8>> = (0..n).map(|i| (0..i * i * 3).map(|j| (j * 7 + i) as u8).collect()).collect();
    let text: Vec<String> = (0..n).map(|i| "naïve text ".repeat(i % 5)).collect();
    vec![
        (FieldType::Blob.field("jpg", false), Arc::new(BinaryViewArray::from_iter_values(&bytes))),
        (FieldType::Text.field("txt", false), Arc::new(StringViewArray::from_iter_values(&text))),
        (FieldType::Scalar(DataType::Int64).field("cls", false), Arc::new(Int64Array::from_iter_values(0..n as i64))),
    ]
}

/// One field of each type with every third value missing; values under nulls are zero.
fn nulls(n: usize) -> Rows {
    let mut numbers = Float64Builder::new();
    (0..n).for_each(|i| numbers.append_option((i % 3 != 1).then_some(i as f64)));
    let valid = NullBuffer::from_iter((0..n).map(|i| i % 3 != 1));
    let size = 4;
    let flat: Vec<u8> = (0..n).flat_map(|i| [if i % 3 == 1 { 0 } else { i as u8 }; 4]).collect();
    let field = FieldType::Tensor { element: DataType::UInt8, shape: vec![2, 2] }.field("x_tensor", true);
    let DataType::FixedSizeList(item, _) = field.data_type() else { unreachable!() };
    let flat = array_of(&DataType::UInt8, Buffer::from(flat), n * size).unwrap();
    let tensor = FixedSizeListArray::try_new(item.clone(), 4, flat, Some(valid)).unwrap();
    let text = (0..n).map(|i| (i % 3 != 1).then(|| "x".repeat(i))).collect::<Vec<_>>();
    let list_field = FieldType::List { element: DataType::Int32, depth: 1 }.field("x_list", true);
    let DataType::List(list_item) = list_field.data_type() else { unreachable!() };
    let mut list = ListBuilder::new(PrimitiveBuilder::<Int32Type>::new()).with_field(list_item.clone());
    for i in 0..n {
        if i % 3 != 1 {
            (0..i % 4).for_each(|j| list.values().append_value((i + j) as i32));
        }
        list.append(i % 3 != 1);
    }
    let columns: Vec<Column> = vec![
        (FieldType::Scalar(DataType::Float64).field("x_number", true), Arc::new(numbers.finish())),
        (field, Arc::new(tensor)),
        (
            FieldType::Blob.field("x_blob", true),
            Arc::new(text.iter().map(|t| t.as_ref().map(String::as_bytes)).collect::<BinaryViewArray>()),
        ),
        (
            FieldType::Text.field("x_text", true),
            Arc::new(text.iter().map(Option::as_deref).collect::<StringViewArray>()),
        ),
        (list_field, Arc::new(list.finish())),
    ];
    batch(n, columns)
}

/// Writes the batches called `names` of the [`corpus`], reads them back, and panics if values, types, keys or a range
/// of samples differ, or if the bytes depend on the batch sizes.
pub fn round_trips(format: &dyn Format, options: &Options, names: &[&str]) {
    let sink = format.sink(options).unwrap();
    let source = format.source(&Options::new(), Limits::default()).unwrap();
    for (name, rows) in corpus().into_iter().filter(|(name, _)| names.contains(name)) {
        round_trip(&*sink, &*source, name, &rows);
    }
}

/// Writes `rows`, reads them back, and panics on any difference.
pub fn round_trip(sink: &dyn Sink, source: &dyn Source, what: &str, rows: &Rows) {
    sink.accept(&rows.schema()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let n = rows.num_rows();
    let files = write(sink, rows, &[n]);
    for groups in [vec![1; n], vec![n / 3, n - n / 3], vec![0, n, 0]] {
        assert!(write(sink, rows, &groups) == files, "{what}: other bytes when rows come grouped as {groups:?}");
    }
    let input = MemoryInput::new(format!("{what}{}", sink.suffix()), files.get(sink.suffix()).unwrap().clone());
    let table = source.open(Arc::new(&input)).unwrap_or_else(|e| panic!("{what}: open: {e}"));
    let info = table.info().unwrap_or_else(|e| panic!("{what}: info: {e}"));
    assert_eq!(info.items, n as u64, "{what}: items");
    assert_eq!(info.schema.fields(), rows.schema().fields(), "{what}: schema");
    for (from, to) in [(0, n), (0, 1), (n / 2, n), (n / 3, n / 2), (n, n + 5)] {
        let (from, to) = (from.min(n), to.min(n));
        let found = blocks(&*table, &input, from as u64..to as u64);
        same(&found, &rows.slice(from, to - from), &format!("{what}, samples {from}..{to}"));
    }
}

/// Panics where samples of the file of these bytes are read by reading again what `source` read to open it.
pub fn opens_once(source: &dyn Source, name: &str, bytes: Vec<u8>) {
    let input = Recorded { input: MemoryInput::new(name, bytes), reads: Mutex::default() };
    let reads = || std::mem::take(&mut *input.reads.lock().unwrap());
    let table = source.open(Arc::new(&input)).unwrap();
    let items = table.info().unwrap().items;
    let opening = reads();
    assert!(!opening.is_empty() && items > 1, "{name}: nothing to read");
    for item in (0..items).chain(0..items) {
        assert_eq!(blocks(&*table, &input, item..item + 1).iter().map(Rows::num_rows).sum::<usize>(), 1);
    }
    let again: BTreeSet<_> = reads().into_iter().filter(|read| opening.contains(read)).collect();
    assert!(again.is_empty(), "{name}: reads of opening that rows repeat (offset, bytes): {again:?}");
}

/// An input that remembers where it was read, and how many bytes.
struct Recorded {
    input: MemoryInput,
    reads: Mutex<Vec<(u64, usize)>>,
}

impl Input for Recorded {
    packhorse_core::forward_input!(input: name len stream);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.reads.lock().unwrap().push((offset, buf.len()));
        self.input.read_at(offset, buf)
    }
}

/// All files that `sink` writes for `rows` in batches of these sizes, by suffix.
pub fn write(sink: &dyn Sink, rows: &Rows, groups: &[usize]) -> BTreeMap<String, Vec<u8>> {
    let mut outlet = MemoryOutlet::new();
    let mut writer = sink.create(&rows.schema(), &mut outlet).unwrap();
    let mut at = 0;
    for group in groups {
        writer.push(&rows.slice(at, *group)).unwrap();
        at += group;
    }
    let summary = writer.finish().unwrap();
    assert_eq!(summary.samples, rows.num_rows() as u64);
    outlet.files()
}

/// The samples `items` of `input`.
pub fn read(source: &dyn Source, input: &dyn Input, items: std::ops::Range<u64>) -> Vec<Rows> {
    blocks(&*source.open(Arc::new(input)).unwrap(), input, items)
}

fn blocks(table: &dyn Table, input: &dyn Input, items: std::ops::Range<u64>) -> Vec<Rows> {
    table.rows(items).unwrap().map(|rows| rows.unwrap_or_else(|e| panic!("{}: {e}", input.name()))).collect()
}

/// Panics unless the blocks `found` equal the rows `wanted`.
pub fn same(found: &[Rows], wanted: &Rows, what: &str) {
    assert_eq!(found.iter().map(|rows| rows.num_rows()).sum::<usize>(), wanted.num_rows(), "{what}: samples");
    let mut at = 0;
    for rows in found {
        assert_eq!(rows.schema().fields(), wanted.schema().fields(), "{what}: schema of a block");
        let part = wanted.slice(at, rows.num_rows());
        for (i, field) in wanted.schema().fields().iter().enumerate() {
            let (found, wanted) = (rows.column(i), part.column(i));
            assert!(
                equal(found, wanted),
                "{what}: field {} differs from sample {at} on:\n{found:?}\n{wanted:?}",
                field.name()
            );
        }
        at += rows.num_rows();
    }
}

fn equal(a: &ArrayRef, b: &ArrayRef) -> bool {
    a.to_data() == b.to_data()
}
