//! The strict check against real photographs: refuses damaged ones and passes all intact ones.
//!
//! Needs `PACKHORSE_TEST_DATA`; without it these tests are skipped with a message.
#![expect(clippy::unwrap_used, reason = "a test fails on the first error and prints its results")]

use arrow_array::{ArrayRef, BinaryViewArray, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use packhorse_core::{KEY, Limits};
use packhorse_testkit::external::data;
use packhorse_transform::Transform;
use packhorse_transform::image::{Check, Image, ImageOptions};
use std::sync::Arc;

/// All photographs of a tar.
fn photographs() -> Option<Vec<Vec<u8>>> {
    let data = data()?;
    let tar = std::fs::read(data.join("clothing-train.tar")).unwrap();
    let (mut at, mut found) = (0, Vec::new());
    while at + 512 <= tar.len() {
        let text = |from: usize, to: usize| String::from_utf8_lossy(&tar[at + from..at + to]).into_owned();
        let (name, size) = (text(0, 100), text(124, 135));
        let Ok(size) = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8) else { break };
        if name.trim_matches('\0').ends_with(".jpg") {
            found.push(tar[at + 512..at + 512 + size].to_vec());
        }
        at += 512 + size.div_ceil(512) * 512;
    }
    Some(found)
}

/// Checks one image.
fn passes(check: Check, bytes: &[u8]) -> Result<(), String> {
    let schema =
        Schema::new(vec![Field::new(KEY, DataType::Utf8View, false), Field::new("jpg", DataType::BinaryView, false)]);
    let keys: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
    let blobs: ArrayRef = Arc::new(BinaryViewArray::from(vec![bytes]));
    let rows = RecordBatch::try_new(Arc::new(schema), vec![keys, blobs]).unwrap();
    let options = ImageOptions { check: Some(check), ..ImageOptions::default() };
    let image = Image::new(options, Limits::default()).unwrap();
    image.apply(rows).map(drop).map_err(|error| error.to_string())
}

/// SplitMix64.
fn random(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) % below as u64) as usize
}

#[test]
fn intact_photographs_pass() {
    let Some(photographs) = photographs() else { return };
    let refused: Vec<_> = photographs.iter().filter_map(|bytes| passes(Check::Strict, bytes).err()).collect();
    println!("{} of {} photographs are refused", refused.len(), photographs.len());
    assert!(refused.is_empty(), "{:?}", refused.first());
}

#[test]
fn damaged_photographs_are_refused() {
    let Some(photographs) = photographs() else { return };
    let scan = |bytes: &[u8]| bytes.windows(2).rposition(|two| two == [0xff, 0xda]).unwrap() + 14;
    let large: Vec<&Vec<u8>> = photographs.iter().filter(|bytes| bytes.len() > scan(bytes) + 9000).take(300).collect();
    let mut state = 1;
    let zeroed = |bytes: &[u8], at: usize, many: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + many].fill(0);
        bytes
    };
    type Damage<'a> = Box<dyn Fn(&[u8], usize, usize) -> Vec<u8> + 'a>;
    let kinds: [(&str, u32, Damage<'_>); 6] = [
        ("cut, and ended again", 300, Box::new(|bytes, at, _| [&bytes[..at], b"\xff\xd9"].concat())),
        ("512 bytes zeroed", 285, Box::new(|bytes, at, _| zeroed(bytes, at, 512))),
        ("4 KiB zeroed", 295, Box::new(|bytes, at, _| zeroed(bytes, at, 4096))),
        ("4 KiB lost", 295, Box::new(|bytes, at, _| [&bytes[..at], &bytes[at + 4096..]].concat())),
        (
            "spliced",
            295,
            Box::new(|bytes, at, other| {
                let other = large[other];
                [&bytes[..at], &other[scan(other) + (other.len() - scan(other)) / 2..]].concat()
            }),
        ),
        (
            "a bit flipped",
            0,
            Box::new(|bytes, at, other| {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 1 << (other % 8);
                bytes
            }),
        ),
    ];
    assert_eq!(large.len(), 300);
    for (name, least, damage) in kinds {
        let mut found = [0, 0];
        for (number, bytes) in large.iter().enumerate() {
            let start = scan(bytes);
            let at = start + random(&mut state, bytes.len() - start - 4200);
            let damaged = damage(bytes, at, (number + 1 + random(&mut state, 298)) % 300);
            for (check, found) in [Check::Strict, Check::Lenient].into_iter().zip(&mut found) {
                *found += u32::from(passes(check, &damaged).is_err());
            }
        }
        println!("{name}: {} of 300 refused, {} if lenient", found[0], found[1]);
        assert!(found[0] >= least, "{name}: {} of 300", found[0]);
    }
}
