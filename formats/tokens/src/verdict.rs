//! What is found wrong with a pair.

use crate::header::Header;
use packhorse_core::{Error, Input, Kind, Result};
use std::fmt;

/// What else to look at than the index and the length of the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// How many ids there are: each token must be one of them. All tokens are read then.
    pub vocabulary: Option<u64>,
    /// The token that ends each document that is not empty. The ends of documents are read then.
    pub eod: Option<i64>,
}

/// One thing that is wrong with a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// What is wrong, a lowercase fragment; of the first place, if there are several.
    pub what: String,
    /// How many places are wrong in this way.
    pub count: u64,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 | 1 => f.write_str(&self.what),
            n => write!(f, "{} (the first of {n})", self.what),
        }
    }
}

/// What is known of how a pair came to be wrong, and how its `.idx` is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// Each document's EOD is in the `.bin` and not in the lengths
    /// ([Megatron-LM#431](https://github.com/NVIDIA/Megatron-LM/issues/431)): the last sequence of each
    /// document is one longer.
    CountEod {
        /// The token.
        eod: i64,
        /// How many documents have one.
        documents: u64,
    },
    /// Lengths fit the tokens and offsets do not fit the lengths: the offsets are summed anew.
    Pointers,
}

impl fmt::Display for Cure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cure::CountEod { eod, documents } => write!(
                f,
                "the end of each document (token {eod}) was in the .bin and not in the lengths: {documents} lengths are one longer now"
            ),
            Cure::Pointers => f.write_str("the offsets of sequences were summed anew from their lengths"),
        }
    }
}

/// What [`verify`](crate::verify) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What the index says of itself, if it can be read.
    pub header: Option<Header>,
    /// Tokens in all sequences.
    pub tokens: u64,
    /// Everything that is wrong, in the order of the file.
    pub problems: Vec<Problem>,
    /// How to put it right, if that is known; it is for all problems.
    pub cure: Option<Cure>,
}

impl Verdict {
    /// Makes a finding of what is wrong with `input`; what is not its fault is an error.
    pub(crate) fn take(&mut self, error: Error, input: &dyn Input) -> Result<()> {
        match error.kind() {
            Kind::Content | Kind::Unsupported | Kind::Limit => {
                let file = error.input().unwrap_or(input.name()).to_owned();
                self.problems.push(Problem { file, what: error.text().into_owned(), count: 1 });
                Ok(())
            }
            _ => Err(error),
        }
    }

    pub(crate) fn add(&mut self, input: &dyn Input, tally: Tally) {
        if let Some(what) = tally.what {
            self.problems.push(Problem { file: input.name().to_owned(), what, count: tally.count });
        }
    }
}

/// Places that are wrong in one way: the first is described, all are counted.
#[derive(Default)]
pub(crate) struct Tally {
    what: Option<String>,
    pub(crate) count: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        self.what.get_or_insert_with(what);
    }
}
