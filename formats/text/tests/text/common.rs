//! Reading documents, for the tests of this crate.

use packhorse_core::{Format, Input, Limits, MemoryInput, Options, Sample, Source, key_column};
use packhorse_text::Text;
use std::ops::Range;
use std::sync::Arc;

/// A document's key and text, or the message of its error.
pub(crate) type Found = Result<(String, String), String>;

/// The source with these options and a limit of `limit` bytes per document.
pub(crate) fn source(options: &[(&str, &str)], limit: u64) -> Box<dyn Source> {
    let options: Options = options.iter().copied().collect();
    Text.source(&options, Limits { blob: limit, ..Limits::default() }).unwrap()
}

/// The documents and errors in the items `range` of `input`, in order.
pub(crate) fn read(source: &dyn Source, input: &dyn Input, range: Range<u64>) -> Vec<Found> {
    let mut found = Vec::new();
    let schema = source.open(Arc::new(input)).unwrap().info().unwrap().schema;
    for rows in source.open(Arc::new(input)).unwrap().rows(range).unwrap() {
        match rows {
            Err(e) => found.push(Err(e.to_string())),
            Ok(rows) => {
                assert_eq!(rows.schema(), schema);
                assert!(rows.num_rows() > 0, "a block without rows");
                let keys = key_column(&rows).unwrap();
                let text = |row| Sample::new(&rows, row).unwrap().bytes(schema.field(1).name()).unwrap().to_vec();
                found.extend(
                    (0..rows.num_rows())
                        .map(|row| Ok((keys.value(row).to_owned(), String::from_utf8(text(row)).unwrap()))),
                );
            }
        }
    }
    found
}

/// The documents and errors of a file of this name that holds `bytes`.
pub(crate) fn whole(options: &[(&str, &str)], name: &str, bytes: &[u8]) -> Vec<Found> {
    read(&*source(options, 1 << 30), &MemoryInput::new(name, bytes.to_vec()), 0..u64::MAX)
}

/// Documents by the offsets of their first bytes.
pub(crate) fn documents(expected: &[(u64, &str)]) -> Vec<Found> {
    expected.iter().map(|(at, text)| Ok((format!("{at:012}"), (*text).to_owned()))).collect()
}
