//! What another way to get the same batches would gain: its stages are measured.

use super::clock::{Pace, TrainingStep};
use super::cut::Cut;
use super::cut_work::Served;
use super::model::Model;
use super::remedy::{Remedy, Setting, fill_alone};
use super::rounds::{Rig, cut_time};
use super::usage::allowed;
use super::{Bottleneck, Diagnosis, TrainingLoop};
use crate::{Device, FieldOptions, LoaderOptions};
use packhorse_core::{Kind, Result};
use std::sync::Arc;

/// Another way to get the same batches: other fields, of which a device makes the wanted ones.
pub struct Alternative<'a, D> {
    /// The name of its remedy.
    pub name: String,
    /// What to do, as a sentence.
    pub says: String,
    /// The fields that are loaded.
    pub fields: Vec<FieldOptions>,
    /// Makes a device for each measurement.
    pub device: &'a mut dyn FnMut() -> Result<D>,
}

/// Adds the alternatives as remedies, if the loop waits for what they do elsewhere.
///
/// Errors: cancelled. Other failures are notes.
pub(super) fn add<D, S>(
    made: &mut Diagnosis,
    training: &mut TrainingLoop<'_, '_, D, S>,
    fields: &[FieldOptions],
    options: &LoaderOptions,
    pace: &Pace,
) -> Result<()>
where
    D: Device + 'static,
    S: TrainingStep<D::Batch>,
{
    let stages = [Bottleneck::Transfer, Bottleneck::Collate, Bottleneck::Decode];
    if !made.verdict.costs.iter().any(|cost| stages.contains(&cost.stage)) {
        return Ok(());
    }
    for number in 0..training.alternatives.len() {
        let setting = Setting::Alternative(number);
        match predicted(made.model, training, &setting, (fields, options), pace) {
            Ok(rate) => {
                let Some(Alternative { name, says, .. }) = training.alternatives.get(number) else { continue };
                let (name, says) = (name.clone(), says.clone());
                made.remedies.push(Remedy { name, says, predicted: rate, observed: None, setting: Some(setting) });
            }
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => {
                let name = training.alternatives.get(number).map_or("", |way| way.name.as_str());
                made.verdict.notes.push(format!("{name} was not tried: {error}"));
            }
        }
    }
    Ok(())
}

/// Steps per second that the loop would reach: its steps on batches that the other device makes of those in host memory, while
/// the loader has its own work with them.
fn predicted<D, S>(
    model: Model,
    training: &mut TrainingLoop<'_, '_, D, S>,
    setting: &Setting,
    (fields, options): (&[FieldOptions], &LoaderOptions),
    pace: &Pace,
) -> Result<f64>
where
    D: Device + 'static,
    S: TrainingStep<D::Batch>,
{
    let (device, fields) = training.device(Some(setting), fields)?;
    let mut rig = Rig::new(training.dataset, &fields, options, &device, None, &training.cursor)?;
    drop(device);
    let (fill, _) = fill_alone(&rig.work, &rig.held.steps, &rig.held.blocks)?;
    let mut slices = Vec::new();
    for _ in 0..training.how.rounds.max(3) {
        let (device, _) = training.device(Some(setting), &fields)?;
        slices.push(rig.batches(device, Served::Batches, pace, &Arc::default(), training.step)?);
    }
    let host = cut_time(Cut::Host, &slices, allowed());
    let model = Model { fill, host: host.seconds.median, step_cpu: host.cpu, ..model };
    Ok(1.0 / model.step(model.workers).max(1e-9))
}
