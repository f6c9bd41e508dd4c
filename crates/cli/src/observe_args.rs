//! The flags that show a job while it runs. They decide no byte.

use clap::{Args as ClapArgs, ValueHint};
use std::path::PathBuf;

/// What a job shows of itself.
#[derive(ClapArgs, Default)]
pub(crate) struct Observe {
    /// Write to FILE when each thread did what, as trace events, which Perfetto shows; FILE.pfw is for DFTracer's analysis
    #[arg(long, hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,

    /// Serve counters of the job at ADDR while it runs, as 127.0.0.1:9400, for Prometheus; with port 0 at any free one,
    /// which is said on standard error
    #[arg(long, hide_short_help = true, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
}
