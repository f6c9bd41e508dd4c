//! Tells whether reads come from memory, or from a disk or a network with latency.

use nix::sys::resource::{UsageWho, getrusage};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The latency class of recent reads, shared by all reading threads.
///
/// Counts voluntary context switches: a read from memory makes none, a read that waits for a device or a server at
/// least one. Unlike elapsed time, the count does not depend on the load of other processes.
#[derive(Default)]
pub(crate) struct LatencyProbe {
    far: AtomicBool,
    /// Waits, and samples, since the last decision.
    seen: Mutex<(u64, u64)>,
}

/// Latency is high if at least one sample in this many had to wait.
const SAMPLES_A_WAIT: u64 = 8;
/// Samples per decision. One block is not enough: a large sample is a block of its own, and a single wait may be for a
/// lock in the kernel.
const ENOUGH: u64 = 32;

impl LatencyProbe {
    /// Voluntary context switches of this thread so far.
    pub(crate) fn waits() -> u64 {
        let usage = getrusage(UsageWho::RUSAGE_THREAD);
        usage.map_or(0, |usage| u64::try_from(usage.voluntary_context_switches()).unwrap_or(0))
    }

    /// Records that reading `samples` samples waited `waits` times.
    pub(crate) fn record(&self, waits: u64, samples: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (waits, samples) = (seen.0 + waits, seen.1 + samples);
        // High latency is reported early.
        let far = waits * SAMPLES_A_WAIT > samples.max(ENOUGH);
        *seen = if far || samples >= ENOUGH { (0, 0) } else { (waits, samples) };
        if (far || samples >= ENOUGH) && far != self.is_high() {
            self.far.store(far, Ordering::Relaxed);
        }
    }

    /// Whether it pays to have many reads in flight.
    pub(crate) fn is_high(&self) -> bool {
        self.far.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_has_waited() {
        let before = LatencyProbe::waits();
        (0..5).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
        assert!(LatencyProbe::waits() >= before + 5);
    }

    #[test]
    fn one_wait_in_a_block_is_low_latency() {
        let latency = LatencyProbe::default();
        latency.record(60, 64);
        assert!(latency.is_high());
        latency.record(1, 64);
        assert!(!latency.is_high());
    }

    #[test]
    fn samples_that_are_blocks_of_their_own_decide_together() {
        let latency = LatencyProbe::default();
        (0..1000u64).for_each(|i| latency.record(u64::from(i % 10 == 0), 1));
        assert!(!latency.is_high());
        (0..5).for_each(|_| latency.record(1, 1));
        assert!(latency.is_high());
        (0..40).for_each(|_| latency.record(0, 1));
        assert!(!latency.is_high());
    }
}
