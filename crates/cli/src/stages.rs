//! The seconds that threads spent in each stage, from the spans of the libraries: metrics of a command.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracing::Metadata;

const NAME: &str = "packhorse_stage_seconds_total";
const HELP: &str = "Seconds that threads were in a stage, by the library and the name of its span.";

/// Time of the spans that are over, by target and name.
#[derive(Debug, Default)]
pub(crate) struct Stages(Mutex<BTreeMap<(&'static str, &'static str), Duration>>);

impl Stages {
    /// A thread was in a span for so long.
    pub(crate) fn add(&self, span: &'static Metadata<'static>, time: Duration) {
        let mut stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *stages.entry((span.target(), span.name())).or_default() += time;
    }

    /// As text for Prometheus; empty without spans.
    pub(crate) fn prometheus(&self) -> String {
        let stages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (number, ((target, name), time)) in stages.iter().enumerate() {
            if number == 0 {
                let _ = writeln!(text, "# HELP {NAME} {HELP}\n# TYPE {NAME} counter");
            }
            let library = target.rsplit("::").next().unwrap_or_default();
            let _ = writeln!(text, "{NAME}{{library=\"{library}\",stage=\"{name}\"}} {}", time.as_secs_f64());
        }
        text
    }
}
