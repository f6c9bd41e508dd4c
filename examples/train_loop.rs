//! A training loop over photos: shuffled, decoded, augmented, resumable. `cargo run --release --example train_loop -- DIR`
//!
//! DIR is what `packhorse pack photos --to webdataset --labels folders --out DIR` made, or any place that `packhorse::open`
//! opens. Start it on several ranks (srun, mpirun, torchrun), and each rank gets its share.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use packhorse::core::{Error, Result};
use packhorse::read::{Batch, order::OrderState};
use packhorse::transform::image::View;

fn main() -> Result<()> {
    let place = std::env::args().nth(1).ok_or_else(|| Error::config("give the folder of a dataset"))?;
    let view = View::random_crop(224).flip(0.5);
    let settings = packhorse::open(&place)?
        .loader(32)
        .image("image", "jpg;jpeg;png", view)
        .field("label", "cls")
        .seed(7)
        .epochs(2);

    let mut loader = settings.clone().build()?;
    let half = loader.remaining() / 2;
    for batch in loader.by_ref().take(half as usize) {
        train(&batch?);
    }
    let checkpoint = loader.state().to_json();
    println!("{half} batches, then {checkpoint}");

    // After a restart on any number of ranks, no sample is repeated or skipped.
    let loader = settings.resume(&OrderState::from_json(&checkpoint)?).build()?;
    println!("{} batches more", loader.remaining());
    for batch in loader {
        train(&batch?);
    }
    Ok(())
}

/// Stands for the model: `image` is uint8 [32, 224, 224, 3], `label` int64 [32], both in one slab.
fn train<H: AsRef<[u8]>>(batch: &Batch<H>) {
    assert_eq!(batch.field("image").map(<[u8]>::len), Some(batch.rows() * 224 * 224 * 3));
    assert_eq!(batch.integers("label").count(), batch.rows());
}
