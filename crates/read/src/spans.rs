//! Spans of reading for the crate `tracing`, of the target `packhorse::read`: docs/observe.md lists names and fields. There is one
//! for each batch, shard or wait, and none for a sample. Where no subscriber wants them, each costs a look at a flag.

use crate::count::Time;
use std::time::Instant;
use tracing::span::EnteredSpan;

/// The target of all spans of this crate.
pub(crate) const TARGET: &str = "packhorse::read";

/// A wait, from where it is known to be one.
pub(crate) struct Wait {
    start: Instant,
    _span: EnteredSpan,
}

impl Wait {
    /// Begins a wait on `what`: `batch`, `room`, `read`.
    pub(crate) fn on(what: &'static str) -> Self {
        let span = tracing::debug_span!(target: TARGET, "wait", on = what).entered();
        Self { start: Instant::now(), _span: span }
    }

    /// Ends it, and adds its time.
    pub(crate) fn end(self, to: &Time) {
        to.add(self.start.elapsed());
    }
}
