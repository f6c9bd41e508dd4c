//! The subscriber of `tracing` behind `--trace`: hands spans and events of packhorse's libraries to the trace, if one is written.

use crate::trace::{is_on, with_log};
use crate::trace_lines::TraceArgs;
use packhorse_core::{Error, Result};
use std::sync::OnceLock;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber, set_global_default};
use tracing::{Event, Level, Metadata, level_filters::LevelFilter};

struct TraceSubscriber;

/// Makes this the subscriber of the process.
///
/// Errors (kind `Config`): it has another one.
pub(crate) fn install() -> Result<()> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    match INSTALLED.get_or_init(|| set_global_default(TraceSubscriber).is_ok()) {
        true => Ok(()),
        false => Err(Error::config("this process has a subscriber of tracing already, which gets the spans")),
    }
}

/// Whether it is of packhorse. Other libraries have spans too.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("packhorse::") && *metadata.level() <= Level::DEBUG
}

impl Subscriber for TraceSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_on() && is_ours(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if is_on() { LevelFilter::DEBUG } else { LevelFilter::OFF })
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_on() && is_ours(metadata)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut id = u64::MAX;
        with_log(|trace, log| {
            let args = if trace.writes() { TraceArgs::of(|visit| span.record(visit)) } else { TraceArgs::default() };
            id = log.open(span.metadata(), args);
        });
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        with_log(|trace, log| {
            if trace.writes() {
                log.record(span.into_u64(), values)
            }
        });
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let args = TraceArgs::of(|visit| event.record(visit));
        with_log(|trace, log| trace.event(event.metadata(), &args, log));
    }

    fn enter(&self, span: &Id) {
        with_log(|_, log| log.enter(span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        with_log(|trace, log| trace.exit(span.into_u64(), log));
    }

    fn clone_span(&self, span: &Id) -> Id {
        with_log(|_, log| log.share(span.into_u64()));
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        with_log(|_, log| log.close(span.into_u64()));
        true
    }
}
