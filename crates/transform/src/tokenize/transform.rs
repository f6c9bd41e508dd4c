//! The tokenize transform. Owns special tokens around documents, the output column, and checking.

use super::engine::{Id, Ids, numbers};
use super::text::{self, Texts};
use super::tokenizer::Tokenizer;
use super::words;
use super::{Empty, Special, TokenizeOptions, TokenizerRecord};
use crate::casts::Casts;
use crate::{RebuildContext, Transform};
use arrow_array::{ArrayRef, Int32Array, ListArray, UInt16Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use packhorse_core::{
    ByteBudget, DataType, Error, FieldType, KEY, Kind, Limits, Result, Rows, Schema, SchemaRef, key_column,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The output field.
const TOKENS: &str = "tokens";

/// Smaller vocabularies use 16-bit ids, as in Megatron.
const SMALL: u32 = 65_500;

/// The most bytes that an engine encodes in one piece: a run without white space, or a whole text if the tokenizer
/// does not split there. Each byte costs up to 45 bytes of memory (Unigram: 90).
const PIECE: usize = 8 << 20;

/// Texts up to this size need no memory budget.
const SHORT: usize = 64 << 10;

/// Turns text into tokens. Loading takes 0.1 to 1 seconds; clones share the loaded tokenizer.
#[derive(Clone)]
pub struct Tokenize {
    tokenizer: Arc<Tokenizer>,
    options: TokenizeOptions,
    /// Leaves out all fields but that of the text, if it was named.
    casts: Casts,
    name: String,
    /// The tokenizer file as given.
    file: Arc<[u8]>,
    digest: String,
    /// The beginning token, if `special` needs it.
    bos: Option<u32>,
    /// The end-of-document token, if a setting needs it.
    eod: Option<u32>,
    /// The most bytes in one piece.
    piece: usize,
    /// Limits the pieces encoded at once; `None` for unlimited memory.
    budget: Option<Arc<ByteBudget>>,
}

impl Tokenize {
    /// Loads `file`, the bytes of a tokenizer named `name`. A `Config` error for an invalid file, or for options that
    /// it can't satisfy.
    pub fn new(file: &[u8], name: &str, options: TokenizeOptions) -> Result<Self> {
        if !(0.0..=1.0).contains(&options.check_exact) {
            return Err(Error::config("the share of documents to check is a number from 0 to 1"));
        }
        let tokenizer = Tokenizer::new(file, &options).map_err(|e| e.in_input(name))?;
        if options.check_exact > 0.0 {
            tokenizer.load_oracle().map_err(|e| e.in_input(name))?;
        }
        if options.special == Special::Template {
            refuse_outside(&tokenizer).map_err(|e| e.in_input(name))?;
        }
        let bos = match options.special {
            Special::Bos => Some(tokenizer.beginning(options.bos.as_deref())?),
            _ => None,
        };
        let ends = options.append_eod || options.special == Special::Eod || options.empty == Empty::Eod;
        let eod = if ends { Some(tokenizer.end(options.eod.as_deref())?) } else { None };
        for (given, used, setting, use_it) in [
            (&options.eod, ends, "eod", "`append-eod` appends that token to every document"),
            (&options.bos, bos.is_some(), "bos", "`special=bos` puts that token before every document"),
            (&options.pattern, tokenizer.pattern.is_some(), "pattern", "it is for the vocabularies of tiktoken"),
        ] {
            if given.is_some() && !used {
                let message = format!("`{setting}` would have no effect; leave it out");
                return Err(Error::config(message).hint(use_it));
            }
        }
        let digest = blake3::hash(file).to_hex().to_string();
        let (tokenizer, name, file) = (Arc::new(tokenizer), name.to_owned(), file.into());
        let casts = only_text(&options);
        Ok(Self { tokenizer, options, casts, name, file, digest, bos, eod, piece: PIECE, budget: None })
    }

    /// Bounds memory: all threads together use at most twice `limits.blob` for long pieces, and longer pieces are
    /// `Limit` errors. [`Limits::default`] sets no bound.
    pub fn within(self, limits: Limits) -> Self {
        if limits == Limits::default() {
            return self;
        }
        let most = usize::try_from(limits.blob / 45).unwrap_or(usize::MAX);
        Self { piece: PIECE.min(most), budget: Some(Arc::new(ByteBudget::new(most as u64))), ..self }
    }

    /// Rebuilds the transform from the words of a description.
    pub(crate) fn from_words<'w>(words: impl Iterator<Item = &'w str>, context: &RebuildContext<'_>) -> Result<Self> {
        let (options, digest) = words::options(words)?;
        let options = TokenizeOptions { check_exact: context.check_exact, ..options };
        let file = (context.files)(&digest)?;
        if blake3::hash(&file).to_hex().as_str() != digest {
            return Err(Error::new(Kind::Changed, format!("the tokenizer is not the one of the plan, {digest}")));
        }
        Ok(Self::new(&file, &format!("tokenizer {digest}"), options)?.within(context.limits))
    }

    /// The tokenizer's entry in a manifest.
    pub fn record(&self) -> TokenizerRecord {
        let about = self.tokenizer.engine.about();
        TokenizerRecord {
            name: self.name.clone(),
            kind: self.tokenizer.kind,
            digest: self.digest.clone(),
            engine: format!("{}-{}", about.name, about.version),
            unicode: about.unicode,
            fallback: self.tokenizer.fallback.clone(),
            vocabulary: self.tokenizer.vocabulary,
            eod: self.eod,
        }
    }

    fn ends(&self) -> bool {
        self.options.append_eod || self.options.special == Special::Eod
    }

    fn element(&self) -> DataType {
        if self.tokenizer.vocabulary < SMALL { DataType::UInt16 } else { DataType::Int32 }
    }

    /// Appends a document's tokens including special tokens.
    fn document(&self, text: &str, out: &mut Ids) -> Result<()> {
        let before = out.len();
        out.extend(self.bos.map(Id::from));
        self.encode(text, out)?;
        let empty = out.len() == before;
        if if empty { self.options.empty == Empty::Eod } else { self.ends() } {
            out.extend(self.eod.map(Id::from));
        }
        Ok(())
    }

    /// Encodes a document. A panic of the engine becomes a `Content` error about this document only.
    fn encode(&self, text: &str, out: &mut Ids) -> Result<()> {
        let longest = self.admit(text)?;
        let _share = self.budget.as_ref().filter(|_| longest > SHORT).map(|budget| budget.wait(longest as u64));
        let template = self.options.special == Special::Template;
        let encode = || self.tokenizer.engine.encode(text, template, out);
        catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|_| {
            let engine = self.tokenizer.engine.about();
            Err(Error::content(format!(
                "can't be tokenized: {} {} fails on it; report the text to its developers",
                engine.name, engine.version
            )))
        })
    }

    /// Refuses a text with too long a piece; for a long text, returns the length of its longest piece.
    fn admit(&self, text: &str) -> Result<usize> {
        if text.len() <= if self.budget.is_some() { SHORT } else { self.piece } {
            return Ok(0);
        }
        let (longest, what) = match self.tokenizer.engine.cuts() {
            true => (text.as_bytes().split(u8::is_ascii_whitespace).map(<[u8]>::len).max(), "between white space"),
            false => (Some(text.len()), "of text, which this tokenizer does not cut"),
        };
        let (longest, piece) = (longest.unwrap_or(0), self.piece);
        if longest <= piece {
            return Ok(longest);
        }
        let more = if piece < PIECE { "; give more `memory`, or" } else { ";" };
        let message = format!(
            "has {longest} bytes {what}, and at most {piece} are tokenized in one piece{more} cut the document"
        );
        Err(Error::new(Kind::Limit, message))
    }

    /// Compares a document's tokens with the oracle's, if the document is in the sample to check.
    fn check(&self, key: Option<&str>, text: &str, found: &[u32]) -> Result<()> {
        if self.options.check_exact <= 0.0 || share(key.unwrap_or(text)) >= self.options.check_exact {
            return Ok(());
        }
        let Some(oracle) = self.tokenizer.oracle()? else { return Ok(()) };
        let mut right = Ids::new();
        oracle.encode(text, self.options.special == Special::Template, &mut right)?;
        let right = numbers(&right);
        let found = found.get(usize::from(self.bos.is_some())..).unwrap_or_default();
        let end = found.len().saturating_sub(right.len()).min(1);
        if found.get(..found.len() - end) == Some(right) && (end == 0 || found.last().copied() == self.eod) {
            return Ok(());
        }
        let at = right.iter().zip(found).take_while(|(a, b)| a == b).count();
        let word = |ids: &[u32]| ids.get(at).map_or("nothing".to_owned(), u32::to_string);
        let (engine, other) = (self.tokenizer.engine.about(), oracle.about());
        // `Unsupported`, so that no policy skips it: the input is not at fault.
        Err(Error::unsupported(format!(
            "token {at} is {} by {} {} (Unicode {}), but {} by {} {} (Unicode {})",
            word(found),
            engine.name,
            engine.version,
            engine.unicode,
            word(right),
            other.name,
            other.version,
            other.unicode
        )))
    }

    fn column(&self, tokens: Tokens, offsets: Vec<i32>) -> Result<ListArray> {
        let values: ArrayRef = match tokens {
            Tokens::Narrow(ids) => Arc::new(UInt16Array::new(ids.into(), None)),
            Tokens::Wide(ids) => Arc::new(Int32Array::new(ids.into(), None)),
        };
        let kind = FieldType::List { element: self.element(), depth: 1 }.field(TOKENS, false);
        let DataType::List(item) = kind.data_type() else { return Err(Error::bug("a list column has another type")) };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        ListArray::try_new(item.clone(), offsets, values, None).map_err(|e| Error::bug(e.to_string()))
    }

    /// Appends a document's tokens to those of the batch.
    fn append(&self, ids: &[u32], tokens: &mut Tokens) -> Result<()> {
        // Signed comparison is faster; ids that look negative are too large anyway.
        let most = self.tokenizer.vocabulary.cast_signed();
        let outside = |id: &u32| id.cast_signed() >= most || id.cast_signed() < 0;
        if ids.iter().fold(false, |any, id| any | outside(id)) {
            return Err(Error::bug("a token is outside of the vocabulary"));
        }
        // The check above makes these casts lossless.
        match tokens {
            Tokens::Narrow(all) => all.extend(ids.iter().map(|id| *id as u16)),
            Tokens::Wide(all) => all.extend(ids.iter().map(|id| *id as i32)),
        }
        Ok(())
    }
}

