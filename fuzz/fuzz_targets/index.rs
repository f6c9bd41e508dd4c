//! Member indexes of arbitrary bytes: a bad one is an error, and one that can be read is the same after it is written
//! again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packhorse_core::{Kind, Limits, crc32c};
use packhorse_dataset::{decode_index, encode_index};

fn look(bytes: &[u8]) {
    match decode_index(bytes, &Limits::default()) {
        Ok(members) => {
            let again = decode_index(&encode_index(&members), &Limits::default()).expect("round trip");
            assert!(again == members);
            let all: usize = (0..members.samples()).map(|sample| members.of(sample).count()).sum();
            assert_eq!(all, members.len());
            assert!(members.of(members.samples()).next().is_none() && members.key(members.samples()).is_none());
        }
        Err(error) => assert!(matches!(error.kind(), Kind::Content | Kind::Limit)),
    }
}

fuzz_target!(|bytes: &[u8]| {
    look(bytes);
    // Random bytes hardly ever have the magic number and the right checksum: both are added.
    let mut bytes = [b"PHINDEX\x01", bytes].concat();
    bytes.extend(crc32c(&bytes).to_le_bytes());
    look(&bytes);
});
