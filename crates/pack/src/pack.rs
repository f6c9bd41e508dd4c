//! pack: fills the shards of one part of a plan, several at once.

use crate::chains::chains;
use crate::conversion::Conversion;
use crate::feed::Feed;
use crate::inputs::Inputs;
use crate::moved_inputs::find_inputs;
use crate::pack_context::{PackContext, PackOptions};
use crate::plans::{open_plan, open_plans};
use crate::recorded_receipts::RecordedReceipts;
use crate::replace::{is_replacing, plan_folder};
use crate::sample_block::add_counts;
use crate::shard_packer::{Redo, ShardPacker, Told};
use crate::spans::TARGET;
use crate::stored_plan::{Stored, valid_receipt};
use crate::tainted::tainted;
use crate::{OnError, Part};
use packhorse_core::{ByteBudget, Code, Error, Event, Kind, Observer, Result, Store, counted};
use packhorse_dataset::{Digest, Manifest, PLAN, PathText, PlanReader, Receipt, ShardFrame};
use packhorse_storage::{Location, Staging};
use packhorse_transform::Counts;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tracing::field::Empty;

/// Totals of a part of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackReport {
    /// Shards of the part.
    pub shards: u64,
    /// Shards that were already complete.
    pub reused: u64,
    /// Samples in the shards of the part.
    pub samples: u64,
    /// Bytes of input of these shards.
    pub input_bytes: u64,
    /// Bytes of their data files.
    pub bytes: u64,
    /// Samples left out under `on-error=skip`; of a whole pack or append, inputs too.
    pub skipped: u64,
    /// Other counts of the shards' receipts, by name: `tokens`, `pictures unchanged`.
    pub counts: Counts,
}

impl PackReport {
    /// Adds the totals of another plan.
    pub(crate) fn add(&mut self, other: Self) {
        self.shards += other.shards;
        self.reused += other.reused;
        self.samples += other.samples;
        self.input_bytes += other.input_bytes;
        self.bytes += other.bytes;
        self.skipped += other.skipped;
        add_counts(&mut self.counts, other.counts);
    }
}

/// The result of [`Session::pack`](crate::Session::pack).
#[derive(Clone, Debug)]
pub struct Packed {
    /// Totals of the shards.
    pub report: PackReport,
    /// The manifest of the sealed dataset.
    pub manifest: Manifest,
    /// Whether the folder held the same plan before.
    pub stored: Stored,
}

/// Fills the shards of one part of the plan in the folder `out`.
///
/// Shards with a valid receipt stay as they are, so a second call resumes the first; the bytes do not depend on
/// interruptions. A shard that fails for its inputs does not stop the others; the most severe error is
/// returned at the end. If a replacement of the dataset in `out` is under way, its plan is filled; if shards were added,
/// the last plan.
pub(crate) fn pack(context: &PackContext<'_>, out: &Path, options: &PackOptions) -> Result<PackReport> {
    let place = plan_folder(&context.store, out)?;
    let mut plan = open_plan(&*context.store, &place)?;
    find_inputs(std::slice::from_mut(&mut plan), context.moved)?;
    for _ in 1..TRIES {
        match pack_again(context, &place, &plan, options, &Redo::new()) {
            // A process that sealed the dataset removed the staged files: all shards are complete then.
            // A folder that was moved away has no plan.
            Err(e) if Staging::is_lost(&e, &place) && context.store.stat(&place.join(PLAN), true).is_ok() => {}
            other => return other,
        }
    }
    pack_again(context, &place, &plan, options, &Redo::new())
}

/// The plan in the folder `place` that has this digest; the last one if that is an append that is not sealed.
pub(crate) fn plan_to_fill(store: &dyn Store, place: &Path, digest: Digest) -> Result<Option<PlanReader>> {
    let mut plans = open_plans(store, place)?;
    let Some(ours) = plans.iter().position(|plan| plan.digest() == digest) else { return Ok(None) };
    let sealed = Manifest::read(store, place)?.is_some_and(|manifest| manifest.plans().count() == plans.len());
    Ok(Some(plans.swap_remove(if sealed { ours } else { plans.len() - 1 })))
}

/// How often a process begins again whose staging folder was removed.
const TRIES: usize = 3;

