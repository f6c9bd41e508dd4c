//! Results, their file, and tables of them.

use super::machine::facts;
use super::spread::Spread;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The unit of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Of input.
    Bytes,
    /// Of a dataset.
    Samples,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    Ours,
    Peer,
    Limit,
}

/// A figure by the clock, and by processors' time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) wall: Spread,
    pub(super) processors: Spread,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) seconds: Times,
    /// Our time by that of this rival.
    pub(super) ratio: Option<Times>,
}

/// The measurements of a work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialResult {
    pub(super) bench: String,
    pub(super) commit: String,
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) amount: f64,
    pub(super) by_processors: bool,
    pub(super) rounds: usize,
    /// The share of the processors that others took.
    pub(super) others: f64,
    pub(super) rivals: Vec<Measured>,
}

impl Unit {
    fn rate(self, rate: f64) -> String {
        match self {
            Self::Bytes if rate >= 1e10 => format!("{:.1} GB/s", rate / 1e9),
            Self::Bytes if rate >= 1e9 => format!("{:.2} GB/s", rate / 1e9),
            Self::Bytes => format!("{} MB/s", grouped(rate / 1e6)),
            Self::Samples => format!("{} samples/s", grouped(rate)),
        }
    }
}

/// Three digits, and thousands apart.
fn grouped(number: f64) -> String {
    if number < 10.0 {
        return format!("{number:.1}");
    }
    let step = 10f64.powi((number.log10().floor() as i32 - 2).max(0));
    thousands(((number / step).round() * step) as u64)
}

/// A number with its thousands apart.
pub fn thousands(number: u64) -> String {
    let whole = number.to_string();
    let from = |place: usize| (whole.len() - place).is_multiple_of(3) && place > 0;
    whole.chars().enumerate().flat_map(|(place, digit)| from(place).then_some(',').into_iter().chain([digit])).collect()
}

fn factor(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

/// A median with its interval.
fn shown(spread: &Spread, show: impl Fn(f64) -> String) -> String {
    format!("{} ({} to {})", show(spread.median), show(spread.low), show(spread.high))
}

impl Times {
    fn by(&self, by_processors: bool) -> &Spread {
        if by_processors { &self.processors } else { &self.wall }
    }
}

impl TrialResult {
    /// Our time by that of a rival: of the clock, and of processors.
    pub fn ratio_to(&self, rival: &str) -> Option<(Spread, Spread)> {
        let ratio = self.rivals.iter().find(|other| other.name == rival)?.ratio?;
        Some((ratio.wall, ratio.processors))
    }

    #[expect(clippy::print_stdout, reason = "a bench prints")]
    pub(super) fn print(&self) {
        println!("\n{}; {} rounds", self.title, self.rounds);
        let width = self.rivals.iter().map(|rival| rival.name.len()).max().unwrap_or(0);
        for rival in &self.rivals {
            let seconds = rival.seconds.by(self.by_processors);
            let by = if self.by_processors { "of processors" } else { "" };
            let ratio = rival.ratio.map_or_else(String::new, |ratio| {
                let [wall, processors] = [ratio.wall, ratio.processors].map(|ratio| shown(&ratio, factor));
                format!("; packhorse takes {wall} of its time, {processors} of its processors' time")
            });
            println!(
                "  {:<width$} {:>14} {} s {by}{ratio}",
                rival.name,
                self.unit.rate(self.amount / seconds.median.max(1e-9)),
                shown(seconds, |seconds| format!("{seconds:.4}")),
            );
        }
        if self.others > 0.1 {
            println!("  others took {:.0} % of the processors meanwhile", 100.0 * self.others);
        }
    }

    /// A row of a table; a short one compares with the best peer, or with the limit where there is none.
    fn row(&self, short: bool) -> String {
        let by = if self.by_processors { " of processors" } else { "" };
        let rate =
            |rival: &Measured| self.unit.rate(self.amount / rival.seconds.by(self.by_processors).median.max(1e-9));
        let ours = self.rivals.iter().find(|rival| rival.role == Role::Ours).map(rate).unwrap_or_default();
        let best = |role: Role| {
            let seconds = |rival: &&Measured| rival.seconds.by(self.by_processors).median;
            let of_role = self.rivals.iter().filter(|rival| rival.role == role);
            of_role.min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
        };
        let cell = |role: Role| {
            best(role).map_or_else(Default::default, |rival| {
                let times = rival.ratio.map(|ratio| shown(&ratio.by(self.by_processors).inverse(), factor));
                (format!("{}: {}", rival.name, rate(rival)), format!("{} ×", times.unwrap_or_default()))
            })
        };
        let ((peer, of_peer), (limit, of_limit)) = (cell(Role::Peer), cell(Role::Limit));
        if short {
            let (other, as_fast) = if peer.is_empty() { (limit, of_limit) } else { (peer, of_peer) };
            return format!("| {} | {ours}{by} | {other} | {as_fast} |\n", self.title);
        }
        format!("| {} | {ours}{by} | {peer} | {of_peer} | {limit} | {of_limit} |\n", self.title)
    }
}

/// The results of benches on one machine, by the names of works.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Results {
    machine: Value,
    works: BTreeMap<String, TrialResult>,
}

impl Results {
    /// Of a file that benches wrote; `None` if there is none.
    ///
    /// Panics if it holds something else.
    pub fn read(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let read = serde_json::from_slice(&bytes);
        Some(read.unwrap_or_else(|error| panic!("{} holds no results: {error}; remove it", path.display())))
    }

