//! Documents out of text, from the outside.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails the test")]
#![expect(clippy::panic, reason = "a failed check is a failed test")]

mod common;
mod compressed;
mod documents;
mod python;
