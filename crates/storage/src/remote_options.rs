//! Settings for remote files.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Told of a wait.
pub type OnWait = Arc<dyn Fn(&str) + Send + Sync>;

/// Sizes, retries and timeouts for remote files. The defaults suit training jobs that run for days.
///
/// A range fails after `tries` requests in a row with less than 64 KiB each, or after `patience`, whichever comes
/// first. A server that refuses connections is given up after about 40 seconds, one that drops packets after
/// `patience`.
#[derive(Clone)]
pub struct RemoteOptions {
    /// Requests in a row without progress before a range fails. 16.
    pub tries: u32,
    /// The total time for a range, with all retries and waits. 300 s.
    pub patience: Duration,
    /// Timeout of a connection, including TLS. 10 s.
    pub connect_timeout: Duration,
    /// Timeout for the next bytes; then the connection is closed and the range resumed. 30 s.
    pub idle_timeout: Duration,
    /// The wait after the first failure; doubles with each failure in a row, less a random half. 50 ms.
    pub first_wait: Duration,
    /// The longest such wait. 5 s.
    pub longest_wait: Duration,
    /// The longest `Retry-After` that is honoured. 60 s.
    pub longest_retry_after: Duration,
    /// The most bytes per request; larger reads are split. 8 MiB.
    pub piece: usize,
    /// Requests of one read or stream in flight or waiting in memory. 4.
    pub ahead: usize,
    /// Bytes of a part of an object that is written, at least 5 MiB; an object has at most 10,000 parts. 8 MiB.
    pub part: usize,
    /// Parts on their way to servers at once, over all objects that are written. 8.
    pub parts_at_once: usize,
    /// Told every 10 s of a request that is tried again and again: where, and why. `None`.
    pub on_wait: Option<OnWait>,
    /// S3 settings that override the environment, by the variables' names (`AWS_ENDPOINT_URL`). Not shown by `Debug`.
    pub s3: BTreeMap<String, String>,
    /// Settings of Google Cloud Storage, likewise (`GOOGLE_APPLICATION_CREDENTIALS`).
    pub gcs: BTreeMap<String, String>,
    /// Settings of Azure Blob Storage, likewise (`AZURE_STORAGE_ACCOUNT_NAME`).
    pub azure: BTreeMap<String, String>,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            tries: 16,
            patience: Duration::from_secs(300),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            first_wait: Duration::from_millis(50),
            longest_wait: Duration::from_secs(5),
            longest_retry_after: Duration::from_secs(60),
            piece: 8 << 20,
            ahead: 4,
            part: 8 << 20,
            parts_at_once: 8,
            on_wait: None,
            s3: BTreeMap::new(),
            gcs: BTreeMap::new(),
            azure: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteOptions")
            .field("tries", &self.tries)
            .field("patience", &self.patience)
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("first_wait", &self.first_wait)
            .field("longest_wait", &self.longest_wait)
            .field("longest_retry_after", &self.longest_retry_after)
            .field("piece", &self.piece)
            .field("ahead", &self.ahead)
            .field("part", &self.part)
            .field("parts_at_once", &self.parts_at_once)
            .field("s3", &self.s3.keys())
            .field("gcs", &self.gcs.keys())
            .field("azure", &self.azure.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_not_shown() {
        let setting = |name: &str| BTreeMap::from([(name.to_owned(), "hush".to_owned())]);
        let names = ["AWS_SECRET_ACCESS_KEY", "GOOGLE_BEARER_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY"];
        let [s3, gcs, azure] = names.map(setting);
        let shown = format!("{:?}", RemoteOptions { s3, gcs, azure, ..RemoteOptions::default() });
        assert!(names.iter().all(|name| shown.contains(name)) && !shown.contains("hush"), "{shown}");
    }
}
