//! How samples are shuffled.

use packhorse_core::Error;
use std::fmt;
use std::str::FromStr;

/// The runs of samples that a window has.
pub const RUNS: u64 = 64;

/// How the samples of an epoch are shuffled. As text: `sequential`, `blocks:8`, `blocks:8:window:6400`, `full`,
/// `nodes:4:blocks:8:epochs:10`, `nodes:4:blocks:8:window:6400:epochs:10`.
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
    /// Like `Blocks`, but shuffles `samples` samples at a time: 64 runs of neighbours, from random places of the block. For
    /// shards whose rows are decoded in blocks, of which memory can't hold `shards` whole ones.
    Windows {
        /// Shards per block, at least 1.
        shards: u32,
        /// Samples per window, at least 1; rounded up to a multiple of 64.
        samples: u64,
    },
    /// Shuffles all samples together: any shard may be next.
    Full,
    /// Each node reads shards of its own, and shuffles them in blocks: a node that caches what it reads needs room for its
    /// share of the dataset only. The shards change nodes every few epochs. Node `n` is ranks
    /// `n * world_size / nodes` and following.
    Nodes {
        /// Number of nodes, at least 1; the world size is a multiple of it.
        nodes: u32,
        /// Shards per block, at least 1.
        shards: u32,
        /// Samples per window, as in `Windows`; `None` to shuffle whole blocks.
        window: Option<u64>,
        /// Epochs after which shards change nodes, at least 1.
        epochs: u32,
    },
}

impl Shuffle {
    /// The length of the runs of samples that stay together, of all but the last ones of a shard.
    pub fn run(&self) -> Option<u64> {
        match self {
            Shuffle::Windows { samples, .. } | Shuffle::Nodes { window: Some(samples), .. } => {
                Some(samples.div_ceil(RUNS))
            }
            _ => None,
        }
    }
}

/// The numbers of text such as `nodes:4:blocks:8:epochs:10`, all at least 1.
fn numbers<const N: usize>(text: &str, names: [&str; N]) -> Option<[u64; N]> {
    let mut words = text.split(':');
    let mut found = [0; N];
    for (name, number) in names.into_iter().zip(&mut found) {
        let value = (words.next() == Some(name)).then(|| words.next())??;
        *number = value.parse().ok().filter(|&n| n > 0 && !value.contains('+'))?;
    }
    words.next().is_none().then_some(found)
}

fn parsed(text: &str) -> Option<Shuffle> {
    let small = |number: u64| u32::try_from(number).ok();
    if let Some([shards]) = numbers(text, ["blocks"]) {
        return Some(Shuffle::Blocks { shards: small(shards)? });
    }
    if let Some([shards, samples]) = numbers(text, ["blocks", "window"]) {
        return Some(Shuffle::Windows { shards: small(shards)?, samples });
    }
    let (nodes, shards, window, epochs) = match numbers(text, ["nodes", "blocks", "epochs"]) {
        Some([nodes, shards, epochs]) => (nodes, shards, None, epochs),
        None => {
            let [nodes, shards, window, epochs] = numbers(text, ["nodes", "blocks", "window", "epochs"])?;
            (nodes, shards, Some(window), epochs)
        }
    };
    Some(Shuffle::Nodes { nodes: small(nodes)?, shards: small(shards)?, window, epochs: small(epochs)? })
}

impl fmt::Display for Shuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shuffle::Sequential => f.write_str("sequential"),
            Shuffle::Blocks { shards } => write!(f, "blocks:{shards}"),
            Shuffle::Windows { shards, samples } => write!(f, "blocks:{shards}:window:{samples}"),
            Shuffle::Full => f.write_str("full"),
            Shuffle::Nodes { nodes, shards, window: None, epochs } => {
                write!(f, "nodes:{nodes}:blocks:{shards}:epochs:{epochs}")
            }
            Shuffle::Nodes { nodes, shards, window: Some(samples), epochs } => {
                write!(f, "nodes:{nodes}:blocks:{shards}:window:{samples}:epochs:{epochs}")
            }
        }
    }
}

impl FromStr for Shuffle {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "sequential" => Ok(Shuffle::Sequential),
            "full" => Ok(Shuffle::Full),
            _ => parsed(text).ok_or_else(|| {
                let known = "sequential, blocks:8, blocks:8:window:6400, full, nodes:4:blocks:8:epochs:10 or nodes:4:blocks:8:window:6400:epochs:10";
                Error::config(format!("\"{text}\" is not a shuffle; write {known}"))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let nodes = Shuffle::Nodes { nodes: 4, shards: 8, window: None, epochs: 10 };
        assert_eq!((nodes.to_string().as_str(), nodes.run()), ("nodes:4:blocks:8:epochs:10", None));
        let both = Shuffle::Nodes { nodes: 4, shards: 8, window: Some(65), epochs: 10 };
        assert_eq!((both.to_string().as_str(), both.run()), ("nodes:4:blocks:8:window:65:epochs:10", Some(2)));
        let windows = Shuffle::Windows { shards: 16, samples: 1 << 40 };
        assert_eq!((windows.to_string().as_str(), windows.run()), ("blocks:16:window:1099511627776", Some(1 << 34)));
        for shuffle in [Shuffle::Sequential, Shuffle::Blocks { shards: 8 }, windows, Shuffle::Full, nodes, both] {
            assert_eq!(shuffle.to_string().parse::<Shuffle>().unwrap(), shuffle);
        }
        for text in [
            "",
            "blocks",
            "blocks:",
            "blocks:0",
            "blocks:+8",
            "blocks:5000000000",
            "Full",
            "blocks:8 ",
            "blocks:8:window:0",
        ] {
            assert!(text.parse::<Shuffle>().is_err(), "{text}");
        }
        for text in [
            "nodes:4",
            "nodes:0:blocks:8:epochs:1",
            "nodes:4:blocks:8:epochs:+1",
            "nodes:4:blocks:8:epochs:1:",
            "nodes:4:blocks:8:epochs:1:window:64",
            "nodes:4:blocks:8:window:0:epochs:1",
        ] {
            assert!(text.parse::<Shuffle>().is_err(), "{text}");
        }
    }
}
