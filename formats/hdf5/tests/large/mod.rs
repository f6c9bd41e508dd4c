//! Rows that need B-trees of several levels, several chunks per sample, and spools that overflow.

use arrow_array::{
    Array, ArrayRef, BinaryViewArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringViewArray,
};
use packhorse_core::{DataType, FieldType, KEY, Rows, Schema};
use std::sync::Arc;

fn batch(columns: Vec<(&str, FieldType, ArrayRef)>) -> Rows {
    let fields: Vec<_> = columns.iter().map(|(name, kind, _)| kind.field(name, false)).collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Options of a sink.
pub(crate) type Pairs = &'static [(&'static str, &'static str)];

/// Name, rows, and options of the sink.
pub(crate) fn corpus() -> Vec<(&'static str, Rows, Pairs)> {
    vec![("chunks", chunks(), &[("chunk", "2")]), ("pieces", pieces(), &[]), ("blobs", blobs(), &[])]
}

fn chunks() -> Rows {
    let n = 10_000;
    let keys = (0..n).map(|i| format!("some/folder/with a long name/{i:09}"));
    let text = (0..n).map(|i| "words and more words ".repeat(i % 9));
    batch(vec![
        (KEY, FieldType::Text, Arc::new(StringViewArray::from_iter_values(keys))),
        (
            "label",
            FieldType::Scalar(DataType::Int64),
            Arc::new((0..n as i64).map(|i| i * i % 991).collect::<Int64Array>()),
        ),
        ("text", FieldType::Text, Arc::new(StringViewArray::from_iter_values(text))),
    ])
}

/// Samples of 5 MiB, larger than the largest chunk of 4 MiB.
fn pieces() -> Rows {
    let (n, shape) = (8, vec![5, 512, 512]);
    let size: usize = shape.iter().product();
    let kind = FieldType::Tensor { element: DataType::Float32, shape };
    let field = kind.field("x", false);
    let DataType::FixedSizeList(item, len) = field.data_type() else { unreachable!() };
    let flat = (0..n * size).map(|i| (i / 37) as f32).collect::<Float32Array>();
    let array = FixedSizeListArray::try_new(item.clone(), *len, Arc::new(flat), None).unwrap();
    assert_eq!(array.len(), n);
    batch(vec![("x", kind, Arc::new(array))])
}

fn blobs() -> Rows {
    let n = 300;
    let blob = |seed: usize| {
        let values =
            (0..n).map(move |i| (0..(i * 97 + seed) % 60_000).map(|j| (j * seed + i) as u8).collect::<Vec<u8>>());
        Arc::new(BinaryViewArray::from_iter_values(values)) as ArrayRef
    };
    batch(vec![
        ("cls", FieldType::Scalar(DataType::Int64), Arc::new((0..n as i64).collect::<Int64Array>())),
        ("jpg", FieldType::Blob, blob(3)),
        ("png", FieldType::Blob, blob(5)),
    ])
}
