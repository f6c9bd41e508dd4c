//! Seeded corpora that look real, for `packhorse synth`, the benches and tests.
//!
//! This crate owns four kinds of folders: [`images`], [`text`], [`npz`] and [`tiny`] files. What is
//! in a file depends on the specification's seed and the file's number alone: not on threads, the
//! machine, or how many files follow, so that a smaller corpus is the beginning of a larger one. All
//! arithmetic is on integers or exact. It refuses to know who reads the files.
//!
//! A folder that holds something else is never written to; one that holds the same corpus, or a part
//! of it, is completed. Nothing is synced to disk: what is lost can be made again.

mod corpus;
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