    /// Adds a work to a file, in place of an earlier one of this name. Works of another machine go.
    #[expect(clippy::print_stdout, reason = "a bench prints")]
    pub(super) fn add(path: &Path, name: String, result: &TrialResult) {
        let (mut results, machine) = (Self::read(path).unwrap_or_default(), facts());
        if results.machine != machine {
            if !results.works.is_empty() {
                println!("  {} had results of another machine: they are dropped", path.display());
            }
            results = Self { machine, works: BTreeMap::new() };
        }
        results.works.insert(name, result.clone());
        std::fs::write(path, results.json()).unwrap();
    }

    fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap() + "\n"
    }

    /// The machine, in a sentence.
    pub fn machine(&self) -> String {
        let of = |key: &str| match &self.machine[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let memory = of("memory_gb");
        let memory = memory.trim_end_matches(".0");
        format!(
            "{} with {} processors and {memory} GB of memory, Linux {}, {}",
            of("processor"),
            of("processors"),
            of("kernel"),
            of("rustc"),
        )
    }
}

/// A short table of the works with these names; of all works, with their limits, where there are none. What was not measured is
/// left out.
pub fn table(results: &Results, names: &[&str]) -> String {
    if names.is_empty() {
        let head =
            "| work | packhorse | best peer | as fast | limit | as fast |\n| --- | --- | --- | --- | --- | --- |\n";
        return results.works.values().fold(head.to_owned(), |text, work| text + &work.row(false));
    }
    let head = "| work | packhorse | compared with | as fast |\n| --- | --- | --- | --- |\n";
    let found = names.iter().filter_map(|name| results.works.get(*name));
    found.fold(head.to_owned(), |text, work| text + &work.row(true))
}

/// What surrounds a table in a page: names of works, or none for all of them; and the end.
const BEGIN: &str = "<!-- measured:";
const END: &str = "<!-- /measured -->";

/// A page whose tables are those of these results. The machine is in a line before each table.
pub fn fill(page: &str, results: &Results) -> String {
    let mut filled = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (names, after) = after.split_once("-->").unwrap();
        let (_, after) = after.split_once(END).unwrap();
        let works: Vec<&str> = names.split_whitespace().collect();
        filled += &format!("{before}{BEGIN}{names}-->\n{}:\n\n{}{END}", results.machine(), table(results, &works));
        rest = after;
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trials::machine::commit;

    fn outcome(title: &str) -> TrialResult {
        let rival = |name: &str, role, seconds: f64, ratio: Option<f64>| Measured {
            name: name.to_owned(),
            role,
            seconds: Times { wall: Spread::of([seconds]), processors: Spread::of([2.0 * seconds]) },
            ratio: ratio.map(|ratio| Times { wall: Spread::of([ratio]), processors: Spread::of([ratio, ratio / 2.0]) }),
        };
        let rivals = vec![
            rival("packhorse", Role::Ours, 0.5, None),
            rival("slow", Role::Peer, 50.0, Some(0.01)),
            rival("quick", Role::Peer, 5.0, Some(0.1)),
            rival("floor", Role::Limit, 0.25, Some(2.0)),
        ];
        let (bench, commit, title) = ("some".to_owned(), commit(), title.to_owned());
        let (unit, amount, rounds, others) = (Unit::Bytes, 1e9, 1, 0.0);
        TrialResult { bench, commit, title, unit, amount, by_processors: false, rounds, others, rivals }
    }

    #[test]
    fn tables_show_the_best_peer_and_the_limit() {
        let row = outcome("a work").row(false);
        let wanted =
            "| a work | 2.00 GB/s | quick: 200 MB/s | 10 (10 to 10) × | floor: 4.00 GB/s | 0.50 (0.50 to 0.50) × |\n";
        assert_eq!(row, wanted);
        let by_processors =
            TrialResult { by_processors: true, unit: Unit::Samples, amount: 123_456.0, ..outcome("a work") };
        assert!(
            by_processors
                .row(false)
                .starts_with("| a work | 123,000 samples/s of processors | quick: 12,300 samples/s |")
        );
    }

    #[test]
    fn a_file_of_results_keeps_all_and_replaces_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bench.json");
        for (name, title) in [("a", "first"), ("b", "second"), ("a", "third")] {
            Results::add(&path, name.to_owned(), &outcome(title));
        }
        let results = Results::read(&path).unwrap();
        let found: Vec<_> = results.works.iter().map(|(name, work)| (name.as_str(), work.title.as_str())).collect();
        assert_eq!(found, [("a", "third"), ("b", "second")]);
        assert_eq!(table(&results, &["b"]).lines().count(), 3);
        assert_eq!(table(&results, &[]).lines().count(), 4);
        let page =
            "Text.\n\n<!-- measured: b a -->\nold <!-- /measured -->\n\nMore <!-- measured: --><!-- /measured -->.\n";
        let filled = fill(page, &results);
        assert!(filled.starts_with("Text.\n\n<!-- measured: b a -->\n") && filled.ends_with("<!-- /measured -->.\n"));
        assert!(filled.contains(&table(&results, &["b", "a"])) && filled.contains(&table(&results, &[])));
        assert!(!filled.contains("old") && fill(&filled, &results) == filled);
        let again = Results::read(&path).unwrap();
        assert_eq!(again.json(), std::fs::read_to_string(&path).unwrap());
        // Figures of another machine are not put beside these.
        let other = results.json().replace("\"kernel\": \"", "\"kernel\": \"x");
        std::fs::write(&path, other).unwrap();
        Results::add(&path, "c".to_owned(), &outcome("fourth"));
        assert_eq!(Results::read(&path).unwrap().works.len(), 1);
    }
}
