//! Tests of the format's public interface.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]
#![expect(clippy::panic, reason = "a failed check is a failed test")]

mod common;
mod damage;
#[cfg(feature = "documents")]
mod golden;
mod interop;
mod kinds;
mod layouts;
mod merge;
mod round_trip;
mod seal;
mod verify;
