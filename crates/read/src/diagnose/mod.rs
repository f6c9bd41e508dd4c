//! Finds what a training loop waits for, by serving it from memory at one stage after the other.
//!
//! ```text
//! device ─ host ─ decoded ─ stored ─ files ─ loader       the cuts: each has one stage more to do than the one before
//!        copy   collate  decode   read    storage          the stages between them
//! ```
//!
//! A cut runs the loop with everything before it held in memory. Where the time of a step rises from one cut to the next,
//! the stage between them costs it. Cuts take turns in several rounds, forwards and backwards, so that drifts of the
//! machine meet all of them; times are compared within a round.
//!
//! * **Held in memory** is a set of batches from all over the epoch, not one: samples differ in size.
//! * **The neighbours**: steps on the device are measured a second time while the loader runs beside them, and the
//!   processors that other processes took are counted.
//! * **Remedies** ([`Remedy`]) are predicted from what was measured, and the cheap ones can be tried ([`DiagnoseOptions::apply`]).
//!
//! The method is that of "cache at each stage" (Plumber, MLSys 2022; tf.data's analysis; SPDL's headspace analysis).

mod alternatives;
mod apply;
mod clock;
mod cut;
mod cut_work;
mod evict;
mod foreign;
mod held;
mod interval;
mod meter;
mod model;
mod packing;
mod ranks;
mod remedy;
mod rounds;
mod show;
mod smaller;
mod usage;
mod verdict;

pub use alternatives::Alternative;
pub use clock::TrainingStep;
pub use cut::Cut;
pub use foreign::diagnose_iterator;
pub use interval::Interval;
pub(crate) use meter::Meter;
pub use meter::SlowShard;
pub use ranks::{RankReport, Readiness};
pub use remedy::{Remedy, Setting};
pub(crate) use usage::CpuClock;
pub use verdict::{Bottleneck, StageCost, Verdict};

use crate::{Dataset, Device, FieldOptions, LoaderOptions};
use packhorse_core::{Cancel, Result};
use std::time::Duration;

/// How a loop is diagnosed.
#[derive(Clone, Debug)]
pub struct DiagnoseOptions {
    /// The approximate time of all rounds. Slow loops take longer: each cut needs a few steps in each round.
    pub time: Duration,
    /// Rounds in which all cuts take turns; at least 3.
    pub rounds: usize,
    /// Drop the shards that are files of this machine from the page cache before the loader is measured, as far as the
    /// system permits it. Otherwise the loader finds files as they are.
    pub cold: bool,
    /// Try the cheap remedies, take the best one, and look again, until it is not the data or nothing helps.
    pub apply: bool,
    /// Ends the diagnosis early, with an error.
    pub cancel: Cancel,
}

impl Default for DiagnoseOptions {
    /// 30 seconds in 5 rounds; files as they are, nothing tried.
    fn default() -> Self {
        Self { time: Duration::from_secs(30), rounds: 5, cold: false, apply: false, cancel: Cancel::default() }
    }
}

/// What a cut took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CutTime {
    /// The cut.
    pub cut: Cut,
    /// Seconds per step.
    pub seconds: Interval,
    /// Seconds of processors per step that this process took.
    pub cpu: f64,
    /// The share of the processors that this process may run on, and all their time: 1 is saturated. Others included.
    pub saturation: f64,
    /// Processors that other processes took.
    pub others: f64,
    /// The share of the time in which the step waited for its batch.
    pub waited: f64,
}

/// The result of a diagnosis.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The cuts in order; those that can't be made here are missing.
    pub cuts: Vec<CutTime>,
    /// Steps per second that the loader could feed if steps took no time.
    pub supply: Interval,
    /// What the loop waits for.
    pub verdict: Verdict,
    /// What would help, the most helpful first.
    pub remedies: Vec<Remedy>,
    /// Shards that take far longer to read than others.
    pub slow_shards: Vec<SlowShard>,
    /// The share of the held samples' mean size in that of the dataset.
    pub representative: f64,
    /// The diagnoses after each remedy that was applied, in order.
    pub applied: Vec<(Remedy, Diagnosis)>,
    model: model::Model,
}

impl Diagnosis {
    /// The time of a cut.
    pub fn cut(&self, cut: Cut) -> Option<&CutTime> {
        self.cuts.iter().find(|time| time.cut == cut)
    }
}

/// Diagnoses the loop `for batch in loader { step(batch) }` of a loader with these settings. `device` makes a device for
/// each measurement.
///
/// The order of samples is that of `options`; its epochs are repeated without an end, and its state is not used.
///
/// Errors: those of [`Loader::new`](crate::Loader::new), of reading, of `device` and `step`; fewer samples than a batch
/// (kind `Config`); cancelled.
pub fn diagnose<D, S>(
    dataset: &Dataset,
    fields: &[FieldOptions],
    options: &LoaderOptions,
    device: &mut dyn FnMut() -> Result<D>,
    step: &mut S,
    how: &DiagnoseOptions,
) -> Result<Diagnosis>
where
    D: Device + 'static,
    S: TrainingStep<D::Batch>,
{
    diagnose_with(dataset, fields, options, device, &mut [], step, how)
}

/// The same, with other ways to get the batches, whose gain is predicted too where the loop waits for decoded batches.
///
/// Errors: as for [`diagnose`]. An alternative that fails is a note of the verdict.
pub fn diagnose_with<D, S>(
    dataset: &Dataset,
    fields: &[FieldOptions],
    options: &LoaderOptions,
    device: &mut dyn FnMut() -> Result<D>,
    alternatives: &mut [Alternative<'_, D>],
    step: &mut S,
    how: &DiagnoseOptions,
) -> Result<Diagnosis>
where
    D: Device + 'static,
    S: TrainingStep<D::Batch>,
{
    let mut training = TrainingLoop { dataset, device, alternatives, step, how, cursor: rounds::Cursor::default() };
    let mut made = rounds::look(&mut training, fields, options)?;
    if how.apply {
        apply::apply(&mut made, &mut training, fields, options)?;
    }
    Ok(made)
}

/// The loop that is diagnosed.
struct TrainingLoop<'a, 'd, D, S> {
    dataset: &'a Dataset,
    device: &'a mut dyn FnMut() -> Result<D>,
    alternatives: &'a mut [Alternative<'d, D>],
    step: &'a mut S,
    how: &'a DiagnoseOptions,
    cursor: rounds::Cursor,
}

impl<D, S> TrainingLoop<'_, '_, D, S> {
    /// A device, and the fields that are loaded for it where a setting is another way to get the batches.
    fn device(&mut self, setting: Option<&Setting>, fields: &[FieldOptions]) -> Result<(D, Vec<FieldOptions>)> {
        let alternative = match setting {
            Some(Setting::Alternative(number)) => self.alternatives.get_mut(*number),
            _ => None,
        };
        match alternative {
            Some(way) => Ok(((way.device)()?, way.fields.clone())),
            None => Ok(((self.device)()?, fields.to_vec())),
        }
    }
}
