//! Scans a view among the inputs: of the shards of its dataset those that have samples of it, and of these the samples.

use super::Scan;
use super::folder_walk::{FolderWalk, Task, of_input};
use super::listing::{FoundMember, ListingBuilder, WalkEvent};
use super::sealed::{ChosenPlace, ChosenSamples, SealedInput};
use super::work_queue::WorkQueue;
use crate::input_format::{check_from, main_file, open};
use crate::opened_view::OpenedView;
use crate::recorded_files::{FirstReadCheck, RecordedFiles};
use crate::watched_input::WatchedInput;
use packhorse_core::{Code, Error, Event, FileStat, Kind, Limits, Members, Result, Source};
use packhorse_dataset::{Digest, INDEX_SUFFIX, SampleRows, SampleRun, ShardRecord, decode_index};
use packhorse_storage::Location;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A view to scan.
pub(super) struct ViewWalk {
    /// The number of its root, the folder of its dataset.
    root: u32,
    pub(super) opened: OpenedView,
    /// The number of that folder among the roots, if the view has columns of its own.
    folder: Option<u32>,
    /// The rows of its samples.
    rows: SampleRows,
    /// By shard, the ranges of its samples, ascending; each with the position of its first sample in the view.
    ranges: BTreeMap<u32, Vec<(SampleRun, u64)>>,
}

impl ViewWalk {
    /// The view in the folder `dir`, if there is one.
    ///
    /// Errors: those of [`OpenedView::read`]; `Config` for a view that has a sample twice.
    pub(super) fn of(context: Scan<'_>, dir: &Path, builder: &mut ListingBuilder) -> Result<Option<Arc<Self>>> {
        let Some(mut opened) = OpenedView::read(context.store, dir)? else { return Ok(None) };
        if Location::url(&opened.base).is_none() {
            // Views name their datasets by paths with `..`.
            opened.base = std::fs::canonicalize(&opened.base).unwrap_or(opened.base);
        }
        let mut ranges: BTreeMap<u32, Vec<(SampleRun, u64)>> = BTreeMap::new();
        let mut position = 0u64;
        for run in &opened.runs {
            ranges.entry(run.shard).or_default().push((*run, position));
            position = position.saturating_add(run.len);
        }
        ranges.values_mut().for_each(|runs| runs.sort_unstable_by_key(|(run, _)| run.first));
        if let Some(twice) = ranges.values().find_map(|runs| repeat(runs)) {
            let (shard, sample) = (&opened.shard(twice.shard)?.file, twice.first);
            let message = format!(
                "has sample {sample} of {shard} twice, and each sample of a dataset has a key of its own; make a view without \
                 repeated samples"
            );
            return Err(Error::config(message).with_code(Code::KeyTwice).in_input(dir.display()));
        }
        let root = builder.root(&opened.base);
        let folder = opened.view.joined.is_some().then(|| builder.root(dir));
        let rows = SampleRows::of(&opened.runs);
        Ok(Some(Arc::new(Self { root, opened, folder, rows, ranges })))
    }

    /// Gives `each` what tells it from other views: its dataset, fields and samples.
    pub(super) fn name(&self, each: &mut dyn FnMut(&str)) {
        let OpenedView { view, manifest, runs, .. } = &self.opened;
        each(&format!("{} {:?} {:?}", manifest.root, view.fields, view.joined));
        runs.iter().for_each(|run| each(&format!("{} {} {}", run.shard, run.first, run.len)));
    }

    /// Its dataset, with the samples of the view.
    pub(super) fn sealed(&self, context: Scan<'_>) -> Result<SealedInput> {
        let Scan { registry, store, cancel, .. } = context;
        let OpenedView { view, base, manifest, runs, .. } = &self.opened;
        let place = (self.root, Path::new(""), &**base);
        let chosen = ChosenSamples {
            runs: runs.clone(),
            rows: self.rows.clone(),
            places: Vec::new(),
            fields: view.fields.clone(),
            joined: self.folder.zip(view.joined.clone()),
        };
        let sealed = SealedInput::of(registry, store, cancel, place, manifest.clone())?;
        Ok(SealedInput { chosen: Some(chosen), ..sealed })
    }
}

