//! Columns beyond the common corpus: nulls, types that are read back as others, and unsupported columns.

use crate::common::{Folder, blobs, sink, source};
use arrow_array::builder::{Int32Builder, ListBuilder, StringViewBuilder};
use arrow_array::types::{Int32Type, UInt8Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, FixedSizeListArray, Int8Array, LargeListArray, LargeStringArray, RecordBatch,
    StringArray, StringViewArray, StructArray, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use packhorse_core::{DataType, Field, FieldType, KEY, Kind, Rows, Schema};
use packhorse_testkit::typed;
use std::sync::Arc;

fn batch(columns: Vec<(Field, ArrayRef)>) -> Rows {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn back(rows: &Rows, options: &[(&str, &str)]) -> Vec<Rows> {
    let sink = sink(options);
    let folder = Folder::of("part", typed::write(&*sink, rows, &[rows.num_rows()]));
    typed::read(&*source(&[]), &folder.input(sink.suffix()), 0..u64::MAX)
}

/// A nested list, a list of words, a tensor of words: each null in sample 1.
fn with_nulls() -> Rows {
    let item = |t: DataType| Arc::new(Field::new("item", t, false));
    let inner = ListBuilder::new(Int32Builder::new()).with_field(item(DataType::Int32));
    let mut nested = ListBuilder::new(inner).with_field(item(DataType::List(item(DataType::Int32))));
    nested.append_value([Some(vec![Some(1), Some(2)]), Some(vec![Some(3), Some(4)])]);
    nested.append_null();
    nested.append_value([Some(vec![]), Some(vec![Some(5)])]);
    let mut words = ListBuilder::new(StringViewBuilder::new()).with_field(item(DataType::Utf8View));
    words.append_value([Some("a longer text than a view holds"), Some("")]);
    words.append_null();
    words.append_value([None::<&str>; 0]);
    let flat: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "b", "", "", "c", "ddddddddddddddddd"]));
    let nulls = NullBuffer::from(vec![true, false, true]);
    let tensor = FixedSizeListArray::try_new(item(DataType::Utf8View), 2, flat, Some(nulls)).unwrap();
    let list = |element, depth, name| FieldType::List { element, depth }.field(name, true);
    batch(vec![
        (list(DataType::Int32, 2, "nested"), Arc::new(nested.finish())),
        (FieldType::Tensor { element: DataType::Utf8View, shape: vec![1, 2] }.field("tensor", true), Arc::new(tensor)),
        (list(DataType::Utf8View, 1, "words"), Arc::new(words.finish())),
    ])
}

#[test]
fn nulls_of_every_kind_round_trip() {
    let rows = with_nulls();
    for options in [&[][..], &[("tensors", "raw")]] {
        typed::same(&back(&rows, options), &rows, "nulls");
        typed::same(&back(&rows.slice(1, 2), options), &rows.slice(1, 2), "nulls, sliced");
    }
}

#[test]
fn ragged_tensors_may_be_null() {
    let rows = typed::corpus().into_iter().find(|(name, _)| *name == "ragged").unwrap().1;
    let ragged = rows.column_by_name("r_float32").unwrap();
    let (parts, arrays, _) = ragged.as_any().downcast_ref::<StructArray>().unwrap().clone().into_parts();
    // Sample 0 is empty, as the data beneath a null.
    let nulls = NullBuffer::from((0..rows.num_rows()).map(|i| i != 0).collect::<Vec<_>>());
    let array = StructArray::try_new(parts, arrays, Some(nulls)).unwrap();
    let field = FieldType::Ragged { element: DataType::Float32, rank: 2 }.field("r", true);
    let rows = batch(vec![(field, Arc::new(array))]);
    let found = back(&rows, &[]);
    assert!(found[0].column(0).is_null(0) && found[0].column(0).null_count() == 1);
    let valid = rows.slice(1, rows.num_rows() - 1);
    typed::same(&[found[0].slice(1, valid.num_rows())], &valid, "ragged");
}

