//! Counts documents and tokens by source: the first part of the key, a folder or a file.

use std::collections::BTreeMap;

/// Counts by source.
#[derive(Default)]
pub(super) struct SourceCounts {
    counts: BTreeMap<String, (u64, u64)>,
    /// The source of the last document, and its counts not yet in `counts`.
    open: (String, u64, u64),
}

impl SourceCounts {
    /// Counts a document of `tokens` tokens. A key without a slash has no source.
    pub(super) fn add(&mut self, key: &str, tokens: u64) {
        let Some((source, _)) = key.split_once('/') else { return };
        if self.open.0 != source {
            self.close();
            source.clone_into(&mut self.open.0);
        }
        self.open.1 += 1;
        self.open.2 += tokens;
    }

    fn close(&mut self) {
        let (source, documents, tokens) = std::mem::take(&mut self.open);
        if documents > 0 {
            let counts = self.counts.entry(source).or_default();
            *counts = (counts.0 + documents, counts.1 + tokens);
        }
    }

    /// Names and counts: `documents of web`, `tokens of web`.
    pub(super) fn counts(mut self) -> impl Iterator<Item = (String, u64)> {
        self.close();
        self.counts.into_iter().flat_map(|(source, (documents, tokens))| {
            [(format!("documents of {source}"), documents), (format!("tokens of {source}"), tokens)]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_counted_in_any_order() {
        let mut sources = SourceCounts::default();
        for (key, tokens) in [("web/a/1", 3), ("web/b/2", 4), ("code/1", 5), ("web/a/3", 0), ("alone", 9)] {
            sources.add(key, tokens);
        }
        let found: Vec<(String, u64)> = sources.counts().collect();
        let wanted = [("documents of code", 1), ("tokens of code", 5), ("documents of web", 3), ("tokens of web", 7)];
        assert_eq!(found, wanted.map(|(name, count)| (name.to_owned(), count)));
    }
}
