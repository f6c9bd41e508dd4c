//! The offsets of all documents of a file, for plans that count or shuffle documents.

use crate::options::Settings;
use crate::source::TextSource;
use packhorse_core::{Error, Input, Kind, Result, Source, key_column};
use std::sync::Arc;

/// Calls `each` with the offset of every document of `input`, including damaged ones.
pub(crate) fn starts(source: &TextSource, input: &dyn Input, each: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
    if input.len().is_none() {
        return Err(Error::unsupported(
            "is compressed, and its documents can't be counted or shuffled; decompress it, or leave `shuffle` out",
        ));
    }
    // Without ids, keys are offsets.
    let plain = source.with(Settings { id: None, ..source.settings().clone() });
    for rows in plain.open(Arc::new(input))?.rows(0..u64::MAX)? {
        match rows {
            Ok(rows) => key_column(&rows)?.iter().flatten().try_for_each(|key| each(offset(key)?))?,
            Err(e) if matches!(e.kind(), Kind::Content | Kind::Limit) && e.sample().is_some() => {
                each(offset(e.sample().unwrap_or_default())?)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn offset(key: &str) -> Result<u64> {
    key.parse().map_err(|_| Error::bug(format!("a document at {key}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Limits, MemoryInput, Options};

    fn found(name: &str, text: &str, options: &[(&str, &str)]) -> Vec<u64> {
        let options: Options = options.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        let source = TextSource::new(Settings::parse(&options).unwrap(), Limits::default());
        let mut found = Vec::new();
        let input = MemoryInput::new(name, text.as_bytes().to_vec());
        starts(&source, &input, &mut |start| {
            found.push(start);
            Ok(())
        })
        .unwrap();
        found
    }

    #[test]
    fn every_document_counts_once() {
        let lines = "{\"text\":\"a\",\"id\":\"x\"}\n\n{\"text\": 1}\n{\"text\":\"b\"}\nno json";
        assert_eq!(found("a.jsonl", lines, &[("id-field", "id")]), [0, 23, 35, 48]);
        assert_eq!(found("a.txt", "a\n\nb\nc\n\n\nd", &[("document", "paragraph")]), [0, 3, 9]);
        assert_eq!(found("a.txt", "a\n\nb", &[]), [0]);
        assert!(found("a.jsonl", "", &[]).is_empty());
    }
}
