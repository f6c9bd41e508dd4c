//! The retry budget: how often and how long a request is tried.

use super::failure::Failure;
use super::outage::Outage;
use crate::RemoteOptions;
use packhorse_core::{Error, Kind};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Fewer bytes per try count as no progress: a server that sends one byte per try is given up.
const PROGRESS: u64 = 64 << 10;

/// Upper bound of every duration option, so that sums do not overflow.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// The most tries where a request was given up and no server has answered since.
const LOST_TRIES: u32 = 3;

/// The remaining tries and time of one range or query.
pub(crate) struct Budget {
    options: RemoteOptions,
    outage: Arc<Outage>,
    /// The file.
    name: String,
    started: Instant,
    requests: u32,
    in_a_row: u32,
}

impl Budget {
    pub(crate) fn new(options: &RemoteOptions, outage: &Arc<Outage>, name: String) -> Self {
        let (options, outage) = (options.clone(), outage.clone());
        Self { options, outage, name, started: Instant::now(), requests: 0, in_a_row: 0 }
    }

    /// The same with `more` time.
    pub(crate) fn longer(mut self, more: Duration) -> Self {
        self.options.patience = self.options.patience.saturating_add(more);
        self
    }

    /// The latest end.
    pub(crate) fn deadline(&self) -> Instant {
        self.started + self.options.patience.min(LONGEST)
    }

    /// After a failed try that received `progress` bytes: the wait before the next try, or the final error.
    pub(crate) fn after(&mut self, failure: Failure, progress: u64) -> Result<Duration, Error> {
        let (why, after) = match failure {
            Failure::Final(error) => return Err(error.in_input(&self.name)),
            Failure::Again { why, after } => (why, after),
        };
        self.requests = self.requests.saturating_add(1);
        self.in_a_row = if progress >= PROGRESS { 1 } else { self.in_a_row.saturating_add(1) };
        let wait = match after {
            Some(after) => after.min(self.options.longest_retry_after).max(self.wait()),
            None => self.wait(),
        };
        let wait = wait.min(LONGEST);
        let tries = if self.outage.is_lost() { self.options.tries.min(LOST_TRIES) } else { self.options.tries };
        if self.in_a_row >= tries || Instant::now() + wait >= self.deadline() {
            return Err(self.given_up(&why));
        }
        let tell = self.options.on_wait.as_ref().filter(|_| self.outage.may_tell(self.started));
        if let Some(tell) = tell {
            tell(&format!("{}: {why}; waiting for the server", self.name));
        }
        Ok(wait)
    }

    /// The error of a try that ran past the deadline.
    pub(crate) fn out_of_time(&mut self, why: &str) -> Error {
        self.requests = self.requests.saturating_add(1);
        self.given_up(why)
    }

    fn given_up(&self, why: &str) -> Error {
        self.outage.given_up();
        let (requests, seconds) = (self.requests, self.started.elapsed().as_secs_f32());
        let requests = if requests == 1 { "1 request".into() } else { format!("{requests} requests") };
        let message = format!("{why}; given up after {requests} in {seconds:.1} s");
        let error = Error::new(Kind::Environment, message).hint("run the same command again when the server answers");
        error.in_input(&self.name)
    }

    /// Exponential backoff with random jitter of up to half, so that a thousand tasks do not retry in sync.
    fn wait(&self) -> Duration {
        let doubled = 1u32.checked_shl(self.in_a_row.saturating_sub(1).min(20)).unwrap_or(u32::MAX);
        let longest = self.options.first_wait.saturating_mul(doubled).min(self.options.longest_wait).min(LONGEST);
        let random = RandomState::new().hash_one(self.requests) as u32;
        longest.mul_f64(0.5 + 0.5 * f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(tries: u32, patience: u64) -> Budget {
        let patience = Duration::from_secs(patience);
        of(&RemoteOptions { tries, patience, ..RemoteOptions::default() })
    }

    fn of(options: &RemoteOptions) -> Budget {
        Budget::new(options, &Arc::default(), String::new())
    }

    #[test]
    fn after_a_request_was_given_up_others_are_sooner_until_a_server_answers() {
        let (outage, options) = (Arc::new(Outage::default()), RemoteOptions::default());
        let requests = || {
            let mut budget = Budget::new(&options, &outage, String::new());
            (1..).find(|_| budget.after(Failure::again("refused"), 0).is_err()).unwrap()
        };
        assert_eq!((requests(), requests()), (options.tries, LOST_TRIES));
        outage.answered();
        assert_eq!(requests(), options.tries);
    }

    #[test]
    fn tries_are_counted_in_a_row() {
        let mut budget = budget(3, 300);
        for progress in [0, 0, PROGRESS, 0, PROGRESS, 0] {
            budget.after(Failure::again("reset"), progress).unwrap();
        }
        let error = budget.after(Failure::again("reset"), PROGRESS - 1).unwrap_err();
        assert_eq!(error.kind(), Kind::Environment);
        assert!(error.message().contains("reset; given up after 7 requests in "), "{error}");
        assert!(error.to_string().ends_with("; run the same command again when the server answers"), "{error}");
    }

    #[test]
    fn waits_double_and_are_bounded() {
        let mut budget = budget(100, 3000);
        for n in 0..30 {
            let longest = Duration::from_millis(50).saturating_mul(1 << n.min(20)).min(Duration::from_secs(5));
            let wait = budget.after(Failure::again("x"), 0).unwrap();
            assert!(wait <= longest && wait * 2 >= longest - Duration::from_millis(1), "{n}: {wait:?}");
        }
    }

    #[test]
    fn no_option_is_too_large() {
        let most = Duration::MAX;
        let options = RemoteOptions {
            patience: most,
            first_wait: most,
            longest_wait: most,
            longest_retry_after: most,
            ..RemoteOptions::default()
        };
        let mut budget = of(&options);
        assert!(budget.after(Failure::again("x"), 0).is_ok());
        assert!(budget.after(Failure::Again { why: String::new(), after: Some(most) }, 0).is_err());
    }

    #[test]
    fn a_server_may_ask_for_a_wait_but_not_for_ever() {
        let asked = |seconds| Failure::Again { why: String::new(), after: Some(Duration::from_secs(seconds)) };
        // Not at once, though the server says so.
        assert!(budget(9, 300).after(asked(0), 0).unwrap() >= RemoteOptions::default().first_wait / 2);
        assert_eq!(budget(9, 300).after(asked(7), 0).unwrap(), Duration::from_secs(7));
        assert_eq!(budget(9, 300).after(asked(7000), 0).unwrap(), Duration::from_secs(60));
        assert!(budget(9, 30).after(asked(7000), 0).is_err());
        assert!(budget(9, 30).longer(Duration::from_secs(60)).after(asked(7000), 0).is_ok());
    }
}
