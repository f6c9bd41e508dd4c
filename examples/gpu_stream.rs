//! Batches on a GPU: one copy each, hidden behind the steps that use them. `cargo run --release --example gpu_stream -- DIR`
//!
//! DIR is what `packhorse pack photos --to webdataset --labels folders --out DIR` made. Without a GPU one is simulated, so that
//! the loop can be tried anywhere. Run it on several ranks: each takes its GPU and its share of the samples.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use packhorse::core::{Error, Kind, Result};
use packhorse::gpu::finish::Pictures;
use packhorse::gpu::{Cuda, Finish, Gpu, Simulated, Upload};
use packhorse::read::order::Place;
use packhorse::read::{Ahead, FieldOptions, Loader, LoaderOptions, Make, dataset};
use packhorse::transform::image::{Size, View};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).ok_or_else(|| Error::config("give the folder of a dataset"))?;
    let local = std::env::var("LOCAL_RANK").or_else(|_| std::env::var("SLURM_LOCALID"));
    match Cuda::of_rank(local.ok().and_then(|rank| rank.parse().ok()).unwrap_or(0)) {
        // Pixels come as bytes; the GPU makes them bf16 [32, 3, 224, 224], normalised.
        Ok(gpu) => train(&gpu, &directory, vec![Arc::new(Pictures::new("image"))]),
        Err(error) if error.kind() == Kind::Unsupported => {
            println!("{error}: this one is simulated");
            train(&Simulated::new(), &directory, Vec::new())
        }
        Err(error) => Err(error),
    }
}

fn train<G: Gpu + Clone>(gpu: &G, directory: &str, finish: Vec<Arc<dyn Finish>>) -> Result<()> {
    let random = Size::Random { height: 224, width: 224, scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) };
    let fields = [
        FieldOptions::new("image", Make::Picture(View { size: random, flip: 0.5, ..View::default() }))
            .from("jpg;jpeg;png"),
        FieldOptions::new("label", Make::Auto).from("cls"),
    ];
    let options = LoaderOptions {
        place: Place::of_environment(&|name| std::env::var(name).ok())?,
        epochs: Some(2),
        ..LoaderOptions::new(32)
    };
    let loader = Loader::new(dataset(directory)?, &fields, &options, Upload::finished(gpu.clone(), finish)?)?;
    // Two batches are on their way while one is used: three slots of the GPU's memory in all.
    let mut batches = Ahead::new(loader, 2)?;
    // A framework's stream would be `gpu.stream_from_raw(torch.cuda.current_stream().cuda_stream)?`.
    let stream = gpu.stream()?;
    let (start, mut steps, mut images) = (Instant::now(), 0, 0);
    while let Some(batch) = batches.next().transpose()? {
        batch.wait(&stream)?;
        let pixels = batch.view("image").ok_or_else(|| Error::bug("no pixels"))?;
        // Here a model would be launched on `stream`, with `pixels.address`, or `batch.dlpack("image", &stream)`.
        gpu.pause(Duration::from_millis(5), &stream)?;
        (steps, images) = (steps + 1, images + pixels.shape.first().copied().unwrap_or(0));
        // Dropping the batch gives its memory back, for use after the step; nobody waits.
    }
    gpu.drain()?;
    let (waits, waited) = batches.waited();
    println!(
        "{images} images in {steps} steps, {:.2} s; waited {waits} times, {:.2} s",
        start.elapsed().as_secs_f64(),
        waited.as_secs_f64()
    );
    Ok(())
}