/// The tokens of a batch, in the element type of the vocabulary.
enum Tokens {
    Narrow(Vec<u16>),
    Wide(Vec<i32>),
}

impl Tokens {
    fn len(&self) -> usize {
        match self {
            Tokens::Narrow(ids) => ids.len(),
            Tokens::Wide(ids) => ids.len(),
        }
    }
}

/// Refuses a post-processor that adds a token which the vocabulary lacks.
fn refuse_outside(tokenizer: &Tokenizer) -> Result<()> {
    let mut ids = Ids::new();
    // What the engine does not take is told with the document.
    let _ = tokenizer.engine.encode("", true, &mut ids);
    match numbers(&ids).iter().find(|id| **id >= tokenizer.vocabulary) {
        Some(id) => {
            let message = format!(
                "the post-processor adds the token {id}, which is outside of the vocabulary of {}",
                tokenizer.vocabulary
            );
            Err(Error::config(message).hint("mend the tokenizer, or leave its template out by `special=none`"))
        }
        None => Ok(()),
    }
}

/// Leaves out all fields but that of the text, if it was named: `a.b` is a field, or a member of the field `a`, and `a.b.txt` may be
/// `a.b`.
fn only_text(options: &TokenizeOptions) -> Casts {
    let path = options.field.iter();
    let names = path.flat_map(|path| [Some(path.as_str()), path.split('.').next(), path.strip_suffix(".txt")]);
    let names: Vec<String> = names.flatten().map(str::to_owned).collect();
    Casts::default().dropping(&names, &[])
}

