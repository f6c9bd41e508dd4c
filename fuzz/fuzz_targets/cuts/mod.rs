//! Reads text whole, and in ranges or as a stream; the documents must be the same. A run takes one of the two other ways,
//! since opening readers takes most of its time.

use crate::stream::Stream;
use arrow_array::cast::AsArray;
use packhorse_core::{Format, Limits, MemoryInput, Options, Table, key_column};
use packhorse_text::Text;
use std::ops::Range;
use std::sync::Arc;

/// Keys and texts, and the errors between them.
fn read(table: &dyn Table, range: Range<u64>) -> Vec<Result<(String, String), String>> {
    let mut found = Vec::new();
    for rows in table.rows(range).expect("an input in memory opens") {
        match rows {
            Err(e) => found.push(Err(e.to_string())),
            Ok(rows) => {
                let keys = key_column(&rows).expect("keys").iter().flatten();
                let texts = rows.column(1).as_string_view().iter().flatten();
                found.extend(keys.zip(texts).map(|(key, text)| Ok((key.to_owned(), text.to_owned()))));
            }
        }
    }
    found
}

/// The most ranges of one size; one range before them and one after them make up the rest.
const RANGES: u64 = 6;

/// How a run reads its bytes besides whole.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    /// As a stream.
    Stream,
    /// In ranges: one up to a place (in parts of 255 of the length), some of one size, and the rest.
    Ranges(u8, u8),
}

/// The bounds of the ranges of `len` bytes; `place` is where the small ones start, in parts of 255.
fn bounds(place: u8, size: u8, len: u64) -> Vec<u64> {
    let from = u64::from(place) * len / 255;
    let small = (0..=RANGES).map(|i| from + i * (1 + u64::from(size)));
    let mut bounds: Vec<u64> = small.take_while(|at| *at < len).collect();
    bounds.insert(0, 0);
    bounds.push(len);
    bounds
}

/// Checks that `bytes` give the same documents whole and by `cut`, and returns them.
pub(crate) fn check(
    options: &[(&str, &str)],
    name: &str,
    limit: u64,
    cut: Cut,
    bytes: &[u8],
) -> Vec<Result<(String, String), String>> {
    let options: Options = options.iter().copied().collect();
    let limits = Limits { blob: limit, ..Limits::default() };
    let source = Text.source(&options, limits).expect("known options");
    let file = MemoryInput::new(name, bytes.to_vec());
    let table = source.open(Arc::new(&file)).expect("an input in memory opens");
    let whole = read(&*table, 0..u64::MAX);
    let again = match cut {
        Cut::Stream => {
            let stream = Arc::new(Stream(file.clone()));
            read(&*source.open(stream).expect("a stream opens"), 0..1)
        }
        Cut::Ranges(place, size) => {
            let bounds = bounds(place, size, bytes.len() as u64);
            bounds.windows(2).flat_map(|at| read(&*table, at[0]..at[1])).collect()
        }
    };
    assert_eq!(whole, again, "{cut:?}");
    let total: usize = whole.iter().flatten().map(|(_, text)| text.len()).sum();
    assert!(total <= bytes.len(), "more came out than went in");
    whole
}
