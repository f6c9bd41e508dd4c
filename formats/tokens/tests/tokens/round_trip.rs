//! Documents round-trip, in full and in any range.

use crate::common::{Document, flat, pair, read, rows, sink, source, write};
use packhorse_core::DataType;
use packhorse_testkit::typed;
use packhorse_tokens::{VerifyOptions, verify};
use std::sync::Arc;

const ELEMENTS: [DataType; 8] = [
    DataType::UInt8,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Float64,
    DataType::Float32,
    DataType::UInt16,
];

#[test]
fn every_type_and_any_range() {
    let lens: Vec<usize> = (0..57).map(|i| (i * 37 % 50) * (i % 3)).collect();
    let documents = flat(&lens, 5, 100);
    for element in &ELEMENTS {
        let wanted = rows(&documents, element, false, false);
        let folder = pair(&documents, element, false);
        for suffix in [".idx", ".bin"] {
            let input = folder.input(suffix);
            let info = source(&[]).open(Arc::new(&input)).unwrap().info().unwrap();
            assert_eq!((info.items, info.counted), (57, true));
            assert_eq!(info.bytes, folder.bytes(".bin").len() as u64);
            assert_eq!(info.schema.fields(), wanted.schema().fields());
            for (from, to) in [(0, 57), (0, 1), (3, 3), (20, 57), (56, 99), (57, 60)] {
                let found = read(&*source(&[]), &input, from as u64..to as u64).unwrap();
                let (from, to) = (from.min(57), to.min(57));
                typed::same(&found, &wanted.slice(from, to - from), &format!("{element} {from}..{to}"));
            }
        }
    }
}

/// Documents of several sequences, of none, and of an empty one.
pub(crate) fn sentences() -> Vec<Document> {
    vec![
        vec![vec![1, 2, 3], vec![4], vec![5, 6]],
        vec![],
        vec![vec![7]],
        vec![vec![], vec![8, 9], vec![]],
        vec![vec![10; 300]],
        vec![vec![]],
    ]
}

#[test]
fn sequences_come_back() {
    let wanted = rows(&sentences(), &DataType::UInt16, false, true);
    let folder = pair(&sentences(), &DataType::UInt16, true);
    for (from, to) in [(0, 6), (1, 3), (3, 4), (5, 9)] {
        let found = read(&*source(&[]), &folder.input(".idx"), from as u64..to as u64).unwrap();
        let to = to.min(6);
        typed::same(&found, &wanted.slice(from, to - from), "sentences");
    }
    let again = write(&*sink(&[("documents", "off")]), &wanted, 2).0;
    assert_eq!(again, folder);
}

#[test]
fn redundant_lengths_are_not_read_back() {
    let documents = flat(&[3, 0, 5], 1, 100);
    assert_eq!(pair(&documents, &DataType::UInt16, true), pair(&documents, &DataType::UInt16, false));
}

#[test]
fn blocks_are_bounded_and_a_large_document_has_its_own() {
    let lens: Vec<usize> = [vec![3; 20_000], vec![700_000, 900_000, 1], vec![0; 9000]].concat();
    let documents = flat(&lens, 9, 60_000);
    let wanted = rows(&documents, &DataType::UInt16, false, false);
    let folder = pair(&documents, &DataType::UInt16, false);
    let found = read(&*source(&[]), &folder.input(".idx"), 0..u64::MAX).unwrap();
    assert!(found.iter().all(|rows| rows.num_rows() <= 8192));
    assert!(found.len() >= 6, "{}", found.len());
    typed::same(&found, &wanted, "large");
}

#[test]
fn the_grouping_of_rows_does_not_change_the_bytes() {
    let lens: Vec<usize> = (0..3000).map(|i| i * 7 % 90).collect();
    let rows = rows(&flat(&lens, 3, 50_000), &DataType::UInt16, true, false);
    let (all, summary) = write(&*sink(&[]), &rows, 3000);
    for each in [1, 7, 1000] {
        assert_eq!(write(&*sink(&[]), &rows, each), (all.clone(), summary.clone()), "{each}");
    }
    let counts: Vec<_> = summary.counts.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let (tokens, filled) = (lens.iter().sum::<usize>() as u64, lens.iter().filter(|n| **n > 0).count() as u64);
    let books = [("documents of books", 3000), ("tokens of books", tokens)];
    let totals = [("documents", 3000), ("sequences", filled), ("tokens", tokens)];
    assert_eq!(counts, [totals[0], books[0], totals[1], totals[2], books[1]]);
    assert_eq!((summary.samples, summary.bytes), (3000, tokens * 2));
}

#[test]
fn a_pair_may_be_empty() {
    let folder = pair(&[], &DataType::Int32, false);
    assert_eq!((folder.bytes(".bin").len(), folder.bytes(".idx").len()), (0, 42));
    assert!(read(&*source(&[]), &folder.input(".idx"), 0..9).unwrap().is_empty());
}

#[test]
fn an_index_larger_than_its_buffer_in_memory() {
    let lens: Vec<usize> = (0..300_000).map(|i| i % 3).collect();
    let rows = rows(&flat(&lens, 3, 50_000), &DataType::UInt16, false, false);
    let folder = write(&*sink(&[("documents", "off")]), &rows, 70_000).0;
    assert_eq!(folder.bytes(".idx").len(), 34 + 200_000 * 12 + 300_001 * 8);
    assert!(verify(&folder.input(".idx"), &VerifyOptions::default()).unwrap().problems.is_empty());
    typed::same(
        &read(&*source(&[]), &folder.input(".idx"), 290_000..u64::MAX).unwrap(),
        &rows.slice(290_000, 10_000),
        "end",
    );
}