impl Transform for Tokenize {
    fn casts(&self) -> Option<&Casts> {
        Some(&self.casts)
    }

    fn describe(&self) -> String {
        let ends = self.ends();
        words::describe(&self.tokenizer, &self.options, &self.digest, self.bos, self.eod, ends)
    }

    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        text::locate(input, self.options.field.as_deref())?;
        let key = input.fields().iter().find(|f| f.name() == KEY).cloned();
        let tokens = FieldType::List { element: self.element(), depth: 1 }.field(TOKENS, false);
        Ok(Arc::new(Schema::new(key.into_iter().chain([Arc::new(tokens)]).collect::<Vec<_>>())))
    }

    fn only_source(&self, input: &SchemaRef) -> Option<String> {
        Some(text::locate(input, self.options.field.as_deref()).ok()?.field.to_owned())
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let schema = self.schema(&rows.schema())?;
        let from = rows.schema();
        let text = text::locate(&from, self.options.field.as_deref())?;
        let name = text.field;
        let texts = Texts::new(&rows, text)?;
        let keys = rows.column_by_name(KEY).map(|_| key_column(&rows)).transpose()?;
        // Text has about four bytes per token, code about two; unused capacity costs nothing.
        let room = texts.bytes() / 2;
        let mut tokens = match self.element() {
            DataType::UInt16 => Tokens::Narrow(Vec::with_capacity(room)),
            _ => Tokens::Wide(Vec::with_capacity(room)),
        };
        // Per document, so that it stays in the first-level cache.
        let mut ids = Ids::new();
        let mut offsets = Vec::with_capacity(rows.num_rows() + 1);
        offsets.push(0);
        for row in 0..rows.num_rows() {
            let key = keys.map(|keys| keys.value(row));
            ids.clear();
            let done = texts.get(row).and_then(|text| {
                self.document(&text, &mut ids)?;
                self.check(key, &text, numbers(&ids))?;
                self.append(numbers(&ids), &mut tokens)?;
                i32::try_from(tokens.len()).map_err(|_| Error::new(Kind::Limit, "a block of over 2^31 tokens"))
            });
            let sample = || key.map_or_else(|| format!("#{row}"), str::to_owned);
            offsets.push(done.map_err(|error| error.in_sample(sample()).in_field(name))?);
        }
        let tokens: ArrayRef = Arc::new(self.column(tokens, offsets)?);
        let key = rows.column_by_name(KEY).cloned();
        Rows::try_new(schema, key.into_iter().chain([tokens]).collect()).map_err(|e| Error::bug(e.to_string()))
    }

    fn files(&self) -> Vec<(String, Arc<[u8]>)> {
        let name = match self.tokenizer.kind {
            "tiktoken" => "tokenizer.tiktoken",
            "sentencepiece" => "tokenizer.model",
            _ => "tokenizer.json",
        };
        vec![(name.to_owned(), self.file.clone())]
    }

    fn factor(&self) -> f64 {
        // About four bytes of text per token.
        if self.element() == DataType::UInt16 { 0.5 } else { 1.0 }
    }
}

/// A number in [0, 1) that depends on `text` only.
fn share(text: &str) -> f64 {
    let hash = blake3::hash(text.as_bytes());
    let first = hash.as_bytes().first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    f64::from(first) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests;
