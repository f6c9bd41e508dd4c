//! Documents as samples.

mod blocks;
mod datatrove;
mod megatron;
pub(crate) mod plain;

use crate::dtype::Dtype;
use crate::options::{Layout, Reading};
use crate::shape::Seen;
use blocks::BlocksOf;
use packhorse_core::{Blocks, DataType, FieldType, Input, Limits, Probe, Result, Schema, SchemaRef, Source};
use std::ops::Range;
use std::sync::Arc;

/// The column of a document's tokens.
pub(crate) const TOKENS: &str = "tokens";
/// The column of its sequences' lengths.
pub(crate) const LENGTHS: &str = "lengths";

pub(crate) struct TokenSource {
    pub(crate) options: Reading,
    pub(crate) limits: Limits,
    pub(crate) seen: Seen,
}

impl Source for TokenSource {
    fn probe(&self, input: &dyn Input) -> Result<Option<Probe>> {
        let table = self.table(input)?;
        Ok(Some(Probe {
            schema: schema(table.dtype(), table.lengths()),
            items: table.documents(),
            bytes: table.tokens().saturating_mul(table.dtype().size()),
            counted: true,
            omitted: Vec::new(),
        }))
    }

    fn rows<'a>(&'a self, input: &'a dyn Input, items: Range<u64>) -> Result<Blocks<'a>> {
        Ok(Box::new(BlocksOf::new(self.table(input)?, items, self.limits, input.name())))
    }
}

impl TokenSource {
    fn table<'a>(&self, input: &'a dyn Input) -> Result<Box<dyn Table + 'a>> {
        let open = || -> Result<Box<dyn Table + 'a>> {
            Ok(match self.options.layout.unwrap_or_else(|| Layout::of_file(input.name())) {
                Layout::Megatron => Box::new(megatron::Megatron::open(input, &self.seen)?),
                Layout::Datatrove => datatrove::open(input, self.options.length)?,
                Layout::Llmc => Box::new(plain::Plain::llmc(input, self.options.length)?),
                Layout::Bare => Box::new(plain::Plain::bare(input, self.options.dtype, self.options.length)?),
            })
        };
        open().map_err(|e| e.in_input(input.name()))
    }
}

/// The columns of documents.
pub(crate) fn schema(dtype: Dtype, lengths: bool) -> SchemaRef {
    let list = |element: DataType, name| FieldType::List { element, depth: 1 }.field(name, false);
    let mut fields = Vec::new();
    if lengths {
        fields.push(list(DataType::Int32, LENGTHS));
    }
    fields.push(list(dtype.element(), TOKENS));
    Arc::new(Schema::new(fields))
}

/// Which tokens each document of a file has.
trait Table: Send {
    fn dtype(&self) -> Dtype;
    fn documents(&self) -> u64;
    /// In all documents.
    fn tokens(&self) -> u64;
    /// Whether sequences have lengths to be told.
    fn lengths(&self) -> bool;
    /// Where the tokens are.
    fn data(&self) -> &dyn Input;
    /// The documents from `first` on, which is not past the last: one or more, and at most `most`.
    fn stretch(&self, first: u64, most: u64) -> Result<Stretch>;
}

/// Consecutive documents. Their tokens are in one piece, within the file.
#[derive(Debug, Default)]
struct Stretch {
    /// The byte where the first document begins.
    start: u64,
    /// Tokens from there to the end of each document.
    ends: Vec<u64>,
    /// The lengths of all sequences, where they are told, and how many there are up to the end of each document.
    lengths: Vec<i32>,
    length_ends: Vec<usize>,
}
