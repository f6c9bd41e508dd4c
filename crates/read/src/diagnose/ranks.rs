//! The ranks of a job, side by side: all wait for the slowest.

use super::Diagnosis;
use super::cut::Cut;
use super::interval::median_of;
use packhorse_order::Rank;
use serde::{Deserialize, Serialize};

/// What one rank found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// The rank.
    pub rank: u32,
    /// The number of ranks.
    pub world: u32,
    /// The name of its machine.
    pub node: String,
    /// The name of its bottleneck ([`Bottleneck::name`](super::Bottleneck::name)).
    pub bottleneck: String,
    /// Its steps per second: of the loop, and on batches that are on the device.
    pub loader: f64,
    /// The same for steps on the device.
    pub device: f64,
}

impl RankReport {
    /// Of a diagnosis on this machine.
    pub fn new(rank: Rank, diagnosis: &Diagnosis) -> Self {
        let rate = |cut: Cut| diagnosis.cut(cut).map_or(0.0, |time| time.seconds.inverse().median);
        let node = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        Self {
            rank: rank.rank,
            world: rank.world_size,
            node: node.unwrap_or_default(),
            bottleneck: diagnosis.verdict.bottleneck.name().to_owned(),
            loader: rate(Cut::Loader),
            device: rate(Cut::Device),
        }
    }
}

/// How the ranks of a job compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Readiness {
    /// Steps per second of the median rank.
    pub median: f64,
    /// Ranks that are slower than that by a tenth or more, the slowest first. All ranks wait for them.
    pub slow: Vec<RankReport>,
    /// The machine whose ranks, and no others, are slow.
    pub slow_node: Option<String>,
}

/// Of the median rank's steps per second, what a rank must reach.
const READY: f64 = 0.9;

impl Readiness {
    /// Compares ranks.
    pub fn of(reports: &[RankReport]) -> Self {
        let median = median_of(reports.iter().map(|report| report.loader).collect());
        let mut slow: Vec<RankReport> =
            reports.iter().filter(|report| report.loader < median * READY).cloned().collect();
        slow.sort_by(|a, b| a.loader.total_cmp(&b.loader));
        let node = slow.first().map(|report| report.node.clone()).filter(|node| {
            let on_it = |report: &&RankReport| report.node == *node;
            let of_node = reports.iter().filter(on_it).count();
            of_node > 1
                && of_node < reports.len()
                && slow.iter().filter(on_it).count() == of_node
                && slow.len() == of_node
        });
        Self { median, slow, slow_node: node }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(loaders: [f64; 6]) -> Vec<RankReport> {
        let report = |(rank, loader): (u32, f64)| RankReport {
            rank,
            world: 6,
            node: format!("node{}", rank / 2),
            bottleneck: "storage".into(),
            loader,
            device: 10.0,
        };
        (0..).zip(loaders).map(report).collect()
    }

    #[test]
    fn the_slow_rank_and_the_slow_node_are_named() {
        let all_ready = Readiness::of(&reports([9.9, 10.0, 10.1, 9.8, 10.0, 9.5]));
        assert!(all_ready.slow.is_empty() && all_ready.slow_node.is_none());
        let one = Readiness::of(&reports([9.9, 10.0, 10.1, 4.0, 10.0, 9.5]));
        assert_eq!(one.slow.iter().map(|report| report.rank).collect::<Vec<_>>(), [3]);
        assert!(one.slow_node.is_none() && (one.median - 9.95).abs() < 1e-9);
        let node = Readiness::of(&reports([9.9, 10.0, 5.0, 4.0, 10.0, 9.5]));
        assert_eq!(node.slow.iter().map(|report| report.rank).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(node.slow_node.as_deref(), Some("node1"));
        assert!(Readiness::of(&[]).slow.is_empty());
    }
}
