//! Reads a table of arbitrary bytes whole and in part.

use packhorse_core::{Format, Limits, MemoryInput, Options, Rows};
use std::sync::Arc;

/// The rows of the file `name`; `None` if it is not a table. The first two bytes give a range, which must have as many rows as it asks
/// for; the others are those of the file.
pub(crate) fn check(format: &dyn Format, options: &[(&str, &str)], name: &str, bytes: &[u8]) -> Option<u64> {
    let [from, to, bytes @ ..] = bytes else { return None };
    let limits = Limits { blob: 1 << 20, ..Limits::default() };
    let source = format.source(&options.iter().copied().collect::<Options>(), limits).expect("a source");
    let input = MemoryInput::new(name, bytes.to_vec());
    let table = source.open(Arc::new(&input)).ok()?;
    let info = table.info().ok()?;
    let read = |items| table.rows(items).expect("rows").collect::<Result<Vec<Rows>, _>>().expect("a block");
    let count = |blocks: Vec<Rows>| blocks.iter().map(|rows| rows.num_rows() as u64).sum::<u64>();
    assert_eq!(count(read(0..info.items)), info.items);
    let (from, to) = (u64::from(*from).min(info.items), u64::from(*to).min(info.items));
    assert_eq!(count(read(from..to)), to.saturating_sub(from));
    Some(info.items)
}
