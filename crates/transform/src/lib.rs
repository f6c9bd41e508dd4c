//! What happens to rows between reading and writing.
//!
//! This crate owns the transforms: [`Transform`] is what one promises, [`image`] is one. It refuses
//! to know where rows come from, where they go, threads, plans and any one format.

mod describe;
pub mod image;
mod transform;

pub use describe::from_description;
pub use transform::Transform;
