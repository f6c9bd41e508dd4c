//! What packing needs beside a plan: services from outside, and settings that change no byte.

use crate::{OnError, Part};
use packhorse_core::{Cancel, Limits, Observer, Registry, Store};
use packhorse_transform::Transform;
use std::sync::Arc;

/// What packing needs from outside.
#[derive(Clone)]
pub(crate) struct PackContext<'a> {
    /// The formats.
    pub(crate) registry: &'a Registry,
    /// The transforms that the plan names, in its order.
    pub(crate) transforms: &'a [Box<dyn Transform>],
    /// The file system.
    pub(crate) store: Arc<dyn Store>,
    /// Bounds on what single values take up. A plan with limits of its own is filled with the smaller of the two
    /// ([`Limits::default`]: with its own); what only these refuse is no sample to be left out.
    pub(crate) limits: Limits,
    /// Whoever wants to see progress.
    pub(crate) observer: &'a dyn Observer,
    /// The request to stop.
    pub(crate) cancel: &'a Cancel,
}

/// How to fill a plan. None of it changes a byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackOptions {
    /// Which shards.
    pub(crate) part: Part,
    /// Threads that compute.
    pub(crate) jobs: usize,
    /// Threads that wait for the file system.
    pub(crate) io_threads: usize,
    /// The most bytes of input held in blocks, those of all writers together; each may have a small one of 512 KiB beside.
    /// Samples that are copied in pieces count with 1 MiB a writer. What a single value takes up, and what is made of it
    /// on the way, is for [`PackContext::limits`].
    pub(crate) memory: u64,
    /// What to do with bad inputs.
    pub(crate) on_error: OnError,
    /// Whether shards of sealed datasets among the inputs are compared with their recorded digests before they are
    /// read. Damage ends the job (`Incomplete`), whatever the policy.
    pub(crate) verify: bool,
}

impl Default for PackOptions {
    /// All shards, one job a CPU this process may use, 32 readers, 192 MiB.
    fn default() -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Self { part: Part::ALL, jobs, io_threads: 32, memory: 192 << 20, on_error: OnError::Fail, verify: true }
    }
}
