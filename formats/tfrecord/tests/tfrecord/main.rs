//! Tests of the format's public interface.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]
#![expect(clippy::panic, reason = "a failed check is a failed test")]

mod common;
mod damage;
mod foreign;
mod golden;
mod interop;
mod kinds;
mod round_trip;
