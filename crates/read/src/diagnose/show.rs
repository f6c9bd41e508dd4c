//! A diagnosis as text and as JSON.

use super::{Bottleneck, CutTime, Diagnosis, Interval, Remedy};
use serde_json::{Value, json};
use std::fmt::{self, Write as _};

/// A table of the cuts, the verdict, and the remedies; then the same after each remedy that was applied.
impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(self))?;
        for (remedy, next) in &self.applied {
            write!(f, "\nWith this remedy: {}.\n{}", remedy.says, describe(next))?;
        }
        Ok(())
    }
}

impl Diagnosis {
    /// All of it: `bottleneck`, `costs`, `notes`, `cuts`, `supply`, `remedies`, `slow_shards`, `representative`, `applied`.
    /// Intervals are objects of `median`, `low` and `high`; rates are steps per second.
    pub fn to_json(&self) -> Value {
        let interval =
            |interval: Interval| json!({"median": interval.median, "low": interval.low, "high": interval.high});
        let cut = |time: &CutTime| {
            json!({
                "cut": time.cut.name(), "says": time.cut.says(), "seconds_per_step": interval(time.seconds),
                "steps_per_s": interval(time.seconds.inverse()), "cpu_seconds_per_step": time.cpu,
                "saturation": time.saturation, "others": time.others, "waited": time.waited,
            })
        };
        let remedy = |remedy: &Remedy| {
            json!({
                "name": remedy.name, "says": remedy.says, "predicted": remedy.predicted,
                "observed": remedy.observed.map(interval),
            })
        };
        let costs = self.verdict.costs.iter();
        let costs: Vec<Value> = costs
            .map(|cost| json!({"stage": cost.stage.name(), "cut": cost.cut.name(), "seconds_per_step": cost.seconds}))
            .collect();
        let slow = self.slow_shards.iter();
        let slow: Vec<Value> = slow
            .map(|slow| json!({"shard": slow.name, "bytes_per_s": slow.bytes_per_s, "median": slow.median}))
            .collect();
        let applied = self.applied.iter();
        let applied: Vec<Value> =
            applied.map(|(taken, next)| json!({"remedy": remedy(taken), "diagnosis": next.to_json()})).collect();
        json!({
            "bottleneck": self.verdict.bottleneck.name(), "costs": costs, "notes": self.verdict.notes,
            "cuts": self.cuts.iter().map(cut).collect::<Vec<_>>(), "supply": interval(self.supply),
            "remedies": self.remedies.iter().map(remedy).collect::<Vec<_>>(), "slow_shards": slow,
            "representative": self.representative, "applied": applied,
        })
    }
}

fn describe(found: &Diagnosis) -> String {
    let mut text = String::new();
    for time in &found.cuts {
        text.push_str(&line(time, found));
    }
    let Interval { median, .. } = found.supply;
    let _ = writeln!(text, "  {:<8}{median:>9.2} steps/s{:>45}", "supply", "the loader, if steps took no time");
    text.push_str(&said(found));
    if !(0.8..1.25).contains(&found.representative) {
        let percent = 100.0 * found.representative;
        let _ = writeln!(text, "The batches held in memory have samples of {percent:.0} % of the mean size.");
    }
    for shard in &found.slow_shards {
        let (rate, median) = (megabytes(shard.bytes_per_s), megabytes(shard.median));
        let _ = writeln!(text, "{} is slow: {rate}/s, the median shard {median}/s.", shard.name);
    }
    if !found.remedies.is_empty() {
        text.push_str("What helps, as steps/s:\n");
        found.remedies.iter().for_each(|remedy| text.push_str(&of_remedy(remedy)));
    }
    text
}

fn line(time: &CutTime, found: &Diagnosis) -> String {
    let CutTime { cut, seconds, saturation, .. } = time;
    let Interval { median, low, high } = seconds.inverse();
    let cost = found.verdict.costs.iter().find(|cost| cost.cut == *cut);
    let cost =
        cost.map_or_else(String::new, |cost| format!("; {} costs {:.1} ms a step", cost.stage, 1000.0 * cost.seconds));
    format!(
        "  {:<8}{median:>9.2} steps/s  {low:.2} to {high:.2}, processors {:.0} %: {}{cost}\n",
        cut.name(),
        100.0 * saturation.min(1.0),
        cut.says(),
    )
}

/// The verdict, in words.
fn said(found: &Diagnosis) -> String {
    let mut text = match found.verdict.bottleneck {
        Bottleneck::Step => {
            let supply = found.supply.median;
            format!(
                "It is not the data: the loop is as fast as its steps, and the loader could feed {supply:.1} steps/s.\n"
            )
        }
        other => format!("The loop waits for: {other} ({}).\n", other.words().1),
    };
    found.verdict.notes.iter().for_each(|note| text.push_str(&format!("Also: {note}.\n")));
    text
}

fn of_remedy(remedy: &Remedy) -> String {
    let observed = remedy.observed.map_or_else(String::new, |rate| format!(", observed {:.2}", rate.median));
    format!("  {:<16} predicted {:.2}{observed}: {}\n", remedy.name, remedy.predicted, remedy.says)
}

/// Bytes a second as text.
fn megabytes(bytes_per_s: f64) -> String {
    format!("{:.1} MB", bytes_per_s / 1e6)
}
