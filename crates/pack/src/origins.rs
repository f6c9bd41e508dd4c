//! Which inputs a sample was packed from, by the plan. Reads no input and no shard.

use crate::plans::open_plans;
use crate::recorded_files::recorded_manifest;
use packhorse_core::{Error, Result, Store};
use packhorse_dataset::{FieldSource, PlanEntry, PlanHeader, PlanReader, ShardFrame};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A part of an input that a sample was packed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The field that came from it; `None` if it is a row of typed values or text.
    pub field: Option<String>,
    /// The input: a file, an archive, a container. Relative if the input was given so.
    pub input: PathBuf,
    /// Offset and length of the field in an archive, decompressed.
    pub extent: Option<(u64, u64)>,
    /// The number of the row in the input, from 0, if it is known.
    pub item: Option<u64>,
}

/// A sample by its shard's file, its position there and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleAt<'a> {
    /// The path or the name of the shard's file.
    pub shard: &'a str,
    /// The position of the sample in the shard, from 0.
    pub position: u64,
    /// Its key.
    pub key: &'a str,
}

/// The inputs of each of `samples` of the sealed dataset in `dir`. A sample whose inputs are not recorded has none: a
/// program wrote it, its shard was adopted, or the dataset is a copy without its plan.
///
/// Errors: a dataset or a plan that can't be read; a shard that the dataset does not have (kind `Config`).
pub(crate) fn origins(store: &dyn Store, dir: &Path, samples: &[SampleAt<'_>]) -> Result<Vec<Vec<Origin>>> {
    let mut found = vec![Vec::new(); samples.len()];
    let Some(manifest) = recorded_manifest(store, dir)? else { return Ok(found) };
    let plans = match open_plans(store, dir) {
        Ok(plans) => plans,
        Err(_) if manifest.part_of.is_some() => return Ok(found),
        Err(e) => return Err(e),
    };
    let frames: BTreeMap<&str, (&PlanReader, &ShardFrame)> = plans
        .iter()
        .flat_map(|plan| plan.shards().iter().map(move |frame| (frame.name.as_str(), (plan, frame))))
        .collect();
    // A shard of several files is read by any of them, such as the index of tokens.
    let names: BTreeMap<&str, (&str, u64)> = manifest
        .shards
        .iter()
        .flat_map(|shard| {
            let found = (shard.name.as_str(), shard.samples);
            [shard.file.as_str(), &shard.name].map(|name| (name, found))
        })
        .collect();
    let mut wanted: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, sample) in samples.iter().enumerate() {
        wanted.entry(sample.shard).or_default().push(number);
    }
    for (file, numbers) in wanted {
        let unknown = || Error::config(format!("has no shard {file}")).in_input(dir.display());
        let stem = |name: &str| names.get(name.rsplit_once('.')?.0);
        let shard = suffixes(file).find_map(|name| names.get(name).or_else(|| stem(name)));
        let (name, packed) = *shard.ok_or_else(unknown)?;
        let (plan, frame) = *frames.get(name).ok_or_else(unknown)?;
        let whole = !frame.uncounted && frame.samples == packed;
        look(plan, frame, whole, samples, &numbers, &mut found)?;
    }
    Ok(found)
}

/// A path, and the rest of it without its first folder, its first two, and so on.
fn suffixes(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.split_once('/').map(|(_, rest)| rest))
}

/// Finds the origins of the samples `numbers` of a shard. `whole`: every planned sample is in it, so that positions are
/// those of the plan.
fn look(
    plan: &PlanReader,
    frame: &ShardFrame,
    whole: bool,
    samples: &[SampleAt<'_>],
    numbers: &[usize],
    found: &mut [Vec<Origin>],
) -> Result<()> {
    let mut before = 0;
    for entry in plan.entries(frame)? {
        let entry = entry?;
        for number in numbers {
            let (Some(sample), Some(found)) = (samples.get(*number), found.get_mut(*number)) else { continue };
            if found.is_empty() {
                *found = of_entry(plan.header(), &entry, sample, whole.then_some(before));
            }
        }
        before += entry.samples();
    }
    Ok(())
}

/// The origins of `sample` if it is one of `entry`, whose first sample has the position `before`.
fn of_entry(header: &PlanHeader, entry: &PlanEntry, sample: &SampleAt<'_>, before: Option<u64>) -> Vec<Origin> {
    let origin = |source: &FieldSource| Origin {
        field: Some(source.field.clone()),
        input: input(header, source),
        extent: source.extent,
        item: None,
    };
    let Some((source, items)) = entry.run() else {
        return if entry.key == sample.key { entry.fields.iter().map(origin).collect() } else { Vec::new() };
    };
    let rest = sample.key.strip_prefix(&entry.key).and_then(|rest| rest.strip_prefix('/'));
    let by_key = rest.and_then(|rest| rest.parse().ok()).filter(|item| items.contains(item) && !source.by_position);
    let at = before.filter(|_| !source.by_position).and_then(|before| sample.position.checked_sub(before));
    let by_position = at.map(|at| items.start + at).filter(|item| items.contains(item));
    let item = by_position.or(by_key);
    match item.is_some() || (before.is_none() || source.by_position) && rest.is_some() {
        true => vec![Origin { field: None, extent: None, item, ..origin(source) }],
        false => Vec::new(),
    }
}

fn input(header: &PlanHeader, source: &FieldSource) -> PathBuf {
    let root = header.roots.get(source.root as usize).map(|root| root.to_path()).unwrap_or_default();
    root.join(source.path.to_path())
}
