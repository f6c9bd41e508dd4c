//! Bytes that were read once and are kept near.

mod chunks;
mod ram;
mod ram_options;
mod share;
pub use ram::RamCache;
pub use ram_options::{RamCounters, RamOptions};