/// The first sample that two of these ascending runs have.
fn repeat(runs: &[(SampleRun, u64)]) -> Option<SampleRun> {
    let pairs = runs.iter().zip(runs.iter().skip(1));
    let common = |((a, _), (b, _)): (&(SampleRun, u64), &(SampleRun, u64))| (b.first < a.first + a.len).then_some(*b);
    pairs.filter_map(common).next()
}

impl FolderWalk<'_> {
    /// Sends the dataset of a view, and queues the shards with samples of it.
    pub(super) fn view(&self, queue: &WorkQueue<Task>, walk: &Arc<ViewWalk>) {
        let owns = |shard: &u32| self.division.owns(walk.root, Path::new(&format!("{shard}")));
        match walk.sealed(self.context) {
            Ok(sealed) => {
                self.send(WalkEvent::Sealed(Box::new(sealed)));
                let shards = walk.ranges.keys().filter(|shard| owns(shard));
                shards.for_each(|shard| queue.add(Task::ViewShard(Arc::clone(walk), *shard)));
            }
            Err(e) => self.fault(e),
        }
    }

    /// Scans the samples of a view in one of its shards.
    pub(super) fn view_shard(&self, walk: &ViewWalk, number: u32) {
        if self.context.cancel.is_cancelled() {
            return self.fault(Error::cancelled());
        }
        let base = &walk.opened.base;
        let found = walk.opened.shard(number).and_then(|shard| self.look_at(walk, number, shard));
        let Err(error) = found else { return };
        let path = walk.opened.shard(number).map_or(base.clone(), |shard| base.join(&shard.file));
        // An unreadable shard of a sealed dataset is damaged, which is never skipped.
        match FirstReadCheck::default().check(self.context.store, &path, self.context.cancel) {
            Err(damage) if damage.kind() == Kind::Incomplete => self.send(WalkEvent::Abort(damage)),
            _ if error.kind() == Kind::Incomplete => self.send(WalkEvent::Abort(error)),
            _ => self.input_fault(of_input(error)),
        }
    }

    fn look_at(&self, walk: &ViewWalk, number: u32, shard: &ShardRecord) -> Result<()> {
        let Scan { registry, store, .. } = self.context;
        let path = main_file(registry, store, &walk.opened.base.join(&shard.file));
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        if !self.globs.takes(&name) {
            self.send_ignored(super::folder_walk::EXCLUDED, name);
            return Ok(());
        }
        let unread = || Error::unsupported("is of a format that this build does not read").in_input(path.display());
        let (format, compression) = self.container(&path).ok_or_else(unread)?;
        self.names.from.iter().try_for_each(|from| check_from(registry, from, &path))?;
        let stat = store.stat(&path, true)?;
        let source = self.source(&**format)?;
        let ranges = walk.ranges.get(&number).map(Vec::as_slice).unwrap_or_default();
        let input = open(store, &path, compression)?;
        if source.lists() {
            let members = match self.member_index(walk, shard)? {
                Some(members) => members,
                None => Members::list(&*source, &*input)?,
            };
            return self.chosen_members(walk, (number, name, stat), ranges, &members);
        }
        let fields = walk.opened.stored_fields();
        let narrowed = fields
            .as_ref()
            .filter(|fields| !fields.is_empty())
            .and_then(|fields| source.narrowed(fields))
            .map(Arc::<dyn Source>::from);
        let (id, input) = (format.info().id, Arc::new(WatchedInput::new(input)?));
        let table = self.rows(id, &**narrowed.as_ref().unwrap_or(&source), input, compression, (&path, stat));
        let mut table = table.map_err(|e| e.in_input(path.display()))?;
        let chosen: u64 = ranges.iter().map(|(run, _)| run.len).sum();
        table.bytes = (table.bytes as f64 * chosen as f64 / table.items.max(1) as f64) as u64;
        table.items = chosen;
        if let Some(fields) = &fields {
            table.schema = super::narrowed(&table.schema, fields);
        }
        self.send(WalkEvent::Table { root: walk.root, path: name, stat, table });
        Ok(())
    }

    /// Sends the members of the samples in `ranges`, and where these samples stand in the view.
    fn chosen_members(
        &self,
        walk: &ViewWalk,
        (number, archive, stat): (u32, PathBuf, FileStat),
        ranges: &[(SampleRun, u64)],
        members: &Members,
    ) -> Result<()> {
        let (mut found, mut places) = (Vec::new(), Vec::new());
        for (run, position) in ranges {
            for (sample, position) in (run.first..run.first + run.len).zip(*position..) {
                let key = members.key(sample as usize).unwrap_or_default();
                let before = found.len();
                let chosen = members.of(sample as usize).filter(|member| walk.opened.has(member.field));
                found.extend(chosen.map(|member| FoundMember {
                    name: format!("{key}.{}", member.field).into_bytes().into(),
                    offset: member.offset,
                    len: member.len,
                }));
                match found.get(before..).unwrap_or_default().iter().map(|member| member.offset).min() {
                    Some(offset) => {
                        let row = walk.rows.row(number, sample).unwrap_or(u64::MAX);
                        places.push(ChosenPlace { shard: number, offset, position, row });
                    }
                    None => self.send(WalkEvent::Fault(
                        Error::content("has none of the fields that the view selects")
                            .in_input(walk.opened.dir.display())
                            .in_sample(key),
                    )),
                }
            }
        }
        self.context.observer.event(&Event::Scanned { files: found.len() as u64 });
        self.send(WalkEvent::Chosen { root: walk.root, places });
        self.send(WalkEvent::Members { root: walk.root, archive, stat, members: found });
        Ok(())
    }

    /// The member index of a shard, if it has one.
    ///
    /// Errors: `Incomplete` for one whose bytes do not have the recorded digest.
    fn member_index(&self, walk: &ViewWalk, shard: &ShardRecord) -> Result<Option<Members>> {
        let (store, base, limits) = (self.context.store, &walk.opened.base, Limits::default());
        let path = base.join(format!("{}{INDEX_SUFFIX}", shard.name));
        let mut recorded = RecordedFiles::default();
        recorded.add_shard(store, base, shard)?;
        let Some(record) = recorded.get(&path) else { return Ok(None) };
        let bytes = store.open(&path)?.read_all(limits.blob)?;
        let members = decode_index(&bytes, &limits);
        match members {
            Ok(members) if Digest::of(&bytes) == record.blake3 && members.samples() as u64 == shard.samples => {
                Ok(Some(members))
            }
            _ => {
                let error = Error::new(Kind::Incomplete, "its bytes do not have the recorded digest");
                let hint = "the dataset is damaged; `packhorse verify full` shows where, `packhorse repair` mends it";
                Err(error.with_code(Code::ShardDamaged).hint(hint).in_input(path.display()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_repeated_sample_is_found(runs in proptest::collection::vec((0u64..60, 1u64..6), 0..12)) {
            let mut runs: Vec<_> = runs.into_iter().map(|(first, len)| (SampleRun { shard: 0, first, len }, 0)).collect();
            runs.sort_unstable_by_key(|(run, _)| run.first);
            let mut samples: Vec<u64> = runs.iter().flat_map(|(run, _)| run.first..run.first + run.len).collect();
            samples.sort_unstable();
            let twice: Vec<u64> = samples.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
            prop_assert_eq!(repeat(&runs).is_some(), !twice.is_empty());
            prop_assert!(repeat(&runs).is_none_or(|run| twice.contains(&run.first)));
        }
    }
}
