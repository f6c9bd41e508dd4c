//! An array of tasks that fill a plan.

use super::Pilot;
use crate::outcome::{counted, maybe_counted};
use crate::settings::word;
use crate::size::show;
use packhorse_pack::Snapshot;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Tasks that each fill one part of a plan.
#[derive(Clone, Debug)]
pub(crate) struct ArrayJob {
    /// The program, and the dataset's folder, as absolute paths.
    pub(crate) program: String,
    pub(crate) out: PathBuf,
    /// Shards and samples of the plan.
    pub(crate) shards: u64,
    pub(crate) samples: Option<u64>,
    /// How many parts the plan has, and those with missing shards, from 1.
    pub(crate) parts: u32,
    pub(crate) tasks: Vec<u32>,
    /// The most missing shards of a task.
    pub(crate) most: u64,
    /// Threads of a task.
    pub(crate) jobs: usize,
    /// More flags of `packhorse pack --plan`.
    pub(crate) flags: Vec<String>,
    /// `--memory` in bytes.
    pub(crate) budget: u64,
    pub(crate) pilot: Option<Pilot>,
}

/// The least time that is asked for, and the time that it is a multiple of, in seconds.
const LEAST_TIME: u64 = 600;
const TIME_STEP: u64 = 300;

/// The same for memory, in MiB.
const LEAST_MEMORY: u64 = 1024;
const MEMORY_STEP: u64 = 512;

/// A line of a comment. A name may hold line ends, after which a comment would go on as a command.
pub(crate) fn comment(line: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    format!("# {}", line.chars().map(shown).collect::<String>()).trim_end().to_owned()
}

impl ArrayJob {
    /// Divides the plan into at most `tasks` parts, and keeps those with missing shards.
    pub(crate) fn divide(&mut self, plan: &Snapshot, tasks: u32) {
        self.parts = u32::try_from(plan.divided).unwrap_or(u32::MAX).min(tasks).max(1);
        let mut missing: BTreeMap<u32, u64> = BTreeMap::new();
        for shard in plan.missing() {
            let part = shard.number as u64 % u64::from(self.parts) + 1;
            *missing.entry(part as u32).or_default() += 1;
        }
        self.most = missing.values().copied().max().unwrap_or(0);
        self.tasks = missing.into_keys().collect();
    }

    /// Seconds for a task: twice what the pilot took for each of its shards.
    pub(crate) fn seconds(&self) -> Option<u64> {
        let pilot = self.pilot.as_ref()?;
        let expected = (2.0 * pilot.seconds * self.most as f64).ceil() as u64;
        Some(expected.max(LEAST_TIME).next_multiple_of(TIME_STEP))
    }

    /// MiB for a task: twice what the pilot used, and the input that may be held for other shards.
    pub(crate) fn mebibytes(&self) -> Option<u64> {
        let used = self.pilot.as_ref()?.memory?;
        Some((2 * used + self.budget).div_ceil(1 << 20).max(LEAST_MEMORY).next_multiple_of(MEMORY_STEP))
    }

    /// The first lines of a script: what it does.
    pub(crate) fn heading(&self, command: &str, wait: &str) -> Vec<String> {
        let out = self.out.display();
        let (samples, shards) = (maybe_counted(self.samples, "sample"), counted(self.shards, "shard"));
        let every = if self.parts == 1 { String::new() } else { format!("{}th ", self.parts) };
        let mut lines = vec![
            format!("Packs {samples} into {shards} below {out}, by {}.", counted(self.tasks.len() as u64, "task")),
            String::new(),
            format!("  plan   is made: {out}/plan.jsonl.zst says which sample goes to which shard"),
            format!("  array  each task fills every {every}shard that is missing, {} at most", self.most),
            format!("  seal   the task that completes the last shard writes dataset.json; {wait}"),
            String::new(),
            format!("Stopped or failed? Finished shards stay. {command}"),
        ];
        if let Some(pilot) = &self.pilot {
            let memory = pilot.memory.map_or_else(String::new, |memory| format!(" and {} of memory", show(memory)));
            let Pilot { shard, bytes, seconds, .. } = pilot;
            lines.push(format!(
                "The pilot shard {shard}, {} of input, took {seconds:.1} s{memory}. A task asks for",
                show(*bytes)
            ));
            lines.push(
                "twice that time for each of its shards, twice that memory and what --memory allows, rounded up."
                    .to_owned(),
            );
        }
        lines
    }

