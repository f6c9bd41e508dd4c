//! Schemas and rows that can be written, and errors for those that can't.

use crate::common::{flat, list, options, rows, sink, write};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch};
use packhorse_core::{DataType, Field, FieldType, Format, KEY, Kind, Rows, Schema, SchemaRef};
use packhorse_testkit::typed;
use packhorse_tokens::Tokens;
use std::sync::Arc;

fn schema(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

fn of(element: DataType, name: &str) -> Field {
    FieldType::List { element, depth: 1 }.field(name, false)
}

#[test]
fn other_fields_are_refused_by_name() {
    let tokens = || of(DataType::UInt16, "tokens");
    let refused = [
        (vec![tokens(), FieldType::Text.field("txt", false)], "`drop=txt`"),
        (vec![of(DataType::Utf8View, "tokens")], "list of whole numbers"),
        (vec![FieldType::Blob.field("tokens", false)], "list of whole numbers"),
        (vec![of(DataType::UInt32, "tokens")], "Int32"),
        (vec![tokens(), of(DataType::Int64, "lengths")], "list of Int32"),
        (vec![Field::new(KEY, DataType::Utf8View, false)], "no field tokens"),
    ];
    for (fields, said) in refused {
        let error = sink(&[]).accept(&schema(fields)).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.to_string().contains(said), "{said}: {error}");
    }
    let large = sink(&[("vocabulary", "65500")]).accept(&schema(vec![tokens()])).unwrap_err();
    assert!(large.to_string().contains("cast it to that"), "{large}");
    assert!(sink(&[("vocabulary", "65499")]).accept(&schema(vec![tokens()])).is_ok());
    for (_, rows) in typed::corpus() {
        assert_eq!(sink(&[]).accept(&rows.schema()).unwrap_err().kind(), Kind::Unsupported);
    }
    for (layout, element, ok) in [
        ("datatrove", DataType::UInt32, true),
        ("datatrove", DataType::Int32, true),
        ("datatrove", DataType::Int64, false),
        ("llmc", DataType::UInt32, true),
        ("llmc", DataType::UInt8, false),
        ("bare", DataType::UInt32, true),
        ("bare", DataType::Int64, true),
    ] {
        assert_eq!(sink(&[("layout", layout)]).accept(&schema(vec![of(element, "tokens")])).is_ok(), ok, "{layout}");
    }
}

fn check(options: &[(&str, &str)], rows: &Rows) -> packhorse_core::Result<()> {
    sink(options).row_check(&rows.schema()).unwrap()(rows)
}

#[test]
fn bad_rows_are_named() {
    let documents = flat(&[3, 0, 2], 1, 100);
    let good = rows(&documents, &DataType::UInt16, true, true);
    assert!(check(&[("vocabulary", "100")], &good).is_ok());
    let error = check(&[("vocabulary", "5")], &good).unwrap_err();
    assert_eq!((error.kind(), error.sample()), (Kind::Content, Some("books/000000000")));
    for lengths in [vec![vec![3], vec![], vec![1]], vec![vec![3], vec![], vec![3, -1]]] {
        let columns = vec![good.column(0).clone(), list(&DataType::Int32, &lengths), good.column(2).clone()];
        let bad = RecordBatch::try_new(good.schema(), columns).unwrap();
        let error = check(&[], &bad).unwrap_err();
        assert_eq!((error.kind(), error.sample()), (Kind::Content, Some("books/000000014")), "{error}");
    }
}

#[test]
fn a_missing_list_is_named() {
    let (_, nulls) = typed::corpus().into_iter().find(|(name, _)| *name == "nulls").unwrap();
    let column = nulls.schema().index_of("x_list").unwrap();
    let fields = vec![nulls.schema().field(0).clone(), of(DataType::Int32, "tokens").with_nullable(true)];
    let rows =
        RecordBatch::try_new(schema(fields), vec![nulls.column(0).clone(), nulls.column(column).clone()]).unwrap();
    let error = check(&[], &rows).unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::Content, "field tokens is missing"));
    assert!(error.sample().is_some_and(|key| key.ends_with("001")));
}

/// Lists, vectors of fixed length and ragged arrays of one dimension give the same files.
#[test]
fn vectors_are_documents() {
    let documents = flat(&[4; 9], 1, 100);
    let plain = rows(&documents, &DataType::UInt16, false, false);
    let wanted = write(&*sink(&[]), &plain, 9).0;
    let lists: ArrayRef = plain.column(0).clone();
    let values = lists.as_list::<i32>().values().clone();
    let field = FieldType::Tensor { element: DataType::UInt16, shape: vec![4] }.field("tokens", false);
    let DataType::FixedSizeList(item, _) = field.data_type() else { panic!() };
    let fixed = arrow_array::FixedSizeListArray::try_new(item.clone(), 4, values, None).unwrap();
    let rows = RecordBatch::try_new(schema(vec![field]), vec![Arc::new(fixed)]).unwrap();
    assert_eq!(write(&*sink(&[]), &rows, 4).0, wanted);
    let ragged = FieldType::Ragged { element: DataType::UInt16, rank: 1 }.field("tokens", false);
    let DataType::Struct(parts) = ragged.data_type() else { panic!() };
    let DataType::FixedSizeList(dim, _) = parts[1].data_type() else { panic!() };
    let shapes = Arc::new(arrow_array::Int32Array::from(vec![4; 9]));
    let shapes = arrow_array::FixedSizeListArray::try_new(dim.clone(), 1, shapes, None).unwrap();
    let parts = arrow_array::StructArray::try_new(parts.clone(), vec![lists, Arc::new(shapes)], None).unwrap();
    let rows = RecordBatch::try_new(schema(vec![ragged]), vec![Arc::new(parts)]).unwrap();
    assert_eq!(write(&*sink(&[]), &rows, 4).0, wanted);
}

#[test]
fn unknown_options_are_refused() {
    let unknown = options(&[("no-such-option", "1")]);
    let tokens = Tokens::default();
    assert_eq!(tokens.sink(&unknown).map(drop).unwrap_err().kind(), Kind::Config);
    assert_eq!(tokens.source(&unknown, Default::default()).map(drop).unwrap_err().kind(), Kind::Config);
}
