//! Where bytes lie: local files, compressed files, and the one way by which files get their final
//! names.
//!
//! This crate owns paths, system calls and durability. It knows no format, no plan and no terminal.
//! Nothing else in packhorse renames or syncs a file.

mod compression;
mod concat;
mod local;
mod spool;
mod staging;
mod tree;

pub use compression::{Compression, decompressed};
pub use local::Local;
pub use spool::spool;
pub use staging::{Published, Stage, Staging};
