//! Which parts of a file are documents, their errors, and that a partition of a file into ranges does not change them.

use crate::common::{Found, documents, read, source, whole};
use packhorse_core::{Format, Kind, Limits, MemoryInput, Options};
use packhorse_testkit::memory::StreamInput;
use packhorse_text::Text;
use proptest::prelude::*;
use std::sync::Arc;

const KINDS: [(&str, &[(&str, &str)]); 5] = [
    ("a.jsonl", &[]),
    ("ids.jsonl", &[("id-field", "id")]),
    ("a.txt", &[("document", "line")]),
    ("a.txt", &[("document", "paragraph")]),
    ("a.txt", &[]),
];

#[test]
fn json_lines() {
    let bytes = b"{\"text\":\"one\"}\r\n\n \t\r\n{\"x\":1,\"text\":\"tw\\u00f6\\n\"}\n{\"text\":\"\"}";
    assert_eq!(whole(&[], "a.jsonl", bytes), documents(&[(0, "one"), (21, "twö\n"), (49, "")]));
    let c4 = b"{\"url\":\"u\",\"meta\":{\"text\":\"three\"}}\n";
    assert_eq!(whole(&[("text-field", "meta.text")], "c4.json", c4), documents(&[(0, "three")]));
    let ids = whole(&[("id-field", "url"), ("text-field", "meta.text"), ("json", "yes")], "c4.txt", c4);
    assert_eq!(ids, [Ok(("u".to_owned(), "three".to_owned()))]);
}

#[test]
fn lines() {
    let line = [("document", "line")];
    let bytes = b"one\r\n\r\n\n two \nth\rree\n\r";
    assert_eq!(whole(&line, "a.txt", bytes), documents(&[(0, "one"), (8, " two "), (14, "th\rree")]));
    assert_eq!(whole(&line, "a.txt", b"last\r"), documents(&[(0, "last")]));
    assert_eq!(whole(&line, "a.txt", b""), []);
}

#[test]
fn paragraphs() {
    let paragraph = [("document", "paragraph")];
    let bytes = b"\n\na\r\nb\r\n \t\r\n\n\x0cc\n d \n\n\n";
    assert_eq!(whole(&paragraph, "a.txt", bytes), documents(&[(2, "a\r\nb"), (13, "\x0cc\n d ")]));
    assert_eq!(whole(&paragraph, "a.txt", b"\n \n\t"), []);
    assert_eq!(whole(&paragraph, "a.txt", b"a\nb\r"), documents(&[(0, "a\nb")]));
}

