//! What tests of packhorse share, for its own crates and for formats that live elsewhere.
//!
//! * [`conformance`]: what every format must do, as one call.
//! * [`hostile`]: a folder of everything that file systems allow, with the outcome of each entry; and
//!   tars with whatever headers a test wants.
//! * [`cuda`]: a driver of GPUs for machines without one.
//! * [`external`]: a Python, real data and Slurm, for the tests that need them.
//! * [`faults`]: a store whose calls fail when told to, and one that forgets what was not synced.
//! * [`memory`]: an outlet and inputs that need no file system.
//! * [`program`]: running a program with a time limit.
//! * `s3` (with the feature of that name): a server of S3 in the process.
//! * [`typed`]: rows of every kind of field, and the round trip that formats of columns must pass.
//! * [`web`]: a web server in the process, with all that web servers do wrong.
//!
//! This crate is for tests: it panics where a check fails, and refuses to know any one format.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails the test")]
#![expect(clippy::panic, reason = "a failed check is a failed test")]

pub mod conformance;
pub mod cuda;
pub mod external;
pub mod faults;
pub mod hostile;
pub mod memory;
pub mod program;
#[cfg(feature = "s3")]
pub mod s3;
pub mod typed;
pub mod web;
