//! The statistics of a loader: values, names, and the text that Prometheus reads.

use std::fmt::Write as _;
use std::time::Duration;

/// What a loader has done so far, and who waited for whom: [`Loader::stats`](crate::Loader::stats).
///
/// Times are sums over threads: with four threads that decode, `decode` grows by up to four seconds a second. A thread is
/// either at work (`read`, `decode`, `upload`) or waits (`…_starved` for the stage before it, `…_blocked` for the stage after it).
/// A training loop waits for data if `wait` grows; then the slowest stage is the one that is at work all the time, and not
/// starved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoaderStats {
    /// Batches taken, without those that were errors.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes in use of their slabs.
    pub bytes: u64,
    /// Batches that were errors.
    pub errors: u64,
    /// Samples left out because of their content ([`OnError::Skip`](crate::OnError::Skip)).
    pub skipped: u64,
    /// Batches that were not ready when they were asked for. The first one always counts.
    pub late: u64,
    /// The time that the caller waited for batches.
    pub wait: Duration,
    /// The time in which threads read.
    pub read: Duration,
    /// Bytes of samples that they read, with small gaps between them, without those of memory-mapped files and of tokens.
    /// Of tables, about those of their decoded values.
    pub read_bytes: u64,
    /// Bytes of shards that were read ahead into the page cache ([`LoaderOptions::readahead`](crate::LoaderOptions::readahead)).
    pub readahead_bytes: u64,
    /// The time in which threads decoded and filled slabs. Tokens are read then.
    pub decode: Duration,
    /// The time in which batches were handed to the device: for a GPU, until their copies are queued.
    pub upload: Duration,
    /// The time in which threads that read waited for room: decoding is slower.
    pub read_blocked: Duration,
    /// The time in which threads that decode waited for data: reading is slower.
    pub decode_starved: Duration,
    /// The time in which threads that decode waited for batches to be taken: the caller is slower.
    pub decode_blocked: Duration,
    /// The time in which the thread of an [`Ahead`](crate::Ahead) waited for batches to upload.
    pub upload_starved: Duration,
    /// Batches that are ready now.
    pub ready: u64,
    /// The most batches that can be ready or in work.
    pub ahead: u64,
    /// Steps that are read and wait to be decoded now.
    pub prefetched: u64,
    /// Their bytes.
    pub prefetched_bytes: u64,
    /// Reads that the cache in memory served.
    pub cache_hits: u64,
    /// Reads that it did not serve.
    pub cache_misses: u64,
    /// Bytes that it served.
    pub cache_hit_bytes: u64,
    /// Bytes of shards that were read past it or into it.
    pub cache_miss_bytes: u64,
    /// Shards opened in the cache folder, also those that were copied there at that time.
    pub shards_cached: u64,
    /// Shards opened where the dataset is.
    pub shards_opened: u64,
}

/// A value of [`LoaderStats`] with its names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// A short name, as in Python's `loader.stats()`; of seconds it ends with `_s`.
    pub key: &'static str,
    /// The name for Prometheus, without labels. That of a counter, which only grows, ends with `_total`; others are gauges.
    pub name: &'static str,
    /// Its labels, as `stage="read"`; empty without.
    pub labels: &'static str,
    /// One sentence about it.
    pub help: &'static str,
    /// Its value: a count, bytes or seconds.
    pub value: f64,
}

/// All metrics: key, name, labels, help, value. Those whose name ends with `_total` are counters.
type Row = (&'static str, &'static str, &'static str, &'static str, fn(&LoaderStats) -> f64);

const WAIT: &str = "Seconds that the caller waited for batches.";
const LATE: &str = "Batches that were not ready when they were asked for.";
const BUSY: &str = "Seconds that threads were at work, by stage.";
const IDLE: &str =
    "Seconds that threads waited, by stage and by what they waited for: the stage before (data) or after (room).";
const AHEAD_BYTES: &str = "Bytes of shards read ahead into the page cache.";
const READY: &str = "Batches that are ready now.";
const AHEAD: &str = "The most batches that can be ready or in work.";

