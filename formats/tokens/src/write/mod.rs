//! Samples as documents.

mod data;
mod datatrove;
mod megatron;
mod spool;

use crate::column::{Lists, element};
use crate::companion::Companion;
use crate::dtype::Dtype;
use crate::options::{Layout, Writing};
use crate::read::{LENGTHS, TOKENS};
use arrow_array::Array;
use data::Data;
use datatrove::Datatrove;
use megatron::Megatron;
use packhorse_core::{
    DataType, Error, KEY, Outlet, Result, Rows, SchemaRef, Sealed, ShardSummary, ShardWriter, Sink, key_column,
};

pub(crate) struct TokenSink {
    pub(crate) options: Writing,
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
            Layout::Llmc => Data::llmc(columns.dtype, out)?,
            _ => Data::stream(out.stream(layout.suffix())?),
        };
        let index = match layout {
            Layout::Megatron => Index::Megatron(Megatron::create(columns.dtype, out)?),
            Layout::Datatrove => Index::Datatrove(Datatrove::create(columns.dtype, &self.options.tokenizer, out)?),
            Layout::Llmc | Layout::Bare => Index::None,
        };
        let companion = if self.options.documents { Some(Companion::create(out)?) } else { None };
        let vocabulary = self.options.vocabulary;
        Ok(Box::new(TokenWriter { columns, data, index, companion, vocabulary, documents: 0, sequences: 0, tokens: 0 }))
    }

    fn seal(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        match self.options.layout {
            Layout::Megatron => crate::seal::seal(dataset, out),
            _ => Ok(()),
        }
    }
}

/// Where what is written stands among the columns.
struct Columns {
    dtype: Dtype,
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
                    let dtype = dtype.ok_or_else(|| no("tokens are a list of numbers a sample".to_owned()))?;
                    self.options.takes(dtype).map_err(|why| no(why.to_owned()))?;
                    tokens = Some((dtype, i));
                }
                LENGTHS if element(field) == Some(DataType::Int32) => lengths = Some(i),
                LENGTHS => return Err(no("lengths of sequences are a list of Int32 a sample".to_owned())),
                name => {
                    return Err(no(format!(
                        "shards of tokens hold {TOKENS}, {LENGTHS} and keys only; leave it out with --drop {name}"
                    )));
                }
            }
        }
        let (dtype, tokens) = tokens.ok_or_else(|| {
            Error::unsupported(format!("there is no field {TOKENS}; make it of text with --tokenizer, or rename one"))
        })?;
        Ok(Columns { dtype, tokens, lengths })
    }
}

enum Index {
    Megatron(Megatron),
    Datatrove(Datatrove),
    None,
}

struct TokenWriter {
    columns: Columns,
    data: Data,
    index: Index,
    companion: Option<Companion>,
    vocabulary: Option<u64>,
    documents: u64,
    sequences: u64,
    tokens: u64,
}

impl ShardWriter for TokenWriter {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        let about = |name: &'static str| move |(error, row)| in_row(rows, row, &error, name);
        let tokens = Lists::of(rows.column(self.columns.tokens)).map_err(about(TOKENS))?;
        let lengths = match self.columns.lengths {
            Some(i) => Some(Lists::of(rows.column(i)).map_err(about(LENGTHS))?),
            None => None,
        };
        if let Some(vocabulary) = self.vocabulary {
            known(&tokens, self.columns.dtype, vocabulary).map_err(about(TOKENS))?;
        }
        let before = self.tokens;
        for row in 0..rows.num_rows() {
            let (from, to) = tokens.range(row);
            let told = lengths.as_ref().map(|lengths| lengths.bytes(row, 4).as_chunks::<4>().0);
            self.document((to - from) as u64, told).map_err(|e| in_row(rows, row, &e, TOKENS))?;
        }
        if let Some(companion) = &mut self.companion {
            companion.push(key_column(rows).ok(), &tokens, self.columns.dtype.width())?;
        }
        self.data.write(&tokens.bytes)?;
        debug_assert_eq!(self.tokens - before, tokens.ends.last().map_or(0, |end| *end as u64));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ShardSummary> {
        let bytes = self.data.finish(self.tokens)?;
        match self.index {
            Index::Megatron(index) => index.finish()?,
            Index::Datatrove(index) => index.finish()?,
            Index::None => {}
        }
        if let Some(companion) = self.companion {
            companion.finish()?;
        }
        let counts = [("documents", self.documents), ("sequences", self.sequences), ("tokens", self.tokens)];
        Ok(ShardSummary {
            samples: self.documents,
            bytes,
            counts: counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            ..ShardSummary::default()
        })
    }
}

impl TokenWriter {
    /// Takes note of a document of so many tokens, and of the lengths of its sequences if they are told.
    fn document(&mut self, tokens: u64, told: Option<&[[u8; 4]]>) -> Result<()> {
        let sequences = match told {
            Some(lengths) => {
                agree(lengths, tokens)?;
                lengths.len() as u64
            }
            None => u64::from(tokens > 0),
        };
        match &mut self.index {
            Index::Megatron(index) => index.document(tokens, told)?,
            Index::Datatrove(index) => index.document(tokens)?,
            Index::None => {}
        }
        self.documents += 1;
        self.sequences += sequences;
        self.tokens += tokens;
        Ok(())
    }
}

/// Whether sequences of these lengths are so many tokens.
fn agree(lengths: &[[u8; 4]], tokens: u64) -> Result<()> {
    let mut sum = 0u64;
    for length in lengths {
        let length = i32::from_le_bytes(*length);
        sum += u64::try_from(length).map_err(|_| Error::content(format!("has {length} as a sequence's length")))?;
    }
    match sum == tokens {
        true => Ok(()),
        false => Err(Error::content(format!("has {tokens} tokens where the lengths of its sequences are {sum}"))),
    }
}

/// Whether each token is an id of the vocabulary.
fn known(tokens: &Lists, dtype: Dtype, vocabulary: u64) -> Result<(), (Error, usize)> {
    if dtype.all_below(vocabulary, &tokens.bytes) {
        return Ok(());
    }
    let values = tokens.bytes.chunks_exact(dtype.width());
    let first = values.enumerate().find(|(_, token)| !dtype.is_below(vocabulary, token));
    let (at, token) = first.unwrap_or_default();
    let id = dtype.value(token).map_or("no integer".to_owned(), |id| id.to_string());
    let message = format!("has the token {id}, and the vocabulary has ids below {vocabulary}");
    Err((Error::content(message), tokens.ends.partition_point(|end| *end <= at)))
}

fn in_row(rows: &Rows, row: usize, error: &Error, name: &str) -> Error {
    let error = Error::new(error.kind(), format!("field {name} {}", error.message()));
    match key_column(rows) {
        Ok(keys) if row < keys.len() => error.in_sample(keys.value(row)),
        _ => error,
    }
}
