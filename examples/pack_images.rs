//! Packing as a library: `cargo run --example pack_images -- PHOTOS SHARDS`, or without arguments to
//! see it at work on a few made-up pictures.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use packhorse::core::{Cancel, Limits, Result};
use packhorse::pack::{PackOptions, Packing, PlanOptions, Scan, ScanOptions, Shuffle};
use packhorse::pack::{pack, plan, scan, seal, store_plan};
use packhorse::storage::Local;
use packhorse::synth::{ImagesSpec, Run, images};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [photos, shards] = match arguments.as_slice() {
        [photos, shards] => [photos.clone(), shards.clone()],
        _ => demo()?,
    };
    println!("root {}", pack_images(photos, shards)?);
    Ok(())
}

/// Packs the folder `photos` into tar shards in the folder `shards`; returns the root digest.
pub fn pack_images(photos: PathBuf, shards: PathBuf) -> Result<String> {
    let registry = packhorse::registry();
    let store: Arc<dyn packhorse::core::Store> = Arc::new(Local);
    // `()` as the observer is silence; whoever holds `cancel` can stop the work.
    let (limits, cancel) = (Limits::default(), Cancel::default());

    // scan: what is there? Reads names and sizes.
    let scanning = Scan { registry: &registry, store: &*store, limits, observer: &(), cancel: &cancel };
    let listing = scan(scanning, &ScanOptions { roots: vec![photos], io_threads: 8, ..ScanOptions::default() })?;

    // plan: which sample goes where? Equal options and inputs, equal shards.
    let options = PlanOptions { shuffle: Shuffle::Global { seed: 7 }, ..PlanOptions::default() };
    let plan = plan(&registry, listing, &[], &options, &())?;
    store_plan(&store, &shards, &plan)?;

    // pack: fills the shards. Stopped halfway, the same call goes on where it was.
    let packing =
        Packing { registry: &registry, transforms: &[], store: store.clone(), limits, observer: &(), cancel: &cancel };
    let report = pack(&packing, &shards, &PackOptions::default())?;
    println!("{} samples in {} shards", report.samples, report.shards);

    // seal: is every shard there? Then the manifest says so.
    Ok(seal(&registry, &[], &store, &shards, &cancel)?.root.to_string())
}

/// A few pictures in a temporary folder, and where their shards go.
fn demo() -> Result<[PathBuf; 2]> {
    let dir = std::env::temp_dir().join(format!("packhorse-demo-{}", std::process::id()));
    let run = Run { jobs: NonZeroUsize::MIN, cancel: &Cancel::default(), progress: &|_| {} };
    images(&dir.join("photos"), &ImagesSpec { count: 50, ..ImagesSpec::default() }, &run)?;
    println!("packing 50 made-up pictures below {}", dir.display());
    Ok([dir.join("photos"), dir.join("shards")])
}
