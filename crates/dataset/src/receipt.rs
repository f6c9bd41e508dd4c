//! The receipt of a shard: the file that commits it.

use crate::own_digest::{own_digest_holds, with_own_digest};
use crate::{Digest, FileRecord, PathText};
use packhorse_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The suffix of the receipt file, after the shard's name.
pub const RECEIPT_SUFFIX: &str = ".receipt.json";

/// The dataset's list of skipped samples and inputs: one [`SkipRecord`] per line.
pub const SKIPPED: &str = "skipped.jsonl";

/// A skipped input or sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipRecord {
    /// The input, relative to its root if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<PathText>,
    /// The sample's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// The error message.
    pub reason: String,
    /// Number of skipped samples, starting with this one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub samples: u64,
}

fn one() -> u64 {
    1
}

fn is_one(samples: &u64) -> bool {
    *samples == 1
}

impl SkipRecord {
    /// Records an error.
    pub fn of(error: &Error) -> Self {
        Self {
            input: error.input().map(|input| PathText::new(input.as_bytes())),
            sample: error.sample().map(str::to_owned),
            reason: error.text().into_owned(),
            samples: 1,
        }
    }
}

/// Commits a shard: its plan, counts and files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Version of this layout.
    pub packhorse_receipt: u32,
    /// Digest of the plan.
    pub plan: Digest,
    /// The shard's name.
    pub shard: String,
    /// Its split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Number of samples.
    pub samples: u64,
    /// Input bytes.
    pub input_bytes: u64,
    /// The data file, then its companions.
    pub files: Vec<FileRecord>,
    /// Notes of the format for sealing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, String>,
    /// Other counts by unit (`tokens`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Planned samples that are missing in the shard.
    pub skipped: Vec<SkipRecord>,
}

impl Receipt {
    /// The layout version that this build writes.
    pub const VERSION: u32 = 2;

    /// The version of receipts without a digest of their own, which are still read.
    const WITHOUT_DIGEST: u32 = 1;

    /// The document's bytes, in the layout of its version.
    pub fn encode(&self) -> Result<Vec<u8>> {
        if self.packhorse_receipt != Self::WITHOUT_DIGEST {
            return with_own_digest(self, "a receipt");
        }
        let text = serde_json::to_string_pretty(self);
        text.map(|text| format!("{text}\n").into()).map_err(|e| Error::bug(format!("can't encode a receipt: {e}")))
    }

    /// The same in the layout of the version before.
    pub fn without_digest(self) -> Self {
        Self { packhorse_receipt: Self::WITHOUT_DIGEST, ..self }
    }

    /// Parses a document, and checks that its bytes are those that it was written with.
    ///
    /// Errors: `Content`; `Unsupported` for other versions.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let receipt: Self =
            serde_json::from_slice(bytes).map_err(|e| Error::content(format!("is not a receipt: {e}")))?;
        let whole = match receipt.packhorse_receipt {
            Self::VERSION => own_digest_holds(bytes),
            Self::WITHOUT_DIGEST => receipt.encode()? == bytes,
            other => {
                let reads = Self::VERSION;
                return Err(Error::unsupported(format!(
                    "is a receipt of version {other}; this build reads up to version {reads}"
                )));
            }
        };
        whole.then_some(receipt).ok_or_else(|| Error::content("is a damaged receipt: its bytes were changed"))
    }

    /// Number of planned samples that are missing in the shard.
    pub fn lost(&self) -> u64 {
        self.skipped.iter().map(|record| record.samples).sum()
    }

    /// The data file.
    pub fn data(&self) -> Result<&FileRecord> {
        self.files.first().ok_or_else(|| Error::content("the receipt names no file"))
    }
}
