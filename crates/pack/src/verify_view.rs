//! verify of a view: its files, its base, and the shards of the base that it reads.

use crate::damage::Damage;
use crate::recorded_files::sealed_manifest;
use crate::verify::{Depth, Verification, VerifyContext, check_shards};
use packhorse_core::{Kind, Result, Store};
use packhorse_dataset::{DatasetView, MANIFEST, Manifest, SELECTION, SampleRun, ShardRecord, VIEW};
use packhorse_storage::Location;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The base of the view in the folder `dir`, and its manifest.
///
/// Errors: `Changed` for a base that is another dataset or is gone; `Incomplete` for a damaged manifest.
pub fn base_of_view(store: &dyn Store, dir: &Path, view: &DatasetView) -> Result<(PathBuf, Manifest)> {
    let base = view.base_folder(dir, Location::url(dir).is_some());
    let manifest = sealed_manifest(store, &base)?.ok_or_else(|| view.base_missing().in_input(dir.display()))?;
    Ok((base, manifest))
}

/// Verifies the view in the folder `out`: its files, the root digest of its base, and with [`Depth::Full`] the shards of
/// the base that have samples of it. `None` if there is no view.
pub(crate) fn verify_view(
    context: &VerifyContext<'_>,
    out: &Path,
    depth: Depth,
    jobs: usize,
) -> Result<Option<Verification>> {
    let store = context.store;
    let view = match DatasetView::read(store, out) {
        Ok(None) => return Ok(None),
        Ok(Some(view)) => view,
        Err(e) if e.kind() == Kind::Content => {
            let damages = vec![damage(VIEW, &e.text())];
            return Ok(Some(Verification { damages, ..Verification::default() }));
        }
        Err(e) => return Err(e),
    };
    let mut found = Verification { samples: view.samples, base: Some(view.base.clone()), ..Verification::default() };
    let runs = match view.runs(store, out) {
        Ok(runs) => runs,
        Err(e) if e.kind() == Kind::Content => {
            found.damages.push(damage(SELECTION, &e.text()));
            Vec::new()
        }
        Err(e) => return Err(e),
    };
    let based = base_of_view(store, out, &view).and_then(|(base, manifest)| {
        view.check(&manifest, &runs)?;
        Ok((base, manifest))
    });
    match based {
        Ok((base, manifest)) => {
            found.base = Some(base.display().to_string());
            let used = used(&manifest, &runs);
            found.shards = used.shards.len() as u64;
            if depth == Depth::Full {
                let (damages, bytes) = check_shards(context, &base, &used, depth, jobs)?;
                found.bytes = bytes;
                let named = |d: Damage| Damage { file: base.join(&d.file).display().to_string(), ..d };
                found.damages.extend(damages.into_iter().map(named));
            }
        }
        Err(e) if matches!(e.kind(), Kind::Changed | Kind::Content) => found.damages.push(damage(VIEW, &e.text())),
        Err(e) if e.kind() == Kind::Incomplete => {
            let file = e.input().map_or_else(|| MANIFEST.to_owned(), str::to_owned);
            found.damages.push(damage(&file, &e.text()));
        }
        Err(e) => return Err(e),
    }
    found.damages.extend(strangers(store, out)?);
    found.damages.sort();
    Ok(Some(found))
}

/// The manifest of the shards that have samples of `runs`, and of no other file.
fn used(manifest: &Manifest, runs: &[SampleRun]) -> Manifest {
    let numbers: BTreeSet<u32> = runs.iter().map(|run| run.shard).collect();
    let shards = numbers.iter().filter_map(|number| manifest.shards.get(*number as usize));
    let names: BTreeSet<&str> = shards.map(|shard| shard.name.as_str()).collect();
    manifest.part(|shard: &ShardRecord| names.contains(shard.name.as_str()))
}

/// Files beside those of a view. A web server does not list them.
fn strangers(store: &dyn Store, out: &Path) -> Result<Vec<Damage>> {
    let names = match store.list(out) {
        Err(e) if e.kind() == Kind::Unsupported => return Ok(Vec::new()),
        names => names?,
    };
    let other = names.iter().filter(|name| ![VIEW, SELECTION].iter().any(|ours| name.as_os_str() == *ours));
    Ok(other.map(|name| damage(&name.to_string_lossy(), "does not belong to the view")).collect())
}

fn damage(file: &str, problem: &str) -> Damage {
    Damage { file: file.to_owned(), member: None, problem: problem.to_owned() }
}
