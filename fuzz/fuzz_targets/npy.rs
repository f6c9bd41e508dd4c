//! `.npy` files of arbitrary bytes: codec and source must read the same values, and values that are encoded again must
//! decode to the same. Nothing may panic, hang, or take more memory than the bytes account for.
#![no_main]

use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch};
use libfuzzer_sys::fuzz_target;
use packhorse_core::{DataType, Field, Format, Limits, MemoryInput, Options, Result, Schema};
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
        let found = source.open(Arc::new(&input)).and_then(|table| {
            let _ = table.rows(1..3).map(|blocks| blocks.count());
            table.rows(0..u64::MAX)?.collect::<Result<Vec<_>>>()
        });
        let Ok(fields) = codec.probe("npy", &input) else { continue };
        let decoded = codec.decode("npy", &rows(BinaryViewArray::from_iter_values([bytes])), &fields).ok();
        let Some(columns) = decoded.filter(|_| split == "false") else { continue };
        let found = found.expect("the source reads what the codec reads");
        for (i, (field, column)) in fields.iter().zip(&columns).enumerate() {
            assert_eq!(found[0].column(i).to_data(), column.to_data());
            if let (Ok(_), "npy") = (codec.encoded(field), field.name().as_str()) {
                let files = codec.encode(field, column).expect("a type that can be encoded");
                let again = codec.decode("npy", &rows(files), std::slice::from_ref(field)).expect("its own file");
                assert_eq!(again[0].to_data(), column.to_data());
            }
        }
    }
});
