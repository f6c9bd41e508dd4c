//! Time of processors: of this process, of a thread, and of others on the same processors.

use crate::cores::allowed_cpus;
use nix::time::{ClockId, clock_gettime};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// Seconds of processors, from the start of something on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuClock {
    at: Instant,
    process: f64,
    /// All work of the processors of this process, by any process.
    busy: Option<f64>,
}

/// What was used between two looks at the clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) seconds: f64,
    /// Seconds of processors that this process took.
    pub(crate) process: f64,
    /// Seconds of this process's processors that others took.
    pub(crate) others: f64,
}

impl CpuClock {
    pub(crate) fn start() -> Self {
        Self { at: Instant::now(), process: process_seconds(), busy: busy_seconds() }
    }

    pub(crate) fn used(&self) -> Used {
        let now = Self::start();
        let process = now.process - self.process;
        let busy = self.busy.zip(now.busy).map_or(0.0, |(before, now)| now - before);
        // A container with a quota of processors has no processors of its own that others could take.
        let busy = if allowed() < allowed_cpus().len() { 0.0 } else { busy };
        Used { seconds: self.at.elapsed().as_secs_f64(), process, others: (busy - process).max(0.0) }
    }
}

/// The seconds of processors that this process took so far.
pub(super) fn process_seconds() -> f64 {
    seconds(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// The seconds of processors that this thread took so far.
pub(super) fn thread_seconds() -> f64 {
    seconds(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// These clocks count every nanosecond; `getrusage` may count ticks of the scheduler, which are longer than a batch.
fn seconds(clock: ClockId) -> f64 {
    clock_gettime(clock).map_or(0.0, |time| Duration::from(time).as_secs_f64())
}

/// The processors that this process may use at once: its mask, and the quota of its container.
pub(super) fn allowed() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Seconds that the processors of this process's mask have worked since the system started, for any process; `None` where
/// the system does not tell.
fn busy_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let mask = allowed_cpus();
    let of_mask = |line: &&str| {
        let number = line.strip_prefix("cpu").and_then(|rest| rest.split(' ').next()?.parse().ok());
        number.is_some_and(|number: usize| mask.contains(&number))
    };
    let jiffies: u64 = text.lines().filter(of_mask).map(busy).sum();
    let hertz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten()?;
    Some(jiffies as f64 / hertz as f64)
}

/// The jiffies of a line of `/proc/stat` (proc(5)) without those in which the processor was idle or waited.
fn busy(line: &str) -> u64 {
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user.
    let numbers = line.split_whitespace().skip(1).take(8).enumerate();
    numbers.filter(|(at, _)| ![3, 4].contains(at)).filter_map(|(_, number)| number.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_not_work() {
        assert_eq!(busy("cpu1 10 20 30 4000 500 6 7 8 9 9"), 10 + 20 + 30 + 6 + 7 + 8);
        assert_eq!(busy(""), 0);
    }

    #[test]
    fn work_is_counted() {
        let clock = CpuClock::start();
        let mut sum = 0u64;
        let start = thread_seconds();
        while thread_seconds() - start < 0.02 {
            sum = (0..10_000u64).fold(sum, |sum, n| sum.wrapping_mul(31).wrapping_add(n));
        }
        let used = clock.used();
        assert!(used.process >= 0.02 && used.seconds > 0.0 && sum != 1, "{used:?}");
        assert!(!allowed_cpus().is_empty() && allowed() > 0);
    }
}
