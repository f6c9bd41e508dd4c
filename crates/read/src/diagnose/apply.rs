//! Tries remedies: predicted and observed, side by side.

use super::clock::TrainingStep;
use super::remedy::{Setting, WORTH};
use super::rounds::{Rig, look, pace};
use super::{Bottleneck, Diagnosis, Interval, Remedy, TrainingLoop};
use crate::{Device, FieldOptions, LoaderOptions};
use packhorse_core::Result;
use std::sync::Arc;

/// Diagnoses after a remedy, at most.
const AGAIN: usize = 3;

/// Tries the cheap remedies of `first`, takes the best one that keeps batches as they are, and diagnoses again, until
/// the loop does not wait for data or nothing helps.
pub(super) fn apply<D, S>(
    first: &mut Diagnosis,
    training: &mut TrainingLoop<'_, '_, D, S>,
    fields: &[FieldOptions],
    options: &LoaderOptions,
) -> Result<()>
where
    D: Device + 'static,
    S: TrainingStep<D::Batch>,
{
    let (mut options, mut fields) = (options.clone(), fields.to_vec());
    let mut applied: Vec<(Remedy, Diagnosis)> = Vec::new();
    for _ in 0..AGAIN {
        let last = match applied.last_mut() {
            Some((_, last)) => last,
            None => &mut *first,
        };
        if last.verdict.bottleneck == Bottleneck::Step {
            break;
        }
        let Some(best) = training.attempt(&mut last.remedies, &options, &fields)? else { break };
        if let Some(setting) = &best.setting {
            setting.apply(&mut options, &mut fields);
        }
        let next = look(training, &fields, &options)?;
        applied.push((best, next));
    }
    first.applied = applied;
    Ok(())
}

impl<D, S> TrainingLoop<'_, '_, D, S>
where
    D: Device + 'static,
    S: TrainingStep<D::Batch>,
{
    /// Observes the remedies that are settings of a loader, in turns with the loader as it is. Returns the one that helped
    /// most and keeps batches as they are, if one did.
    fn attempt(
        &mut self,
        remedies: &mut [Remedy],
        options: &LoaderOptions,
        fields: &[FieldOptions],
    ) -> Result<Option<Remedy>> {
        let mut tried: Vec<&mut Remedy> = remedies.iter_mut().filter(|remedy| remedy.setting.is_some()).collect();
        if tried.is_empty() {
            return Ok(None);
        }
        let mut plain = Rig::new(self.dataset, fields, options, &(self.device)()?, None, &self.cursor)?;
        let mut rigs = Vec::new();
        for remedy in &tried {
            let (mut options, mut fields) = (options.clone(), fields.to_vec());
            if let Some(setting) = &remedy.setting {
                setting.apply(&mut options, &mut fields);
            }
            // Only the loader is measured, which takes nothing from those in memory.
            let held = Some(Arc::clone(&plain.held));
            let cached = matches!(remedy.setting, Some(Setting::Ram(_)));
            let (device, fields) = self.device(remedy.setting.as_ref(), &fields)?;
            let rig = Rig::new(self.dataset, &fields, &options, &device, held, &self.cursor)?;
            rigs.push((rig, options, cached));
        }
        let mut before = Vec::new();
        let mut after = vec![Vec::new(); rigs.len()];
        for _ in 0..self.how.rounds.max(3) {
            before.push(self.rate(&mut plain, options, None, (tried.len() + 1, false))?);
            for (((rig, options, cached), rates), remedy) in rigs.iter_mut().zip(&mut after).zip(&tried) {
                rates.push(self.rate(rig, options, remedy.setting.as_ref(), (tried.len() + 1, *cached))?);
            }
        }
        for (remedy, rates) in tried.iter_mut().zip(&after) {
            remedy.observed = Some(Interval::of(rates));
        }
        let observed = |remedy: &Remedy| remedy.observed.map_or(0.0, |rate| rate.median);
        let best = tried.iter().filter(|remedy| remedy.setting.as_ref().is_some_and(Setting::keeps_batches));
        let best = best.max_by(|a, b| observed(a).total_cmp(&observed(b)));
        let now = Interval::of(&before).median;
        Ok(best.filter(|best| observed(best) > now * WORTH).map(|best| Remedy::clone(best)))
    }

    /// Steps per second of a loader, cold if that is asked for; with a filled cache, if it has one.
    fn rate(
        &mut self,
        rig: &mut Rig,
        options: &LoaderOptions,
        setting: Option<&Setting>,
        (variants, cached): (usize, bool),
    ) -> Result<f64> {
        let pace = pace(options, self.how, variants);
        if self.how.cold {
            rig.evict();
        }
        let mut served = rig.fresh();
        if cached {
            // The same steps twice: the first time they fill the cache.
            served = rig.repeated(pace.steps.max(8));
            let mut nothing = |_: &D::Batch| Ok(());
            rig.batches(self.device(setting, &[])?.0, served, &pace, &Arc::default(), &mut nothing)?;
        }
        let slice = rig.batches(self.device(setting, &[])?.0, served, &pace, &Arc::default(), self.step)?;
        Ok(1.0 / slice.seconds().max(1e-9))
    }
}
