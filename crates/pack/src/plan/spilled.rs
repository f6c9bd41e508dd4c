//! Plans of more samples than fit memory. They pass by twice, in the plan's order: first they are counted and left out where they can't
//! be packed, then they are cut into shards, whose frames go to a temporary file.

use super::admission::{Admission, settle_refused};
use super::mixed_splits::MixedSplits;
use super::sample_sizes::SampleSizes;
use super::shard_bounds::{ShardCutter, SizeRun, SizeSum};
use super::shard_list::PlannedShard;
use super::split_assignment::SplitAssignment;
use super::{
    LARGE_FRAME, LARGE_SHARD, Plan, PlanOptions, check_name, header, plan_item::PlanItem, schema, warn_of_counts,
    warn_of_splits,
};
use crate::long_keys::LongKeys;
use crate::scan::{
    KeptSamples, Listing, OddInputs, ScanOptions, Spilled, deeper_folder, part_by_folder, settle, warn_of_classes,
};
use crate::{Labels, Recipe, Splits};
use packhorse_core::{Cancel, Context, Error, Event, Observer, Registry, Result, Sink};
use packhorse_dataset::{Digest, EncodedFrame, FieldRecord, PlanEntry, PlanHeader, PlanWriter};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;

/// A plan on disk.
pub(super) struct PlanFile {
    file: File,
    len: u64,
    digests: (Digest, Digest),
    /// Bytes of input in all shards.
    pub(super) bytes: u64,
    /// Samples per class.
    pub(super) class_counts: Vec<u64>,
    /// A shard of very many bytes of input, and these.
    very_large: Option<(String, f64)>,
}

impl PlanFile {
    /// Copies it to `out`; returns its digests.
    pub(super) fn write(&self, mut out: impl Write) -> Result<(Digest, Digest)> {
        let (mut buffer, mut at) = (vec![0; 1 << 20], 0);
        while at < self.len {
            let piece = buffer.get_mut(..(self.len - at).min(1 << 20) as usize).unwrap_or_default();
            self.file.read_exact_at(piece, at).context("read a temporary file")?;
            out.write_all(piece).context("write the plan")?;
            at += piece.len() as u64;
        }
        out.flush().context("write the plan")?;
        Ok(self.digests)
    }
}

/// Makes the plan of samples whose fields are files and members of archives, which are stored as they are.
///
/// Errors: those of a scan and of [`plan`](super::plan).
pub(crate) fn plan_spilled(
    registry: &Registry,
    mut spilled: Spilled,
    scanning: &ScanOptions<'_>,
    options: &PlanOptions<'_>,
    (observer, cancel): (&dyn Observer, &Cancel),
) -> Result<Plan> {
    let recipe = options.recipe;
    check_name(&recipe.name)?;
    let format = registry.get(&options.format)?;
    let sink = format.sink(&options.sink)?;
    let pass = Pass { spilled: &spilled, scanning, options, sink: &*sink, cancel };
    let mut first = pass.first()?;
    spilled.drop_inputs();
    spilled.rest.faults_mut().append(&mut first.faults);
    spilled.rest.sort_faults();
    spilled.rest.report(observer);
    first.odd.report(observer);
    first.warning.iter().for_each(|text| observer.event(&Event::Warning(text)));
    settle(recipe.on_error, &spilled.rest, observer)?;
    // As in a listing: by key.
    first.refused.sort_by(|a, b| a.sample().cmp(&b.sample()));
    settle_refused(std::mem::take(&mut first.refused), &mut spilled.rest, recipe, observer)?;
    let classes = first.classes(scanning, observer);
    let delivered = schema::of_bytes(&first.counts, first.samples, !classes.is_empty(), options, observer)?;
    sink.accept(&delivered)?;
    if let Some(need) = sink.readers_need() {
        observer.event(&Event::Warning(need));
    }
    let mut header = header(&spilled.rest, format.info(), &[], options);
    header.schema = FieldRecord::of(&delivered);
    header.classes = classes;
    header.splits = first.groups.iter().filter_map(|group| group.split.clone()).collect();
    warn_of_splits(&header.splits, recipe, observer);
    first.mixed.report(&header.splits, observer);
    if first.groups.iter().all(|group| group.sum.samples == 0) {
        return Err(Error::config("every sample was left out, so there is none to pack"));
    }
    let pass = Pass { spilled: &spilled, scanning, options, sink: &*sink, cancel };
    let (file, shards) = pass.second(&first, &header)?;
    warn_of_counts(recipe.shard_count, &shards, file.very_large.as_ref(), observer);
    Ok(Plan {
        listing: spilled.rest,
        header,
        files: Vec::new(),
        bounds: recipe.shard_bounds(),
        order: Vec::new(),
        shards,
        short: BTreeMap::new(),
        estimate: None,
        file: Some(file),
    })
}

