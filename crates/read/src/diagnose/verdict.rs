//! What a loop waits for, from the times of its cuts.

use super::cut::Cut;
use super::interval::median_of;
use super::model::{Model, Workers};
use std::fmt;

/// What a loop waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// The step: it is not the data.
    Step,
    /// Copies to the device, and handing batches over.
    Transfer,
    /// Copying decoded samples into batches.
    Collate,
    /// Decoding samples.
    Decode,
    /// Reading samples of files that are in the page cache: finding, copying and checking them.
    Read,
    /// The storage.
    Storage,
    /// The loader as a whole, where it can't be cut ([`diagnose_iterator`](super::diagnose_iterator)).
    Loader,
    /// The loader's threads, which slow the steps beside them.
    Interference,
    /// Too few processors for this process: its mask has fewer than the machine.
    Processors,
    /// Other processes, on the processors of this one.
    Neighbours,
}

impl Bottleneck {
    /// Its name: `step`, `transfer`, `collate`, `decode`, `read`, `storage`, `loader`, `interference`, `processors`, `neighbours`.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// Its name, and what it means.
    pub(super) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Step => ("step", "the step itself"),
            Self::Transfer => ("transfer", "copies to the device, and handing batches over"),
            Self::Collate => ("collate", "copying decoded samples into batches"),
            Self::Decode => ("decode", "decoding samples"),
            Self::Read => ("read", "reading samples of files that are in the page cache"),
            Self::Storage => ("storage", "reading from the storage"),
            Self::Loader => ("loader", "the loader as a whole"),
            Self::Interference => ("interference", "the loader's threads slow the steps beside them"),
            Self::Processors => ("processors", "this process may use fewer processors than the machine has"),
            Self::Neighbours => ("neighbours", "other processes use the processors of this one"),
        }
    }

    /// The stage that a cut has to do and the one before it has not.
    fn before(cut: Cut, whole: bool) -> Self {
        match cut {
            Cut::Device | Cut::Busy => Self::Interference,
            Cut::Host => Self::Transfer,
            Cut::Decoded => Self::Collate,
            Cut::Stored => Self::Decode,
            Cut::Files => Self::Read,
            Cut::Loader if whole => Self::Loader,
            // Without the cut between them, reading is a part of the storage.
            Cut::Loader => Self::Storage,
        }
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A stage that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageCost {
    /// The stage.
    pub stage: Bottleneck,
    /// The first cut that has it to do.
    pub cut: Cut,
    /// Seconds that it adds to a step.
    pub seconds: f64,
}

/// What a loop waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The cause of most of the waiting.
    pub bottleneck: Bottleneck,
    /// The stages that cost time, in the order of the cuts.
    pub costs: Vec<StageCost>,
    /// More that was seen, a sentence each.
    pub notes: Vec<String>,
}

/// All that a verdict is found from.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// Seconds per step of each cut, by round.
    pub(super) times: Vec<(Cut, Vec<f64>)>,
    pub(super) model: Model,
    /// The processors of the machine, and of this process's mask (0 if unknown).
    pub(super) online: usize,
    pub(super) mask: usize,
    /// While the loader ran: processors that others took, and the share that all took of those this process may use.
    pub(super) others: f64,
    pub(super) saturation: f64,
    /// The share of the loader's time in which the step waited for its batch.
    pub(super) waited: f64,
    /// Seconds of the steps on each held batch.
    pub(super) by_batch: Vec<Vec<f64>>,
}

/// A rise of a step's time that counts: in the median of the rounds, and in most of them.
const RISE: f64 = 1.05;
const RISE_OF_MOST: f64 = 1.02;
/// Processors count as busy from this share on.
pub(super) const SATURATED: f64 = 0.85;
/// Others matter from this share of the processors on.
const OTHERS: f64 = 0.15;
/// Of the time of a step on the device, what counts as nearly as fast.
const NEARLY: f64 = 1.3;
/// Steps that wait less than this do not wait for data.
pub(super) const WAITED: f64 = 0.04;
/// Steps that are slower by this share of their time are slowed by the loader, or by others.
const SLOWED: f64 = 0.15;
/// The share of the lost time that a cause must explain.
const EXPLAINED: f64 = 0.5;

