//! How long a step takes with other settings: a model of a loader, from what was measured.

use super::CutTime;
use super::cut::Cut;
use super::cut_work::Spent;
use crate::LoaderOptions;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seconds per step of each part of the work, and who does it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Model {
    /// A step whose batch is in host memory: the step itself, and the copy to the device.
    pub(super) host: f64,
    /// Processor time of a step, on the thread that takes batches.
    pub(super) step_cpu: f64,
    /// Processor time of filling a batch: decoding and collating.
    pub(super) fill: f64,
    /// Wall time of reading a batch on one thread, and the processor time in it.
    pub(super) fetch: f64,
    pub(super) fetch_cpu: f64,
    /// Wall time of the same from the page cache; `None` where shards are not files of this machine.
    pub(super) near_fetch: Option<f64>,
    /// The observed time of a step in the time of this model; 1 where it is exact.
    pub(super) factor: f64,
    pub(super) workers: Workers,
}

/// The threads of a loader, and the processors that they may use at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Workers {
    pub(super) threads: usize,
    pub(super) readers: usize,
    pub(super) processors: usize,
}

/// The least of what the model says that is taken for what was observed.
const LEAST: f64 = 0.6;

impl Model {
    /// From the cuts, and the time of the loader's threads in them.
    pub(super) fn of(
        cuts: &[CutTime],
        spent: &BTreeMap<Cut, Arc<Spent>>,
        options: &LoaderOptions,
        processors: usize,
    ) -> Self {
        let seconds = |cut: Cut| cuts.iter().find(|time| time.cut == cut).map_or(0.0, |time| time.seconds.median);
        let stage = |cut: Cut, of: fn(&Spent) -> (f64, f64)| spent.get(&cut).map_or((0.0, 0.0), |spent| of(spent));
        let (fetch, fetch_cpu) = stage(Cut::Loader, |spent| spent.fetch.of_step());
        let readers = if options.threads == 0 { 0 } else { options.readers };
        let made = Self {
            host: seconds(Cut::Host),
            step_cpu: cuts.iter().find(|time| time.cut == Cut::Device).map_or(0.0, |time| time.cpu),
            fill: stage(Cut::Stored, |spent| spent.fill.of_step()).1,
            fetch,
            fetch_cpu,
            near_fetch: spent.contains_key(&Cut::Files).then(|| stage(Cut::Files, |spent| spent.fetch.of_step()).0),
            factor: 1.0,
            workers: Workers { threads: options.threads, readers, processors },
        };
        let factor = seconds(Cut::Loader) / made.step(made.workers).max(1e-9);
        // No most: a loader that other programs slow down, and the model does not, would gain by any remedy.
        Self { factor: factor.max(LEAST), ..made }
    }

    /// Seconds per step with these workers.
    pub(super) fn step(&self, workers: Workers) -> f64 {
        (self.supply(workers) * self.factor).max(self.host)
    }

    /// Seconds per batch that the loader needs, if nothing else holds it up.
    fn supply(&self, workers: Workers) -> f64 {
        let Workers { threads, readers, processors } = workers;
        let processors = processors.max(1) as f64;
        if threads == 0 {
            // The thread that takes batches does everything, one after the other.
            return self.host + self.fill + self.fetch;
        }
        let fillers = (threads as f64).min(processors);
        let stages = match readers {
            0 => (self.fill + self.fetch) / fillers,
            readers => (self.fill / fillers).max(self.fetch / readers as f64),
        };
        stages.max((self.fill + self.fetch_cpu + self.step_cpu) / processors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: Model = Model {
        host: 0.010,
        step_cpu: 0.001,
        fill: 0.040,
        fetch: 0.060,
        fetch_cpu: 0.009,
        near_fetch: None,
        factor: 1.0,
        workers: Workers { threads: 4, readers: 2, processors: 8 },
    };

    #[test]
    fn the_slowest_part_decides() {
        let step = |threads, readers, processors| MODEL.step(Workers { threads, readers, processors });
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(step(4, 2, 8), 0.030), "reading");
        assert!(near(step(4, 8, 8), 0.010), "the step, and filling just as long");
        assert!(near(step(2, 8, 8), 0.020), "filling");
        assert!(near(step(4, 8, 1), 0.050), "one processor for all");
        assert!(near(step(4, 0, 8), 0.025), "filling threads read");
        assert!(near(step(0, 0, 8), 0.110), "one thread does everything");
        assert!(near(Model { factor: 1.5, ..MODEL }.step(MODEL.workers), 0.045));
    }
}