/// Like [`pack`] for a given plan; also fills the shards in `redo` again. An old shard stays until the new one is complete and has the
/// right digest.
pub(crate) fn pack_again(
    context: &PackContext<'_>,
    out: &Path,
    plan: &PlanReader,
    options: &PackOptions,
    redo: &Redo,
) -> Result<PackReport> {
    check_plan(context, plan)?;
    Staging::sweep(&*context.store, out, false);
    let staging = Staging::open(context.store.clone(), out)?.keeping(context.quarantine.clone());
    let roots: Vec<PathBuf> = plan.header().roots.iter().map(PathText::to_path).collect();
    let chains = chains(plan.shards(), options.part);
    let mine = chains.concat();
    let rows = starts_with_rows(plan, &mine)?;
    let conversion = Conversion::of(context, plan.header(), rows)?;
    // Writers that only copy mostly wait for readers, so there are more of them than cores.
    let most = if conversion.plain { (2 * options.jobs).clamp(2, 64) } else { options.jobs.clamp(1, 64) };
    let writers = most.min(chains.len().max(1)).min(conversion.most_writers(options.memory));
    let tight = conversion.tight(context, plan.header(), rows, writers)?;
    let inputs = |conversion: &Conversion| {
        let inputs = Inputs::new(&*context.store, &roots, staging.scratch(), conversion.limits, context.cancel);
        let known = !redo.is_empty() && mine.iter().all(|shard| redo.get(&shard.name).is_none_or(Option::is_some));
        inputs
            .telling(context.observer)
            .verifying(options.verify)
            .keeping(context.kept, conversion.inner)
            .of_known_digests(known)
    };
    let header = plan.header();
    let whole = conversion.block_reader(context, header, inputs(&conversion), options.on_error);
    let tight = tight.as_ref().map(|tight| tight.block_reader(context, header, inputs(tight), options.on_error));
    let mut redo = redo.clone();
    redo.extend(tainted(&*context.store, out, plan, &mine, &whole, options.jobs)?.into_iter().map(|name| (name, None)));
    announce(context.observer, &mine);
    // The first look compares digests: the plan may have been replaced before the staging folder was there to be seen.
    let known = Mutex::new(None);
    let is_placed = || {
        // Its files are exchanged one after another, so they are not touched from the moment on that it is planned.
        if is_replacing(&*context.store, out)? {
            return Err(replaced(out));
        }
        let (now, mut known) = (place_of(&*context.store, out)?, known.lock().unwrap_or_else(PoisonError::into_inner));
        // A folder that is gone is told when something is written there.
        if now.is_none() || now == *known {
            return Ok(());
        }
        // A job of the same request may have stored the same plan.
        if !open_plans(&*context.store, out)?.iter().any(|other| other.digest() == plan.digest()) {
            return Err(replaced(out));
        }
        *known = now;
        Ok(())
    };
    let packer = ShardPacker {
        is_placed: &is_placed,
        plan,
        reader: &whole,
        crowded: writers >= options.jobs,
        busy: &AtomicUsize::new(writers),
        jobs: options.jobs,
        sink: &*conversion.sink,
        schema: &conversion.written,
        staging: &staging,
        redo: &redo,
        recorded: &RecordedReceipts::new(&*context.store, out, plan.digest(), &redo),
        observer: context.observer,
        cancel: context.cancel,
        budget: &ByteBudget::new(options.memory),
        decoded: conversion.decoded,
        ahead_bytes: options.memory / writers as u64,
        ahead_blocks: (2 * options.io_threads / writers).max(4),
    };
    let run = PackRun {
        packer,
        tight: tight.as_ref().map(|reader| ShardPacker { reader, ..packer }),
        turn: Mutex::new(()),
        store: &*context.store,
        out,
        chains: &chains,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        outcome: Mutex::default(),
    };
    run.all(writers, options)
}

/// Warns of samples that are not in a dataset though this policy would not leave them out.
pub(crate) fn tell_left_out(out: &Path, report: &PackReport, policy: OnError, observer: &dyn Observer) {
    if policy == OnError::Fail && report.skipped > 0 {
        let lost = counted(report.skipped, "sample");
        // In object stores datasets are not replaced.
        let again = if Location::url(out).is_some() { "packing into another prefix" } else { "`replace`" };
        let message = format!("an earlier run left out {lost} (skipped.jsonl); {again} packs all of them again");
        observer.event(&Event::Warning(&message));
    }
}

/// What tells the plan file in the folder `out` from another one in its place; `None` where nothing does: it is gone, or in
/// a bucket, whose objects have no identity.
fn place_of(store: &dyn Store, out: &Path) -> Result<Option<(u64, u64)>> {
    if Location::url(out).is_some() {
        return Ok(None);
    }
    match store.stat(&out.join(PLAN), true) {
        Ok(stat) => Ok(Some(stat.id)),
        Err(e) if e.is_absent() => Ok(None),
        Err(e) => Err(e),
    }
}

