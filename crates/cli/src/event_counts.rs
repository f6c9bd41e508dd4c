//! Counts of the events of a job, for `--metrics`.

use packhorse_core::Event;
use packhorse_read::Metric;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the libraries told so far. Counts only grow, also where a command packs several datasets one after another.
#[derive(Default)]
pub(crate) struct EventCounts {
    scanned: AtomicU64,
    planned_samples: AtomicU64,
    planned_bytes: AtomicU64,
    planned_shards: AtomicU64,
    samples: AtomicU64,
    bytes: AtomicU64,
    shards: AtomicU64,
    shard_bytes: AtomicU64,
    reused: AtomicU64,
    skipped: AtomicU64,
    warnings: AtomicU64,
}

impl EventCounts {
    pub(crate) fn add(&self, event: &Event<'_>) {
        let add = |to: &AtomicU64, more: u64| {
            to.fetch_add(more, Ordering::Relaxed);
        };
        match event {
            Event::Scanned { files } => add(&self.scanned, *files),
            Event::Planned { samples, bytes, shards } => {
                add(&self.planned_samples, samples.unwrap_or(0));
                add(&self.planned_bytes, *bytes);
                add(&self.planned_shards, *shards);
            }
            Event::Packed { samples, bytes } => {
                add(&self.samples, *samples);
                add(&self.bytes, *bytes);
            }
            Event::Shard { bytes, reused, .. } => {
                add(&self.shards, 1);
                add(&self.shard_bytes, *bytes);
                add(&self.reused, u64::from(*reused));
            }
            Event::Skipped(_) => add(&self.skipped, 1),
            Event::Warning(_) => add(&self.warnings, 1),
            _ => {}
        }
    }

    /// Their values now.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let rows: [(&str, &str, &AtomicU64); 11] = [
            ("packhorse_scanned_files_total", "Inputs found by the scan.", &self.scanned),
            ("packhorse_planned_samples_total", "Samples to pack, where they are counted.", &self.planned_samples),
            ("packhorse_planned_bytes_total", "Bytes of input to pack.", &self.planned_bytes),
            ("packhorse_planned_shards_total", "Shards to write.", &self.planned_shards),
            ("packhorse_packed_samples_total", "Samples that went into shards.", &self.samples),
            ("packhorse_packed_bytes_total", "Bytes of input that went into shards.", &self.bytes),
            ("packhorse_shards_total", "Shards that are complete.", &self.shards),
            ("packhorse_shard_bytes_total", "Bytes of their data files.", &self.shard_bytes),
            ("packhorse_reused_shards_total", "Shards that an earlier run had written.", &self.reused),
            ("packhorse_skipped_samples_total", "Samples and inputs left out.", &self.skipped),
            ("packhorse_warnings_total", "Warnings.", &self.warnings),
        ];
        let metric = |(name, help, value): (&'static str, &'static str, &AtomicU64)| Metric {
            key: "",
            name,
            labels: "",
            help,
            value: value.load(Ordering::Relaxed) as f64,
        };
        rows.into_iter().map(metric).collect()
    }
}