impl Evidence {
    fn rounds(&self, cut: Cut) -> &[f64] {
        self.times.iter().find(|(known, _)| *known == cut).map_or(&[], |(_, times)| times)
    }

    pub(super) fn seconds(&self, cut: Cut) -> f64 {
        median_of(self.rounds(cut).to_vec())
    }

    /// The cuts from which data come, those without the neighbours.
    fn ladder(&self) -> impl Iterator<Item = Cut> + '_ {
        self.times.iter().map(|(cut, _)| *cut).filter(|cut| *cut != Cut::Busy)
    }

    /// By how much the times of `cut` exceed the largest ones before it, by round; `None` if they do not.
    fn rise(&self, cut: Cut, before: &[Cut]) -> Option<f64> {
        let base =
            |round: usize| before.iter().filter_map(|cut| self.rounds(*cut).get(round)).fold(0.0, |a, b| b.max(a));
        let ratios: Vec<f64> =
            self.rounds(cut).iter().enumerate().map(|(round, time)| time / base(round).max(1e-9)).collect();
        let most = ratios.iter().filter(|ratio| **ratio > RISE_OF_MOST).count() * 4 >= ratios.len() * 3;
        let median = median_of(ratios);
        let base = median_of((0..self.rounds(cut).len()).map(base).collect());
        (most && median > RISE).then(|| (self.seconds(cut) - base).max(0.0))
    }
}

/// Names what the loop waits for.
pub(super) fn verdict(evidence: &Evidence) -> Verdict {
    let ladder: Vec<Cut> = evidence.ladder().collect();
    let mut costs: Vec<StageCost> = Vec::new();
    for (number, cut) in ladder.iter().enumerate().skip(1) {
        if let Some(seconds) = evidence.rise(*cut, ladder.get(..number).unwrap_or_default()) {
            costs.push(StageCost {
                stage: Bottleneck::before(*cut, !ladder.contains(&Cut::Stored)),
                cut: *cut,
                seconds,
            });
        }
    }
    let mut notes = Vec::new();
    let busy = evidence.rise(Cut::Busy, &[Cut::Device]);
    if let Some(cost) = busy {
        notes.push(format!("steps take {} more while the loader runs beside them", milliseconds(cost)));
    }
    let lost = evidence.rise(Cut::Loader, &[Cut::Device]).unwrap_or_default();
    let largest = costs.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds)).map(|cost| cost.stage);
    let bottleneck = match largest {
        _ if lost <= 0.0 => Bottleneck::Step,
        _ if evidence.waited < WAITED => slowed(lost, evidence, &mut notes),
        None => Bottleneck::Step,
        Some(stage) => cause(stage, lost, evidence, &mut notes),
    };
    if matches!(bottleneck, Bottleneck::Step | Bottleneck::Interference) {
        costs.clear();
    }
    notes.extend(depends_on_data(&evidence.by_batch));
    Verdict { bottleneck, costs, notes }
}

/// What slows the steps themselves, whose batches are there in time.
fn slowed(lost: f64, evidence: &Evidence, notes: &mut Vec<String>) -> Bottleneck {
    let processors = evidence.model.workers.processors;
    let others = evidence.others >= OTHERS * processors as f64;
    if others {
        notes.push(of_others(evidence));
    }
    match lost > evidence.seconds(Cut::Loader) * SLOWED {
        true if others => Bottleneck::Neighbours,
        true => Bottleneck::Interference,
        false => Bottleneck::Step,
    }
}

fn of_others(evidence: &Evidence) -> String {
    let Evidence { others, model, .. } = evidence;
    format!("other processes take {others:.1} of its {} processors", model.workers.processors)
}

