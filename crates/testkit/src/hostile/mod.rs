//! Hostile inputs and their expected outcomes.

mod folder;
pub mod tar;

pub use folder::{HostileEntry, HostileFolder, Outcome};
