//! Complete shards with samples of an input that proved to be damaged only later: they were packed under another policy, before the
//! damage was reached.

use crate::OnError;
use crate::block_reader::BlockReader;
use crate::parallel_map::parallel_map;
use crate::stored_plan::valid_receipt;
use packhorse_core::{Kind, Result, Store};
use packhorse_dataset::{FieldSource, PlanReader, Receipt, ShardFrame};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The names of such shards among `mine`, where bad inputs are skipped. Inputs of shards that are not complete are checked, as they are
/// when these are filled.
pub(crate) fn tainted(
    store: &dyn Store,
    out: &Path,
    plan: &PlanReader,
    mine: &[&ShardFrame],
    reader: &BlockReader<'_>,
    threads: usize,
) -> Result<Vec<String>> {
    if reader.on_error != OnError::Skip {
        return Ok(Vec::new());
    }
    let (mut complete, mut inputs) = (Vec::new(), BTreeMap::new());
    for shard in mine {
        match valid_receipt(store, out, plan.digest(), shard)? {
            Some(receipt) => complete.push((*shard, receipt)),
            None => inputs.extend(streams(plan, shard, reader)?),
        }
    }
    if complete.is_empty() || inputs.is_empty() {
        return Ok(Vec::new());
    }
    let inputs: Vec<(PathBuf, FieldSource)> = inputs.into_iter().collect();
    let found = parallel_map(&inputs, threads, &|(path, piece)| match reader.inputs.check_stream(piece) {
        Err(e) if e.kind() == Kind::Content => Ok(Some(path.clone())),
        Err(e) if e.kind() == Kind::Cancelled => Err(e),
        // What else fails is told where the input is read.
        _ => Ok(None),
    })?;
    let damaged: BTreeSet<PathBuf> = found.into_iter().flatten().collect();
    let mut names = Vec::new();
    for (shard, receipt) in complete.iter().filter(|_| !damaged.is_empty()) {
        let has = |(path, piece): &(PathBuf, FieldSource)| damaged.contains(path) && !is_skipped(receipt, piece);
        if streams(plan, shard, reader)?.iter().any(has) {
            names.push(shard.name.clone());
        }
    }
    Ok(names)
}

/// The compressed table inputs of a shard, each once.
fn streams(plan: &PlanReader, shard: &ShardFrame, reader: &BlockReader<'_>) -> Result<Vec<(PathBuf, FieldSource)>> {
    let mut found: Vec<(PathBuf, FieldSource)> = Vec::new();
    for entry in plan.entries(shard)? {
        let entry = entry?;
        if let Some((piece, _)) = entry.run().filter(|(piece, _)| reader.inputs.is_streamed(piece)) {
            let path = reader.inputs.path(piece);
            if found.last().is_none_or(|(last, _)| *last != path) {
                found.push((path, piece.clone()));
            }
        }
    }
    Ok(found)
}

/// Whether the shard was packed without this input.
fn is_skipped(receipt: &Receipt, piece: &FieldSource) -> bool {
    receipt.skipped.iter().any(|skip| skip.input.as_ref() == Some(&piece.path))
}
