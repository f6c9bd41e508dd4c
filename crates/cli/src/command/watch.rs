//! `packhorse status --watch`.

use super::CommandContext;
use crate::args::StatusFlags;
use crate::outcome::{counted, first_lines, print, success};
use crate::settings::flags;
use crate::settings::path_word;
use crate::size::show;
use crate::status_line::{clock, span};
use packhorse_core::Result;
use packhorse_dataset::PartError;
use packhorse_pack::Snapshot;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long one wait may be: a signal ends the watch soon.
const LOOK: Duration = Duration::from_millis(100);

pub(super) fn run(context: &CommandContext<'_>, args: &StatusFlags) -> Result<ExitCode> {
    let interval = Duration::from_secs(args.watch.unwrap_or(1).into());
    let dir = &args.dir.dir;
    let mut watch = context.session().watch(dir)?;
    loop {
        let start = Instant::now();
        let now = watch.look()?;
        let tasks = args.tasks.map(|tasks| missing_by_task(&now, tasks));
        let text = text(&now, tasks.as_ref(), &path_word(dir));
        // One line each time, so that a program can follow it.
        match context.style.json {
            true => print(&format!("{}\n", value(&now, tasks.as_ref())))?,
            false => print(&flags(&text))?,
        }
        if now.sealed {
            return Ok(success());
        }
        while start.elapsed() < interval {
            context.cancel.check()?;
            std::thread::sleep(LOOK.min(interval));
        }
    }
}

/// Shards of a task: all, without a receipt, and those of them that are being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TaskShards {
    all: u64,
    missing: u64,
    running: u64,
}

/// The tasks of an array of `tasks` that lack shards, from 1.
fn missing_by_task(now: &Snapshot, tasks: u32) -> BTreeMap<u64, TaskShards> {
    let tasks = u64::from(tasks);
    let mut found: BTreeMap<u64, TaskShards> = BTreeMap::new();
    for shard in now.missing() {
        let task = shard.number as u64 % tasks;
        let shards = found.entry(task + 1).or_default();
        shards.missing += 1;
        shards.all = now.divided.saturating_sub(task).div_ceil(tasks);
    }
    for running in &now.running {
        found.entry(running.shard.number as u64 % tasks + 1).or_default().running += 1;
    }
    found
}

fn text(now: &Snapshot, tasks: Option<&BTreeMap<u64, TaskShards>>, dir: &str) -> String {
    let samples = match now.samples {
        Some(samples) => format!("{} of {}", now.packed, counted(samples, "sample")),
        None => counted(now.packed, "sample"),
    };
    let mut text = format!("{} {}/{}, {samples}", clock(SystemTime::now()), now.complete, counted(now.shards, "shard"));
    if now.complete < now.shards {
        text.push_str(&format!(", {} being written, {} missing", now.running.len(), now.waiting.len()));
    }
    if let Some(rate) = now.rate {
        text.push_str(&format!(", {}/s", show(rate as u64)));
    }
    if let Some(seconds) = now.seconds_left() {
        text.push_str(&format!(", about {} left", span(seconds)));
    }
    text.push_str(&match (now.sealed, now.complete < now.shards) {
        (true, _) => ", sealed\n".to_owned(),
        (false, true) => "\n".to_owned(),
        (false, false) => format!(", not sealed: the last task seals, or packhorse seal {dir}\n"),
    });
    let lines: Vec<String> = match tasks {
        Some(tasks) => tasks
            .iter()
            .map(|(task, of)| {
                let shards = counted(of.all, "shard");
                format!("task {task}: {} of {shards} missing, {} being written", of.missing, of.running)
            })
            .collect(),
        None => now
            .running
            .iter()
            .map(|r| format!("{}: {} written by process {} of {}", r.shard.name, show(r.written), r.pid, r.host))
            .collect(),
    };
    text + &first_lines(&lines, String::clone, |more| format!("{more} more")) + &errors_text(&now.errors)
}

/// The last errors of tasks, a line each.
pub(super) fn errors_text(errors: &[PartError]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let line = |e: &PartError| {
        // Clocks of other machines may be ahead.
        let ago = span(now.saturating_sub(e.time) as f64);
        let host = e.host.replace(char::is_control, "?");
        format!("task {} ended with an error {ago} ago, process {} of {host}: {}", e.part, e.pid, e.error())
    };
    first_lines(errors, line, |more| format!("{} of other tasks", counted(more, "error")))
}

/// The same as JSON.
pub(super) fn errors_value(errors: &[PartError]) -> Value {
    let value = |e: &PartError| {
        json!({
            "part": e.part, "time": e.time, "host": e.host, "pid": e.pid, "kind": e.kind, "code": e.code, "input": e.input,
            "sample": e.sample, "message": flags(&e.message),
        })
    };
    errors.iter().map(value).collect()
}

fn value(now: &Snapshot, tasks: Option<&BTreeMap<u64, TaskShards>>) -> Value {
    let running: Vec<Value> = now
        .running
        .iter()
        .map(|r| json!({"shard": r.shard.name, "host": r.host, "pid": r.pid, "bytes": r.written}))
        .collect();
    let tasks = tasks.map(|tasks| {
        let task = |(task, of): (&u64, &TaskShards)| {
            json!({"task": task, "shards": of.all, "missing": of.missing, "running": of.running})
        };
        tasks.iter().map(task).collect::<Vec<_>>()
    });
    json!({
        "shards": now.shards, "complete": now.complete, "samples": now.samples, "packed": now.packed, "bytes": now.bytes,
        "packed_bytes": now.packed_bytes, "running": running,
        "missing": now.waiting.iter().map(|shard| &shard.name).collect::<Vec<_>>(), "tasks": tasks,
        "errors": errors_value(&now.errors), "bytes_per_s": now.rate, "seconds_left": now.seconds_left(), "sealed": now.sealed,
    })
}
