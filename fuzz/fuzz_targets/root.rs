//! ROOT files of arbitrary bytes: trees are listed, reported and read. Nothing may panic, hang, or take more memory than
//! the bytes account for, and rows must have the announced schema.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Format, Limits, MemoryInput, Options};
use packhorse_root::Root;
use std::sync::Arc;

const LIMITS: Limits = Limits { blob: 16 << 20, pixels: 0, header: 1 << 20, ahead: 16 << 20, scratch: 16 << 20 };

fuzz_target!(|bytes: &[u8]| {
    let input = MemoryInput::new("a.root", bytes.to_vec());
    let names = Root::trees(&input, LIMITS).unwrap_or_default();
    for name in names.iter().take(4) {
        let options: Options = [("tree", name.as_str())].into_iter().collect();
        let _ = Root::report(&input, &options, LIMITS);
        let source = Root.source(&options, LIMITS).expect("a good option");
        let Ok(table) = source.open(Arc::new(&input)) else { continue };
        let Ok(info) = table.info() else { continue };
        // A file may say that it has very many entries.
        for rows in table.rows(0..u64::MAX).into_iter().flatten().take(20) {
            let Ok(rows) = rows else { break };
            assert_eq!(rows.schema(), info.schema);
        }
    }
});
