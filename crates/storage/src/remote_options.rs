//! How patiently a network is read.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How remote files are read: sizes, tries and times. The defaults suit training jobs that run for days.
///
/// A range is given up when `tries` requests in a row brought less than 64 KiB each, or after `patience`, whichever
/// comes first. A server that refuses connections is thus given up after about 40 seconds, one that swallows them
/// after `patience`.
#[derive(Clone)]
pub struct RemoteOptions {
    /// Requests in a row that may fail before a range is given up. 16.
    pub tries: u32,
    /// The time after which a range is given up, with all its tries and waits. 300 s.
    pub patience: Duration,
    /// The time in which a connection must be there, encryption included. 10 s.
    pub connect_timeout: Duration,
    /// The time in which the next bytes must be there, or the connection is cut and the range resumed. 30 s.
    pub idle_timeout: Duration,
    /// The wait after the first failure; it doubles with each one in a row, and a random half of it is left out. 50 ms.
    pub first_wait: Duration,
    /// The longest such wait. 5 s.
    pub longest_wait: Duration,
    /// The longest wait that a server may ask for (`Retry-After`). 60 s.
    pub longest_retry_after: Duration,
    /// Bytes of one request; a larger read is cut into such. 8 MiB.
    pub piece: usize,
    /// How many pieces of one read or stream are under way or waiting in memory. 4.
    pub ahead: usize,
    /// Settings for S3 that win over the environment, by the names they have there (`AWS_ENDPOINT_URL`). They are not shown.
    pub s3: BTreeMap<String, String>,
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
            s3: BTreeMap::new(),
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
            .field("s3", &self.s3.keys())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_not_shown() {
        let s3 = BTreeMap::from([("AWS_SECRET_ACCESS_KEY".into(), "hush".into())]);
        let shown = format!("{:?}", RemoteOptions { s3, ..RemoteOptions::default() });
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && !shown.contains("hush"), "{shown}");
    }
}
