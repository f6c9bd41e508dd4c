//! A training loop over photos: shuffled, decoded, augmented, resumable. `cargo run --release --example train_loop -- DIR`
//!
//! DIR is what `packhorse pack photos --to webdataset --labels folders --out DIR` made, or any place that
//! `packhorse::read::dataset` opens. Run it on several ranks (srun, mpirun, torchrun): each gets its share.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use packhorse::core::{Error, Result};
use packhorse::read::order::{OrderState, Place, Shuffle};
use packhorse::read::{FieldOptions, Host, Loader, LoaderOptions, Make, dataset};
use packhorse::transform::image::{Size, View};

fn main() -> Result<()> {
    let place = std::env::args().nth(1).ok_or_else(|| Error::config("give the folder of a dataset"))?;
    let dataset = dataset(&place)?;
    let random = Size::Random { height: 224, width: 224, scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) };
    let view = View { size: random, flip: 0.5, ..View::default() };
    let fields = [
        FieldOptions::new("image", Make::Picture(view)).from("jpg;jpeg;png"),
        FieldOptions::new("label", Make::Auto).from("cls"),
    ];
    let mut options = LoaderOptions {
        place: Place::of_environment(&|name| std::env::var(name).ok())?,
        shuffle: Shuffle::Blocks { shards: 16 },
        seed: 7,
        epochs: Some(2),
        ..LoaderOptions::new(32)
    };

    // What a checkpoint holds is this text, some dozen bytes.
    let mut loader = Loader::new(dataset.clone(), &fields, &options, Host::default())?;
    let half = loader.remaining() / 2;
    for batch in loader.by_ref().take(half as usize) {
        train(&batch?);
    }
    let checkpoint = loader.state().to_json();
    drop(loader);
    println!("{half} batches, then {checkpoint}");

    // After a restart, be it on another number of ranks: nothing again, nothing left out.
    options.state = Some(OrderState::from_json(&checkpoint)?);
    let (mut batches, mut images) = (0, 0);
    for batch in Loader::new(dataset, &fields, &options, Host::default())? {
        let batch = batch?;
        train(&batch);
        (batches, images) = (batches + 1, images + batch.rows());
    }
    println!("{batches} batches more, {images} images");
    Ok(())
}

/// Where the model would be: `image` is uint8 [32, 224, 224, 3], `label` int64 [32], both in one slab.
fn train<H: AsRef<[u8]>>(batch: &packhorse::read::Batch<H>) {
    let (pixels, labels) = (batch.field("image").unwrap_or_default(), batch.integers("label"));
    assert_eq!(pixels.len(), batch.rows() * 224 * 224 * 3);
    assert_eq!(labels.count(), batch.rows());
}
