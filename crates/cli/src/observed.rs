//! A job that shows what it does: its trace, and its metrics.

use crate::metrics::MetricsServer;
use crate::observe_args::Observe;
use crate::progress::Progress;
use crate::stages::Stages;
use crate::trace::Trace;
use packhorse_core::Result;
use packhorse_read::{LoaderCounters, Metric};
use std::sync::Arc;

/// Traces and serves until it is [finished](Observed::finish) or dropped.
#[derive(Default)]
pub(crate) struct Observed {
    trace: Option<Trace>,
    metrics: Option<MetricsServer>,
}

impl Observed {
    /// Starts what `asked` asks for; `progress` counts events, and `loaders` batches.
    pub(crate) fn start(asked: &Observe, progress: &Arc<Progress>, loaders: &Arc<LoaderCounters>) -> Result<Self> {
        let stages = asked.metrics.is_some().then(Arc::<Stages>::default);
        let begin = asked.trace.is_some() || stages.is_some();
        let trace = begin.then(|| Trace::begin(asked.trace.as_deref(), stages.clone())).transpose()?;
        let (events, loaders) = (Arc::clone(progress), Arc::clone(loaders));
        let text = move || {
            let text = Metric::prometheus(events.counts().metrics().into_iter().chain(loaders.stats().metrics()));
            text + &stages.as_ref().map_or_else(String::new, |stages| stages.prometheus())
        };
        let serve = |address: &String| MetricsServer::start(address, text);
        let metrics = asked.metrics.as_ref().map(serve).transpose()?;
        if let Some(server) = &metrics {
            progress.serving(server.address());
        }
        Ok(Self { trace, metrics })
    }

    /// Ends both.
    ///
    /// Errors: the trace could not be written.
    pub(crate) fn finish(self) -> Result<()> {
        drop(self.metrics);
        self.trace.as_ref().map_or(Ok(()), Trace::finish)
    }
}
