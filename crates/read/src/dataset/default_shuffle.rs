//! How a dataset is shuffled where nothing else is asked for.

use super::Dataset;
use packhorse_order::{RUNS, Shuffle};

/// Shards whose samples are shuffled together.
const SHARDS: u32 = 16;
/// Bytes of stored rows that are shuffled together: decoded they fit into the cache of rows, which is at least 256 MiB.
const WINDOW: u64 = 192 << 20;

impl Dataset {
    /// How loaders shuffle where nothing else is asked for: the samples of 16 shards together (`blocks:16`). Rows of typed formats are
    /// decoded in blocks, so where 16 shards have more than 192 MiB these are shuffled in windows of about so many bytes
    /// ([`Shuffle::Windows`]): each row is decoded once. It depends on the shards alone.
    pub fn default_shuffle(&self) -> Shuffle {
        let is_table = self.shards.first().is_some_and(|shard| shard.is_table());
        let shards = (self.used().count() as u64).max(1);
        let together = self.bytes() / shards * shards.min(SHARDS.into());
        if !is_table || together <= WINDOW {
            return Shuffle::Blocks { shards: SHARDS };
        }
        let run = (WINDOW / RUNS / self.mean().max(1)).max(1);
        Shuffle::Windows { shards: SHARDS, samples: run * RUNS }
    }
}
