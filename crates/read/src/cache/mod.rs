//! Caches the bytes of shards in memory or in a local folder.
//!
//! ```text
//! Store ──┬──────────────────────────→ Input ── RamCache::wrap ──→ Input
//!         └── stage ─→ folder ──→ DirCache::file
//! ```
//!
//! * **The cached part** is fixed and pseudo-random, as large as the space allows. An LRU cache has no hits when a
//!   dataset larger than the cache is read again from the start; this one has hits for its part in every epoch,
//!   independent of threads and timing.
//! * **Refused to know**: formats and the meaning of the bytes. A copy is validated by its digest if the manifest has
//!   it, else by its size and modification time.

mod cache_counters;
mod chunks;
mod copy;
mod dir;
mod dir_options;
mod file;
mod folder;
mod held;
mod listing;
mod ram;
mod ram_options;
mod room;
mod share;
mod source;
mod stage;
mod stage_view;
mod staged;

pub(crate) use cache_counters::CacheCounters;
pub(crate) use dir::DirCache;
pub use dir_options::DirOptions;
pub(crate) use file::{CacheFile, Check};
pub(crate) use ram::RamCache;
pub use ram_options::RamCounters;
pub(crate) use ram_options::RamOptions;
pub(crate) use source::{CacheSource, is_same};
pub use stage::{StageOptions, stage};
pub use staged::{Staged, Unfit};
