//! How samples are shuffled.

use packhorse_core::Error;
use std::fmt;
use std::str::FromStr;

/// How the samples of an epoch are shuffled. As text: `sequential`, `blocks:8`, `full`,
/// `nodes:4:blocks:8:epochs:10`.
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
    /// Each node reads shards of its own, and shuffles them in blocks: a node that caches what it reads needs room for its
    /// share of the dataset only. The shards change nodes every few epochs. Node `n` is ranks
    /// `n * world_size / nodes` and following.
    Nodes {
        /// Number of nodes, at least 1; the world size is a multiple of it.
        nodes: u32,
        /// Shards per block, at least 1.
        shards: u32,
        /// Epochs after which shards change nodes, at least 1.
        epochs: u32,
    },
}

/// The numbers of `nodes:4:blocks:8:epochs:10`.
fn nodes(text: &str) -> Option<[u32; 3]> {
    let mut words = text.split(':');
    let mut number = |name: &str| {
        let value = (words.next() == Some(name)).then(|| words.next())??;
        value.parse().ok().filter(|&n| n > 0 && !value.contains('+'))
    };
    let numbers = [number("nodes")?, number("blocks")?, number("epochs")?];
    words.next().is_none().then_some(numbers)
}

impl fmt::Display for Shuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shuffle::Sequential => f.write_str("sequential"),
            Shuffle::Blocks { shards } => write!(f, "blocks:{shards}"),
            Shuffle::Full => f.write_str("full"),
            Shuffle::Nodes { nodes, shards, epochs } => write!(f, "nodes:{nodes}:blocks:{shards}:epochs:{epochs}"),
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
            _ => nodes(text).map(|[nodes, shards, epochs]| Shuffle::Nodes { nodes, shards, epochs }).ok_or_else(|| {
                let known = "sequential, blocks:8, full or nodes:4:blocks:8:epochs:10";
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
        let nodes = Shuffle::Nodes { nodes: 4, shards: 8, epochs: 10 };
        assert_eq!(nodes.to_string(), "nodes:4:blocks:8:epochs:10");
        for shuffle in [Shuffle::Sequential, Shuffle::Blocks { shards: 8 }, Shuffle::Full, nodes] {
            assert_eq!(shuffle.to_string().parse::<Shuffle>().unwrap(), shuffle);
        }
        for text in ["", "blocks", "blocks:", "blocks:0", "blocks:+8", "blocks:5000000000", "Full", "blocks:8 "] {
            assert!(text.parse::<Shuffle>().is_err(), "{text}");
        }
        for text in ["nodes:4", "nodes:0:blocks:8:epochs:1", "nodes:4:blocks:8:epochs:+1", "nodes:4:blocks:8:epochs:1:"]
        {
            assert!(text.parse::<Shuffle>().is_err(), "{text}");
        }
    }
}
