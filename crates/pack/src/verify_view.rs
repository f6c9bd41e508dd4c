//! verify of a view: its files, its base, and the shards of the base that it reads.

use crate::damage::Damage;
use crate::opened_view::base_of_view;
use crate::recorded_files::check_file;
use crate::verify::{Depth, Verification, VerifyContext, check_shards};
use packhorse_core::{Kind, Result, Store};
use packhorse_dataset::{DatasetView, MANIFEST, SELECTION, STAGED_BASE, VIEW};
use std::path::Path;

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
    if let Some(joined) = &view.joined
        && let Err(e) = check_file(store, &out.join(&joined.file.name), &joined.file, context.cancel)
    {
        match e.kind() {
            Kind::Incomplete => found.damages.push(damage(&joined.file.name, &e.text())),
            _ => return Err(e),
        }
    }
    let based = base_of_view(store, out, &view).and_then(|(base, manifest)| {
        let runs = view.place(&manifest, runs)?;
        Ok((base, view.part(&manifest, &runs)))
    });
    match based {
        Ok((base, used)) => {
            found.base = Some(base.display().to_string());
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
    found.damages.extend(strangers(store, out, &view)?);
    found.damages.sort();
    Ok(Some(found))
}

/// Files beside those of a view. A web server does not list them.
fn strangers(store: &dyn Store, out: &Path, view: &DatasetView) -> Result<Vec<Damage>> {
    let names = match store.list(out) {
        Err(e) if e.kind() == Kind::Unsupported => return Ok(Vec::new()),
        names => names?,
    };
    let files = view.files().map(|file| file.name.as_str());
    let ours: Vec<&str> = files.chain([VIEW]).chain((view.base == STAGED_BASE).then_some(STAGED_BASE)).collect();
    let other = names.iter().filter(|name| !ours.iter().any(|ours| name.as_os_str() == *ours));
    Ok(other.map(|name| damage(&name.to_string_lossy(), "does not belong to the view")).collect())
}

fn damage(file: &str, problem: &str) -> Damage {
    Damage { file: file.to_owned(), member: None, problem: problem.to_owned() }
}
