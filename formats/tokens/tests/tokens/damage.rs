//! Files cut or with a flipped bit anywhere: an error or rows, never a panic, and never silence if the damage is
//! detectable.

use crate::common::{flat, pair, read, source};
use crate::round_trip::sentences;
use packhorse_core::{DataType, Input, Kind};
use packhorse_tokens::{MergePlan, VerifyOptions, repair, verify};

/// Verifies, repairs and merges the pair.
fn everything(input: &dyn Input) {
    let look = VerifyOptions { vocabulary: Some(100), eod: Some(3) };
    let verdict = verify(input, &look).unwrap();
    let mut out = Vec::new();
    if let Err(error) = repair(input, &look, &mut out) {
        assert_eq!(error.kind(), Kind::Content, "{error}");
    }
    if let Ok(plan) = MergePlan::new(&[input, input]) {
        let mut out = Vec::new();
        plan.write_idx(&[input, input], &mut out).unwrap();
        assert_eq!(out.len() as u64, plan.idx_len());
    } else {
        assert!(!verdict.problems.is_empty());
    }
}

#[test]
fn a_file_cut_anywhere_is_detected() {
    for (documents, lengths) in [(flat(&[3, 0, 5, 1], 1, 100), false), (sentences(), true)] {
        let folder = pair(&documents, &DataType::UInt16, lengths);
        for suffix in [".idx", ".bin"] {
            let whole = folder.bytes(suffix).clone();
            for len in (0..whole.len()).chain([whole.len() + 1, whole.len() + 8]) {
                let mut other = whole.clone();
                other.resize(len, 0);
                let cut = folder.with(suffix, other);
                let error = read(&*source(&[]), &cut.input(".idx"), 0..99).unwrap_err();
                assert_eq!(error.kind(), Kind::Content, "{suffix} at {len}: {error}");
                assert!(!verify(&cut.input(".idx"), &VerifyOptions::default()).unwrap().problems.is_empty());
                everything(&cut.input(".bin"));
            }
        }
    }
}

#[test]
fn a_flipped_bit_of_the_index_is_detected() {
    for (documents, lengths) in [(flat(&[3, 0, 5, 1], 1, 100), false), (sentences(), true)] {
        let folder = pair(&documents, &DataType::UInt16, lengths);
        let whole = folder.bytes(".idx").clone();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut other = whole.clone();
                other[at] ^= 1 << bit;
                let changed = folder.with(".idx", other);
                let input = changed.input(".idx");
                // Another type of the same size and other bounds of documents are not detectable.
                let moved = at == 17 || at >= whole.len() - 8 * (documents.len() + 1);
                let found = read(&*source(&[]), &input, 0..99);
                assert!(found.is_err() || moved, "byte {at} bit {bit}");
                let verdict = verify(&input, &VerifyOptions::default()).unwrap();
                assert!(!verdict.problems.is_empty() || moved, "byte {at} bit {bit}");
                everything(&input);
            }
        }
    }
}

#[test]
fn a_missing_half_is_named() {
    let folder = pair(&flat(&[3], 1, 100), &DataType::UInt16, false);
    for (gone, left) in [(".idx", ".bin"), (".bin", ".idx")] {
        let mut half = folder.clone();
        half.0.remove(&format!("part{gone}"));
        let error = read(&*source(&[]), &half.input(left), 0..1).unwrap_err();
        let wanted = format!("some/part{left}: has no part{gone} beside it; fetch both files of the pair");
        let told = error.to_string();
        assert!(told.starts_with(&wanted) && told.contains("an index of something else") == (left == ".idx"), "{told}");
    }
}