/// The samples of a split, or all.
struct Group {
    split: Option<String>,
    kept: KeptSamples,
    sum: SizeSum,
}

/// What the first pass found.
#[derive(Default)]
struct First {
    /// In their order.
    groups: Vec<Group>,
    /// Samples that can be packed, also those beyond a limit, and how many of them have each field.
    samples: u64,
    counts: BTreeMap<String, u64>,
    faults: Vec<Error>,
    /// Samples that the sink can't write.
    refused: Vec<Error>,
    odd: OddInputs,
    mixed: MixedSplits,
    /// A warning of the first part.
    warning: Option<String>,
    classes: BTreeSet<String>,
    /// A folder below those of classes.
    deeper: Option<String>,
    /// Bytes of input in all shards.
    bytes: u64,
}

struct Pass<'a> {
    spilled: &'a Spilled,
    scanning: &'a ScanOptions<'a>,
    options: &'a PlanOptions<'a>,
    sink: &'a dyn Sink,
    cancel: &'a Cancel,
}

impl Pass<'_> {
    /// Counts the samples, and keeps those that can be packed, split by split.
    fn first(&self) -> Result<First> {
        let recipe = self.options.recipe;
        let mut found = First::default();
        if let Splits::Shares(shares) = &recipe.split {
            for name in shares.names() {
                found.groups.push(self.group(Some(name.to_owned()))?);
            }
        }
        let mut left = recipe.limit.unwrap_or(u64::MAX);
        self.spilled.parts(self.cancel, &mut |mut part| {
            if self.spilled.drops_cards {
                part.retain(&part.no_cards(recipe));
            }
            if found.samples == 0 {
                found.warning = part.merged_pictures().map(|text| format!("among the first samples, {text}"));
            }
            found.odd.add(&part);
            self.label(&mut part, self.scanning.classes.as_deref())?;
            found.classes.extend(part.classes().iter().cloned());
            let admission = Admission::of(&part, self.sink, recipe);
            part.retain(&admission.keep);
            found.mixed.add(&part, recipe);
            found.faults.append(part.faults_mut());
            found.refused.extend(admission.faults);
            found.samples += part.samples() as u64;
            for sample in part.iter() {
                for (field, _) in sample.fields() {
                    match found.counts.get_mut(field) {
                        Some(count) => *count += 1,
                        None => drop(found.counts.insert(field.to_owned(), 1)),
                    }
                }
            }
            if found.deeper.is_none() {
                found.deeper = deeper_folder(&part, &recipe.split).map(str::to_owned);
            }
            self.keep(&part, &mut left, &mut found)
        })?;
        if recipe.split.is_by_path() {
            found.groups.sort_by(|a, b| a.split.cmp(&b.split));
        }
        Ok(found)
    }

    fn group(&self, split: Option<String>) -> Result<Group> {
        Ok(Group { split, kept: self.spilled.kept()?, sum: SizeSum::default() })
    }

    /// Labels samples by their folders. Without a class list, classes have numbers of this part.
    fn label(&self, part: &mut Listing, classes: Option<&[String]>) -> Result<()> {
        let Recipe { labels, split, .. } = self.options.recipe;
        match labels {
            Some(labels @ (Labels::Folders | Labels::Parent)) => part_by_folder(labels, split, classes, part),
            _ => Ok(()),
        }
    }

    /// Keeps the first samples of a part, `left` at most.
    fn keep(&self, part: &Listing, left: &mut u64, found: &mut First) -> Result<()> {
        let splits = SplitAssignment::of(part, self.options.recipe)?;
        let rows = SampleSizes::of(part, self.sink, 1.0).rows(part);
        let mut groups = Vec::new();
        for name in splits.names().iter().map(Some).chain(splits.names().is_empty().then_some(None)) {
            let known = found.groups.iter().position(|group| group.split.as_ref() == name);
            groups.push(known.unwrap_or(found.groups.len()));
            if known.is_none() {
                found.groups.push(self.group(name.cloned())?);
            }
        }
        let taken = (*left).min(part.samples() as u64) as u32;
        *left -= u64::from(taken);
        let mut samples = vec![Vec::new(); found.groups.len()];
        for sample in 0..taken {
            let (split, _) = splits.split(part, &PlanItem { sample, count: 1, from: 0 }, 0, 1);
            let number = groups.get(split).copied().unwrap_or(usize::MAX);
            let (Some(group), Some(samples)) = (found.groups.get_mut(number), samples.get_mut(number)) else {
                return Err(Error::bug("a sample in no split"));
            };
            samples.push(sample);
            group.sum.add(SizeRun { size: rows.get(sample as usize).copied().unwrap_or(0), samples: 1 });
            found.bytes += part.sample(sample as usize).map_or(0, |sample| sample.bytes());
        }
        found.groups.iter_mut().zip(&samples).try_for_each(|(group, samples)| group.kept.add(part, samples))
    }

    /// Cuts the samples into shards, and writes their frames.
    fn second(&self, first: &First, header: &PlanHeader) -> Result<(PlanFile, Vec<PlannedShard>)> {
        let dir = &self.spilled.options.dir;
        let file = packhorse_storage::scratch_file(dir)?;
        let out = file.try_clone().context("share a temporary file")?;
        let writer = PlanWriter::new(BufWriter::with_capacity(1 << 20, out), header)?;
        let most = self.spilled.options.part().min(LARGE_FRAME);
        let mut frames = Frames { writer, shards: Vec::new(), open: Vec::new(), most, begun: false, very_large: None };
        let mut class_counts = vec![0; header.classes.len()];
        for group in &first.groups {
            let name = group.split.as_ref().unwrap_or(&self.options.recipe.name);
            let mut cutter = ShardCutter::new(self.options.recipe.shard_bounds().within(self.sink, 1), group.sum);
            let start = frames.shards.len();
            self.spilled.parts_of(&group.kept, self.cancel, &mut |mut part| {
                self.label(&mut part, Some(&header.classes))?;
                for label in part.iter().filter_map(|sample| sample.label()) {
                    if let Some(count) = class_counts.get_mut(label as usize) {
                        *count += 1;
                    }
                }
                let short = match self.options.recipe.long_keys {
                    LongKeys::Hash => Admission::of(&part, self.sink, self.options.recipe).short,
                    LongKeys::Refuse => BTreeMap::new(),
                };
                let rows = SampleSizes::of(&part, self.sink, 1.0).rows(&part);
                let mut shards = vec![Vec::new()];
                for (sample, size) in (0..).zip(rows) {
                    cutter.push(SizeRun { size, samples: 1 }, &mut |_| shards.push(Vec::new()));
                    if let Some(shard) = shards.last_mut() {
                        shard.push(sample);
                    }
                }
                frames.add((&part, &short), &shards, &|number| {
                    (format!("{name}-{:06}", number - start), group.split.clone())
                })
            })?;
            frames.end(&|number| (format!("{name}-{:06}", number - start), group.split.clone()))?;
        }
        let Frames { writer, shards, very_large, .. } = frames;
        let digests = writer.finish(&self.spilled.rest.skipped())?;
        let len = file.metadata().context("look at a temporary file")?.len();
        Ok((PlanFile { file, len, digests, bytes: first.bytes, class_counts, very_large }, shards))
    }
}

