//! What packing needs beside a plan: services from outside, and settings that change no byte.

use crate::kept_tables::KeptTables;
use crate::moved_inputs::MovedInput;
use crate::{OnError, Part};
use packhorse_core::{Cancel, Limits, Observer, Registry, Store};
use packhorse_storage::Quarantine;
use packhorse_transform::Transform;
use std::sync::Arc;

/// The services that packing uses.
#[derive(Clone)]
pub(crate) struct PackContext<'a> {
    /// The formats.
    pub(crate) registry: &'a Registry,
    /// The transforms of the plan, in order.
    pub(crate) transforms: &'a [Box<dyn Transform>],
    /// The file system.
    pub(crate) store: Arc<dyn Store>,
    /// Bounds on single values. If the plan has limits, the smaller of the two apply ([`Limits::default`]: those of the
    /// plan). A value refused only by these is an error, never skipped.
    pub(crate) limits: Limits,
    /// Receives progress events.
    pub(crate) observer: &'a dyn Observer,
    /// The request to stop.
    pub(crate) cancel: &'a Cancel,
    /// Tables that the scan opened.
    pub(crate) kept: &'a KeptTables,
    /// Inputs that have another path now than in the plan.
    pub(crate) moved: &'a [MovedInput],
    /// Keeps files that are replaced by other bytes.
    pub(crate) quarantine: Option<Arc<Quarantine>>,
}

/// How to fill a plan. No option changes a byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackOptions {
    /// The shards to fill.
    pub(crate) part: Part,
    /// Threads that compute.
    pub(crate) jobs: usize,
    /// Threads that wait for the file system.
    pub(crate) io_threads: usize,
    /// The most bytes of input held in blocks of all writers, beside 512 KiB for each writer and 1 MiB for a sample
    /// copied in pieces. [`PackContext::limits`] bounds single values and their decoded forms.
    pub(crate) memory: u64,
    /// How bad inputs are handled.
    pub(crate) on_error: OnError,
    /// Whether shards of sealed datasets among the inputs are compared with their recorded digests before they are
    /// read. Damage is always an error (`Incomplete`), never skipped.
    pub(crate) verify: bool,
}

impl Default for PackOptions {
    /// All shards, one job per available CPU, 32 reading threads, 192 MiB.
    fn default() -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Self { part: Part::ALL, jobs, io_threads: 32, memory: 192 << 20, on_error: OnError::Fail, verify: true }
    }
}
