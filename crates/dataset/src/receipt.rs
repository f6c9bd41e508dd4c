//! The receipt of a shard: the small file that commits it.

use crate::{Digest, FileRecord, PathText};
use packhorse_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What follows a shard's name in the name of its receipt.
pub const RECEIPT_SUFFIX: &str = ".receipt.json";

/// The dataset's list of what was left out: one [`SkipRecord`] a line.
pub const SKIPPED: &str = "skipped.jsonl";

/// An input or a sample that was left out by policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipRecord {
    /// The input concerned, relative to its root where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<PathText>,
    /// The sample concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// Why.
    pub reason: String,
    /// How many samples, from this one on.
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
    /// The record of a `Content` error.
    pub fn of(error: &Error) -> Self {
        Self {
            input: error.input().map(|input| PathText::new(input.as_bytes())),
            sample: error.sample().map(str::to_owned),
            reason: error.text().into_owned(),
            samples: 1,
        }
    }
}

/// Says that a shard is complete, under which plan, and what its files are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The version of this layout.
    pub packhorse_receipt: u32,
    /// The digest of the plan.
    pub plan: Digest,
    /// The shard's name.
    pub shard: String,
    /// Its split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Samples in it.
    pub samples: u64,
    /// Bytes of input that went into it.
    pub input_bytes: u64,
    /// Its files: the data file first, then its companions.
    pub files: Vec<FileRecord>,
    /// What the format wants to know again when the dataset is sealed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, String>,
    /// How many of what else samples are counted in (`tokens`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Samples that the plan has and the shard has not.
    pub skipped: Vec<SkipRecord>,
}

impl Receipt {
    /// The version this build writes and reads.
    pub const VERSION: u32 = 1;

    /// The bytes of the document.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes =
            serde_json::to_vec_pretty(self).map_err(|e| Error::bug(format!("can't encode a receipt: {e}")))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Reads a document.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let receipt: Self = serde_json::from_slice(bytes).map_err(|e| Error::content(format!("is no receipt: {e}")))?;
        match receipt.packhorse_receipt {
            Self::VERSION => Ok(receipt),
            other => Err(Error::unsupported(format!(
                "is a receipt of version {other}; this build reads version {}",
                Self::VERSION
            ))),
        }
    }

    /// How many samples the plan has and the shard has not.
    pub fn lost(&self) -> u64 {
        self.skipped.iter().map(|record| record.samples).sum()
    }

    /// The data file.
    pub fn data(&self) -> Result<&FileRecord> {
        self.files.first().ok_or_else(|| Error::content("the receipt names no file"))
    }
}
