//! The Rust of the pages, compiled: `tests/docs.rs` compares each block with these files.

mod gpu;
mod pack;
mod read;
