//! Text that is read whole, in ranges and as a stream: the same must come out.

use arrow_array::cast::AsArray;
use packhorse_core::{Format, Input, Limits, MemoryInput, Options, Result, Source, key_column};
use packhorse_text::Text;
use std::io::Read;
use std::ops::Range;

/// The same bytes, without a known length.
struct Stream(MemoryInput);

impl Input for Stream {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn len(&self) -> Option<u64> {
        None
    }
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        unreachable!("a stream is read in order")
    }
    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        self.0.stream()
    }
}

/// Keys and texts, and the errors between them.
fn read(source: &dyn Source, input: &dyn Input, range: Range<u64>) -> Vec<Result<(String, String), String>> {
    let mut found = Vec::new();
    for rows in source.rows(input, range).expect("an input in memory opens") {
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

/// Whatever way `bytes` is cut and read, the same comes out; what that is.
pub(crate) fn check(
    options: &[(&str, &str)],
    name: &str,
    limit: u64,
    cut: u64,
    bytes: &[u8],
) -> Vec<Result<(String, String), String>> {
    let options: Options = options.iter().copied().collect();
    let limits = Limits { blob: limit, ..Limits::default() };
    let source = Text.source(&options, limits).expect("known options");
    let file = MemoryInput::new(name, bytes.to_vec());
    let whole = read(&*source, &file, 0..u64::MAX);
    let part = 1 + cut % (bytes.len() as u64 + 1);
    let starts = (0..bytes.len() as u64).step_by(part as usize);
    let parts: Vec<_> = starts.flat_map(|from| read(&*source, &file, from..from + part)).collect();
    assert_eq!(whole, parts, "in ranges of {part}");
    assert_eq!(whole, read(&*source, &Stream(file), 0..1), "as a stream");
    let total: usize = whole.iter().flatten().map(|(_, text)| text.len()).sum();
    assert!(total <= bytes.len(), "more came out than went in");
    whole
}
