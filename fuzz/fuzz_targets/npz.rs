//! `.npz` files of arbitrary bytes, read by the codec and by the source, whole and by rows. Nothing may panic, hang, or
//! take more memory than the bytes account for. Values that the codec decodes must be the same from the source.
#![no_main]

use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch};
use libfuzzer_sys::fuzz_target;
use packhorse_core::{DataType, Field, Format, Limits, MemoryInput, Options, Result, Schema};
use packhorse_npz::Npz;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let codec = Npz.codec(&Options::new(), Limits::default()).expect("no options");
    let input = MemoryInput::new("a.npz", bytes.to_vec());
    let split = Npz.source(&[("rows", "true")].into_iter().collect(), Limits::default()).expect("options");
    if let Ok(table) = split.open(Arc::new(&input)) {
        let _ = table.rows(0..u64::MAX).map(|blocks| blocks.take_while(Result::is_ok).count());
        let _ = table.rows(1..2).map(|blocks| blocks.count());
    }
    let whole = Npz.source(&Options::new(), Limits::default()).expect("no options");
    let found = whole.open(Arc::new(&input)).and_then(|table| table.rows(0..1)?.collect::<Result<Vec<_>>>());
    let Ok(fields) = codec.probe("npz", &input) else { return };
    let schema = Schema::new(vec![Field::new("npz", DataType::BinaryView, false)]);
    let blobs: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([bytes]));
    let rows = RecordBatch::try_new(Arc::new(schema), vec![blobs]).expect("a column");
    if let Ok(columns) = codec.decode("npz", &rows, &fields) {
        let found = found.expect("the source reads what the codec reads");
        for (i, column) in columns.iter().enumerate() {
            assert_eq!(found[0].column(i).to_data(), column.to_data());
        }
    }
});
