//! How samples are shuffled.

use packhorse_core::Error;
use std::fmt;
use std::str::FromStr;

/// How the samples of an epoch are shuffled. As text: `sequential`, `blocks:8`, `full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// Not shuffled: shard after shard.
    Sequential,
    /// Shuffles the shards, and then the samples of every `shards` shards together: a reader needs that many shards at
    /// a time.
    Blocks {
        /// Shards per block, at least 1.
        shards: u32,
    },
    /// Shuffles all samples together: any shard may be next.
    Full,
}

impl fmt::Display for Shuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shuffle::Sequential => f.write_str("sequential"),
            Shuffle::Blocks { shards } => write!(f, "blocks:{shards}"),
            Shuffle::Full => f.write_str("full"),
        }
    }
}

impl FromStr for Shuffle {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let shards = |n: &str| n.parse().ok().filter(|&n| n > 0 && !text.contains('+'));
        match (text, text.strip_prefix("blocks:").and_then(shards)) {
            ("sequential", _) => Ok(Shuffle::Sequential),
            ("full", _) => Ok(Shuffle::Full),
            (_, Some(shards)) => Ok(Shuffle::Blocks { shards }),
            _ => Err(Error::config(format!("\"{text}\" is not a shuffle; write sequential, blocks:8 or full"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for shuffle in [Shuffle::Sequential, Shuffle::Blocks { shards: 8 }, Shuffle::Full] {
            assert_eq!(shuffle.to_string().parse::<Shuffle>().unwrap(), shuffle);
        }
        for text in ["", "blocks", "blocks:", "blocks:0", "blocks:+8", "blocks:5000000000", "Full", "blocks:8 "] {
            assert!(text.parse::<Shuffle>().is_err(), "{text}");
        }
    }
}
