//! One measurement: work that threads do again and again, and its rate in a round.

use crate::Quantity;
use packhorse_core::{Cancel, Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Does a step and returns how many units it was. It gets its thread, from 0, and the number of the step, which counts on from
/// round to round; no two threads have the same.
pub(crate) type Step<'a> = Box<dyn Fn(usize, u64) -> Result<u64> + Sync + 'a>;

/// A quantity to measure with some threads.
pub(crate) struct Probe<'a> {
    pub(crate) quantity: Quantity,
    pub(crate) threads: usize,
    /// Bytes of a unit.
    pub(crate) unit_bytes: f64,
    /// Called before each round, outside of its time.
    before: Box<dyn Fn() -> Result<()> + 'a>,
    step: Step<'a>,
    /// For each thread the steps that it did.
    steps: Vec<AtomicU64>,
}

impl<'a> Probe<'a> {
    pub(crate) fn new(quantity: Quantity, threads: usize, unit_bytes: f64, step: Step<'a>) -> Self {
        let steps = (0..threads).map(|_| AtomicU64::new(0)).collect();
        Self { quantity, threads, unit_bytes, before: Box::new(|| Ok(())), step, steps }
    }

    /// The same, with work before each round.
    pub(crate) fn before(self, before: impl Fn() -> Result<()> + 'a) -> Self {
        Self { before: Box::new(before), ..self }
    }

    /// Units a second, of a round of about `time`. Errors: those of a step; a thread that can't be started; `Cancelled`.
    pub(crate) fn round(&self, time: Duration, cancel: &Cancel) -> Result<f64> {
        (self.before)()?;
        // The barrier is for all threads, so none may wait at it before all are started.
        let (together, complete) = (Barrier::new(self.threads), OnceLock::new());
        let (step, together, complete, stride) = (&self.step, &together, &complete, self.threads as u64);
        let turns: Result<Vec<Result<(u64, Duration)>>> = std::thread::scope(|scope| {
            let spawned = self.steps.iter().enumerate().map(|(thread, done)| {
                let run = move || {
                    if !complete.wait() {
                        return Ok((0, Duration::ZERO));
                    }
                    together.wait();
                    turn(time, cancel, || step(thread, done.fetch_add(1, Ordering::Relaxed) * stride + thread as u64))
                };
                Builder::new().spawn_scoped(scope, run).map_err(Error::thread)
            });
            let spawned = spawned.collect::<Result<Vec<_>>>();
            complete.get_or_init(|| spawned.is_ok());
            let panicked = || Err(Error::bug("a thread of a measurement panicked"));
            Ok(spawned?.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect())
        });
        let turns = turns?.into_iter().collect::<Result<Vec<_>>>()?;
        let seconds = turns.iter().map(|(_, took)| took.as_secs_f64()).fold(1e-9, f64::max);
        Ok(turns.iter().map(|(units, _)| *units).sum::<u64>() as f64 / seconds)
    }
}

/// The steps of one thread, at least one.
fn turn(time: Duration, cancel: &Cancel, mut step: impl FnMut() -> Result<u64>) -> Result<(u64, Duration)> {
    let (start, mut units) = (Instant::now(), 0);
    loop {
        cancel.check()?;
        units += step()?;
        let took = start.elapsed();
        if took >= time {
            return Ok((units, took));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    #[test]
    fn every_step_has_its_number_and_rounds_count_on() {
        let seen = Mutex::new(Vec::new());
        let probe = Probe::new(
            Quantity::Copy,
            3,
            1.0,
            Box::new(|thread, step| {
                assert_eq!(step % 3, thread as u64);
                seen.lock().unwrap().push(step);
                Ok(7)
            }),
        );
        for _ in 0..2 {
            assert!(probe.round(Duration::from_millis(1), &Cancel::default()).unwrap() > 0.0);
        }
        drop(probe);
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), seen.len());
    }

    #[test]
    fn an_error_and_a_request_to_stop_end_a_round() {
        let fails = Probe::new(Quantity::Copy, 2, 1.0, Box::new(|_, _| Err(Error::content("bad"))));
        assert_eq!(fails.round(Duration::from_secs(60), &Cancel::default()).unwrap_err().message(), "bad");
        let cancel = Cancel::default();
        cancel.cancel();
        let works = Probe::new(Quantity::Copy, 2, 1.0, Box::new(|_, _| Ok(1)));
        assert_eq!(works.round(Duration::from_secs(60), &cancel).unwrap_err().kind(), packhorse_core::Kind::Cancelled);
    }
}
