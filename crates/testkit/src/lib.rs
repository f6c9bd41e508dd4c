//! Shared test support for packhorse's crates and for external formats.
//!
//! * [`conformance`]: the suite that every format must pass.
//! * [`hostile`]: a folder with everything that file systems allow, with expected outcomes; and tars with arbitrary
//!   headers.
//! * [`cuda`]: a fake GPU driver.
//! * [`external`]: a Python, real data and Slurm, for the tests that need them.
//! * [`faults`]: a store with injected faults, and one that loses unsynced data.
//! * [`memory`]: an outlet and inputs without a file system.
//! * [`pages`]: the pages of the repository and their blocks of code.
//! * [`program`]: runs a program with a time limit.
//! * `s3` (with the feature of that name): an in-process S3 server.
//! * [`trials`]: benches whose rivals take turns, and their results.
//! * [`typed`]: rows with every type of field, and the round-trip test for columnar formats.
//! * [`web`]: an in-process web server with injected faults.
//!
//! For tests only: it panics when a check fails. It knows no format.
#![expect(clippy::unwrap_used, reason = "errors fail the test")]
#![expect(clippy::panic, reason = "a failed check is a failed test")]

pub mod conformance;
pub mod cuda;
pub mod external;
pub mod faults;
pub mod hostile;
pub mod memory;
pub mod pages;
pub mod program;
#[cfg(feature = "s3")]
pub mod s3;
pub mod trials;
pub mod typed;
pub mod web;
