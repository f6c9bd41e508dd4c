//! Writes a shard of documents.

use super::Columns;
use super::check::in_row;
use super::data::Data;
use super::datatrove::Datatrove;
use super::megatron::Megatron;
use super::source_counts::SourceCounts;
use crate::document_table::DocumentTable;
use crate::read::TOKENS;
use packhorse_core::{Result, Rows, ShardSummary, ShardWriter, key_column};

pub(super) enum IndexWriter {
    Megatron(Megatron),
    Datatrove(Datatrove),
    None,
}

pub(super) struct TokenWriter {
    pub(super) columns: Columns,
    pub(super) data: Data,
    pub(super) index: IndexWriter,
    pub(super) companion: Option<DocumentTable>,
    pub(super) counts: ShardCounts,
}

/// The totals of a shard.
pub(super) struct ShardCounts {
    pub(super) documents: u64,
    pub(super) sequences: u64,
    pub(super) tokens: u64,
    pub(super) sources: SourceCounts,
}

impl ShardWriter for TokenWriter {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        let (tokens, lengths) = self.columns.lists(rows)?;
        let before = self.counts.tokens;
        let keys = key_column(rows).ok();
        for row in 0..rows.num_rows() {
            let (from, to) = tokens.range(row);
            let sequence_lengths = lengths.as_ref().and_then(|lengths| lengths.of(row));
            self.document((to - from) as u64, sequence_lengths).map_err(|e| in_row(rows, row, e, TOKENS))?;
            keys.iter().for_each(|keys| self.counts.sources.add(keys.value(row), (to - from) as u64));
        }
        if let Some(companion) = &mut self.companion {
            companion.push(keys, &tokens, self.columns.dtype.width())?;
        }
        self.data.write(&tokens.bytes)?;
        debug_assert_eq!(self.counts.tokens - before, tokens.ends.last().map_or(0, |end| *end as u64));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ShardSummary> {
        let ShardCounts { documents, sequences, tokens, sources } = self.counts;
        let bytes = self.data.finish(tokens)?;
        match self.index {
            IndexWriter::Megatron(index) => index.finish()?,
            IndexWriter::Datatrove(index) => index.finish()?,
            IndexWriter::None => {}
        }
        if let Some(companion) = self.companion {
            companion.finish()?;
        }
        let totals = [("documents", documents), ("sequences", sequences), ("tokens", tokens)];
        let totals = totals.into_iter().map(|(name, count)| (name.to_owned(), count));
        Ok(ShardSummary {
            samples: documents,
            bytes,
            counts: totals.chain(sources.counts()).collect(),
            ..ShardSummary::default()
        })
    }
}

impl TokenWriter {
    /// Adds a document of `tokens` tokens to the index, with the lengths of its sequences if given.
    fn document(&mut self, tokens: u64, sequence_lengths: Option<&[[u8; 4]]>) -> Result<()> {
        let sequences = match sequence_lengths {
            Some(lengths) => lengths.len() as u64,
            None => u64::from(tokens > 0),
        };
        match &mut self.index {
            IndexWriter::Megatron(index) => index.document(tokens, sequence_lengths)?,
            IndexWriter::Datatrove(index) => index.document(tokens)?,
            IndexWriter::None => {}
        }
        self.counts.documents += 1;
        self.counts.sequences += sequences;
        self.counts.tokens += tokens;
        Ok(())
    }
}