const ROWS: [Row; 26] = [
    ("batches", "packhorse_loader_batches_total", "", "Batches taken.", |s| s.batches as f64),
    ("samples", "packhorse_loader_samples_total", "", "Samples in batches taken.", |s| s.samples as f64),
    ("bytes", "packhorse_loader_bytes_total", "", "Bytes of batches taken.", |s| s.bytes as f64),
    ("errors", "packhorse_loader_errors_total", "", "Batches that were errors.", |s| s.errors as f64),
    ("skipped", "packhorse_loader_skipped_samples_total", "", "Samples left out as bad.", |s| s.skipped as f64),
    ("late", "packhorse_loader_late_batches_total", "", LATE, |s| s.late as f64),
    ("waited_s", "packhorse_loader_wait_seconds_total", "", WAIT, |s| s.wait.as_secs_f64()),
    ("read_s", BUSY_NAME, "stage=\"read\"", BUSY, |s| s.read.as_secs_f64()),
    ("decode_s", BUSY_NAME, "stage=\"decode\"", BUSY, |s| s.decode.as_secs_f64()),
    ("upload_s", BUSY_NAME, "stage=\"upload\"", BUSY, |s| s.upload.as_secs_f64()),
    ("read_blocked_s", IDLE_NAME, "stage=\"read\",for=\"room\"", IDLE, |s| s.read_blocked.as_secs_f64()),
    ("decode_starved_s", IDLE_NAME, "stage=\"decode\",for=\"data\"", IDLE, |s| s.decode_starved.as_secs_f64()),
    ("decode_blocked_s", IDLE_NAME, "stage=\"decode\",for=\"room\"", IDLE, |s| s.decode_blocked.as_secs_f64()),
    ("upload_starved_s", IDLE_NAME, "stage=\"upload\",for=\"data\"", IDLE, |s| s.upload_starved.as_secs_f64()),
    ("read_bytes", "packhorse_loader_read_bytes_total", "", "Bytes of samples read.", |s| s.read_bytes as f64),
    ("readahead_bytes", "packhorse_loader_readahead_bytes_total", "", AHEAD_BYTES, |s| s.readahead_bytes as f64),
    ("ready", "packhorse_loader_ready_batches", "", READY, |s| s.ready as f64),
    ("ahead", "packhorse_loader_ahead_batches", "", AHEAD, |s| s.ahead as f64),
    ("prefetched", "packhorse_loader_prefetched_batches", "", "Batches read, not decoded.", |s| s.prefetched as f64),
    ("prefetched_bytes", "packhorse_loader_prefetched_bytes", "", "Their bytes.", |s| s.prefetched_bytes as f64),
    ("cache_hits", "packhorse_loader_cache_hits_total", "", "Reads served from memory.", |s| s.cache_hits as f64),
    ("cache_misses", "packhorse_loader_cache_misses_total", "", "Reads not served from memory.", |s| {
        s.cache_misses as f64
    }),
    ("cache_hit_bytes", "packhorse_loader_cache_hit_bytes_total", "", "Bytes from memory.", |s| {
        s.cache_hit_bytes as f64
    }),
    ("cache_miss_bytes", "packhorse_loader_cache_miss_bytes_total", "", "Bytes read past the memory.", |s| {
        s.cache_miss_bytes as f64
    }),
    ("shards_cached", SHARDS_NAME, "from=\"cache\"", "Shards opened.", |s| s.shards_cached as f64),
    ("shards_opened", SHARDS_NAME, "from=\"dataset\"", "Shards opened.", |s| s.shards_opened as f64),
];

const BUSY_NAME: &str = "packhorse_loader_busy_seconds_total";
const IDLE_NAME: &str = "packhorse_loader_idle_seconds_total";
const SHARDS_NAME: &str = "packhorse_loader_opened_shards_total";

impl LoaderStats {
    /// All values with their names; those of one name follow one another.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> + '_ {
        ROWS.iter().map(|(key, name, labels, help, of)| Metric { key, name, labels, help, value: of(self) })
    }

    /// The values as [Prometheus reads them](https://prometheus.io/docs/instrumenting/exposition_formats/) (text, version 0.0.4),
    /// for the `/metrics` of a training process.
    ///
    /// ```
    /// let text = packhorse_read::LoaderStats { batches: 3, ..Default::default() }.prometheus();
    /// assert!(text.contains("# TYPE packhorse_loader_batches_total counter\npackhorse_loader_batches_total 3\n"));
    /// ```
    pub fn prometheus(&self) -> String {
        Metric::prometheus(self.metrics())
    }
}

impl Metric {
    /// The metrics as Prometheus reads them (text, version 0.0.4). Those of one name must follow one another.
    pub fn prometheus(metrics: impl IntoIterator<Item = Metric>) -> String {
        let (mut text, mut before) = (String::new(), "");
        for Metric { name, labels, help, value, .. } in metrics {
            // Writing to a String can't fail.
            if name != before {
                let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
                let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
                before = name;
            }
            let _ = match labels {
                "" => writeln!(text, "{name} {value}"),
                labels => writeln!(text, "{name}{{{labels}}} {value}"),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_those_of_prometheus() {
        let stats = LoaderStats { wait: Duration::from_millis(1500), ..Default::default() };
        let metrics: Vec<Metric> = stats.metrics().collect();
        let keys: BTreeSet<&str> = metrics.iter().map(|metric| metric.key).collect();
        let names: BTreeSet<(&str, &str)> = metrics.iter().map(|metric| (metric.name, metric.labels)).collect();
        assert!(keys.len() == metrics.len() && names.len() == metrics.len());
        let text = stats.prometheus();
        let families: BTreeSet<&str> = metrics.iter().map(|metric| metric.name).collect();
        assert_eq!(text.matches("# TYPE ").count(), families.len());
        assert!(text.contains("\npackhorse_loader_wait_seconds_total 1.5\n"), "{text}");
        assert!(text.contains("\npackhorse_loader_busy_seconds_total{stage=\"read\"} 0\n"), "{text}");
        assert!(metrics.iter().all(|metric| metric.key.ends_with("_s") == metric.name.contains("_seconds_")));
    }
}