/// The stage, unless it is slow for want of processors that others have.
fn cause(stage: Bottleneck, lost: f64, evidence: &Evidence, notes: &mut Vec<String>) -> Bottleneck {
    let model = &evidence.model;
    let of_processors =
        matches!(stage, Bottleneck::Collate | Bottleneck::Decode | Bottleneck::Read | Bottleneck::Loader);
    let full = evidence.saturation > SATURATED;
    if !of_processors || !full {
        return stage;
    }
    let processors = model.workers.processors;
    // Whether the loop would be about as fast as its steps with these workers alone on the processors.
    let device = evidence.seconds(Cut::Device);
    let explains = |workers: Workers| {
        let free = Model { factor: 1.0, host: device, ..*model }.step(workers);
        evidence.seconds(Cut::Loader) - free > lost * EXPLAINED && free < device * NEARLY
    };
    let taken = evidence.others / processors.max(1) as f64;
    let masked = evidence.mask > 0 && evidence.mask < evidence.online;
    if masked {
        notes.push(format!("this process may run on {} of {} processors", evidence.mask, evidence.online));
    }
    if taken >= OTHERS {
        notes.push(of_others(evidence));
        if explains(model.workers) {
            return Bottleneck::Neighbours;
        }
    }
    let threads = model.workers.threads.max(evidence.online);
    if masked && explains(Workers { threads, processors: evidence.online, ..model.workers }) {
        return Bottleneck::Processors;
    }
    let (fill, fetch, step) = (model.fill, model.fetch_cpu, model.step_cpu);
    notes.push(format!(
        "the processors are full: a step takes {} of their time, {} to decode and collate, {} to read, {} for the step itself",
        milliseconds(fill + fetch + step),
        milliseconds(fill),
        milliseconds(fetch),
        milliseconds(step)
    ));
    stage
}

/// A sentence if steps on some batches take much longer than on others.
fn depends_on_data(by_batch: &[Vec<f64>]) -> Option<String> {
    let mut medians: Vec<f64> =
        by_batch.iter().filter(|times| times.len() >= 3).map(|times| median_of(times.clone())).collect();
    medians.sort_unstable_by(f64::total_cmp);
    let (shortest, longest) = (*medians.first()?, *medians.last()?);
    // How much steps on one batch differ among themselves.
    let within = by_batch.iter().filter(|times| times.len() >= 3).map(|times| {
        let middle = median_of(times.clone());
        median_of(times.iter().map(|time| (time - middle).abs()).collect())
    });
    let within = within.fold(0.0, f64::max);
    let differs = longest > shortest * 1.2 && longest - shortest > 6.0 * within && longest > 1e-4;
    differs.then(|| {
        format!(
            "the time of a step depends on its data: {} to {} on batches that are on the device",
            milliseconds(shortest),
            milliseconds(longest)
        )
    })
}

