//! Loaders of others: only the loader as a whole can be cut off.

use super::clock::{Pace, Slice, TrainingStep, run};
use super::cut::Cut;
use super::interval::Interval;
use super::model::{Model, Workers};
use super::rounds::cut_time;
use super::usage::allowed;
use super::verdict::{Evidence, verdict};
use super::{CutTime, DiagnoseOptions, Diagnosis};
use packhorse_core::{Error, Result};
use std::time::Instant;

/// Batches that are held, and used again and again.
const HELD: usize = 8;
/// Batches that a loader may have ready after a pause, at most.
const STOCK: usize = 64;

/// Diagnoses the loop `for batch in start()? { step(batch) }` of any iterator. When one has ended, `start` makes the next.
/// There are two cuts: the first batches again and again ([`Cut::Device`]), and the iterator ([`Cut::Loader`]).
///
/// Errors: those of the iterator and of `step`; no batches (kind `Config`); cancelled.
pub fn diagnose_iterator<B, I>(
    start: &mut dyn FnMut() -> Result<I>,
    step: &mut dyn TrainingStep<B>,
    how: &DiagnoseOptions,
) -> Result<Diagnosis>
where
    I: Iterator<Item = Result<B>>,
{
    let mut batches = start()?;
    let held = batches.by_ref().take(HELD).collect::<Result<Vec<B>>>()?;
    if held.is_empty() {
        return Err(Error::config("the loader has no batches"));
    }
    let rounds = how.rounds.max(3);
    let pace = Pace { warm: 2, steps: 4, time: how.time / (2 * rounds as u32), cancel: how.cancel.clone() };
    let mut next = || -> Result<Option<B>> {
        match batches.next() {
            Some(batch) => batch.map(Some),
            None => {
                batches = start()?;
                let first = batches.next().ok_or_else(|| Error::config("the loader began again and has no batches"));
                first.flatten().map(Some)
            }
        }
    };
    let (mut device, mut loader) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                let mut held = held.iter().cycle();
                device.push(run::<B, &B>(&pace, &mut || Ok(held.next()), step)?);
            } else {
                use_up(&mut next, step)?;
                loader.push(run::<B, B>(&pace, &mut next, step)?);
            }
        }
    }
    Ok(conclude(&device, &loader))
}

/// Takes what the loader made ready during a pause: until a step has waited three times in a row.
fn use_up<B>(next: &mut dyn FnMut() -> Result<Option<B>>, step: &mut dyn TrainingStep<B>) -> Result<()> {
    let mut late = 0;
    for _ in 0..STOCK {
        let start = Instant::now();
        let Some(batch) = next()? else { return Ok(()) };
        let waited = start.elapsed();
        step.step(&batch)?;
        late = if waited * 10 > start.elapsed() { late + 1 } else { 0 };
        if late == 3 {
            break;
        }
    }
    Ok(())
}

fn conclude(device: &[Slice], loader: &[Slice]) -> Diagnosis {
    let processors = allowed();
    let seconds = |slices: &[Slice]| slices.iter().map(Slice::seconds).collect::<Vec<_>>();
    // Whether other processes are those of the loader is not known, so none of them is blamed.
    let cuts = [(Cut::Device, device), (Cut::Loader, loader)];
    let cuts = cuts.map(|(cut, slices)| CutTime { others: 0.0, ..cut_time(cut, slices, processors) }).to_vec();
    let of = |at: usize| cuts.get(at).map_or(0.0, |time| time.seconds.median);
    let workers = Workers { threads: 1, readers: 0, processors };
    let model = Model { host: of(0), factor: 1.0, workers, ..Model::default() };
    let evidence = Evidence {
        times: vec![(Cut::Device, seconds(device)), (Cut::Loader, seconds(loader))],
        model,
        waited: cuts.last().map_or(0.0, |time| time.waited),
        ..Evidence::default()
    };
    let supply = loader.iter().map(|slice| slice.waited / slice.steps.max(1) as f64).collect::<Vec<_>>();
    Diagnosis {
        verdict: verdict(&evidence),
        supply: Interval::of(&supply).inverse(),
        cuts,
        remedies: Vec::new(),
        slow_shards: Vec::new(),
        representative: 1.0,
        applied: Vec::new(),
        model: evidence.model,
    }
}
