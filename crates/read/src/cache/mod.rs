//! Bytes of shards that were read once and are kept near: in memory, or in a folder of this machine.
//!
//! ```text
//! Store ──┬───────────────────────────────→ Input ── RamCache::wrap ──→ Input
//!         └── DirCache::fill ─→ folder ──→ DirCache::shard
//!                 stage ──────────┘
//! ```
//!
//! * **The cached part** is fixed and pseudo-random, as large as there is room for. A cache that keeps
//!   what was used last has nothing left of a dataset that is larger than itself when it is read again from the start;
//!   this one answers from its part in every epoch, and the part does not depend on who asks or when.
//! * **Refused to know**: formats, and what is in the bytes. A file is right by its digest where the manifest has it,
//!   else by its size and time of modification.

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
mod staged;

pub use dir::DirCache;
pub use dir_options::DirOptions;
pub use file::{CacheFile, Check};
pub use ram::RamCache;
pub use ram_options::{RamCounters, RamOptions};
pub use source::CacheSource;
pub use stage::{StageOptions, stage};
pub use staged::{Staged, Unfit};
