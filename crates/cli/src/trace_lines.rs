//! Lines of a trace: one JSON object an event. Knows the format, and neither files nor threads.

use std::fmt::{Debug, Write};
use std::time::Duration;
use tracing::Metadata;
use tracing::field::{Field, Visit};

/// The category that DFTracer's analysis takes for reads and writes of files.
const POSIX: &str = "POSIX";

/// The form of a trace's lines.
pub(crate) struct Line {
    pid: u32,
    /// Lines without commas, and reads of files as DFTracer has them.
    is_pfw: bool,
}

/// The arguments of a span or an event.
#[derive(Default)]
pub(crate) struct TraceArgs {
    /// Members of a JSON object, each with a comma behind it.
    json: String,
    size: Option<u64>,
    track: Option<String>,
    ago: u64,
    duration: u64,
}

impl TraceArgs {
    pub(crate) fn of(record: impl FnOnce(&mut dyn Visit)) -> Self {
        let mut args = Self::default();
        record(&mut args);
        args
    }

    /// The track of a span that is over, if the event is one.
    pub(crate) fn track(&self) -> Option<&str> {
        self.track.as_deref()
    }

    /// How long ago it began.
    pub(crate) fn ago(&self) -> Duration {
        Duration::from_nanos(self.ago)
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration)
    }

    fn number(&mut self, field: &Field, value: impl std::fmt::Display) {
        // Writing to a String can't fail. Names of fields are those of Rust, which need no escapes.
        let _ = write!(self.json, "\"{}\":{value},", field.name());
    }

    fn text(&mut self, field: &Field, value: &str) {
        let _ = write!(self.json, "\"{}\":{},", field.name(), quoted(value));
    }
}

impl Visit for TraceArgs {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "ago_ns" => self.ago = value,
            "duration_ns" => self.duration = value,
            "size" => {
                self.size = Some(value);
                self.number(field, value);
            }
            _ => self.number(field, value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.number(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no infinity.
        self.number(field, if value.is_finite() { value } else { 0.0 });
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.number(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "track" => self.track = Some(value.to_owned()),
            _ => self.text(field, value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, &format!("{value:?}"));
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Line {
    pub(crate) fn new(pid: u32, is_pfw: bool) -> Self {
        Self { pid, is_pfw }
    }

    /// Separates a line from the one before.
    pub(crate) fn next(&self, to: &mut String) {
        if !self.is_pfw {
            to.push(',');
        }
    }

    /// The name of the process or of a thread.
    pub(crate) fn name(&self, to: &mut String, of: &str, tid: u64, name: &str) {
        let name = quoted(name);
        let _ = writeln!(
            to,
            "{{\"name\":\"{of}\",\"cat\":\"\",\"ph\":\"M\",\"pid\":{},\"tid\":{tid},\"ts\":0,\"args\":{{\"name\":{name}}}}}",
            self.pid
        );
    }

    /// A span that began at `at` and lasted so long.
    pub(crate) fn span(
        &self,
        to: &mut String,
        metadata: &Metadata<'_>,
        tid: u64,
        (at, duration): (Duration, Duration),
        args: &TraceArgs,
    ) {
        let of_file = self.is_pfw && metadata.fields().field("fname").is_some();
        self.head(to, metadata.name(), if of_file { POSIX } else { category(metadata) }, 'X', tid, at);
        let (micros, nanos) = micros(duration);
        let _ = write!(to, ",\"dur\":{micros}.{nanos:03},\"args\":{{{}", args.json);
        if let Some(size) = args.size.filter(|_| of_file) {
            let _ = write!(to, "\"ret\":{size},");
        }
        close(to);
    }

    /// Numbers at the moment `at`.
    pub(crate) fn counters(&self, to: &mut String, metadata: &Metadata<'_>, tid: u64, at: Duration, args: &TraceArgs) {
        self.head(to, metadata.name(), category(metadata), 'C', tid, at);
        let _ = write!(to, ",\"args\":{{{}", args.json);
        close(to);
    }

    fn head(&self, to: &mut String, name: &str, category: &str, phase: char, tid: u64, at: Duration) {
        let (pid, (micros, nanos)) = (self.pid, micros(at));
        let _ = write!(
            to,
            "{{\"name\":\"{name}\",\"cat\":\"{category}\",\"ph\":\"{phase}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{micros}.{nanos:03}"
        );
    }
}

/// Microseconds, and the nanoseconds behind the point. A float of them is too coarse for the time since 1970.
fn micros(of: Duration) -> (u64, u64) {
    let nanos = u64::try_from(of.as_nanos()).unwrap_or(u64::MAX);
    (nanos / 1000, nanos % 1000)
}

/// Ends the arguments and the event.
fn close(to: &mut String) {
    if to.ends_with(',') {
        to.pop();
    }
    to.push_str("}}\n");
}

/// The library: the last part of the target `packhorse::read`.
fn category<'a>(metadata: &Metadata<'a>) -> &'a str {
    metadata.target().rsplit("::").next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_a_line_is_json() {
        let (mut text, line) = (String::new(), Line::new(7, false));
        line.name(&mut text, "thread_name", 9, "a \"name\"\n\u{1}é");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["args"]["name"], "a \"name\"\n\u{1}é");
        assert_eq!((value["pid"].as_u64(), value["tid"].as_u64()), (Some(7), Some(9)));
        let mut open = "{\"args\":{\"a\":1,".to_owned();
        close(&mut open);
        assert_eq!(open, "{\"args\":{\"a\":1}}\n");
    }
}
