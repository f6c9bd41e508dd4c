//! The source: documents as samples.

mod blocks;
mod datatrove;
pub(crate) mod flat;
mod megatron;

use crate::dtype::Dtype;
use crate::index_summary::SummaryCache;
use crate::options::{TokenLayout, TokenSourceOptions};
use blocks::DocumentBlocks;
use packhorse_core::{Blocks, DataType, FieldType, Input, Limits, Result, Schema, SchemaRef, Source, Table, TableInfo};
use std::ops::Range;
use std::sync::Arc;

/// The column of a document's tokens.
pub(crate) const TOKENS: &str = "tokens";
/// The column of the lengths of its sequences.
pub(crate) const LENGTHS: &str = "lengths";

pub(crate) struct TokenSource {
    pub(crate) options: TokenSourceOptions,
    pub(crate) limits: Limits,
    pub(crate) seen: SummaryCache,
}

impl Source for TokenSource {
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let file = self.file(&input).map_err(|e| e.in_input(input.name()))?;
        Ok(Box::new(Documents { name: input.name().to_owned(), file, limits: self.limits }))
    }
}

impl TokenSource {
    fn file<'a>(&self, input: &Arc<dyn Input + 'a>) -> Result<Box<dyn TokenFile + 'a>> {
        let (layout, input) = (self.options.layout, Arc::clone(input));
        Ok(match layout.unwrap_or_else(|| TokenLayout::of_file(input.name())) {
            TokenLayout::Megatron => Box::new(megatron::Megatron::open(input, &self.seen)?),
            TokenLayout::Datatrove => datatrove::open(input, self.options.length)?,
            TokenLayout::Llmc => Box::new(flat::FlatTokens::llmc(input, self.options.length)?),
            TokenLayout::Bare => Box::new(flat::FlatTokens::bare(input, self.options.dtype, self.options.length)?),
        })
    }
}

/// The documents of an open file.
struct Documents<'a> {
    name: String,
    file: Box<dyn TokenFile + 'a>,
    limits: Limits,
}

impl Table for Documents<'_> {
    fn info(&self) -> Result<TableInfo> {
        let file = &self.file;
        Ok(TableInfo {
            schema: schema(file.dtype(), file.lengths()),
            items: file.documents(),
            bytes: file.tokens().saturating_mul(file.dtype().size()),
            counted: true,
            omitted: Vec::new(),
        })
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let mut documents = DocumentBlocks::new(&*self.file, items, self.limits);
        Ok(packhorse_core::blocks(&self.name, move || documents.block()))
    }
}

/// The schema of documents.
pub(crate) fn schema(dtype: Dtype, lengths: bool) -> SchemaRef {
    let list = |element: DataType, name| FieldType::List { element, depth: 1 }.field(name, false);
    let mut fields = Vec::new();
    if lengths {
        fields.push(list(DataType::Int32, LENGTHS));
    }
    fields.push(list(dtype.element(), TOKENS));
    Arc::new(Schema::new(fields))
}

/// An opened file: where each document's tokens are.
trait TokenFile: Send + Sync {
    fn dtype(&self) -> Dtype;
    fn documents(&self) -> u64;
    /// In all documents.
    fn tokens(&self) -> u64;
    /// Whether rows have the column of lengths.
    fn lengths(&self) -> bool;
    /// The file of tokens.
    fn data(&self) -> &dyn Input;
    /// A run of documents from `first` on, which must exist: at least one, at most `most`.
    fn stretch(&self, first: u64, most: u64) -> Result<DocumentRun>;
}

/// Consecutive documents, with contiguous tokens within the file.
#[derive(Debug, Default)]
struct DocumentRun {
    /// The offset of the first document.
    start: u64,
    /// Tokens from there to the end of each document.
    ends: Vec<u64>,
    /// The lengths of all sequences, if the rows have them, and their number up to the end of each document.
    lengths: Vec<i32>,
    length_ends: Vec<usize>,
}
