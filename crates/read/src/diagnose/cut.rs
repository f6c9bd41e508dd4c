//! Where the data of a step are served from memory.

use std::fmt;

/// A place where the loop is cut: all before it is held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cut {
    /// Steps on batches that are on the device.
    Device,
    /// The same, while the loader runs beside them and its batches are dropped.
    Busy,
    /// Batches in host memory.
    Host,
    /// Decoded samples in memory.
    Decoded,
    /// Samples in memory, as they are stored.
    Stored,
    /// Samples of files that are in the page cache.
    Files,
    /// The loader.
    Loader,
}

impl Cut {
    /// All of them, in order.
    pub const ALL: [Self; 7] =
        [Self::Device, Self::Busy, Self::Host, Self::Decoded, Self::Stored, Self::Files, Self::Loader];

    /// Its name: `device`, `busy`, `host`, `decoded`, `stored`, `files`, `loader`.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// Where its data come from.
    pub fn says(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Device => ("device", "steps on batches that are on the device"),
            Self::Busy => ("busy", "the same, while the loader runs beside them"),
            Self::Host => ("host", "batches in host memory"),
            Self::Decoded => ("decoded", "decoded samples in memory"),
            Self::Stored => ("stored", "stored samples in memory"),
            Self::Files => ("files", "files in the page cache"),
            Self::Loader => ("loader", "the loader"),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
