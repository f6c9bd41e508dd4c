//! Progress on standard error: a bar, lines of text, or lines of JSON.

use crate::event_counts::EventCounts;
use crate::outcome::{counted, error_event};
use crate::settings::flags;
use crate::status_line::{WorkStatus, clock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use packhorse_core::{Event, Observer};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Not at all, but for warnings.
    Quiet,
    /// A bar with rate and remaining time.
    Bar,
    /// A line of text every 30 s.
    Lines,
    /// A line of JSON an event; counts at most once a second.
    Json,
}

impl Show {
    /// A bar on a terminal, lines of text elsewhere; JSON only on request.
    pub(crate) fn choose(quiet: bool, json: bool) -> Self {
        match (json, quiet) {
            (true, _) => Show::Json,
            (false, true) => Show::Quiet,
            (false, false) if std::io::stderr().is_terminal() => Show::Bar,
            (false, false) => Show::Lines,
        }
    }
}

/// Shows events on standard error.
pub(crate) struct Progress {
    show: Show,
    stage: Mutex<Stage>,
    said: Mutex<Said>,
    counts: EventCounts,
}

/// The bar on the terminal. Hidden until there is progress: `ls` and `cat` write to the same terminal.
struct Stage {
    name: &'static str,
    bar: ProgressBar,
    status: WorkStatus,
    began: Instant,
}

impl Stage {
    fn new(name: &'static str, bar: ProgressBar) -> Self {
        Self { name, bar, status: WorkStatus::default(), began: Instant::now() }
    }
}

struct Said {
    last: Option<Instant>,
    skips: u64,
}

/// The time between two lines of text.
const LINES: Duration = Duration::from_secs(30);

/// The bar of work of a known size.
const BYTES: &str =
    "{msg} [{wide_bar:.cyan}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta} left {prefix}";

/// So many skipped inputs are shown one by one; all are in `skipped.jsonl`.
const SHOWN_SKIPS: u64 = 20;

impl Progress {
    pub(crate) fn new(show: Show) -> Self {
        let stage = Mutex::new(Stage::new("", ProgressBar::hidden()));
        // The first line of text comes after the first interval, the first line of JSON at once.
        let last = (show == Show::Lines).then(Instant::now);
        Self { show, stage, said: Mutex::new(Said { last, skips: 0 }), counts: EventCounts::default() }
    }

    /// Says that the work is about to stop, which can take seconds.
    pub(crate) fn stopping(&self) {
        if matches!(self.show, Show::Bar | Show::Lines) {
            self.say("stopping; the same command goes on from here");
        }
    }

    /// Says which part of a plan is filled, and what says so.
    pub(crate) fn part(&self, part: &str, of: &str) {
        self.emit(&json!({"event": "part", "part": part, "of": of}));
        if matches!(self.show, Show::Bar | Show::Lines) {
            self.say(&format!("part {part} of {of}"));
        }
    }

    /// The counts of all events.
    pub(crate) fn counts(&self) -> &EventCounts {
        &self.counts
    }

    /// Says where metrics are served: also where little is shown, since the port may be any.
    pub(crate) fn serving(&self, address: SocketAddr) {
        match self.show {
            Show::Json => self.emit(&json!({"event": "metrics", "address": address.to_string()})),
            _ => line(&format!("metrics at http://{address}/metrics")),
        }
    }

    /// Removes the bar, and ends the stage.
    pub(crate) fn finish(&self) {
        let mut stage = self.stage();
        stage.bar.finish_and_clear();
        *stage = Stage::new("", ProgressBar::hidden());
    }

    /// Files are counted from here on: `name` says what becomes of them.
    pub(crate) fn counting(&self, name: &'static str) {
        self.enter(name, None, "{spinner} {msg}: {found}, {elapsed}");
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins another stage of the work. One whose `length` is known begins from zero, also if it was entered before.
    fn enter(&self, name: &'static str, length: Option<u64>, template: &str) {
        let mut stage = self.stage();
        if stage.name == name && length.is_none() {
            return;
        }
        stage.bar.finish_and_clear();
        let files = stage.status.files;
        *stage = Stage::new(name, ProgressBar::hidden());
        (stage.status.files, stage.status.total) = (files, length);
        if self.show != Show::Bar {
            return;
        }
        // The style takes from the target whether to colour.
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(8));
        let bar = bar.with_style(style(template).with_key("found", found).progress_chars("=> ")).with_message(name);
        // Drawn now, and not when the thread that ticks gets its turn: short work shows too.
        bar.tick();
        bar.enable_steady_tick(Duration::from_millis(250));
        stage.bar = bar;
    }

    /// `samples` of `bytes` more are done.
    fn advance(&self, samples: u64, bytes: u64) {
        let mut stage = self.stage();
        stage.status.samples += samples;
        stage.status.bytes += bytes;
        stage.bar.set_prefix(stage.status.counts());
        stage.bar.inc(bytes);
    }

    /// A shard more is done. Its samples and bytes of input count here if an earlier run wrote it.
    fn shard(&self, samples: u64, bytes: u64, reused: bool) {
        let (samples, bytes) = if reused { (samples, bytes) } else { (0, 0) };
        let mut stage = self.stage();
        stage.status.shards += 1;
        stage.status.reused += bytes;
        drop(stage);
        self.advance(samples, bytes);
    }

