//! Sends batches to any GPU and checks them there; shared by tests of all kinds of GPUs.
#![expect(unsafe_code, reason = "kernels are launched on memory of the GPU")]

use crate::shards;
use packhorse_core::Result;
use packhorse_gpu::kernels::{Checksum, checksum};
use packhorse_gpu::{DeviceBatch, DeviceTransform, Gpu, Upload};
use packhorse_order::{Shuffle, draw};
use packhorse_read::*;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How a consumer behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Consumer {
    /// The maximum number of batches that it keeps.
    pub(crate) kept: usize,
    /// Batches taken ahead of it; with 0 it takes them on its own thread.
    pub(crate) ahead: usize,
    /// The maximum time per batch, in microseconds.
    pub(crate) pause: u64,
    /// Streams that read each batch.
    pub(crate) streams: usize,
}

pub(crate) const PLAIN: Consumer = Consumer { kept: 1, ahead: 2, pause: 0, streams: 1 };

/// Shards with this many samples.
pub(crate) fn dataset(dir: &Path, samples: usize) -> Dataset {
    let counts: Vec<usize> = (0..samples).step_by(50).map(|first| 50.min(samples - first)).collect();
    shards::shards(dir, &counts);
    shards::dataset(dir)
}

pub(crate) fn options(batch: u32, epochs: u64) -> LoaderOptions {
    LoaderOptions {
        threads: 2,
        seed: 3,
        epochs: Some(epochs),
        shuffle: Some(Shuffle::Blocks { shards: 4 }),
        remainder: Remainder::Uneven,
        ..LoaderOptions::new(batch)
    }
}

/// Checksums of all fields of all batches, computed by the host.
pub(crate) fn wanted(dataset: &Dataset, options: &LoaderOptions) -> Vec<Vec<u64>> {
    let loader = Loader::new(dataset.clone(), &[], options, Host::default()).unwrap();
    let names: Vec<String> = loader.layout().fields().iter().map(|field| field.name.clone()).collect();
    let sums = |batch: Result<Batch<HostSlab>>| {
        let batch = batch.unwrap();
        names.iter().map(|name| checksum(batch.field(name).unwrap())).collect()
    };
    loader.map(sums).collect()
}

/// The same, computed by the GPU from the batches that arrive there.
pub(crate) fn found<G: Gpu + Clone>(
    gpu: &G,
    dataset: &Dataset,
    options: &LoaderOptions,
    consumer: Consumer,
    transforms: Vec<Arc<dyn DeviceTransform>>,
) -> Vec<Vec<u64>> {
    found_of(Upload::with_transforms(gpu.clone(), transforms).unwrap(), gpu, dataset, options, consumer)
}

/// The same of batches that `upload` sends or gathers.
pub(crate) fn found_of<G: Gpu + Clone>(
    upload: Upload<G>,
    gpu: &G,
    dataset: &Dataset,
    options: &LoaderOptions,
    consumer: Consumer,
) -> Vec<Vec<u64>> {
    let loader = Loader::new(dataset.clone(), &[], options, upload).unwrap();
    let names: Vec<String> = loader.layout().fields().iter().map(|field| field.name.clone()).collect();
    let batches = loader.remaining() as usize;
    let sums = gpu.memory(8 * names.len() * batches * consumer.streams).unwrap();
    // The launches of a stream use it one after another.
    let scratch: Vec<G::Memory> = (0..consumer.streams).map(|_| gpu.memory(1 << 20).unwrap()).collect();
    let streams: Vec<G::Stream> = (0..consumer.streams).map(|_| gpu.stream().unwrap()).collect();
    let mut kept = VecDeque::new();
    let mut step = 0;
    let mut consume = |batch: Result<DeviceBatch<G>>| {
        let batch = batch.unwrap();
        for (lane, (stream, scratch)) in streams.iter().zip(&scratch).enumerate() {
            let fields = batch.on(stream).unwrap();
            for (at, name) in names.iter().enumerate() {
                let view = fields.view(name).unwrap();
                let sum = Checksum { bytes: view.bytes() as u64 };
                assert!(sum.scratch(1).unwrap() <= 1 << 20);
                let to = gpu.address(&sums) + 8 * ((step * streams.len() + lane) * names.len() + at) as u64;
                for launch in sum.launch(view.address, to, gpu.address(scratch), 1).unwrap() {
                    // SAFETY: batch, sums and scratch memory stay valid until the stream has passed this.
                    unsafe { gpu.launch(&launch, stream) }.unwrap();
                }
            }
        }
        if consumer.pause > 0 {
            std::thread::sleep(Duration::from_micros(draw(7, 0, step as u64, 0) % consumer.pause));
        }
        step += 1;
        kept.push_back(batch);
        if kept.len() > consumer.kept {
            kept.pop_front();
        }
    };
    match consumer.ahead {
        0 => loader.for_each(&mut consume),
        ahead => Ahead::new(loader, ahead).unwrap().for_each(&mut consume),
    }
    drop(kept);
    assert_eq!(step, batches);
    gpu.drain().unwrap();
    let mut bytes = vec![0; 8 * names.len() * batches * streams.len()];
    // SAFETY: these sums were written, and all work has finished.
    unsafe { gpu.download(gpu.address(&sums), &mut bytes) }.unwrap();
    let sums: Vec<u64> = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let lanes: Vec<&[u64]> = sums.chunks(names.len()).collect();
    lanes
        .chunks(streams.len())
        .map(|lanes| {
            assert!(lanes.iter().all(|lane| *lane == lanes[0]), "streams found different batches");
            lanes[0].to_vec()
        })
        .collect()
}

/// A loader and its parts are dropped in some order, with batches still in use.
pub(crate) fn ends_in_any_order<G: Gpu + Clone>(gpu: &G, dataset: &Dataset) {
    let options = options(16, 2);
    let wanted = wanted(dataset, &options);
    for order in 0..4u32 {
        let upload = Upload::new(gpu.clone()).unwrap();
        let mut loader = Loader::new(dataset.clone(), &[], &options, upload).unwrap();
        let name = loader.layout().fields()[0].name.clone();
        let mut batches: Vec<DeviceBatch<G>> = loader.by_ref().take(5).map(Result::unwrap).collect();
        let stream = gpu.stream().unwrap();
        batches.iter().for_each(|batch| batch.wait(&stream).unwrap());
        match order {
            0 => drop(loader),
            1 => drop(batches.split_off(3)),
            2 => drop(Ahead::new(loader, 2).unwrap()),
            // The batch taken ahead is dropped with the rest.
            _ => drop(Ahead::new(loader, 2).unwrap().next()),
        }
        for (batch, sums) in batches.iter().zip(&wanted) {
            assert_eq!(checksum(&batch.download(&name).unwrap()), sums[0], "order {order}");
        }
        drop(batches);
    }
}
