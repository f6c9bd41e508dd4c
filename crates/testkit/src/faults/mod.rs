//! Stores that fail.

mod failing;
mod power;

pub use failing::{Call, CallKind, FailingStore, StoreFault};
pub use power::{Loss, Mutant, PowerStore};
