//! How far work is, as one line of text for logs.

use crate::outcome::counted;
use crate::size::show;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Work in progress. Displayed as `34 % 4/12 shards 5000 samples 95.0 MB/s 6 min left`, as far as totals are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WorkStatus {
    /// Files found so far, while the total is unknown.
    pub(crate) files: u64,
    /// Bytes of input, and how many there are.
    pub(crate) bytes: u64,
    pub(crate) total: Option<u64>,
    /// Bytes that an earlier run had finished.
    pub(crate) reused: u64,
    pub(crate) samples: u64,
    pub(crate) shards: u64,
    pub(crate) total_shards: Option<u64>,
    /// Time since the work began.
    pub(crate) elapsed: Duration,
}

impl WorkStatus {
    /// Shards and samples, where shards are planned: `4/12 shards 5000 samples`.
    pub(crate) fn counts(&self) -> String {
        let counts = |total| format!("{}/{} {}", self.shards, counted(total, "shard"), counted(self.samples, "sample"));
        self.total_shards.map_or_else(String::new, counts)
    }

    /// Bytes a second, without those that an earlier run had finished.
    fn rate(&self) -> f64 {
        self.bytes.saturating_sub(self.reused) as f64 / self.elapsed.as_secs_f64().max(1e-3)
    }
}

impl fmt::Display for WorkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            Some(total) if total > 0 => write!(f, "{:.0} %", 100.0 * self.bytes.min(total) as f64 / total as f64)?,
            _ if self.bytes > 0 => f.write_str(&show(self.bytes))?,
            _ => return f.write_str(&counted(self.files, "file")),
        }
        let (counts, rate) = (self.counts(), self.rate());
        let space = if counts.is_empty() { "" } else { " " };
        write!(f, "{space}{counts} {}/s", show(rate as u64))?;
        match self.total.map(|total| total.saturating_sub(self.bytes)) {
            Some(left) if rate > 0.0 => write!(f, " {} left", span(left as f64 / rate)),
            _ => Ok(()),
        }
    }
}

/// Seconds as people say them: `40 s`, `6 min`, `3 h 20 min`.
pub(crate) fn span(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        _ if seconds < 90.0 => format!("{seconds:.0} s"),
        0..120 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// The time of day in UTC: `12:03:10Z`.
pub(crate) fn clock(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()) % 86_400;
    format!("{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_share_shards_rate_and_time_left() {
        let status = WorkStatus {
            bytes: 3_400_000_000,
            total: Some(10_000_000_000),
            samples: 5000,
            shards: 4,
            total_shards: Some(12),
            elapsed: Duration::from_secs(34),
            ..WorkStatus::default()
        };
        assert_eq!(status.to_string(), "34 % 4/12 shards 5000 samples 100.0 MB/s 66 s left");
        let resumed = WorkStatus { reused: 3_060_000_000, ..status.clone() };
        assert_eq!(resumed.to_string(), "34 % 4/12 shards 5000 samples 10.0 MB/s 11 min left");
        let open = WorkStatus { total: None, total_shards: None, ..status };
        assert_eq!(open.to_string(), "3.4 GB 100.0 MB/s");
        assert_eq!(WorkStatus { files: 12, ..WorkStatus::default() }.to_string(), "12 files");
    }

    #[test]
    fn times_are_short() {
        assert_eq!([40.0, 360.0, 12_000.0].map(span), ["40 s", "6 min", "3 h 20 min"]);
        assert_eq!(clock(UNIX_EPOCH + Duration::from_secs(86_400 * 9 + 43_390)), "12:03:10Z");
    }
}
