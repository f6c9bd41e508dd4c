//! How a corpus is written, and what came of it. Owns these two records alone.

use packhorse_core::Cancel;
use std::num::NonZeroUsize;

/// How to write a corpus. None of it changes a byte of what is written.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Threads.
    pub jobs: NonZeroUsize,
    /// Looked at before every file.
    pub cancel: &'a Cancel,
    /// Called with the bytes of every file that is done, from any of the threads; must be quick.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// A corpus that is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Files in the corpus.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// How many of the files were already there.
    pub reused: u64,
}
