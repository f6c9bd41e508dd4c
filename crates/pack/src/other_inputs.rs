//! Tells other inputs from those of a plan that have the same names, sizes and times: a plan does not say where its inputs lie, since
//! they may move.

use packhorse_core::{Error, Kind, Result, Store};
use packhorse_dataset::{PathText, PlanHeader, PlanReader};
use std::collections::BTreeSet;
use std::path::Path;

/// The most files that are compared.
const MOST: usize = 16;

/// The bytes at the beginning and at the end of a file that are compared.
const LOOKED_AT: u64 = 1 << 20;

/// Refuses inputs that lie in other folders than those of `old`, an equal plan, and hold other bytes. Copies hold the same.
///
/// Errors: `Changed` with both files.
pub(crate) fn refuse(store: &dyn Store, old: &PlanReader, new: &PlanHeader) -> Result<()> {
    if old.header().roots == new.roots {
        return Ok(());
    }
    // Spread over the plan.
    let shards = old.shards().iter().step_by(old.shards().len().div_ceil(MOST).max(1));
    let each = MOST.div_ceil(shards.len().max(1));
    let entries = shards.flat_map(|shard| {
        let step = usize::try_from(shard.samples).unwrap_or(usize::MAX).div_ceil(each).max(1);
        old.entries(shard).into_iter().flatten().step_by(step).take(each)
    });
    let mut looked = BTreeSet::new();
    for piece in entries.filter_map(Result::ok).flat_map(|entry| entry.fields) {
        let path = piece.path.to_path();
        let place = |roots: &[PathText]| Some(roots.get(piece.root as usize)?.to_path().join(&path));
        let Some((before, now)) = place(&old.header().roots).zip(place(&new.roots)) else { continue };
        if before != now && looked.insert(now.clone()) && differ(store, (&before, &now), piece.size) {
            let message = format!(
                "the samples of {} were packed, and this file has its name, size and time, but other bytes",
                before.display()
            );
            let error = Error::new(Kind::Changed, message).in_input(now.display());
            return Err(error.hint("give the file another name, or the time at which it was written"));
        }
        if looked.len() >= MOST {
            break;
        }
    }
    Ok(())
}

/// Whether both files can be read and differ where they are looked at.
fn differ(store: &dyn Store, (one, other): (&Path, &Path), size: u64) -> bool {
    let read = |path: &Path, at: u64| {
        let mut bytes = vec![0; LOOKED_AT.min(size) as usize];
        store.open(path).and_then(|file| file.read_at(at, &mut bytes)).ok().map(|()| bytes)
    };
    [0, size.saturating_sub(LOOKED_AT)]
        .into_iter()
        .any(|at| read(one, at).zip(read(other, at)).is_some_and(|(a, b)| a != b))
}
