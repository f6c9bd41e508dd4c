//! The flags that show a job while it runs. They decide no byte.

use clap::{Args as ClapArgs, ValueHint};
use std::path::PathBuf;

/// What a job shows of itself.
#[derive(ClapArgs, Default)]
pub(crate) struct Observe {
    /// Record what each thread does and when, as trace events in FILE, for Perfetto; FILE.pfw is for DFTracer's
    /// analysis
    #[arg(long, hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) trace: Option<PathBuf>,

    /// Serve the job's counters for Prometheus at ADDR while it runs, such as 127.0.0.1:9400. Port 0 takes a free port
    /// and prints it on standard error
    #[arg(long, hide_short_help = true, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
}
