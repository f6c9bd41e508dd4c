//! Anybody's HDF5: probed, and read as our layout and as anybody's. Nothing may panic, hang, or take
//! memory that the bytes do not back. Checksums of metadata are not looked at here.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Format, Limits, MemoryInput, Options};
use packhorse_hdf5::Hdf5;

fuzz_target!(|bytes: &[u8]| {
    let input = MemoryInput::new("fuzz.h5", bytes.to_vec());
    let limits = Limits { blob: 1 << 24, header: 1 << 18, ..Limits::default() };
    for datasets in ["", "*"] {
        let source = Hdf5.source(Options::new().set("datasets", datasets), limits).expect("options");
        // Of a few rows, only a part of an index is read.
        for rows in source.rows(&input, 3..9).into_iter().flatten().take(8).flatten() {
            assert!((1..=6).contains(&rows.num_rows()));
        }
        let probe = source.probe(&input);
        if let Ok(blocks) = source.rows(&input, 0..u64::MAX) {
            let schema = probe.expect("what has rows can be probed").expect("typed").schema;
            for rows in blocks.take(8).flatten() {
                assert_eq!(rows.schema().fields(), schema.fields());
            }
        }
    }
});
