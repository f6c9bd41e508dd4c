//! The options of the sink, the source, and `verify` and `repair`.

use crate::dtype::Dtype;
use crate::pair_report::VerifyOptions;
use packhorse_core::{Error, Options, Result};

/// The file layout of tokens and documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenLayout {
    Megatron,
    Datatrove,
    Llmc,
    Bare,
}

impl TokenLayout {
    const WORDS: [(&str, Self); 4] =
        [("megatron", Self::Megatron), ("datatrove", Self::Datatrove), ("llmc", Self::Llmc), ("bare", Self::Bare)];

    /// The default layout of the file `name`.
    pub(crate) fn of_file(name: &str) -> Self {
        if name.ends_with(".ds") { TokenLayout::Datatrove } else { TokenLayout::Megatron }
    }

    /// The suffix of the file of tokens.
    pub(crate) fn suffix(self) -> &'static str {
        if self == TokenLayout::Datatrove { ".ds" } else { ".bin" }
    }
}

/// Parses the options of `verify` and `repair`.
pub(crate) fn look(options: &Options) -> Result<VerifyOptions> {
    let mut look = VerifyOptions::default();
    for (name, value) in options.iter() {
        let number = || Error::config(format!("option {name} takes a number, not \"{value}\""));
        match name {
            "vocabulary" => look.vocabulary = Some(value.parse().map_err(|_| number())?),
            "eod" => look.eod = Some(value.parse().map_err(|_| number())?),
            other => return Err(Error::config(format!("unknown option {other}; known are vocabulary and eod"))),
        }
    }
    Ok(look)
}

/// The options of the sink.
#[derive(Clone, Debug)]
pub(crate) struct TokenSinkOptions {
    pub(crate) layout: TokenLayout,
    /// Whether each shard gets a table of documents.
    pub(crate) documents: bool,
    /// The size of the vocabulary.
    pub(crate) vocabulary: Option<u64>,
    pub(crate) tokenizer: String,
}

/// From this vocabulary size on, Megatron uses 32-bit tokens.
const LARGE: u64 = 65_500;

impl TokenSinkOptions {
    /// Refuses tokens of a type that can't be written; the error says what to do.
    pub(crate) fn takes(&self, dtype: Dtype) -> Result<(), &'static str> {
        match (self.layout, dtype) {
            (TokenLayout::Megatron, Dtype::U32) => Err("Megatron has no such type; cast it to Int32"),
            (TokenLayout::Megatron, Dtype::U16) if self.vocabulary.is_some_and(|ids| ids >= LARGE) => {
                Err("Megatron takes Int32 for vocabularies of 65,500 ids and more; cast it to that")
            }
            // Non-negative ids have the same bytes in both types.
            (TokenLayout::Datatrove | TokenLayout::Llmc, Dtype::U16 | Dtype::U32 | Dtype::I32) => Ok(()),
            (TokenLayout::Datatrove | TokenLayout::Llmc, _) => {
                Err("this layout only has UInt16 and UInt32; cast it to one of them")
            }
            (TokenLayout::Megatron | TokenLayout::Bare, _) => Ok(()),
        }
    }

    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["layout", "documents", "vocabulary", "tokenizer"])?;
        let layout = options.choose("layout", &TokenLayout::WORDS)?;
        let documents = match options.get("documents") {
            None => cfg!(feature = "documents"),
            Some(_) => options.switch("documents")?,
        };
        if documents && !cfg!(feature = "documents") {
            return Err(Error::unsupported("option documents: this build has no tables of documents"));
        }
        let vocabulary = options.positive("vocabulary")?;
        let tokenizer = options.get("tokenizer").unwrap_or("Unknown Tokenizer").to_owned();
        if tokenizer.contains(['\n', '|']) {
            return Err(Options::refuse("tokenizer", "the name must not contain \"|\" or a line feed"));
        }
        if options.get("tokenizer").is_some() && layout != TokenLayout::Datatrove {
            return Err(Options::refuse("tokenizer", "only layout=datatrove stores the name of its tokenizer"));
        }
        Ok(Self { layout, documents, vocabulary, tokenizer })
    }
}

/// The options of the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenSourceOptions {
    /// `None`: by file name.
    pub(crate) layout: Option<TokenLayout>,
    /// The type of bare tokens.
    pub(crate) dtype: Dtype,
    /// Tokens per row, for files that do not list documents.
    pub(crate) length: u64,
}

/// The largest `length`.
const LONGEST: u64 = 1 << 20;

impl TokenSourceOptions {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["layout", "dtype", "length"])?;
        let layout = options.get("layout").map(|_| options.choose("layout", &TokenLayout::WORDS)).transpose()?;
        let dtype = Dtype::of_name(options.get("dtype").unwrap_or("u16"))?;
        if options.get("dtype").is_some() && layout != Some(TokenLayout::Bare) {
            return Err(Options::refuse("dtype", "only for layout=bare; other layouts state their type"));
        }
        match options.parse("length", 2048u64)? {
            length @ 1..=LONGEST => Ok(Self { layout, dtype, length }),
            other => Err(Options::refuse("length", format_args!("{other} is not from 1 to {LONGEST}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    fn options(pairs: &[(&str, &str)]) -> Options {
        pairs.iter().copied().collect()
    }

    #[test]
    fn values_and_defaults() {
        let plain = TokenSinkOptions::parse(&Options::new()).unwrap();
        assert_eq!(
            (plain.layout, plain.documents, plain.vocabulary),
            (TokenLayout::Megatron, cfg!(feature = "documents"), None)
        );
        let set = TokenSinkOptions::parse(&options(&[("layout", "llmc"), ("documents", "off"), ("vocabulary", "9")]))
            .unwrap();
        assert_eq!((set.layout, set.documents, set.vocabulary), (TokenLayout::Llmc, false, Some(9)));
        let read =
            TokenSourceOptions::parse(&options(&[("layout", "bare"), ("dtype", "i32"), ("length", "7")])).unwrap();
        assert_eq!((read.layout, read.dtype, read.length), (Some(TokenLayout::Bare), Dtype::I32, 7));
    }

    #[test]
    fn nonsense_is_refused() {
        for pair in
            [("layout", "x"), ("documents", "yes"), ("vocabulary", "0"), ("tokenizer", "gpt2"), ("dtype", "u16")]
        {
            assert_eq!(TokenSinkOptions::parse(&options(&[pair])).unwrap_err().kind(), Kind::Config, "{pair:?}");
        }
        for pair in [("layout", "x"), ("dtype", "u16"), ("length", "0"), ("length", "99999999"), ("documents", "on")] {
            assert_eq!(TokenSourceOptions::parse(&options(&[pair])).unwrap_err().kind(), Kind::Config, "{pair:?}");
        }
    }
}