impl First {
    /// The class list: the one that was given, or the classes that were found, in order.
    fn classes(&self, scanning: &ScanOptions<'_>, observer: &dyn Observer) -> Vec<String> {
        let Some(labels) = &scanning.recipe.labels else { return Vec::new() };
        if let Some(list) = &scanning.classes {
            return list.clone();
        }
        let list: Vec<String> = self.classes.iter().cloned().collect();
        warn_of_classes(labels, &list, &|| self.deeper.clone(), observer);
        list
    }
}

/// Name and split of a shard, by its number.
type Named<'a> = &'a dyn Fn(usize) -> (String, Option<String>);

/// Writes the frames of shards.
struct Frames<'a> {
    writer: PlanWriter<'a>,
    shards: Vec<PlannedShard>,
    /// The entries of the open shard that came with parts before, and are not written: `most` at most.
    open: Vec<PlanEntry>,
    most: usize,
    /// Whether others of the open shard are written.
    begun: bool,
    /// A shard of very many bytes of input, and these.
    very_large: Option<(String, f64)>,
}

impl Frames<'_> {
    /// Adds samples of `part`: the first list goes on with the open shard, the last one stays open.
    fn add(
        &mut self,
        (part, short): (&Listing, &BTreeMap<u32, String>),
        shards: &[Vec<u32>],
        named: Named<'_>,
    ) -> Result<()> {
        let entry = |sample: &u32| -> Option<PlanEntry> {
            let mut entry = part.sample(*sample as usize)?.entry(0..1);
            if let Some(short) = short.get(sample) {
                entry.key.clone_from(short);
            }
            Some(entry)
        };
        let Some((last, mut ended)) = shards.split_last() else { return Ok(()) };
        if let (true, Some((first, rest))) = (self.begun, ended.split_first()) {
            self.go_on(first.iter().filter_map(entry))?;
            self.end(named)?;
            ended = rest;
        }
        let open = std::mem::take(&mut self.open);
        let encoded = |(number, samples): (usize, &Vec<u32>)| {
            let before = if number == 0 { &open[..] } else { &[] };
            EncodedFrame::new(before.iter().cloned().chain(samples.iter().filter_map(entry)).map(Ok))
        };
        for frame in ended.par_iter().enumerate().map(encoded).collect::<Vec<_>>() {
            self.write(frame?, named)?;
        }
        if ended.is_empty() {
            self.open = open;
        }
        self.go_on(last.iter().filter_map(entry))
    }

    /// Adds to the open shard.
    fn go_on(&mut self, entries: impl Iterator<Item = PlanEntry>) -> Result<()> {
        for entry in entries {
            self.open.push(entry);
            if self.open.len() >= self.most {
                self.writer.entries(self.open.drain(..).map(Ok))?;
                self.begun = true;
            }
        }
        Ok(())
    }

    /// Ends the open shard.
    fn end(&mut self, named: Named<'_>) -> Result<()> {
        match std::mem::take(&mut self.open) {
            open if std::mem::take(&mut self.begun) => {
                self.writer.entries(open.into_iter().map(Ok))?;
                let (name, split) = named(self.shards.len());
                let held = self.writer.end(&name, split.as_deref())?;
                self.written(name, split, held);
                Ok(())
            }
            open if open.is_empty() => Ok(()),
            open => self.write(EncodedFrame::new(open.into_iter().map(Ok))?, named),
        }
    }

    fn write(&mut self, frame: EncodedFrame, named: Named<'_>) -> Result<()> {
        let (name, split) = named(self.shards.len());
        let held = (frame.samples(), frame.bytes());
        self.writer.encoded(&name, split.as_deref(), frame)?;
        self.written(name, split, held);
        Ok(())
    }

    fn written(&mut self, name: String, split: Option<String>, (samples, bytes): (u64, u64)) {
        if self.very_large.is_none() && bytes as f64 > LARGE_SHARD {
            self.very_large = Some((name.clone(), bytes as f64));
        }
        self.shards.push(PlannedShard { name, split, items: 0..0, samples: Some(samples) });
    }
}
