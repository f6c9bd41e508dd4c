//! File access: local files, compressed files, patterns of names, and the one way by which files get their final names; with the feature
//! `remote` also object stores, and reading from web servers.
//!
//! This crate owns paths, system calls and durability. It knows no format, no plan and no terminal.
//! Nothing else in packhorse renames or syncs a file.

mod beneath;
mod compression;
mod concat;
mod frames;
mod hash_tree;
mod hashing;
mod inside;
mod local;
mod location;
mod lock;
mod owner;
mod pattern;
mod quarantine;
mod read_windows;
#[cfg(feature = "remote")]
mod remote;
mod remote_options;
mod sorted_runs;
mod spool;
mod stage;
mod staged;
mod staging;
mod stores;

pub use compression::{Compression, decompressed, decompressed_len};
pub use frames::{Frame, Frames};
pub use inside::Inside;
pub use local::{Local, LocalFile};
pub use location::Location;
pub use lock::Lock;
pub use owner::host_name;
pub use pattern::{braces, glob, is_glob, natural, paths_of};
pub use quarantine::{Quarantine, Quarantined};
pub use read_windows::windowed;
pub use remote_options::{OnWait, RemoteOptions};
pub use sorted_runs::{EncodedRecords, Merge, SortedRuns, scratch_file};
pub use spool::{descriptors, free_space, spool};
pub use stage::{Published, ReadyStage, Stage};
pub use staged::{StagedGroup, staged};
pub use staging::Staging;
pub use stores::Stores;
