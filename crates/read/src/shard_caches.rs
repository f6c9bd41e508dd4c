//! Opens shards through caches: a folder of whole shards, parts of them in memory, or both.

use crate::Dataset;
use crate::cache::{CacheCounters, CacheSource, DirCache, DirOptions, RamCache, RamCounters, RamOptions};
use crate::dataset::Shard;
use crate::opened::Opener;
use packhorse_core::{Observer, Result};
use std::sync::Arc;

/// Which bytes of shards are cached; none by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CacheOptions {
    /// Bytes of memory for parts of shards. If not all shards fit, a fixed part stays cached: an LRU cache would hold
    /// nothing that the next epoch begins with. Decoded rows of tables may take as much memory again.
    pub ram: u64,
    /// A folder for whole shards, shared by the processes of a machine.
    pub dir: Option<DirOptions>,
}

/// The caches of a loader.
#[derive(Clone)]
pub(crate) struct ShardCaches {
    pub(crate) ram: Option<RamCache>,
    dirs: Arc<[(Arc<CacheSource>, DirCache)]>,
    counters: Arc<CacheCounters>,
}

impl ShardCaches {
    /// Errors: those of [`DirCache::open`].
    pub(crate) fn new(
        dataset: &Dataset,
        options: &CacheOptions,
        observer: &Arc<dyn Observer>,
        counters: &Arc<CacheCounters>,
    ) -> Result<Self> {
        let ram = match options.ram {
            0 => None,
            limit => Some(RamCache::new(&RamOptions::new(limit, dataset.bytes()), Arc::clone(counters))?),
        };
        let mut dirs: Vec<(Arc<CacheSource>, DirCache)> = Vec::new();
        for (source, _) in dataset.shards().iter().filter_map(|shard| shard.near.as_ref()) {
            let Some(dir) = &options.dir else { break };
            if !dirs.iter().any(|(known, _)| known.is(source)) {
                let cache = DirCache::open(CacheSource::clone(source), dir.clone(), Arc::clone(observer))?;
                dirs.push((Arc::clone(source), cache));
            }
        }
        Ok(Self { ram, dirs: dirs.into(), counters: Arc::clone(counters) })
    }

    /// The function that opens shards through the caches, and counts them.
    pub(crate) fn opener(&self) -> Opener {
        let near = self.clone();
        Box::new(move |number: u32, shard: &Shard| {
            let (cached, busy) = match &shard.near {
                Some((source, file)) => match near.dirs.iter().find(|(known, _)| known.is(source)) {
                    Some((_, cache)) => cache.file_or_busy(file)?,
                    None => (None, false),
                },
                None => (None, false),
            };
            let opened = &near.counters;
            if cached.is_some() { &opened.shards_cached } else { &opened.shards_opened }.add(1);
            let input = cached.map_or_else(|| shard.open(), Ok)?;
            let input = match &near.ram {
                Some(ram) => ram.wrap(number.into(), input),
                None => input,
            };
            Ok((input, busy))
        })
    }

    pub(crate) fn counters(&self) -> Option<RamCounters> {
        self.ram.as_ref().map(RamCache::counters)
    }
}
