//! Where bytes lie: local files, compressed files, and the one way by which files get their final
//! names; with the feature `remote` also objects in S3 and files on web servers, for reading.
//!
//! This crate owns paths, system calls and durability. It knows no format, no plan and no terminal.
//! Nothing else in packhorse renames or syncs a file.

mod beneath;
mod compression;
mod concat;
mod frames;
mod inside;
mod local;
mod location;
mod lock;
#[cfg(feature = "remote")]
mod remote;
mod remote_options;
mod spool;
mod staging;
mod stores;
mod tree;

pub use compression::{Compression, decompressed};
pub use frames::{Frame, Frames};
pub use inside::Inside;
pub use local::Local;
pub use location::Location;
pub use lock::Lock;
pub use remote_options::RemoteOptions;
pub use spool::spool;
pub use staging::{Published, Stage, Staging};
pub use stores::Stores;
