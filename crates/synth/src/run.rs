//! Settings and result of writing a corpus.

use packhorse_core::Cancel;
use std::num::NonZeroUsize;

/// How to write a corpus. Does not affect any byte.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Number of threads.
    pub jobs: NonZeroUsize,
    /// Checked before every file.
    pub cancel: &'a Cancel,
    /// Called with the length of every finished file, from any thread; must be fast.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// A complete corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Files in the corpus.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files that already existed.
    pub reused: u64,
}
