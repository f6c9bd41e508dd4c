//! Anybody's `.npy` file: what the codec and the source make of it must be the same, and what is
//! encoded again must be decoded to the same. Nothing may panic, hang, or take memory that the bytes
//! do not back.
#![no_main]

use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch};
use libfuzzer_sys::fuzz_target;
use packhorse_core::{DataType, Field, Format, Limits, MemoryInput, Options, Schema};
use packhorse_npz::Npz;
use std::sync::Arc;

fn rows(files: BinaryViewArray) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("npy", DataType::BinaryView, true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(files) as ArrayRef]).expect("a column")
}

fuzz_target!(|bytes: &[u8]| {
    let codec = Npz.codec(&Options::new(), Limits::default()).expect("no options");
    let input = MemoryInput::new("a.npy", bytes.to_vec());
    for split in ["true", "false"] {
        let source = Npz.source(&[("rows", split)].into_iter().collect(), Limits::default()).expect("options");
        let _ = source.rows(&input, 1..3).map(|blocks| blocks.count());
        let found: Option<Vec<_>> = source.rows(&input, 0..u64::MAX).and_then(|blocks| blocks.collect()).ok();
        let Ok(fields) = codec.probe("npy", &input) else { continue };
        let decoded = codec.decode("npy", &rows(BinaryViewArray::from_iter_values([bytes])), &fields).ok();
        let Some(columns) = decoded.filter(|_| split == "false") else { continue };
        let found = found.expect("the source reads what the codec reads");
        for (i, (field, column)) in fields.iter().zip(&columns).enumerate() {
            assert_eq!(found[0].column(i).to_data(), column.to_data());
            if let (Ok(_), "npy") = (codec.encoded(field), field.name().as_str()) {
                let files = codec.encode(field, column).expect("it said so");
                let again = codec.decode("npy", &rows(files), std::slice::from_ref(field)).expect("its own file");
                assert_eq!(again[0].to_data(), column.to_data());
            }
        }
    }
});
