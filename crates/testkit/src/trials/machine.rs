//! The machine of a measurement, and what else it did.

use nix::unistd::{SysconfVar, sysconf};
use serde_json::{Value, json};
use std::process::Command;

/// The facts that figures depend on.
pub(super) fn facts() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).map(str::to_owned);
        line.and_then(|line| line.split_once(':').map(|(_, value)| value.trim().to_owned())).unwrap_or_default()
    };
    let kilobytes: f64 = after(&read("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0.0);
    json!({
        "processor": after(&read("/proc/cpuinfo"), "model name"),
        "processors": std::thread::available_parallelism().map_or(1, usize::from),
        "memory_gb": (kilobytes / 1e6).round(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "rustc": said("rustc", &["--version"]),
    })
}

/// What a program prints; nothing where it fails.
fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().ok().filter(|done| done.status.success());
    output.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned()).unwrap_or_default()
}

/// The commit that is checked out.
pub(super) fn commit() -> String {
    said("git", &["rev-parse", "--short=12", "HEAD"])
}

/// Ticks of all processors: those with work, and all.
pub(super) struct Load {
    busy: f64,
    all: f64,
    own: f64,
}

impl Load {
    pub(super) fn now() -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let ticks = text.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
        let ticks: Vec<f64> = ticks.filter_map(|tick| tick.parse().ok()).collect();
        let all: f64 = ticks.iter().sum();
        // The fourth and fifth are idle.
        let idle: f64 = ticks.iter().skip(3).take(2).sum();
        let second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64;
        Self { busy: all - idle, all, own: super::processors().as_secs_f64() * second }
    }

    /// The share of the processors' time since then that others took: other processes, and other guests of the host.
    pub(super) fn others(&self) -> f64 {
        let now = Self::now();
        let others = (now.busy - self.busy) - (now.own - self.own);
        (others / (now.all - self.all).max(1.0)).clamp(0.0, 1.0)
    }
}
