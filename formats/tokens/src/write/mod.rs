//! The sink: samples as documents.

mod check;
mod data;
mod datatrove;
mod megatron;
mod source_counts;
mod spool;
mod writer;

use crate::document_table::DocumentTable;
use crate::dtype::Dtype;
use crate::lists::element;
use crate::options::{TokenLayout, TokenSinkOptions};
use crate::read::{LENGTHS, TOKENS};
use data::Data;
use datatrove::Datatrove;
use megatron::Megatron;
use packhorse_core::{DataType, Error, FieldType, KEY, Outlet, Result, RowCheck, SchemaRef, Sealed, ShardWriter, Sink};
use source_counts::SourceCounts;
use writer::{IndexWriter, ShardCounts, TokenWriter};

pub(crate) struct TokenSink {
    pub(crate) options: TokenSinkOptions,
}

impl Sink for TokenSink {
    fn typed(&self) -> bool {
        true
    }

    fn suffix(&self) -> &'static str {
        self.options.layout.suffix()
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        self.columns(schema).map(drop)
    }

    fn row_check(&self, schema: &SchemaRef) -> Option<RowCheck> {
        // What `accept` refuses is not written.
        let columns = self.columns(schema).ok()?;
        let vocabulary = self.options.vocabulary.or(columns.signed.then_some(1 << 31));
        Some(Box::new(move |rows| check::rows(rows, &columns, vocabulary)))
    }

    fn admit(&self, _: &str, _: &str, _: u64) -> Result<()> {
        Ok(())
    }

    fn size_of(&self, bytes: u64) -> u64 {
        bytes
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        let columns = self.columns(schema)?;
        let layout = self.options.layout;
        let data = match layout {
            TokenLayout::Llmc => Data::llmc(columns.dtype, out)?,
            _ => Data::stream(out.stream(layout.suffix())?),
        };
        let index = match layout {
            TokenLayout::Megatron => IndexWriter::Megatron(Megatron::create(columns.dtype, out)?),
            TokenLayout::Datatrove => {
                IndexWriter::Datatrove(Datatrove::create(columns.dtype, &self.options.tokenizer, out)?)
            }
            TokenLayout::Llmc | TokenLayout::Bare => IndexWriter::None,
        };
        let companion = if self.options.documents { Some(DocumentTable::create(out)?) } else { None };
        let (documents, sequences, tokens, sources) = (0, 0, 0, SourceCounts::default());
        let counts = ShardCounts { documents, sequences, tokens, sources };
        Ok(Box::new(TokenWriter { columns, data, index, companion, counts }))
    }

    fn seal(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        match self.options.layout {
            TokenLayout::Megatron => crate::seal::seal(dataset, out),
            _ => Ok(()),
        }
    }
}

/// The columns that are written.
struct Columns {
    /// The type in the file.
    dtype: Dtype,
    /// Whether Int32 tokens are written as the layout's UInt32.
    signed: bool,
    tokens: usize,
    lengths: Option<usize>,
}

impl TokenSink {
    fn columns(&self, schema: &SchemaRef) -> Result<Columns> {
        let (mut tokens, mut lengths) = (None, None);
        for (i, field) in schema.fields().iter().enumerate() {
            let no = |why: String| {
                Error::unsupported(format!("field {} of type {}: {why}", field.name(), field.data_type()))
            };
            match field.name().as_str() {
                KEY => {}
                TOKENS => {
                    let dtype = element(field).and_then(|element| Dtype::of_element(&element));
                    let dtype =
                        dtype.ok_or_else(|| no("tokens are a list of whole numbers for each sample".to_owned()))?;
                    self.options.takes(dtype).map_err(|why| no(why.to_owned()))?;
                    tokens = Some((dtype, i));
                }
                LENGTHS if element(field) == Some(DataType::Int32) => lengths = Some(i),
                LENGTHS => {
                    return Err(no("lengths of sequences are a list of Int32 for each sample".to_owned()));
                }
                _ if FieldType::of(field).is_ok_and(|kind| kind == FieldType::Text) => {
                    return Err(no(format!(
                        "tokenize it with `tokenizer`, or leave it out with `drop={}`",
                        field.name()
                    )));
                }
                name => {
                    return Err(no(format!(
                        "shards of tokens hold only {TOKENS}, {LENGTHS} and keys; turn text into tokens with `tokenizer`, or \
                         leave the field out with `drop={name}`"
                    )));
                }
            }
        }
        let (dtype, tokens) = tokens.ok_or_else(|| {
            Error::unsupported(format!("there is no field {TOKENS}; tokenize text with `tokenizer`, or rename a field"))
        })?;
        let signed = dtype == Dtype::I32 && matches!(self.options.layout, TokenLayout::Datatrove | TokenLayout::Llmc);
        let dtype = if signed { Dtype::U32 } else { dtype };
        Ok(Columns { dtype, signed, tokens, lengths })
    }
}
