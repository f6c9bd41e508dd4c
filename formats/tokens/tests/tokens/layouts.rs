//! Layouts other than Megatron's.

use crate::common::{Folder, flat, read, rows, sink, source, tokens, write};
use packhorse_core::{DataType, Kind};
use packhorse_testkit::typed;

#[test]
fn datatrove_keeps_documents() {
    let documents = flat(&[3, 0, 5, 1, 0], 1, 50_000);
    for (element, size) in [(DataType::UInt16, 2), (DataType::UInt32, 4)] {
        let wanted = rows(&documents, &element, false, false);
        let folder = write(&*sink(&[("layout", "datatrove"), ("tokenizer", "gpt2")]), &wanted, 2).0;
        assert_eq!(folder.bytes(".ds.metadata"), format!("gpt2|{size}\n9\n9.00 T").as_bytes());
        assert_eq!(folder.bytes(".ds").len(), 9 * size);
        for (from, to) in [(0, 5), (1, 3), (4, 9)] {
            let found = read(&*source(&[]), &folder.input(".ds"), from as u64..to as u64).unwrap();
            typed::same(&found, &wanted.slice(from, to.min(5) - from), "datatrove");
        }
        let bad = folder.with(".ds.index", folder.bytes(".ds.index")[..24].to_vec());
        assert_eq!(read(&*source(&[]), &bad.input(".ds"), 0..9).unwrap_err().kind(), Kind::Content);
        for at in 0..40 {
            let mut index = folder.bytes(".ds.index").clone();
            index[at] ^= 0x41;
            let _ = read(&*source(&[]), &folder.with(".ds.index", index).input(".ds"), 1..9);
        }
    }
}

#[test]
fn llmc_and_bare_give_rows_of_fixed_length() {
    let documents = flat(&[3, 0, 5, 1, 0], 1, 50_000);
    let ids: Vec<i64> = documents.iter().flatten().flatten().copied().collect();
    let cut = |length: usize| ids.chunks(length).map(|c| vec![c.to_vec()]).collect::<Vec<_>>();
    for (element, name) in [(DataType::UInt16, "u16"), (DataType::UInt32, "u32")] {
        let given = rows(&documents, &element, false, false);
        for layout in ["llmc", "bare"] {
            let folder = write(&*sink(&[("layout", layout)]), &given, 2).0;
            let mut options = vec![("layout", layout), ("length", "4")];
            if layout == "bare" {
                options.push(("dtype", name));
            }
            let found = read(&*source(&options), &folder.input(".bin"), 0..9).unwrap();
            typed::same(&found, &rows(&cut(4), &element, false, false), layout);
            let found = read(&*source(&options), &folder.input(".bin"), 1..2).unwrap();
            assert_eq!(tokens(&found).len(), 1);
            for len in 0..folder.bytes(".bin").len() {
                let cut = folder.with(".bin", folder.bytes(".bin")[..len].to_vec());
                let read = read(&*source(&options), &cut.input(".bin"), 0..99);
                assert!(read.is_err() || layout == "bare", "{len}");
            }
        }
    }
}

#[test]
fn llmc_has_a_header() {
    let folder = write(&*sink(&[("layout", "llmc")]), &rows(&flat(&[9], 1, 9), &DataType::UInt16, false, false), 1).0;
    let numbers: Vec<i32> =
        folder.bytes(".bin")[..16].chunks(4).map(|n| i32::from_le_bytes(n.try_into().unwrap())).collect();
    assert_eq!(numbers, [20_240_520, 1, 9, 0]);
    assert_eq!(folder.bytes(".bin").len(), 1024 + 18);
    let bare = read(&*source(&[("layout", "bare")]), &folder.input(".bin"), 0..1).unwrap_err();
    assert!(bare.kind() == Kind::Config && bare.to_string().contains("layout=llmc"), "{bare}");
    let other = Folder([("part.bin".to_owned(), vec![7; 2000])].into());
    let error = read(&*source(&[("layout", "llmc")]), &other.input(".bin"), 0..1).unwrap_err();
    assert_eq!(error.kind(), Kind::Content);
}