    /// The command of a task, as words of a shell. `index` and `jobs` are words of the shell.
    pub(crate) fn command(&self, index: &str, jobs: &str) -> String {
        let part = format!("\"{index}/{}\"", self.parts);
        let mut words = vec![word(&self.program).into_owned(), "pack --plan".to_owned()];
        words.extend([word(&self.out.to_string_lossy()).into_owned(), "--part".to_owned(), part, "--seal".to_owned()]);
        words.extend(["--jobs".to_owned(), jobs.to_owned()]);
        words.extend(self.flags.iter().map(|flag| word(flag).into_owned()));
        words.join(" ")
    }
}

/// Numbers as a scheduler takes them: `1-8,11,13-14`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let runs = runs.filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// Seconds as `HH:MM:SS`.
pub(crate) fn clock(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use packhorse_pack::MissingShard;

    fn plan(shards: u64, missing: &[usize]) -> Snapshot {
        let shard = |number: &usize| MissingShard { number: *number, name: format!("s-{number}"), bytes: 1000 };
        Snapshot {
            errors: Vec::new(),
            shards,
            divided: shards,
            complete: shards - missing.len() as u64,
            samples: Some(10 * shards),
            packed: 0,
            bytes: 1000 * shards,
            packed_bytes: 0,
            running: Vec::new(),
            waiting: missing.iter().map(shard).collect(),
            rate: None,
            sealed: false,
        }
    }

    /// A plan of 20 shards, of which these are missing, in at most 8 parts.
    pub(crate) fn job(missing: &[usize]) -> ArrayJob {
        let pilot = Pilot { shard: "s-3".into(), bytes: 50_000_000, seconds: 150.0, memory: Some(700 << 20) };
        let mut job = ArrayJob {
            program: "/opt/pack horse".into(),
            out: "/data/it's".into(),
            shards: 20,
            samples: Some(200),
            parts: 0,
            tasks: Vec::new(),
            most: 0,
            jobs: 4,
            flags: vec!["--on-error".into(), "skip".into()],
            budget: 192 << 20,
            pilot: Some(pilot),
        };
        job.divide(&plan(20, missing), 8);
        job
    }

    #[test]
    fn only_parts_with_missing_shards_are_tasks() {
        let whole = job(&(0..20).collect::<Vec<_>>());
        assert_eq!((whole.parts, ranges(&whole.tasks), whole.most), (8, "1-8".to_owned(), 3));
        let rest = job(&[1, 9, 17, 19]);
        assert_eq!((rest.parts, &rest.tasks[..], rest.most), (8, &[2, 4][..], 3));
        let mut few = job(&[]);
        assert!(few.tasks.is_empty());
        few.divide(&plan(3, &[0, 1, 2]), 8);
        assert_eq!((few.parts, few.tasks.len(), few.most), (3, 3, 1));
    }

    #[test]
    fn time_and_memory_follow_the_pilot() {
        let mut job = job(&[1, 9, 17, 19]);
        assert_eq!((job.seconds(), job.mebibytes()), (Some(900), Some(2048)));
        job.pilot.as_mut().unwrap().seconds = 0.1;
        assert_eq!(job.seconds(), Some(600));
        job.pilot = None;
        assert_eq!((job.seconds(), job.mebibytes()), (None, None));
    }

    #[test]
    fn words_and_numbers() {
        assert_eq!(ranges(&[1, 2, 3, 5, 7, 8]), "1-3,5,7-8");
        assert_eq!(ranges(&[]), "");
        assert_eq!(clock(90_061), "25:01:01");
        let command = job(&[0]).command("$I", "2");
        let wanted = r#"'/opt/pack horse' pack --plan '/data/it'\''s' --part "$I/8" --seal --jobs 2 --on-error skip"#;
        assert_eq!(command, wanted);
    }
}
