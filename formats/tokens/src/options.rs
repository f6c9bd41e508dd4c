//! The settings of sink and source.

use crate::dtype::Dtype;
use crate::verdict::Look;
use packhorse_core::{Error, Options, Result};

/// How tokens and documents lie in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Megatron,
    Datatrove,
    Llmc,
    Bare,
}

impl Layout {
    fn of(name: &str) -> Result<Self> {
        match name {
            "megatron" => Ok(Layout::Megatron),
            "datatrove" => Ok(Layout::Datatrove),
            "llmc" => Ok(Layout::Llmc),
            "bare" => Ok(Layout::Bare),
            other => {
                Err(Error::config(format!("option layout: no \"{other}\"; known are megatron, datatrove, llmc, bare")))
            }
        }
    }

    /// The layout of the file `name`, unless it is said.
    pub(crate) fn of_file(name: &str) -> Self {
        if name.ends_with(".ds") { Layout::Datatrove } else { Layout::Megatron }
    }

    /// What the tokens' file is called.
    pub(crate) fn suffix(self) -> &'static str {
        if self == Layout::Datatrove { ".ds" } else { ".bin" }
    }
}

/// What is known of a pair that is checked or repaired.
pub(crate) fn look(options: &Options) -> Result<Look> {
    let mut look = Look::default();
    for (name, value) in options.iter() {
        let number = || Error::config(format!("option {name} takes a number, not \"{value}\""));
        match name {
            "vocabulary" => look.vocabulary = Some(value.parse().map_err(|_| number())?),
            "eod" => look.eod = Some(value.parse().map_err(|_| number())?),
            other => return Err(Error::config(format!("no option {other}; known are vocabulary and eod"))),
        }
    }
    Ok(look)
}

/// How shards are written.
#[derive(Clone, Debug)]
pub(crate) struct Writing {
    pub(crate) layout: Layout,
    /// Whether a table of documents lies beside each shard.
    pub(crate) documents: bool,
    /// How many ids there are.
    pub(crate) vocabulary: Option<u64>,
    pub(crate) tokenizer: String,
}

/// From this size of vocabulary on Megatron takes tokens of 32 bits.
const LARGE: u64 = 65_500;

impl Writing {
    /// Whether tokens of this type can be written; the error says what can.
    pub(crate) fn takes(&self, dtype: Dtype) -> Result<(), &'static str> {
        match (self.layout, dtype) {
            (Layout::Megatron, Dtype::U32) => Err("Megatron has no such type; cast it to Int32"),
            (Layout::Megatron, Dtype::U16) if self.vocabulary.is_some_and(|ids| ids >= LARGE) => {
                Err("Megatron takes Int32 for vocabularies of 65,500 ids and more; cast it to that")
            }
            // Ids that are not below zero are the same in both types.
            (Layout::Datatrove | Layout::Llmc, Dtype::U16 | Dtype::U32 | Dtype::I32) => Ok(()),
            (Layout::Datatrove | Layout::Llmc, _) => Err("this layout has UInt16 and UInt32; cast it to one of them"),
            (Layout::Megatron | Layout::Bare, _) => Ok(()),
        }
    }

    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["layout", "documents", "vocabulary", "tokenizer"])?;
        let layout = Layout::of(options.get("layout").unwrap_or("megatron"))?;
        let documents = match options.get("documents") {
            None => cfg!(feature = "documents"),
            Some("on") if cfg!(feature = "documents") => true,
            Some("on") => return Err(Error::unsupported("option documents: this build has no tables of documents")),
            Some("off") => false,
            Some(other) => return Err(Error::config(format!("option documents is on or off, not \"{other}\""))),
        };
        let vocabulary = match options.parse("vocabulary", 0u64)? {
            0 if options.get("vocabulary").is_some() => {
                return Err(Error::config("option vocabulary: there is at least one id"));
            }
            0 => None,
            n => Some(n),
        };
        let tokenizer = options.get("tokenizer").unwrap_or("Unknown Tokenizer").to_owned();
        if tokenizer.contains(['\n', '|']) {
            return Err(Error::config("option tokenizer: the name is a part of one line, without \"|\""));
        }
        if options.get("tokenizer").is_some() && layout != Layout::Datatrove {
            return Err(Error::config("option tokenizer: only the layout datatrove names its tokenizer"));
        }
        Ok(Self { layout, documents, vocabulary, tokenizer })
    }
}

/// How files are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// By the file's name if not said.
    pub(crate) layout: Option<Layout>,
    /// Of bare tokens.
    pub(crate) dtype: Dtype,
    /// Tokens a row where no documents are listed.
    pub(crate) length: u64,
}

/// The most tokens a row of a file that lists no documents.
const LONGEST: u64 = 1 << 20;

impl Reading {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["layout", "dtype", "length"])?;
        let layout = options.get("layout").map(Layout::of).transpose()?;
        let dtype = Dtype::of_name(options.get("dtype").unwrap_or("u16"))?;
        if options.get("dtype").is_some() && layout != Some(Layout::Bare) {
            return Err(Error::config("option dtype: only files of the layout bare don't say their type"));
        }
        match options.parse("length", 2048u64)? {
            length @ 1..=LONGEST => Ok(Self { layout, dtype, length }),
            other => Err(Error::config(format!("option length: {other} is not from 1 to {LONGEST}"))),
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
        let plain = Writing::parse(&Options::new()).unwrap();
        assert_eq!(
            (plain.layout, plain.documents, plain.vocabulary),
            (Layout::Megatron, cfg!(feature = "documents"), None)
        );
        let set = Writing::parse(&options(&[("layout", "llmc"), ("documents", "off"), ("vocabulary", "9")])).unwrap();
        assert_eq!((set.layout, set.documents, set.vocabulary), (Layout::Llmc, false, Some(9)));
        let read = Reading::parse(&options(&[("layout", "bare"), ("dtype", "i32"), ("length", "7")])).unwrap();
        assert_eq!((read.layout, read.dtype, read.length), (Some(Layout::Bare), Dtype::I32, 7));
    }

    #[test]
    fn nonsense_is_refused() {
        for pair in
            [("layout", "x"), ("documents", "yes"), ("vocabulary", "0"), ("tokenizer", "gpt2"), ("dtype", "u16")]
        {
            assert_eq!(Writing::parse(&options(&[pair])).unwrap_err().kind(), Kind::Config, "{pair:?}");
        }
        for pair in [("layout", "x"), ("dtype", "u16"), ("length", "0"), ("length", "99999999"), ("documents", "on")] {
            assert_eq!(Reading::parse(&options(&[pair])).unwrap_err().kind(), Kind::Config, "{pair:?}");
        }
    }
}
