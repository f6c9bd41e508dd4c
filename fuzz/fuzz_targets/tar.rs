//! Anybody's tar: listed, read by position and as a stream, checked for readers. Nothing may panic,
//! hang, or take memory that the bytes do not back; both ways of reading must agree.
#![no_main]

mod stream;

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Consumer, Findings, Format, Input, Limits, MemoryInput, Options};
use packhorse_webdataset::WebDataset;
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
    for rows in source.rows(&file, 0..u64::MAX).into_iter().flatten() {
        let _ = rows;
    }
    let _ = WebDataset.check(&file, &Options::new(), &Consumer::ALL, &mut Findings::new("a.tar"), &mut |_| {});
});
