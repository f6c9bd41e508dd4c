//! The findings of a check of a pair.

use crate::index_header::IndexHeader;
use packhorse_core::{Error, Input, Kind, Result};
use std::fmt;

/// Optional checks beyond the index and the length of the `.bin`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// The number of ids: every token must be one of them. Reads all tokens.
    pub vocabulary: Option<u64>,
    /// The token that must end each non-empty document. Reads the ends of documents.
    pub eod: Option<i64>,
}

/// One kind of defect of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// The defect at its first place, as a lowercase fragment.
    pub what: String,
    /// The number of places with this defect.
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

/// A known defect of a pair and the repair of its `.idx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairKind {
    /// Each document's EOD is in the `.bin` but not in the lengths
    /// ([Megatron-LM#431](https://github.com/NVIDIA/Megatron-LM/issues/431)): the last sequence of each document gets
    /// one token longer.
    CountEod {
        /// The EOD token.
        eod: i64,
        /// The number of documents with an EOD.
        documents: u64,
    },
    /// Lengths match the tokens but offsets do not match the lengths: the offsets are recomputed.
    Pointers,
}

impl fmt::Display for RepairKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepairKind::CountEod { eod, documents } => write!(
                f,
                "the end of each document (token {eod}) was in the .bin but not in the lengths: {documents} lengths are now one token longer"
            ),
            RepairKind::Pointers => f.write_str("the offsets of sequences were recomputed from their lengths"),
        }
    }
}

/// The result of [`verify`](crate::verify).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairReport {
    /// The header of the index, if it is readable.
    pub header: Option<IndexHeader>,
    /// Tokens in all sequences.
    pub tokens: u64,
    /// All defects, in file order.
    pub problems: Vec<Problem>,
    /// The repair, if one is known that mends all problems.
    pub cure: Option<RepairKind>,
}

impl PairReport {
    /// Records an error about the content of `input` as a problem; returns any other error.
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

/// Counts the places of one defect and describes the first.
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
