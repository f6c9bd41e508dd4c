//! The rows of distinct samples in a table beside them.

use crate::SampleRun;

/// Distinct samples, numbered in the order of shards and of samples in them: the rows of a view's joined columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleRows {
    /// Ascending, with samples between them that are not numbered.
    runs: Vec<SampleRun>,
    /// For each run the row of its first sample.
    starts: Vec<u64>,
    len: u64,
}

impl SampleRows {
    /// The samples of `runs`, each once.
    pub fn of(runs: &[SampleRun]) -> Self {
        let mut sorted = runs.to_vec();
        sorted.sort_unstable_by_key(|run| (run.shard, run.first));
        let mut rows = Self::default();
        for run in sorted.into_iter().filter(|run| run.len > 0) {
            match rows.runs.last_mut() {
                Some(last) if last.shard == run.shard && run.first <= last.first + last.len => {
                    let more = (run.first + run.len).saturating_sub(last.first + last.len);
                    last.len += more;
                    rows.len += more;
                }
                _ => {
                    rows.runs.push(run);
                    rows.starts.push(rows.len);
                    rows.len += run.len;
                }
            }
        }
        rows
    }

    /// The samples in the order of their rows.
    pub fn runs(&self) -> &[SampleRun] {
        &self.runs
    }

    /// The number of rows.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The row of sample `at` of a shard.
    pub fn row(&self, shard: u32, at: u64) -> Option<u64> {
        let after = self.runs.partition_point(|run| (run.shard, run.first) <= (shard, at));
        let run = self.runs.get(after.checked_sub(1)?)?;
        let inside = run.shard == shard && at < run.first + run.len;
        inside.then(|| self.starts.get(after - 1).map(|start| start + at - run.first))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_sample_has_one_row(runs in prop::collection::vec((0u32..3, 0u64..60, 0u64..9), 0..20)) {
            let runs: Vec<_> = runs.into_iter().map(|(shard, first, len)| SampleRun { shard, first, len }).collect();
            let rows = SampleRows::of(&runs);
            let samples = |runs: &[SampleRun]| -> Vec<(u32, u64)> {
                runs.iter().flat_map(|run| (run.first..run.first + run.len).map(|at| (run.shard, at))).collect()
            };
            let wanted: BTreeSet<_> = samples(&runs).into_iter().collect();
            prop_assert_eq!(rows.len(), wanted.len() as u64);
            prop_assert_eq!(samples(rows.runs()), wanted.iter().copied().collect::<Vec<_>>());
            for (row, (shard, at)) in wanted.iter().enumerate() {
                prop_assert_eq!(rows.row(*shard, *at), Some(row as u64));
            }
            for (shard, at) in (0..4).flat_map(|shard| (0..75).map(move |at| (shard, at))) {
                prop_assert_eq!(rows.row(shard, at).is_some(), wanted.contains(&(shard, at)));
            }
        }
    }
}
