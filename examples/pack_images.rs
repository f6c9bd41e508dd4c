//! Packing as a library: `cargo run --example pack_images -- PHOTOS SHARDS`, or without arguments to
//! see it at work on a few made-up pictures.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use packhorse::core::{Cancel, Result};
use packhorse::synth::{ImagesSpec, Run, images};
use packhorse::{Labels, Recipe};
use std::num::NonZeroUsize;
use std::path::PathBuf;

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [photos, shards] = <[PathBuf; 2]>::try_from(arguments).or_else(|_| demo())?;
    // A recipe says all that decides bytes: equal recipes over equal inputs make equal shards.
    let recipe = Recipe::new(photos, "webdataset", shards).labels(Labels::Folders).shuffle(7);
    // A session says all that does not. Stopped halfway, the same call goes on.
    let packed = packhorse::session().pack(&recipe)?;
    println!("{} samples in {} shards", packed.report.samples, packed.report.shards);
    println!("root {}", packed.manifest.root);
    Ok(())
}

/// A few pictures in a temporary folder, and where their shards go.
fn demo() -> Result<[PathBuf; 2]> {
    let dir = std::env::temp_dir().join(format!("packhorse-demo-{}", std::process::id()));
    let run = Run { jobs: NonZeroUsize::MIN, cancel: &Cancel::default(), progress: &|_| {} };
    images(&dir.join("photos"), &ImagesSpec { count: 50, ..ImagesSpec::default() }, &run)?;
    println!("packing 50 made-up pictures below {}", dir.display());
    Ok([dir.join("photos"), dir.join("shards")])
}
