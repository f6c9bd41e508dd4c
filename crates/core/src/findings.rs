//! Findings: damage in a file, and what other readers of the ecosystem would fail on.

use std::fmt;
use std::str::FromStr;

/// A reader that shards are checked for ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consumer {
    /// The Python package `webdataset`.
    WebDataset,
    /// The Python package `wids`.
    Wids,
    /// Hugging Face `datasets`, builder `webdataset`.
    HuggingFace,
    /// NVIDIA DALI, `fn.readers.webdataset`.
    Dali,
    /// NVIDIA Megatron-Energon.
    Energon,
}

impl Consumer {
    /// All of them, in the order in which reports list them.
    pub const ALL: [Consumer; 5] =
        [Consumer::WebDataset, Consumer::Wids, Consumer::HuggingFace, Consumer::Dali, Consumer::Energon];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Consumer::WebDataset => "webdataset",
            Consumer::Wids => "wids",
            Consumer::HuggingFace => "hf",
            Consumer::Dali => "dali",
            Consumer::Energon => "energon",
        }
    }
}

impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Consumer {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Consumer::ALL.into_iter().find(|c| c.name() == text).ok_or_else(|| {
            crate::Error::config(format!(
                "no reader is called \"{text}\"; known are webdataset, wids, hf, dali, energon"
            ))
        })
    }
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// The member or sample concerned, if it is about one.
    pub member: Option<String>,
    /// The readers that fail on it; empty means that the file itself is damaged.
    pub consumers: Vec<Consumer>,
    /// The problem and its consequence, a lowercase fragment.
    pub problem: String,
}

/// A list of findings about one file, bounded: of each problem the first members are kept and the
/// rest are counted.
#[derive(Debug, Default)]
pub struct Findings {
    file: String,
    list: Vec<Finding>,
    counts: Vec<u64>,
}

impl Findings {
    /// No findings yet, about `file`.
    pub fn new(file: impl Into<String>) -> Self {
        Self { file: file.into(), ..Self::default() }
    }

    /// Records that `problem` concerns `consumers`; the first member of each problem is named.
    pub fn add(&mut self, consumers: &[Consumer], member: Option<&[u8]>, problem: &str) {
        let same = self.list.iter().position(|f| f.problem == problem && f.consumers == consumers);
        if let Some(count) = same.and_then(|i| self.counts.get_mut(i)) {
            *count += 1;
            return;
        }
        self.list.push(Finding {
            file: self.file.clone(),
            member: member.map(|m| m.escape_ascii().to_string()),
            consumers: consumers.to_vec(),
            problem: problem.to_owned(),
        });
        self.counts.push(1);
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Each finding and how many members have it.
    pub fn iter(&self) -> impl Iterator<Item = (&Finding, u64)> {
        self.list.iter().zip(self.counts.iter().copied())
    }
}
