//! Batches on a GPU: one copy each, hidden behind the steps that use them. `cargo run --release --example gpu_stream -- DIR`
//!
//! DIR is what `packhorse pack photos --to webdataset --labels folders --out DIR` made. Without a GPU one is simulated, so that
//! the loop can be tried anywhere. Start it on several ranks: each takes its GPU and its share of the samples.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use packhorse::core::{Error, Kind, Result};
use packhorse::gpu::transforms::Augmented;
use packhorse::gpu::{Cuda, DeviceTransform, Gpu, Simulated, Upload};
use packhorse::read::Ahead;
use packhorse::transform::image::View;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<()> {
    let place = std::env::args().nth(1).ok_or_else(|| Error::config("give the folder of a dataset"))?;
    match Cuda::from_environment() {
        // Pixels come as bytes; the GPU changes colours, erases a part, mixes pictures, and makes them bf16 [32, 3, 224, 224], normalised.
        // Labels become shares of 1000 classes.
        Ok(gpu) => {
            let augmented = Augmented::new("image").jitter(0.4, 0.4, 0.4, 0.1, 0.8).grayscale(0.2).erase(0.25);
            train(&gpu, &place, vec![Arc::new(augmented.mix(0.2, 1.0, "label", 1000))])
        }
        Err(error) if error.kind() == Kind::Unsupported => {
            println!("{error}: this one is simulated");
            train(&Simulated::new(), &place, Vec::new())
        }
        Err(error) => Err(error),
    }
}

fn train<G: Gpu + Clone>(gpu: &G, place: &str, transforms: Vec<Arc<dyn DeviceTransform>>) -> Result<()> {
    let view = View::random_crop(224).flip(0.5);
    let settings =
        packhorse::open(place)?.loader(32).image("image", "jpg;jpeg;png", view).field("label", "cls").epochs(2);
    // Two batches are on their way while one is used: three slots of the GPU's memory in all.
    let mut batches = Ahead::new(settings.on(Upload::with_transforms(gpu.clone(), transforms)?).build()?, 2)?;
    // A framework's stream would be `gpu.stream_from_raw(torch.cuda.current_stream().cuda_stream)?`.
    let stream = gpu.stream()?;
    let (mut steps, mut images) = (0, 0);
    while let Some(batch) = batches.next().transpose()? {
        let pixels = batch.on(&stream)?.view("image")?;
        // Here a model would be launched on `stream`, with `pixels.address`, or `batch.dlpack("image", &stream)`.
        gpu.pause(Duration::from_millis(5), &stream)?;
        (steps, images) = (steps + 1, images + pixels.shape.first().copied().unwrap_or(0));
    }
    gpu.drain()?;
    let (waits, waited) = batches.waited();
    println!("{images} images in {steps} steps; waited {waits} times, {:.2} s", waited.as_secs_f64());
    Ok(())
}
