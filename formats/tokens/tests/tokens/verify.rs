//! Findings and repairs of damaged pairs.

use crate::common::{Document, Folder, flat, pair};
use crate::round_trip::sentences;
use packhorse_core::{Consumer, DataType, Findings, Format, Options};
use packhorse_tokens::{RepairKind, Tokens, VerifyOptions, repair, verify};

/// The pair of a writer that appends `eod` without counting it.
fn uncounted(documents: &[Document], eod: i64) -> Folder {
    let good = pair(documents, &DataType::UInt16, true);
    let mut bin = Vec::new();
    for document in documents.iter().filter(|document| !document.is_empty()) {
        for id in document.concat().into_iter().chain([eod]) {
            bin.extend((id as u16).to_le_bytes());
        }
    }
    good.with(".bin", bin)
}

/// The documents with `eod` counted.
fn counted(documents: &[Document], eod: i64) -> Vec<Document> {
    let mut documents = documents.to_vec();
    documents.iter_mut().filter_map(|document| document.last_mut()).for_each(|last| last.push(eod));
    documents
}

#[test]
fn an_eod_that_is_not_counted_is_found_and_counted() {
    for documents in [flat(&[3, 0, 5, 1, 0, 9], 1, 100), sentences()] {
        let bad = uncounted(&documents, 50_256);
        let good = pair(&counted(&documents, 50_256), &DataType::UInt16, true);
        assert_eq!(bad.bytes(".bin"), good.bytes(".bin"));
        for look in [VerifyOptions::default(), VerifyOptions { eod: Some(50_256), vocabulary: Some(50_257) }] {
            let filled = documents.iter().filter(|document| !document.is_empty()).count() as u64;
            let verdict = verify(&bad.input(".idx"), &look).unwrap();
            assert_eq!(verdict.cure, Some(RepairKind::CountEod { eod: 50_256, documents: filled }));
            assert!(verdict.problems[0].to_string().contains("Megatron-LM#431"), "{}", verdict.problems[0]);
            let mut idx = Vec::new();
            let repaired = repair(&bad.input(".idx"), &look, &mut idx).unwrap().unwrap();
            assert_eq!(repaired.cure, RepairKind::CountEod { eod: 50_256, documents: filled });
            assert_eq!(&idx, good.bytes(".idx"));
            let now = verify(&bad.with(".idx", idx).input(".bin"), &look).unwrap();
            assert!(now.problems.is_empty(), "{:?}", now.problems);
        }
    }
}

#[test]
fn extra_bytes_that_are_not_an_eod_are_not_repaired() {
    let documents = flat(&[3, 0, 5, 1, 9], 1, 100);
    let bad = uncounted(&documents, 50_256);
    let mut bin = bad.bytes(".bin").clone();
    let last = bin.len() - 1;
    bin[last] ^= 1;
    let bad = bad.with(".bin", bin);
    let verdict = verify(&bad.input(".idx"), &VerifyOptions::default()).unwrap();
    assert_eq!((verdict.cure, verdict.problems.len()), (None, 1));
    let error = repair(&bad.input(".idx"), &VerifyOptions::default(), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("can't be repaired"), "{error}");
    // A single document proves nothing unless the EOD is given.
    let one = uncounted(&flat(&[3], 1, 100), 9);
    assert_eq!(verify(&one.input(".idx"), &VerifyOptions::default()).unwrap().cure, None);
    let look = VerifyOptions { eod: Some(9), ..VerifyOptions::default() };
    assert!(verify(&one.input(".idx"), &look).unwrap().cure.is_some());
}

#[test]
fn wrong_offsets_are_recomputed() {
    let documents = flat(&[3, 0, 5, 1], 1, 100);
    let good = pair(&documents, &DataType::UInt16, false);
    let mut idx = good.bytes(".idx").clone();
    idx[34 + 3 * 4 + 8] = 77;
    let bad = good.with(".idx", idx);
    let verdict = verify(&bad.input(".idx"), &VerifyOptions::default()).unwrap();
    assert_eq!(verdict.cure, Some(RepairKind::Pointers));
    assert_eq!(verdict.problems[0].to_string(), "has offset 77 for sequence 1, but the lengths before it sum to 6");
    let mut idx = Vec::new();
    repair(&bad.input(".idx"), &VerifyOptions::default(), &mut idx).unwrap().unwrap();
    assert_eq!(&idx, good.bytes(".idx"));
    let mut nothing = Vec::new();
    assert!(
        repair(&good.input(".idx"), &VerifyOptions::default(), &mut nothing).unwrap().is_none() && nothing.is_empty()
    );
}

#[test]
fn tokens_and_ends_are_checked_on_request() {
    let documents = counted(&flat(&[3, 0, 5, 1], 1, 100), 100);
    let folder = pair(&documents, &DataType::Int32, false);
    let look = |vocabulary, eod| {
        let verdict = verify(&folder.input(".idx"), &VerifyOptions { vocabulary, eod }).unwrap();
        (verdict.problems.len(), verdict.problems.first().map_or(0, |problem| problem.count))
    };
    assert_eq!(look(Some(101), Some(100)), (0, 0));
    assert_eq!(look(Some(100), None), (1, 3));
    assert_eq!(look(None, Some(99)), (1, 3));
}

#[test]
fn lost_documents_are_reported() {
    let good = pair(&flat(&[3, 4, 5], 1, 100), &DataType::UInt16, false);
    let mut idx = good.bytes(".idx").clone();
    let last = idx.len() - 8;
    idx[last] = 2;
    let verdict = verify(&good.with(".idx", idx).input(".idx"), &VerifyOptions::default()).unwrap();
    assert!(verdict.problems[0].what.contains("documents were lost"), "{:?}", verdict.problems);
    assert_eq!(verdict.cure, None);
}

#[test]
fn modes_of_zero_are_accepted() {
    let good = pair(&flat(&[3, 4, 5], 1, 100), &DataType::UInt16, false);
    let mut idx = good.bytes(".idx").clone();
    idx.extend([0, 0, 0]);
    let moded = good.with(".idx", idx.clone());
    assert!(verify(&moded.input(".idx"), &VerifyOptions::default()).unwrap().problems.is_empty());
    assert!(crate::common::read(&*crate::common::source(&[]), &moded.input(".idx"), 0..9).is_ok());
    idx.pop();
    idx.push(1);
    let moded = good.with(".idx", idx);
    let error = crate::common::read(&*crate::common::source(&[]), &moded.input(".idx"), 0..9).unwrap_err();
    assert!(error.kind() == packhorse_core::Kind::Unsupported && error.to_string().contains("multimodal"), "{error}");
}

#[test]
fn check_finds_the_same() {
    let found = |folder: &Folder, consumers: &[Consumer]| {
        let mut findings = Findings::new("part.idx");
        Tokens::default().check(&folder.input(".idx"), &Options::new(), consumers, &mut findings, &mut |_| {}).unwrap();
        findings.iter().map(|(finding, _)| (finding.consumers.len(), finding.problem.clone())).collect::<Vec<_>>()
    };
    let documents = flat(&[3, 0, 5, 1], 1, 100);
    assert!(found(&pair(&documents, &DataType::UInt16, false), &[]).is_empty());
    let readers_of_tars = found(&pair(&documents, &DataType::UInt16, false), &Consumer::ALL);
    assert!(matches!(&readers_of_tars[..], [(5, problem)] if problem.contains("takes tars")), "{readers_of_tars:?}");
    let bad = found(&uncounted(&documents, 7), &[]);
    assert!(matches!(&bad[..], [(0, problem)] if problem.contains("#431")), "{bad:?}");
}