    fn say(&self, text: &str) {
        // File names must not control the terminal.
        self.stage().bar.suspend(|| line(&flags(text).replace(char::is_control, "?")));
    }

    /// `bytes` more were read in a stage without a total.
    fn read(&self, stage: &'static str, bytes: u64) {
        self.enter(stage, None, "{spinner} {msg}: {decimal_bytes}, {decimal_bytes_per_sec}");
        self.advance(0, bytes);
        self.tick();
    }

    fn emit(&self, value: &Value) {
        if self.show == Show::Json {
            line(&value.to_string());
        }
    }

    /// Shows counts: as JSON not more often than once a second, as text every 30 s.
    fn tick(&self) {
        let interval = match self.show {
            Show::Json => Duration::from_secs(1),
            Show::Lines => LINES,
            Show::Quiet | Show::Bar => return,
        };
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.last.is_some_and(|last| last.elapsed() < interval) {
            return;
        }
        said.last = Some(Instant::now());
        let stage = self.stage();
        let status = WorkStatus { elapsed: stage.began.elapsed(), ..stage.status.clone() };
        if self.show == Show::Lines {
            return line(&format!("{} {} {status}", clock(SystemTime::now()), stage.name));
        }
        self.emit(&json!({
            "event": "progress", "files": status.files, "samples": status.samples, "bytes": status.bytes,
            "shards": status.shards, "skipped": said.skips,
        }));
    }

    fn skipped(&self, error: &packhorse_core::Error) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.skips += 1;
        match said.skips {
            _ if self.show == Show::Json => self.emit(&error_event("skipped", "reason", error)),
            n if n <= SHOWN_SKIPS => self.say(&format!("skipped: {error}")),
            n if n == SHOWN_SKIPS + 1 => self.say("skipped: more; packing lists all in skipped.jsonl"),
            _ => {}
        }
    }
}

impl Observer for Progress {
    fn event(&self, event: &Event<'_>) {
        self.counts.add(event);
        match event {
            Event::Scanned { files } => {
                if self.stage().name.is_empty() {
                    self.counting("scanning");
                }
                let mut stage = self.stage();
                stage.status.files += files;
                stage.bar.inc(*files);
                drop(stage);
                self.tick();
            }
            Event::Planned { samples, bytes, shards } => {
                self.emit(&json!({"event": "planned", "samples": samples, "bytes": bytes, "shards": shards}));
                self.enter("packing", Some(*bytes), BYTES);
                self.stage().status.total_shards = Some(*shards);
                self.advance(0, 0);
            }
            Event::Working { what, shards, bytes } => {
                self.emit(&json!({"event": "working", "what": what, "bytes": bytes, "shards": shards}));
                self.enter(what, Some(*bytes), BYTES);
                self.stage().status.total_shards = Some(*shards);
                self.advance(0, 0);
            }
            Event::Packed { samples, bytes } => {
                self.advance(*samples, *bytes);
                self.tick();
            }
            Event::Shard { name, samples, bytes, input_bytes, reused } => {
                self.shard(*samples, *input_bytes, *reused);
                self.emit(
                    &json!({"event": "shard", "name": name, "samples": samples, "bytes": bytes, "reused": reused}),
                );
            }
            Event::Skipped(error) => self.skipped(error),
            Event::Warning(text) => match self.show {
                Show::Json => self.emit(&json!({"event": "warning", "message": flags(text)})),
                Show::Quiet | Show::Bar | Show::Lines => self.say(&format!("warning: {text}")),
            },
            Event::Staging { files, bytes } => {
                self.emit(&json!({"event": "staging", "files": files, "bytes": bytes}));
                self.enter("staging", Some(*bytes), BYTES);
            }
            Event::Staged { bytes } => {
                self.advance(0, *bytes);
                self.tick();
            }
            Event::Verified { bytes } => self.read("verifying", *bytes),
            Event::Hashed { bytes } => self.read("comparing", *bytes),
            _ => {}
        }
    }
}

/// The files found so far.
fn found(state: &ProgressState, line: &mut dyn std::fmt::Write) {
    // A line that can't be written is not shown.
    let _ = line.write_str(&counted(state.pos(), "file"));
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants: one that does not parse shows as the plain bar.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn line(text: &str) {
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_plan_begins_from_zero() {
        let progress = Progress::new(Show::Lines);
        let told = |progress: &Progress| progress.stage().status.counts();
        let pack = |shards: u64, done: u64| {
            progress.event(&Event::Planned { samples: Some(10), bytes: 100, shards });
            for _ in 0..done {
                progress.event(&Event::Packed { samples: 10, bytes: 100 });
                let shard = Event::Shard { name: "s", samples: 10, bytes: 9, input_bytes: 100, reused: false };
                progress.event(&shard);
            }
        };
        pack(7, 7);
        assert_eq!(told(&progress), "7/7 shards 70 samples");
        pack(2, 1);
        assert_eq!(told(&progress), "1/2 shards 10 samples");
        progress.event(&Event::Shard { name: "s", samples: 5, bytes: 9, input_bytes: 100, reused: true });
        assert_eq!(told(&progress), "2/2 shards 15 samples");
        progress.finish();
        assert_eq!(told(&progress), "");
    }
}
