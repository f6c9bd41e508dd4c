//! What the ring takes from the standard library: models of it take the same from loom and from shuttle.

pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
