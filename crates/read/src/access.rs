//! How the bytes of a file are read: mapped or in ranges.

/// How the bytes of a file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Maps local files; reads others in ranges, with a gap of 64 KiB. Only for sealed files: truncating a mapped file
    /// kills the process.
    Map,
    /// Reads by `Input::read_at`. Ranges of one batch that are at most `gap` bytes apart are read together.
    Ranges {
        /// Unwanted bytes that cost less than another read: about 4 KiB on a local disk, 1 MiB for an object store.
        gap: u32,
    },
}

impl Access {
    /// The largest gap between two ranges that is read rather than skipped, in bytes.
    pub(crate) fn gap(self) -> u64 {
        match self {
            Access::Map => 64 << 10,
            Access::Ranges { gap } => gap.into(),
        }
    }

    /// Whether local files are mapped.
    pub(crate) fn maps(self) -> bool {
        self == Access::Map
    }
}
