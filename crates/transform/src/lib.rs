//! Transforms of rows between reading and writing.
//!
//! This crate owns the trait [`Transform`] and its implementations [`image`], [`fields`] and, with the feature
//! `tokenize`, `tokenize`. It does not know where rows come from or go, nor threads, plans or formats.

mod casts;
mod describe;
pub mod fields;
pub mod image;
pub mod moments;
#[cfg(feature = "tokenize")]
pub mod tokenize;
mod transform;

pub use casts::{Casts, kinds};
pub use describe::{RebuildContext, from_description, from_description_with, without_text_field};
pub use transform::{Counts, Transform, casts_of};
