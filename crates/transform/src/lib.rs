//! What happens to rows between reading and writing.
//!
//! This crate owns the transforms: [`Transform`] is what one promises, [`image`],
//! [`fields`] and, behind the feature `tokenize`, `tokenize` are three. It refuses to know where rows come from, where they go, threads, plans and any one format.

mod describe;
pub mod fields;
pub mod image;
#[cfg(feature = "tokenize")]
pub mod tokenize;
mod transform;

pub use describe::{Making, from_description, from_description_with};
pub use transform::{Counts, Transform};