/// The error of a job whose dataset another one replaced.
pub(crate) fn replaced(out: &Path) -> Error {
    let error = Error::config("another job has replaced the dataset that this one was packing");
    error.with_code(Code::OutputBusy).hint("give each job a folder of its own").in_input(out.display())
}

/// Whether a shard starts with rows of a table input, whose keys and fields scan did not check. If only later entries
/// are rows, a row that the sink can't write fails its shard instead of being skipped.
fn starts_with_rows(plan: &PlanReader, mine: &[&ShardFrame]) -> Result<bool> {
    for shard in mine {
        if let Some(first) = plan.entries(shard)?.next()
            && first?.run().is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn announce(observer: &dyn Observer, mine: &[&ShardFrame]) {
    observer.event(&Event::Planned {
        samples: mine.iter().map(|s| (!s.uncounted).then_some(s.samples)).sum(),
        bytes: mine.iter().map(|s| s.bytes).sum(),
        shards: mine.len() as u64,
    });
}

/// Refuses a plan that this build would fill with other bytes than the build that planned.
fn check_plan(context: &PackContext<'_>, plan: &PlanReader) -> Result<()> {
    let header = plan.header();
    let info = context.registry.get(&header.sink.format)?.info();
    if info.revision != header.sink.revision {
        return Err(Error::config(format!(
            "the plan is for revision {} of {}, and this build writes revision {}; use the build that planned, or plan again",
            header.sink.revision, info.id, info.revision
        )));
    }
    let ours: Vec<String> = context.transforms.iter().map(|t| t.describe()).collect();
    match ours == header.transforms {
        true => Ok(()),
        false => Err(Error::config(format!(
            "the plan has the transforms [{}], and this run has [{}]",
            header.transforms.join("; "),
            ours.join("; ")
        ))),
    }
}

/// The state that the writers of a part share.
struct PackRun<'a> {
    packer: ShardPacker<'a>,
    /// A packer with smaller limits, so that all writers fit into memory side by side.
    tight: Option<ShardPacker<'a>>,
    /// Held while a shard with larger values is filled.
    turn: Mutex<()>,
    store: &'a dyn Store,
    out: &'a Path,
    chains: &'a [Vec<&'a ShardFrame>],
    next: AtomicUsize,
    stop: AtomicBool,
    outcome: Mutex<Outcome>,
}

/// A writer's ends of the feeds.
#[derive(Clone)]
struct Feeds {
    whole: Feed,
    tight: Option<Feed>,
}

