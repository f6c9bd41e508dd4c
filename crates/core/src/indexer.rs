//! Indexes of shards that were written by others.

use crate::{Input, Outlet, Result, Sealed, ShardSummary};

/// Writes the indexes that other readers want beside shards, also beside third-party ones, which it never changes. Where
/// a sink writes the same indexes, the bytes are equal.
pub trait Indexer: Send + Sync {
    /// What the indexes need to know of the shard `input`: samples, bytes, notes, and the members with keys and fields
    /// as its readers see them. Their checksums are 0. Reads headers only, unless an index has a digest of the shard.
    ///
    /// Errors: `Content` for a damaged shard, one without a sample, and one that its readers would read wrongly;
    /// `Unsupported` for one that can't be read by position.
    fn list(&self, input: &dyn Input) -> Result<ShardSummary>;

    /// Writes the indexes that belong to one shard.
    fn shard(&self, shard: &ShardSummary, out: &mut dyn Outlet) -> Result<()>;

    /// Writes the indexes of all shards together. Their names are paths relative to the folder of the indexes.
    ///
    /// Errors: `Content` for keys that occur twice, where a reader refuses that.
    fn dataset(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()>;
}
