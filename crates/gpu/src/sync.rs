//! The ring's synchronisation types: from the standard library here, from loom and shuttle in the models.

pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
