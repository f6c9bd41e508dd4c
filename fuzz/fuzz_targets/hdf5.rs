//! HDF5 files of arbitrary bytes, read with the datasets of packhorse's layout, with all datasets, and with groups as samples. Nothing may panic,
//! hang, or take more memory than the bytes account for, and rows must have the announced fields. The library skips
//! checksums of metadata in fuzzing builds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Format, Limits, MemoryInput, Options};
use packhorse_hdf5::Hdf5;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let input = MemoryInput::new("fuzz.h5", bytes.to_vec());
    let limits = Limits { blob: 1 << 24, header: 1 << 18, ..Limits::default() };
    for (option, globs) in [("datasets", ""), ("datasets", "*"), ("groups", "/"), ("groups", "*")] {
        let mut options = Options::new();
        options.set(option, globs);
        if option == "groups" {
            options.set("attributes", "*");
        }
        let source = Hdf5.source(&options, limits).expect("options");
        let Ok(table) = source.open(Arc::new(&input)) else { continue };
        for rows in table.rows(3..9).into_iter().flatten().take(8).flatten() {
            assert!((1..=6).contains(&rows.num_rows()));
        }
        let info = table.info();
        if let Ok(blocks) = table.rows(0..u64::MAX) {
            let schema = info.expect("a table with rows has a schema").schema;
            for rows in blocks.take(8).flatten() {
                assert_eq!(rows.schema().fields(), schema.fields());
            }
        }
    }
});
