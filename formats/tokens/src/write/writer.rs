//! Writes a shard of documents.

use super::Columns;
use super::data::Data;
use super::datatrove::Datatrove;
use super::megatron::Megatron;
use super::source_counts::SourceCounts;
use crate::document_table::DocumentTable;
use crate::dtype::Dtype;
use crate::lists::Lists;
use crate::read::{LENGTHS, TOKENS};
use arrow_array::Array as _;
use packhorse_core::{Error, Result, Rows, ShardSummary, ShardWriter, key_column};

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
    pub(super) vocabulary: Option<u64>,
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
        let about = |name: &'static str| move |(error, row)| in_row(rows, row, error, name);
        let tokens = Lists::of(rows.column(self.columns.tokens)).map_err(about(TOKENS))?;
        let lengths = match self.columns.lengths {
            Some(i) => Some((Lists::of_some(rows.column(i)).map_err(about(LENGTHS))?, rows.column(i))),
            None => None,
        };
        if let Some(vocabulary) = self.vocabulary {
            known(&tokens, self.columns.dtype, vocabulary).map_err(about(TOKENS))?;
        }
        let before = self.counts.tokens;
        let keys = key_column(rows).ok();
        for row in 0..rows.num_rows() {
            let (from, to) = tokens.range(row);
            // A document without lengths is one sequence.
            let given = lengths.as_ref().filter(|(_, column)| column.is_valid(row));
            let sequence_lengths = given.map(|(lengths, _)| lengths.bytes(row, 4).as_chunks::<4>().0);
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
            Some(lengths) => {
                agree(lengths, tokens)?;
                lengths.len() as u64
            }
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

/// Checks that the lengths sum to `tokens`.
fn agree(lengths: &[[u8; 4]], tokens: u64) -> Result<()> {
    let mut sum = 0u64;
    for length in lengths {
        let length = i32::from_le_bytes(*length);
        sum += u64::try_from(length).map_err(|_| Error::content(format!("has {length} as a sequence's length")))?;
    }
    match sum == tokens {
        true => Ok(()),
        false => Err(Error::content(format!("has {tokens} tokens, but the lengths of its sequences sum to {sum}"))),
    }
}

/// Checks that each token is an id of the vocabulary.
fn known(tokens: &Lists, dtype: Dtype, vocabulary: u64) -> Result<(), (Error, usize)> {
    if dtype.all_below(vocabulary, &tokens.bytes) {
        return Ok(());
    }
    let values = tokens.bytes.chunks_exact(dtype.width());
    let first = values.enumerate().find(|(_, token)| !dtype.is_below(vocabulary, token));
    let (at, token) = first.unwrap_or_default();
    let id = dtype.value(token).map_or("a fraction".to_owned(), |id| id.to_string());
    let message = format!("has the token {id}, but ids of the vocabulary are below {vocabulary}");
    Err((Error::content(message), tokens.ends.partition_point(|end| *end <= at)))
}

fn in_row(rows: &Rows, row: usize, error: Error, name: &str) -> Error {
    error.subject(format_args!("field {name}")).in_field(name).in_row_of(rows, row)
}
