//! Spans of packing for the crate `tracing`, of the target `packhorse::pack`: docs/observe.md lists names and fields. There is one for
//! each block, shard or wait, and none for a sample. Where no subscriber wants them, each costs a look at a flag.

use crossbeam_channel::Receiver;
use packhorse_core::{Blocks, Error, Result, Rows, rows_bytes};
use tracing::field::Empty;
use tracing::span::EnteredSpan;

/// The target of all spans of this crate.
pub(crate) const TARGET: &str = "packhorse::pack";

/// A wait on `what`: `read`, `transform`, `memory`.
pub(crate) fn wait(what: &'static str) -> EnteredSpan {
    tracing::debug_span!(target: TARGET, "wait", on = what).entered()
}

/// Receives a value, and shows the wait for it.
///
/// Errors (kind `Bug`): the thread that should send it is gone.
pub(crate) fn receive<T>(from: &Receiver<T>, what: &'static str) -> Result<T> {
    from.try_recv()
        .or_else(|_| {
            let _waits = wait(what);
            from.recv()
        })
        .map_err(|_| Error::bug(format!("a thread of the stage {what} ended early")))
}

/// Shows the reading of each block of rows of the input `fname`.
pub(crate) fn blocks(mut blocks: Blocks<'_>, fname: String) -> Blocks<'_> {
    let next = move || {
        let span = tracing::debug_span!(target: TARGET, "read_rows", fname, samples = Empty, bytes = Empty).entered();
        let rows = blocks.next()?;
        if let Ok(rows) = &rows
            && !span.is_disabled()
        {
            span.record("samples", rows.num_rows()).record("bytes", rows_bytes(rows));
        }
        Some(rows)
    };
    Box::new(std::iter::from_fn(next))
}

/// The bytes of the values of these rows.
pub(crate) fn bytes(rows: &[Rows]) -> usize {
    rows.iter().map(rows_bytes).sum()
}

/// How many blocks wait to be read, as a counter.
pub(crate) fn read_queue(blocks: usize) {
    tracing::debug!(name: "read_queue", target: TARGET, blocks);
}

/// How many blocks wait to be transformed, as a counter.
pub(crate) fn transform_queue(blocks: usize) {
    tracing::debug!(name: "transform_queue", target: TARGET, blocks);
}