/// Seconds as text.
pub(super) fn milliseconds(seconds: f64) -> String {
    let milliseconds = seconds * 1000.0;
    match milliseconds {
        0.0..1.0 => format!("{milliseconds:.2} ms"),
        1.0..100.0 => format!("{milliseconds:.1} ms"),
        _ => format!("{milliseconds:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evidence of these milliseconds per step in each of five rounds, with a little noise.
    fn evidence(times: &[(Cut, f64)]) -> Evidence {
        let noisy = |time: f64| [1.0, 1.01, 0.99, 1.015, 0.985].map(|noise| time * noise / 1000.0).to_vec();
        let model = Model {
            host: 0.020,
            fill: 0.010,
            fetch: 0.002,
            factor: 1.0,
            workers: Workers { threads: 2, readers: 2, processors: 2 },
            ..Model::default()
        };
        let times = times.iter().map(|(cut, time)| (*cut, noisy(*time))).collect();
        Evidence { times, model, online: 2, mask: 2, waited: 0.3, ..Evidence::default() }
    }

    fn cuts(times: [f64; 7]) -> Evidence {
        evidence(&Cut::ALL.into_iter().zip(times).collect::<Vec<_>>())
    }

    #[test]
    fn each_stage_is_named_where_the_time_rises() {
        let named = |times: [f64; 7]| verdict(&cuts(times)).bottleneck;
        assert_eq!(named([20.0, 20.1, 20.0, 20.2, 20.1, 20.3, 20.2]), Bottleneck::Step);
        assert_eq!(named([20.0, 20.0, 30.0, 30.0, 30.0, 30.0, 30.2]), Bottleneck::Transfer);
        assert_eq!(named([20.0, 20.0, 20.0, 31.0, 31.0, 32.0, 31.0]), Bottleneck::Collate);
        assert_eq!(named([20.0, 20.0, 20.0, 20.0, 44.0, 44.0, 45.0]), Bottleneck::Decode);
        assert_eq!(named([20.0, 20.0, 20.0, 20.0, 20.0, 44.0, 44.0]), Bottleneck::Read);
        assert_eq!(named([20.0, 20.0, 20.0, 20.0, 20.0, 20.0, 90.0]), Bottleneck::Storage);
        // Batches that are there in time, and slower steps.
        let beside = Evidence { waited: 0.01, ..cuts([20.0, 26.0, 20.0, 20.1, 25.0, 26.0, 26.0]) };
        assert_eq!(verdict(&beside).bottleneck, Bottleneck::Interference);
        assert_eq!(verdict(&Evidence { others: 1.0, ..beside }).bottleneck, Bottleneck::Neighbours);
        let hardly = Evidence { waited: 0.01, ..cuts([20.0, 22.0, 20.0, 20.1, 22.0, 22.0, 22.0]) };
        assert_eq!(verdict(&hardly).bottleneck, Bottleneck::Step);
        let notes = verdict(&hardly).notes;
        assert!(matches!(&notes[..], [note] if note.ends_with("more while the loader runs beside them")), "{notes:?}");
    }

    /// The times of the classic case: 3.45, 3.33, 3.23, 1.72 and 0.89 steps a second.
    #[test]
    fn several_stages_are_named_in_order() {
        let (device, host, decoded, stored, loader) = (290.0, 300.0, 310.0, 581.0, 1124.0);
        let times = [(Cut::Device, device), (Cut::Host, host), (Cut::Decoded, decoded), (Cut::Stored, stored)];
        let found = verdict(&evidence(&[&times[..], &[(Cut::Loader, loader)]].concat()));
        let stages: Vec<Bottleneck> = found.costs.iter().map(|cost| cost.stage).collect();
        assert_eq!(stages, [Bottleneck::Decode, Bottleneck::Storage]);
        assert_eq!(found.bottleneck, Bottleneck::Storage);
        assert!((found.costs[0].seconds - 0.271).abs() < 0.02 && (found.costs[1].seconds - 0.543).abs() < 0.03);
    }

    /// Decoding takes 15 ms of each of two processors, which steps of 20 ms would hide.
    #[test]
    fn processors_that_are_missing_are_the_cause_of_slow_decoding() {
        let slow = cuts([20.0, 20.0, 20.0, 20.0, 30.0, 30.0, 31.0]);
        let model = Model { fill: 0.030, ..slow.model };
        let full = Evidence { saturation: 0.98, model, ..slow.clone() };
        let beside = Evidence { others: 1.0, ..full.clone() };
        let found = verdict(&beside);
        assert_eq!(found.bottleneck, Bottleneck::Neighbours);
        assert!(found.notes.iter().any(|note| note.contains("other processes take 1.0 of its 2 processors")));
        let workers = Workers { processors: 1, threads: 1, ..full.model.workers };
        let bound = Evidence { mask: 1, model: Model { workers, ..model }, ..full.clone() };
        assert_eq!(verdict(&bound).bottleneck, Bottleneck::Processors);
        // Decoding that is too slow for all processors is to blame itself.
        let heavy = Evidence { model: Model { fill: 0.090, ..model }, ..beside };
        assert_eq!(verdict(&heavy).bottleneck, Bottleneck::Decode);
        assert!(verdict(&heavy).notes.iter().any(|note| note.starts_with("the processors are full")));
    }

    #[test]
    fn one_bad_round_is_no_rise() {
        let mut noisy = cuts([20.0; 7]);
        noisy.times.iter_mut().for_each(|(cut, times)| times[2] *= if *cut == Cut::Stored { 5.0 } else { 1.0 });
        assert_eq!(verdict(&noisy).bottleneck, Bottleneck::Step);
        assert!(verdict(&noisy).costs.is_empty());
    }

    #[test]
    fn steps_that_depend_on_their_data_are_said() {
        let steady = vec![vec![0.020, 0.021, 0.020]; 4];
        assert!(depends_on_data(&steady).is_none());
        let mut other = steady;
        other[2] = vec![0.031, 0.030, 0.031];
        let said = depends_on_data(&other).unwrap();
        assert!(said.contains("20.0 ms to 31.0 ms"), "{said}");
    }
}
