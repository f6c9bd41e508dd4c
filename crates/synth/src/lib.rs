//! Seeded synthetic corpora for `packhorse synth`, benches and tests.
//!
//! This crate owns four corpora: [`images`], [`text`], [`npz`] and [`tiny`] files. A file's content depends only on
//! the seed and the file's index, not on threads, the machine or the number of files; a smaller corpus is a prefix of
//! a larger one. All arithmetic is integer or exact. This crate does not know who reads the files.
//!
//! A folder with other files is refused; an incomplete corpus is completed. Nothing is synced, because the files can
//! be generated again.

mod file_generator;
mod images;
mod npz;
mod rng;
mod run;
mod text;
mod tiny;
mod write;

pub use images::{ImagesSpec, images};
pub use npz::{NpzSpec, npz};
pub use run::{Run, Written};
pub use text::{TextSpec, text};
pub use tiny::{TinySpec, tiny};

#[cfg(test)]
mod tests;