#[test]
fn other_types_of_the_same_come_back_as_ours() {
    let field = |name: &str, t: DataType| Field::new(name, t, false);
    let list = LargeListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), Some(vec![])]);
    let fixed = FixedSizeListArray::from_iter_primitive::<UInt8Type, _, _>(
        [[Some(1), Some(200)], [Some(3), Some(4)]].map(Some),
        2,
    );
    let rows = batch(vec![
        (field("bin", DataType::Binary), Arc::new(BinaryArray::from_vec(vec![b"a", b"\xff"]))),
        (field("fixed", fixed.data_type().clone()), Arc::new(fixed)),
        (field("list", list.data_type().clone()), Arc::new(list)),
        (field("long", DataType::LargeUtf8), Arc::new(LargeStringArray::from(vec!["x", "y"]))),
        (field("text", DataType::Utf8), Arc::new(StringArray::from(vec!["ä", ""]))),
        (field("u", DataType::UInt64), Arc::new(UInt64Array::from(vec![u64::MAX, 1 << 63]))),
    ]);
    let found = &back(&rows, &[])[0];
    let types: Vec<String> = found.schema().fields().iter().map(|f| FieldType::of(f).unwrap().to_string()).collect();
    assert_eq!(types, ["blob", "UInt8[2]", "list<Int32>", "text", "text", "UInt64"]);
    assert_eq!(found.column(5).to_data(), rows.column(5).to_data());
    let again = back(found, &[]);
    typed::same(&again, found, "again");
}

#[test]
fn unsupported_values_and_fields_are_refused() {
    let list = arrow_array::ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None])]);
    let field = FieldType::List { element: DataType::Int32, depth: 1 };
    let rows = batch(vec![(Field::new("x", list.data_type().clone(), true), Arc::new(list))]);
    let error = sink(&[]).row_check(&rows.schema()).unwrap()(&rows).unwrap_err();
    assert_eq!(error.kind(), Kind::Content);
    assert!(error.to_string().contains("field x holds a null inside a list<Int32>"), "{error}");
    let refused = |fields: Vec<Field>| sink(&[]).accept(&Arc::new(Schema::new(fields))).unwrap_err();
    let ragged = FieldType::Ragged { element: DataType::Int8, rank: 2 }.field("x", false);
    let clash = refused(vec![ragged, field.field("x.shape", false)]);
    assert!(clash.kind() == Kind::Unsupported && clash.to_string().contains("x.shape"), "{clash}");
    for odd in [
        Field::new("when", DataType::Date32, false),
        Field::new("none", DataType::FixedSizeBinary(0), false),
        Field::new(KEY, DataType::Int64, false),
        Field::new(KEY, DataType::Utf8View, true),
    ] {
        assert_eq!(refused(vec![odd.clone()]).kind(), Kind::Unsupported, "{odd}");
    }
    assert_eq!(sink(&[]).admit("k", "jpg", 3 << 30).unwrap_err().kind(), Kind::Limit);
}

/// Negative numbers take ten bytes each.
#[test]
fn a_record_longer_than_readers_accept_is_named() {
    let (keys, one) = (["a", "b"], vec![-1; 215_000_000]);
    let offsets = OffsetBuffer::from_lengths([1, one.len() - 1]);
    let item = Arc::new(Field::new("item", DataType::Int8, false));
    let list = arrow_array::ListArray::new(item, offsets, Arc::new(Int8Array::from(one)), None);
    let key = Field::new(KEY, DataType::Utf8View, false);
    let x = Field::new("x", list.data_type().clone(), false);
    let rows = batch(vec![(key, Arc::new(StringViewArray::from_iter_values(keys))), (x, Arc::new(list))]);
    let check = sink(&[]).row_check(&rows.schema()).unwrap();
    let error = check(&rows).unwrap_err();
    assert_eq!((error.kind(), error.sample()), (Kind::Content, Some("b")));
    assert!(error.hints().is_some_and(|hint| hint.contains("`set=tensors=raw`")), "{error}");
    assert!(check(&rows.slice(0, 1)).is_ok());
}

#[test]
fn bytes_do_not_depend_on_threads() {
    let rows = blobs(300, 40_000);
    let write = |threads: usize, options: &[(&str, &str)]| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| typed::write(&*sink(options), &rows, &[200, 100]))
    };
    for options in [&[][..], &[("compression", "gzip")]] {
        assert!(write(1, options) == write(5, options));
    }
}
