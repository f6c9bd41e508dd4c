//! Tars of arbitrary bytes: listed by position and as a stream, read, and checked for other readers. Nothing may panic,
//! hang, or take more memory than the bytes account for, and both lists must be equal.
#![no_main]

mod stream;

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Consumer, Findings, Format, Input, Limits, MemoryInput, Options};
use packhorse_webdataset::WebDataset;
use std::sync::Arc;
use stream::Stream;

fn list(input: &dyn Input) -> (Vec<(Vec<u8>, Option<u64>)>, bool) {
    let source = WebDataset.source(&Options::new(), Limits::default()).expect("no options");
    let mut found = Vec::new();
    let whole = source.list(input, &mut |entry| {
        found.push((entry.name.to_vec(), entry.extent.ok().map(|e| e.offset)));
        Ok(())
    });
    (found, whole.is_ok())
}

fuzz_target!(|bytes: &[u8]| {
    let file = MemoryInput::new("a.tar", bytes.to_vec());
    let stream = Stream(file.clone());
    let (by_position, whole) = list(&file);
    let (in_order, whole_too) = list(&stream);
    if whole && whole_too {
        assert_eq!(by_position, in_order);
    }
    let source = WebDataset.source(&Options::new(), Limits::default()).expect("no options");
    if let Ok(table) = source.open(Arc::new(&file)) {
        let _ = table.rows(0..u64::MAX).map(|blocks| blocks.count());
    }
    let _ = WebDataset.check(&file, &Options::new(), &Consumer::ALL, &mut Findings::new("a.tar"), &mut |_| {});
});
