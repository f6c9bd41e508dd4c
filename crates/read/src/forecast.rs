//! What a training job needs of machines and storage, before it is queued: from what one sample costs here.
//!
//! Specification: arithmetic on measured costs. Processors and bytes are proportional to samples; nothing is assumed to be
//! cached, and the processors of the job are taken to be as fast as those of this machine.

use crate::diagnose::CpuClock;
use crate::{Dataset, FieldOptions, Host, Loader, LoaderOptions};
use packhorse_core::{Code, Error, Result};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// What a job takes: consumers, such as GPUs, and the samples that each takes per second.
///
/// ```
/// use packhorse_read::Demand;
///
/// let demand: Demand = "64x4200/s".parse()?;
/// assert_eq!((demand.consumers, demand.rate), (64, 4200.0));
/// # Ok::<(), packhorse_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Consumers, at least 1.
    pub consumers: u32,
    /// Samples per second of each, above 0.
    pub rate: f64,
}

impl FromStr for Demand {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers = || {
            let (consumers, rate) = text.strip_suffix("/s").unwrap_or(text).split_once('x')?;
            Some(Self { consumers: consumers.parse().ok()?, rate: rate.parse().ok()? })
        };
        let valid = numbers().filter(|demand| demand.consumers > 0 && demand.rate > 0.0 && demand.rate <= 1e12);
        valid.ok_or_else(|| {
            let message = format!(
                "a feed is NxR/s, N consumers that each take R samples per second, such as 64x4200/s, not \"{text}\""
            );
            Error::config(message).with_code(Code::BadSetting)
        })
    }
}

/// What a sample costs a loader, in the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleCost {
    /// Seconds of processors, to read, decode and collate it.
    pub processor: f64,
    /// Bytes in shards.
    pub stored: f64,
    /// Bytes in a batch.
    pub batch: f64,
}

impl SampleCost {
    /// Loads the samples again and again for about this time, on the threads of `options`, and counts.
    ///
    /// Errors: those of [`Loader::new`] and of reading; fewer samples than a batch (kind `Config`).
    pub fn measure(
        dataset: &Dataset,
        fields: &[FieldOptions],
        options: &LoaderOptions,
        time: Duration,
    ) -> Result<Self> {
        let options = LoaderOptions { epochs: None, ..options.clone() };
        let mut loader = Loader::new(dataset.clone(), fields, &options, Host::default())?;
        let too_few = || Error::config(format!("has fewer samples than a batch of {}", options.batch));
        // The first batches pay for threads and memory that later ones find.
        let warm = options.ahead.max(1) + options.threads;
        for _ in 0..warm {
            drop(loader.next().ok_or_else(too_few)??);
        }
        let (clock, start, mut samples, mut bytes) = (CpuClock::start(), Instant::now(), 0u64, 0u64);
        while start.elapsed() < time || samples == 0 {
            let batch = loader.next().ok_or_else(too_few)??;
            samples += batch.rows() as u64;
            bytes += batch.used() as u64;
        }
        let of_samples = |total: f64| total / samples as f64;
        Ok(Self {
            processor: of_samples(clock.used().process),
            stored: dataset.bytes() as f64 / dataset.len().max(1) as f64,
            batch: of_samples(bytes as f64),
        })
    }
}

/// What the machines of a job have to give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Samples per second of all consumers.
    pub samples_per_s: f64,
    /// Processors that load, per consumer.
    pub processors: f64,
    /// Bytes per second that a consumer reads, if nothing is cached.
    pub storage: f64,
    /// Bytes per second of batches to a consumer.
    pub batches: f64,
    /// Nodes of the job.
    pub nodes: u32,
    /// Bytes of the dataset, where the number of its samples is known.
    pub dataset: Option<f64>,
    /// Seconds of an epoch, where the number of samples is known.
    pub epoch: Option<f64>,
    /// The fewest shards of which every node has 16 of its own, as many as loaders shuffle together.
    pub shards: u64,
}

/// Shards that loaders shuffle together where nothing else is asked for: a node that holds fewer shuffles less.
const BLOCK: u32 = 16;

impl Forecast {
    /// Of a job on nodes with so many consumers each (at least 1), for `samples` samples an epoch.
    pub fn new(demand: Demand, cost: SampleCost, samples: Option<u64>, per_node: u32) -> Self {
        let samples_per_s = f64::from(demand.consumers) * demand.rate;
        let nodes = demand.consumers.div_ceil(per_node.max(1));
        Self {
            samples_per_s,
            processors: demand.rate * cost.processor,
            storage: demand.rate * cost.stored,
            batches: demand.rate * cost.batch,
            nodes,
            dataset: samples.map(|samples| samples as f64 * cost.stored),
            epoch: samples.map(|samples| samples as f64 / samples_per_s),
            shards: u64::from(nodes) * u64::from(BLOCK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands() {
        let demand = |text: &str| text.parse::<Demand>();
        assert_eq!(demand("8x1500.5/s").unwrap(), Demand { consumers: 8, rate: 1500.5 });
        assert_eq!(demand("8x1500").unwrap(), Demand { consumers: 8, rate: 1500.0 });
        for wrong in ["", "8", "0x5/s", "8x0/s", "8x-1/s", "8xNaN/s", "8xinf/s", "x5", "8x5/min"] {
            assert!(demand(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn needs_are_proportional() {
        let cost = SampleCost { processor: 0.002, stored: 100_000.0, batch: 150_528.0 };
        let found = Forecast::new(Demand { consumers: 20, rate: 1000.0 }, cost, Some(1_000_000), 8);
        assert_eq!((found.samples_per_s, found.nodes, found.shards), (20_000.0, 3, 48));
        assert_eq!((found.processors, found.storage, found.batches), (2.0, 1e8, 150_528_000.0));
        assert_eq!((found.dataset, found.epoch), (Some(1e11), Some(50.0)));
        let unknown = Forecast::new(Demand { consumers: 1, rate: 1.0 }, cost, None, 0);
        assert_eq!((unknown.nodes, unknown.dataset, unknown.epoch), (1, None, None));
    }
}
