//! What happens to rows between reading and writing.
//!
//! This crate owns the transforms: [`Transform`] is what one promises, [`image`] and
//! [`fields`] are two. It refuses
//! to know where rows come from, where they go, threads, plans and any one format.

mod describe;
pub mod fields;
pub mod image;
mod transform;

pub use describe::from_description;
pub use transform::Transform;
