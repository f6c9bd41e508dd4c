//! Progress, as seen from outside. Libraries emit events and never print.

use crate::Error;

/// Something that happened. Numbers are increments unless said otherwise.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// `files` more inputs were found.
    Scanned {
        /// Regular files and archives seen since the last event.
        files: u64,
    },
    /// The plan is known. Totals of the part that this process fills.
    Planned {
        /// Samples to pack; `None` where inputs are not counted before they are read.
        samples: Option<u64>,
        /// Bytes of input to read.
        bytes: u64,
        /// Shards to write.
        shards: u64,
    },
    /// Samples went into a shard that is not yet published.
    Packed {
        /// Samples since the last event.
        samples: u64,
        /// Bytes of input since the last event.
        bytes: u64,
    },
    /// A shard is published with its receipt, now or by an earlier run.
    Shard {
        /// The shard's name, without an extension.
        name: &'a str,
        /// Samples in it.
        samples: u64,
        /// Bytes of its data file.
        bytes: u64,
        /// Input bytes it stands for.
        input_bytes: u64,
        /// Whether an earlier run had already written it.
        reused: bool,
    },
    /// A sample or an input was left out, by policy.
    Skipped(&'a Error),
    /// Something that the user should know and that stops nothing.
    Warning(&'a str),
    /// Work on existing shards starts. Totals of them.
    Working {
        /// The work: `indexing`, `adopting`.
        what: &'static str,
        /// Shards.
        shards: u64,
        /// Bytes of them.
        bytes: u64,
    },
    /// Staging starts. Totals of the files to copy.
    Staging {
        /// Files.
        files: u64,
        /// Bytes of them.
        bytes: u64,
    },
    /// Bytes of staged files were copied.
    Staged {
        /// Bytes since the last event.
        bytes: u64,
    },
    /// A sample's content was hashed to find duplicates.
    Hashed {
        /// Bytes read.
        bytes: u64,
    },
    /// A file of `bytes` was checked.
    Verified {
        /// Bytes read.
        bytes: u64,
    },
}

/// Receives events. Called from many threads; must return quickly.
///
/// ```
/// use packhorse_core::{Event, Observer};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// Counts the samples that are packed.
/// #[derive(Default)]
/// struct Count(AtomicU64);
///
/// impl Observer for Count {
///     fn event(&self, event: &Event<'_>) {
///         if let Event::Packed { samples, .. } = event {
///             self.0.fetch_add(*samples, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let count = Count::default();
/// count.event(&Event::Packed { samples: 3, bytes: 1000 });
/// assert_eq!(count.0.into_inner(), 3);
/// ```
pub trait Observer: Send + Sync {
    /// One event.
    fn event(&self, event: &Event<'_>);
}

/// Silence.
impl Observer for () {
    fn event(&self, _: &Event<'_>) {}
}

impl<O: Observer + ?Sized> Observer for std::sync::Arc<O> {
    fn event(&self, event: &Event<'_>) {
        (**self).event(event);
    }
}