impl PackRun<'_> {
    /// Fills all chains with so many writers.
    fn all(self, writers: usize, options: &PackOptions) -> Result<PackReport> {
        std::thread::scope(|threads| {
            let start = |reader| {
                let (feed, workers) = Feed::new();
                workers.start(threads, reader, options.io_threads, options.jobs);
                feed
            };
            let tight = self.tight.as_ref().map(|tight| start(tight.reader));
            let feeds = Feeds { whole: start(self.packer.reader), tight };
            for number in 0..writers {
                let (feeds, run) = (feeds.clone(), &self);
                let thread = std::thread::Builder::new().name(format!("packhorse-write-{number}"));
                match thread.spawn_scoped(threads, move || run.writer(&feeds)) {
                    Ok(_) => {}
                    // Those that there are fill all chains.
                    Err(_) if number > 0 => break,
                    Err(error) => return Err(Error::thread(error)),
                }
            }
            Ok::<(), Error>(())
        })?;
        self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner).report(options.part, options.on_error)
    }

    fn writer(&self, feeds: &Feeds) {
        while let Some(chain) = self.chains.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            for shard in chain {
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
                let done = self.shard(shard, feeds);
                let of_inputs = [Kind::Content, Kind::Changed, Kind::Limit, Kind::Unsupported];
                let fatal = |e: &Error| !of_inputs.contains(&e.kind());
                if done.as_ref().is_err_and(fatal) {
                    self.stop.store(true, Ordering::Relaxed);
                }
                self.outcome.lock().unwrap_or_else(PoisonError::into_inner).add(shard, done);
            }
        }
        self.packer.busy.fetch_sub(1, Ordering::Relaxed);
    }

    /// Fills a shard unless it is complete. After a transient failure of the file system it is tried once more.
    fn shard(&self, shard: &ShardFrame, feeds: &Feeds) -> Result<(Receipt, bool)> {
        let (mut attempts, mut told) = (0, Told::default());
        loop {
            let _step = self.packer.cancel.large_step()?;
            match self.attempt(shard, feeds, &mut told) {
                Ok((receipt, reused)) => {
                    self.announce(&receipt, reused);
                    return Ok((receipt, reused));
                }
                Err(e) if attempts == 0 && may_pass(&e) => {
                    attempts += 1;
                    let message = format!("shard {}: {e}; writing it once more", shard.name);
                    self.packer.observer.event(&Event::Warning(&message));
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// The shard's receipt, and whether it was already complete.
    fn attempt(&self, shard: &ShardFrame, feeds: &Feeds, told: &mut Told) -> Result<(Receipt, bool)> {
        // The receipt of a shard to pack again may be what can't be read.
        let again = self.packer.redo.contains_key(&shard.name);
        let known = || valid_receipt(self.store, self.out, self.packer.plan.digest(), shard);
        match if again { None } else { known()? } {
            Some(receipt) => Ok((receipt, true)),
            None => self.fill(shard, feeds, told).map(|receipt| (receipt, false)),
        }
    }

    /// Fills a shard beside others. If a value is too large for that, fills it again as the only such shard.
    fn fill(&self, shard: &ShardFrame, feeds: &Feeds, told: &mut Told) -> Result<Receipt> {
        let (name, input_bytes) = (shard.name.as_str(), shard.bytes);
        let span = tracing::debug_span!(target: TARGET, "shard", name, input_bytes, samples = Empty, bytes = Empty);
        let span = span.entered();
        let receipt = self.filled(shard, feeds, told)?;
        let bytes = receipt.files.first().map_or(0, |file| file.bytes);
        span.record("samples", receipt.samples).record("bytes", bytes);
        Ok(receipt)
    }

    fn filled(&self, shard: &ShardFrame, feeds: &Feeds, told: &mut Told) -> Result<Receipt> {
        let Some((tight, feed)) = self.tight.as_ref().zip(feeds.tight.as_ref()) else {
            return self.packer.fill(shard, &feeds.whole, told);
        };
        match tight.fill(shard, feed, told) {
            Err(e) if e.kind() == Kind::Limit => {
                let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
                self.packer.fill(shard, &feeds.whole, told)
            }
            done => done,
        }
    }

    fn announce(&self, receipt: &Receipt, reused: bool) {
        self.packer.observer.event(&Event::Shard {
            name: &receipt.shard,
            samples: receipt.samples,
            bytes: receipt.files.first().map_or(0, |f| f.bytes),
            input_bytes: receipt.input_bytes,
            reused,
        });
    }
}

/// Whether a failure of the file system may be transient: not a full disk, a quota, a read-only mount or a missing
/// permission.
fn may_pass(error: &Error) -> bool {
    let stays = error.is_full() || error.is_denied() || error.io_kind() == Some(ErrorKind::FileTooLarge);
    error.kind() == Kind::Environment && error.errno().is_some() && !stays
}

#[derive(Default)]
struct Outcome {
    report: PackReport,
    /// With the shard's position in the plan.
    errors: Vec<(u64, Error)>,
}

impl Outcome {
    fn add(&mut self, shard: &ShardFrame, done: Result<(Receipt, bool)>) {
        let (receipt, reused) = match done {
            Ok(done) => done,
            Err(e) => return self.errors.push((shard.place(), e)),
        };
        let report = &mut self.report;
        report.shards += 1;
        report.reused += u64::from(reused);
        report.samples += receipt.samples;
        report.input_bytes += receipt.input_bytes;
        report.bytes += receipt.files.first().map_or(0, |f| f.bytes);
        report.skipped += receipt.lost();
        add_counts(&mut report.counts, receipt.counts);
    }

    /// The report, or the most severe error: a failed file system before a changed input before bad content; among
    /// equals that of the first shard.
    fn report(mut self, part: Part, on_error: OnError) -> Result<PackReport> {
        let rank = |e: &Error| match e.kind() {
            Kind::Bug => 0,
            Kind::Environment => 1,
            Kind::Changed => 3,
            Kind::Content => 4,
            Kind::Cancelled => 5,
            _ => 2,
        };
        self.errors.sort_by_key(|(number, e)| (rank(e), *number));
        let others = self.errors.len().saturating_sub(1);
        let Some((_, first)) = self.errors.into_iter().next() else { return Ok(self.report) };
        let first = match (first.kind(), on_error) {
            (Kind::Content, OnError::Fail) => {
                first.hint("pass `on-error=skip` to leave such samples out; skipped.jsonl lists them")
            }
            _ => first,
        };
        if others == 0 || first.kind() == Kind::Cancelled {
            return Err(first);
        }
        Err(first.remark(format_args!("and {} of part {part} failed", counted(others as u64, "more shard"))))
    }
}
