//! Rows to write; deterministic.

use arrow_array::{ArrayRef, BinaryViewArray, RecordBatch, StringViewArray};
use packhorse_core::{DataType, Field, KEY, Rows, Schema};
use std::sync::Arc;

/// A few small samples with all cheap edge cases.
pub(super) fn small() -> Rows {
    let columns: [(&str, [Option<&[u8]>; 6]); 3] = [
        ("cls", [Some(b"0"), None, Some(b""), Some(b"3"), None, Some(b"5")]),
        ("jpg", [Some(b"\xff\xd8 one"), Some(b"\0"), None, Some(&[0; 600]), Some(b""), Some(&[0xff; 512])]),
        ("seg.png", [None, None, Some(b"\x89PNG"), Some(b"x"), None, Some(b"last")]),
    ];
    let keys = ["a", "b/c", "größe/日本", "-", "percent%20", "z".repeat(60).leak()];
    rows(
        &keys.map(str::to_owned),
        columns.map(|(name, values)| (name.to_owned(), values.map(|v| v.map(<[u8]>::to_vec)).to_vec())),
    )
}

/// The batches that every sink must be able to write.
pub(super) fn all() -> Vec<(&'static str, Rows)> {
    vec![
        ("small", small()),
        ("no sample", small().slice(0, 0)),
        ("many samples", many()),
        ("many fields", wide()),
        ("large fields", large()),
    ]
}

fn many() -> Rows {
    let keys: Vec<String> = (0..700).map(|i| format!("folder{}/{i:05}", i % 7)).collect();
    let bytes = |i: usize, seed: usize| Some(noise(i * 31 % 900, i + seed));
    let jpg = (0..700).map(|i| bytes(i, 1)).collect();
    let txt = (0..700).map(|i| if i % 3 == 0 { None } else { bytes(i, 2) }).collect();
    rows(&keys, [("jpg".to_owned(), jpg), ("txt".to_owned(), txt)])
}

fn wide() -> Rows {
    let keys = ["first", "second"].map(str::to_owned);
    let column = |i: usize| (format!("field{i:03}"), vec![Some(noise(i, i)), i.is_multiple_of(2).then(|| noise(3, i))]);
    rows(&keys, (0..150).map(column).collect::<Vec<_>>())
}

fn large() -> Rows {
    let keys = ["large", "small", "larger"].map(str::to_owned);
    rows(&keys, [("bin".to_owned(), vec![Some(noise(600 << 10, 1)), Some(noise(5, 2)), Some(noise((1 << 20) + 1, 3))])])
}

fn rows(keys: &[String], columns: impl IntoIterator<Item = (String, Vec<Option<Vec<u8>>>)>) -> Rows {
    let mut fields = vec![Field::new(KEY, DataType::Utf8View, false)];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(StringViewArray::from_iter_values(keys))];
    for (name, values) in columns {
        fields.push(Field::new(name, DataType::BinaryView, true));
        arrays.push(Arc::new(values.iter().map(|v| v.as_deref()).collect::<BinaryViewArray>()));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Incompressible bytes (the upper bits of a linear congruential generator).
fn noise(len: usize, seed: usize) -> Vec<u8> {
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}
