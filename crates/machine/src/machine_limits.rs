//! The limits that were found.

use crate::{Interval, Quantity};
use std::path::PathBuf;

/// How reads past the page cache were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdReads {
    /// With `O_DIRECT`.
    Direct,
    /// After `posix_fadvise(POSIX_FADV_DONTNEED)`.
    Dropped,
    /// Not at all: the file system is in memory, or keeps its pages.
    None,
}

impl ColdReads {
    /// The word for it in documents.
    pub fn name(self) -> &'static str {
        match self {
            ColdReads::Direct => "direct",
            ColdReads::Dropped => "dropped",
            ColdReads::None => "none",
        }
    }
}

/// One limit, with some number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineLimit {
    /// What was measured.
    pub quantity: Quantity,
    /// Threads at once.
    pub threads: usize,
    /// In its unit a second, all threads together.
    pub rate: Interval,
    /// Bytes of one unit: of a read, of a JPEG; 0 for the opening of a file.
    pub unit_bytes: f64,
}

impl MachineLimit {
    /// The median in bytes a second, stored ones for JPEGs.
    pub fn bytes_per_s(&self) -> f64 {
        self.rate.median * self.unit_bytes
    }

    /// The median in pixels a second, for decoding.
    pub fn pixels_per_s(&self) -> Option<f64> {
        self.quantity.pixels().map(|pixels| self.rate.median * f64::from(pixels))
    }
}

/// The limits of a machine and of one of its file systems. What can't be measured is not among them.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineLimits {
    /// The folder whose file system was measured.
    pub dir: PathBuf,
    /// Bytes of the test file.
    pub size: u64,
    /// Threads that compute.
    pub threads: usize,
    /// How cold reads were made.
    pub cold: ColdReads,
    /// The name of the GPU that was measured.
    pub gpu: Option<String>,
    /// The limits, in the order of [`Quantity::all`], with one thread before those with many.
    pub measured: Vec<MachineLimit>,
    /// Seconds that measuring took.
    pub seconds: f64,
}

impl MachineLimits {
    /// The limit of one thread.
    pub fn one(&self, quantity: Quantity) -> Option<&MachineLimit> {
        self.measured.iter().find(|limit| limit.quantity == quantity && limit.threads == 1)
    }

    /// The highest, with one thread or many: more threads may be slower.
    pub fn best(&self, quantity: Quantity) -> Option<&MachineLimit> {
        let limits = self.measured.iter().filter(|limit| limit.quantity == quantity);
        limits.max_by(|a, b| a.rate.median.total_cmp(&b.rate.median))
    }
}
