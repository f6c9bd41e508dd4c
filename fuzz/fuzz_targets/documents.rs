//! packhorse's own documents from arbitrary bytes: no panic, and what can be read is the same after it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Limits, MemoryInput, split_name};
use packhorse_dataset::{DatasetView, IndexedFiles, ListingReader, Manifest, PlanReader, Receipt, SavedIndex, decode_index, encode_index};

fuzz_target!(|bytes: &[u8]| {
    let _ = Receipt::decode(bytes);
    let _ = Manifest::decode(bytes);
    let _ = DatasetView::decode(bytes);
    let _ = IndexedFiles::decode(bytes);
    let _ = SavedIndex::decode(bytes, &Limits::default());
    if let Ok(members) = decode_index(bytes, &Limits::default()) {
        assert_eq!(decode_index(&encode_index(&members), &Limits::default()).expect("round trip"), members);
    }
    let listing = MemoryInput::new("listing", bytes.to_vec());
    if let Ok((reader, _)) = ListingReader::open(&listing) {
        let _ = reader.take(10_000).all(|record| record.is_ok());
    }
    if let Ok(plan) = PlanReader::open(Box::new(MemoryInput::new("plan", bytes.to_vec()))) {
        for shard in plan.shards() {
            let _ = plan.entries(shard).map(|entries| entries.take(10_000).all(|entry| entry.is_ok()));
        }
        let _ = plan.skipped();
    }
    if let Ok(name) = split_name(bytes) {
        let again = split_name(format!("{}.{}", name.key, name.field).as_bytes()).expect("a canonical name");
        assert_eq!(again, name);
    }
});
