//! The check of rows before they are written, so that one that can't be costs itself alone.

use super::Columns;
use crate::dtype::Dtype;
use crate::lists::Lists;
use crate::read::{LENGTHS, TOKENS};
use arrow_array::{Array as _, ArrayRef};
use packhorse_core::{Error, Result, Rows};

/// The lengths of the sequences of documents.
pub(super) struct SequenceLengths<'a> {
    lists: Lists,
    column: &'a ArrayRef,
}

impl SequenceLengths<'_> {
    /// Those of document `row`; `None` where it has none and is one sequence.
    pub(super) fn of(&self, row: usize) -> Option<&[[u8; 4]]> {
        self.column.is_valid(row).then(|| self.lists.bytes(row, 4).as_chunks::<4>().0)
    }
}

impl Columns {
    /// The tokens of `rows`, and the lengths of their sequences. A null is a `Content` error that names the sample.
    pub(super) fn lists<'a>(&self, rows: &'a Rows) -> Result<(Lists, Option<SequenceLengths<'a>>)> {
        let about = |name: &'static str| move |(error, row)| in_row(rows, row, error, name);
        let tokens = Lists::of(rows.column(self.tokens)).map_err(about(TOKENS))?;
        let lengths = self.lengths.map(|i| rows.column(i)).map(|column| {
            Lists::of_some(column).map(|lists| SequenceLengths { lists, column }).map_err(about(LENGTHS))
        });
        Ok((tokens, lengths.transpose()?))
    }
}

/// Refuses rows with nulls, with tokens that are not below `vocabulary`, and with lengths that do not sum to the tokens.
pub(super) fn rows(rows: &Rows, columns: &Columns, vocabulary: Option<u64>) -> Result<()> {
    let (tokens, lengths) = columns.lists(rows)?;
    if let Some(vocabulary) = vocabulary {
        known(&tokens, columns.dtype, vocabulary).map_err(|(error, row)| in_row(rows, row, error, TOKENS))?;
    }
    for row in 0..rows.num_rows() {
        let (from, to) = tokens.range(row);
        if let Some(lengths) = lengths.as_ref().and_then(|lengths| lengths.of(row)) {
            agree(lengths, (to - from) as u64).map_err(|error| in_row(rows, row, error, TOKENS))?;
        }
    }
    Ok(())
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

/// The error of a field of document `row`.
pub(super) fn in_row(rows: &Rows, row: usize, error: Error, name: &str) -> Error {
    error.subject(format_args!("field {name}")).in_field(name).in_row_of(rows, row)
}