#[test]
fn files() {
    assert_eq!(whole(&[], "a.txt", b"a\r\n\nb\n"), documents(&[(0, "a\r\n\nb\n")]));
    assert_eq!(whole(&[], "a.txt", b""), []);
    let source = source(&[], 100);
    let input = MemoryInput::new("a.txt", &b"abc"[..]);
    assert_eq!(read(&*source, &input, 1..3), []);
    assert_eq!(read(&*source, &input, 0..1), documents(&[(0, "abc")]));
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_only() {
    for (name, options, inside) in [
        ("a.jsonl", &[][..], "{\"text\":\"a\"}"),
        ("a.txt", &[("document", "line")], "a"),
        ("a.txt", &[("document", "paragraph")], "a"),
        ("a.txt", &[], "a"),
    ] {
        let marked = format!("\u{feff}{inside}");
        assert_eq!(whole(options, name, marked.as_bytes()), documents(&[(0, "a")]), "{name} {options:?}");
    }
    let later = "{\"text\":\"a\"}\n\u{feff}{\"text\":\"b\"}\n";
    assert!(whole(&[], "a.jsonl", later.as_bytes())[1].is_err());
    assert_eq!(whole(&[], "a.txt", b"\xef\xbb\xbf"), documents(&[(0, "")]));
    assert_eq!(whole(&[], "a.jsonl", b"\xef\xbb\xbf"), []);
    let blank = "\u{feff} \nb\n";
    assert_eq!(whole(&[("document", "paragraph")], "a.txt", blank.as_bytes()), documents(&[(5, "b")]));
}

#[test]
fn an_error_concerns_one_document_and_names_its_place() {
    let bytes = b"{\"text\":\"a\"}\n\n{\"text\":\n{\"text\":null}\n{\"text\":\"\xff\"}\n{\"text\":\"b\"}\n{\"y\":1}";
    let found = whole(&[], "a.jsonl", bytes);
    let says = [
        "a.jsonl: sample 000000000014: line 3, byte 22: is not valid JSON: a value is missing; repair or remove the line",
        "a.jsonl: sample 000000000023: line 4, byte 23: the field \"text\" is null",
        "a.jsonl: sample 000000000037: line 5, byte 46: is not UTF-8",
        "a.jsonl: sample 000000000063: line 7, byte 63: the field \"text\" is missing; name another by `text-field`, or `from=jsonl` makes a field of each",
    ];
    assert_eq!(found.len(), 6);
    assert_eq!((&found[0], &found[4]), (&documents(&[(0, "a")])[0], &documents(&[(50, "b")])[0]));
    for (found, says) in [1, 2, 3, 5].map(|i| found[i].as_ref().unwrap_err()).iter().zip(says) {
        assert!(found.starts_with(says), "{found}\n{says}");
    }
    let paragraphs = whole(&[("document", "paragraph")], "a.txt", b"\na\nb\xff\n\nc\n\n\xff\n\nd");
    assert!(paragraphs[0].as_ref().unwrap_err().contains("000000000001: line 3, byte 4: is not UTF-8"));
    assert!(paragraphs[2].as_ref().unwrap_err().contains("000000000010: line 7, byte 10: "));
    assert_eq!(paragraphs[3], documents(&[(13, "d")])[0]);
    let file = whole(&[], "a.txt", b"\xef\xbb\xbfa\nb\xffc\n");
    assert!(file[0].as_ref().unwrap_err().contains("000000000000: line 2, byte 6: "), "{file:?}");
}

#[test]
fn documents_over_the_limit_are_errors() {
    let long = "x".repeat(3 << 20);
    for (name, options, bytes, at) in [
        ("a.jsonl", &[][..], format!("{{\"text\":\"a\"}}\n{{\"text\":\"{long}\"}}\n{{\"text\":\"b\"}}"), 13),
        ("a.txt", &[("document", "line")], format!("a\n{long}\nb"), 2),
        ("a.txt", &[("document", "paragraph")], format!("a\n\n{long}\nmore\n\nb"), 3),
        ("a.txt", &[("document", "paragraph")], format!("a\n\n{}\n\nb", "line\n".repeat(1 << 18)), 3),
    ] {
        let source = source(options, 1 << 20);
        for input in inputs(name, bytes.as_bytes()) {
            let found = read(&*source, &*input, 0..u64::MAX);
            assert_eq!(found.len(), 3, "{name} {options:?}");
            assert!(found[0].is_ok() && found[2].is_ok());
            let error = found[1].as_ref().unwrap_err();
            assert!(error.contains(&format!("sample {at:012}")) && error.contains("raise it"), "{error}");
        }
    }
    let source = source(&[], 1 << 20);
    for input in inputs("a.txt", long.as_bytes()) {
        let error = source.open(Arc::new(&*input)).unwrap().rows(0..u64::MAX).unwrap().next().unwrap().unwrap_err();
        assert_eq!(error.kind(), Kind::Limit);
    }
    let exactly = vec![b'x'; 1 << 20];
    assert!(read(&*source, &MemoryInput::new("a.txt", exactly), 0..9)[0].is_ok());
}

#[test]
fn megabytes_of_white_space_are_not_a_document() {
    for bytes in [vec![b'\n'; 3 << 20], vec![b' '; 3 << 20], [&b"\xef\xbb\xbf"[..], &[b' '; 3 << 20]].concat()] {
        let source = source(&[], 1 << 20);
        for input in inputs("a.jsonl", &bytes) {
            assert_eq!(read(&*source, &*input, 0..u64::MAX), []);
        }
    }
}

#[test]
fn blocks_are_bounded_and_a_large_document_has_its_own() {
    let line = |len: usize| format!("{{\"text\":\"{}\"}}\n", "y".repeat(len));
    let bytes = [line(100_000).repeat(50), line(30 << 20), line(10).repeat(40_000)].concat();
    let input = MemoryInput::new("a.jsonl", bytes);
    let source = Text.source(&Options::new(), Limits::default()).unwrap();
    let blocks: Vec<_> =
        source.open(Arc::new(&input)).unwrap().rows(0..u64::MAX).unwrap().map(|rows| rows.unwrap()).collect();
    let size = |rows: &packhorse_core::Rows| rows.column(1).get_buffer_memory_size();
    assert!(blocks.iter().all(|rows| rows.num_rows() == 1 || size(rows) <= 3 << 20));
    assert!(blocks.iter().all(|rows| rows.num_rows() <= 16 << 10));
    assert_eq!(blocks.iter().filter(|rows| size(rows) > 10 << 20).map(|rows| rows.num_rows()).sum::<usize>(), 1);
    assert_eq!(blocks.iter().map(|rows| rows.num_rows()).sum::<usize>(), 40_051);
}

#[test]
fn long_ids_count_towards_the_size_of_a_block() {
    let line = |i: usize| format!("{{\"id\":\"{i}{}\",\"text\":\"\"}}\n", "i".repeat(300_000));
    let input = MemoryInput::new("a.jsonl", (0..50).map(line).collect::<String>().into_bytes());
    let source = source(&[("id-field", "id")], 1 << 30);
    let blocks: Vec<_> =
        source.open(Arc::new(&input)).unwrap().rows(0..u64::MAX).unwrap().map(|rows| rows.unwrap()).collect();
    assert!(blocks.iter().all(|rows| rows.column(0).get_buffer_memory_size() < 6 << 20));
    assert_eq!(blocks.iter().map(|rows| rows.num_rows()).sum::<usize>(), 50);
}

#[test]
fn unknown_options_are_refused() {
    for name in ["no-such-option", "text_field"] {
        let options: Options = [(name, "1")].into_iter().collect();
        let error = Text.source(&options, Limits::default()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
    }
}

#[test]
fn the_probe_counts_bytes() {
    let source = source(&[], 100);
    let info = |input: &dyn packhorse_core::Input| source.open(Arc::new(input)).unwrap().info().unwrap();
    let file = info(&MemoryInput::new("a.jsonl", vec![b'x'; 77]));
    assert_eq!((file.items, file.bytes, file.counted), (77, 77, false));
    assert_eq!(info(&MemoryInput::new("a.jsonl", vec![])).items, 0);
    let stream = StreamInput::new("a.jsonl", vec![b'x'; 77]);
    assert_eq!(info(&stream).items, 1);
    assert_eq!(read(&*source, &stream, 1..9), []);
}

/// The same bytes by position and as a stream.
fn inputs(name: &str, bytes: &[u8]) -> [Box<dyn packhorse_core::Input>; 2] {
    [Box::new(MemoryInput::new(name, bytes.to_vec())), Box::new(StreamInput::new(name, bytes.to_vec()))]
}

/// The documents of `bytes`, cut at `marks`, one range after the other.
fn cut(source: &dyn packhorse_core::Source, name: &str, bytes: &[u8], marks: &[usize]) -> Vec<Found> {
    let input = MemoryInput::new(name, bytes.to_vec());
    let ends = marks.iter().copied().chain([bytes.len()]);
    let mut from = 0;
    let mut found = Vec::new();
    for end in ends {
        found.extend(read(source, &input, from..end as u64));
        from = end as u64;
    }
    found
}

/// Checks that every cut into two or three ranges, and one range for each byte, gives the documents of the whole.
fn all_cuts(bytes: &[u8]) {
    for (name, options) in KINDS {
        for limit in [1 << 20, 9] {
            let source = source(options, limit);
            let expected = cut(&*source, name, bytes, &[]);
            for mark in 0..=bytes.len() {
                let next = (mark + 3).min(bytes.len());
                for marks in [&[mark][..], &[mark, next]] {
                    let found = cut(&*source, name, bytes, marks);
                    assert_eq!(
                        found,
                        expected,
                        "{options:?}, limit {limit}, cut at {marks:?} of {:?}",
                        bytes.escape_ascii().to_string()
                    );
                }
            }
            let each: Vec<usize> = (0..bytes.len()).collect();
            assert_eq!(cut(&*source, name, bytes, &each), expected, "{options:?}: a range a byte");
            let stream = StreamInput::new(name, bytes.to_vec());
            assert_eq!(read(&*source, &stream, 0..1), expected, "{options:?}, limit {limit}: as a stream");
        }
    }
}

#[test]
fn any_cut_gives_every_document_once_and_in_order() {
    for text in [
        "{\"text\":\"ä\"}\r\n\r\n{\"text\":\"日本\\u00e4\",\"id\":1}\n{\"text\":1}\n\n{\"text\":\"x\",\"id\":\"a\"}",
        "\u{feff}{\"text\":\"a\"}\n\u{feff}\n",
        "\u{feff}\n \nab\r\ncd\r\n\r\nef\n \t \n\x0c\ngh",
        "\u{feff} \t\r\nx\n",
        "\n\n\na\n\n\nb\n\n",
        "          \nlong ago, in a line over the limit\nshort\n\n            \n\nb\nlong again, and again\n\nc",
        "\r\r\n\r",
        "\u{feff}",
        "",
    ] {
        all_cuts(text.as_bytes());
    }
    all_cuts(b"\xef\xbb\n\xff\n\xe6\x97\n\n{\"text\":\"\xe6\x97\"}\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_cut_of_anything(pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..14)) {
        all_cuts(&pieces.concat());
    }
}

const PIECES: [&[u8]; 16] = [
    b"\n",
    b"\n",
    b"\r\n",
    b"\n\n",
    b" ",
    b"\t\r",
    b"\xef\xbb\xbf",
    b"\xe6\x97\xa5",
    b"\xff",
    b"a",
    b"words and words",
    b"{\"text\":\"a\"}\n",
    b"{\"text\":\"b\\n\",\"id\":7}\n",
    b"{\"text\":\"",
    b"\"}",
    b"\x0c",
];

#[test]
fn documents_that_span_many_ranges_and_reads() {
    let mut bytes = Vec::new();
    for (i, len) in [10, 5 << 20, 3, 1 << 20, (1 << 20) + (64 << 10), 100].iter().enumerate() {
        let text = "äx\\n".repeat(len / 5 + 1);
        bytes.extend(format!("{{\"id\":{i},\"text\":\"{text}\"}}\n\n").into_bytes());
    }
    for (name, options) in KINDS {
        let source = source(options, 1 << 30);
        let expected = cut(&*source, name, &bytes, &[]);
        for part in [100_000, 1 << 20, 3_000_001] {
            let marks: Vec<usize> = (0..bytes.len()).step_by(part).collect();
            assert!(cut(&*source, name, &bytes, &marks) == expected, "{options:?}, parts of {part}");
        }
    }
}
