//! How the bytes of a file are read.

/// Mapped, or read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Mapped where the input is a file of this machine, else by ranges, with a gap of 64 KiB. For sealed files: one that is
    /// truncated while it is mapped ends the process.
    #[default]
    Map,
    /// By `Input::read_at`. Ranges of one batch that are at most `gap` bytes apart are read as one.
    Ranges {
        /// Unwanted bytes that cost less than another read: about 4 KiB on a local disk, 1 MiB at an object store.
        gap: u32,
    },
}

impl Access {
    /// Bytes between two ranges that are read rather than skipped.
    pub(crate) fn gap(self) -> u64 {
        match self {
            Access::Map => 64 << 10,
            Access::Ranges { gap } => gap.into(),
        }
    }

    /// Whether files of this machine are mapped.
    pub(crate) fn maps(self) -> bool {
        self == Access::Map
    }
}
