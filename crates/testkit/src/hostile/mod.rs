//! Inputs that nobody wants, and what must become of them.

mod folder;
pub mod tar;

pub use folder::{Entry, HostileFolder, Outcome};
