//! Work on a GPU that takes longer than the host needs for several batches: whatever does not wait for it finds other bytes.
#![expect(unsafe_code, reason = "kernels are launched on memory of the GPU")]

use crate::uploads;
use packhorse_core::Result;
use packhorse_gpu::kernels::{Checksum, Spin, Tensor, checksum};
use packhorse_gpu::transforms::{Commands, Fields, Output};
use packhorse_gpu::{DeviceTransform, Element, Gpu, Upload};
use packhorse_order::Shuffle;
use packhorse_read::{Dataset, Host, Layout, Loader, LoaderOptions};
use std::sync::Arc;

/// The field that is summed.
const FIELD: &str = "txt";

/// The time that a transform takes, and that a consumer takes for a batch: longer, so that copies wait while transforms do not.
const TRANSFORM: u64 = 1_000_000;
const CONSUMER: u64 = 2_000_000;

/// Sums a field at once, and again after a while.
struct Twice;

// SAFETY: the kernels read the field that is there and write the outputs and the scratch bytes that are declared.
unsafe impl DeviceTransform for Twice {
    fn outputs(&self, _: &Layout) -> Result<Vec<Output>> {
        let tensor = Tensor { element: Element::I64, shape: vec![1] };
        let output = |name: &str| Output { name: name.to_owned(), tensor: tensor.clone(), by_row: false };
        Ok(vec![output("early"), output("late")])
    }

    fn scratch(&self, _: &Layout) -> Result<usize> {
        Checksum { bytes: u64::MAX }.scratch(1)
    }

    fn run(&self, fields: &Fields<'_>, scratch: u64, commands: &mut dyn Commands) -> Result<()> {
        let from = fields.view(FIELD).unwrap();
        let sum = Checksum { bytes: from.bytes() as u64 };
        for name in ["early", "late"] {
            let to = fields.view(name).unwrap().address;
            sum.launch(from.address, to, scratch, 1)?.iter().try_for_each(|launch| commands.launch(launch))?;
            commands.launch(&Spin::new(TRANSFORM / 2).launch()?)?;
        }
        Ok(())
    }
}

/// All batches of an epoch by way of such a transform and such a consumer equal those of the host.
pub(crate) fn batches<G: Gpu + Clone>(gpu: &G, dataset: &Dataset) {
    let options = LoaderOptions { shuffle: Some(Shuffle::Blocks { shards: 2 }), ..uploads::options(8, 1) };
    let host = Loader::new(dataset.clone(), &[], &options, Host::default()).unwrap();
    let wanted: Vec<u64> = host
        .flat_map(|batch| {
            let sum = checksum(batch.unwrap().field(FIELD).unwrap());
            let of_sum = checksum(&sum.to_le_bytes());
            [of_sum, of_sum, sum]
        })
        .collect();
    let sums = gpu.memory(8 * wanted.len()).unwrap();
    let (scratch, stream) = (gpu.memory(1 << 20).unwrap(), gpu.stream().unwrap());
    let upload = Upload::with_transforms(gpu.clone(), vec![Arc::new(Twice)]).unwrap();
    let loader = Loader::new(dataset.clone(), &[], &options, upload).unwrap();
    let mut to = gpu.address(&sums);
    for batch in loader {
        let batch = batch.unwrap();
        let fields = batch.on(&stream).unwrap();
        let mut sum = |name: &str| {
            let from = fields.view(name).unwrap();
            let launches = Checksum { bytes: from.bytes() as u64 }.launch(from.address, to, gpu.address(&scratch), 1);
            to += 8;
            launches.unwrap()
        };
        let (at_once, spin) = (sum("late"), Spin::new(CONSUMER).launch().unwrap());
        let later = [sum("early"), sum(FIELD)].concat();
        for launch in at_once.iter().chain([&spin]).chain(&later) {
            // SAFETY: batch, sums and scratch memory stay valid until the stream has passed this.
            unsafe { gpu.launch(launch, &stream) }.unwrap();
        }
    }
    gpu.drain().unwrap();
    let mut bytes = vec![0; 8 * wanted.len()];
    // SAFETY: these sums were written, and all work has finished.
    unsafe { gpu.download(gpu.address(&sums), &mut bytes) }.unwrap();
    let found: Vec<u64> = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    assert!(found == wanted, "batches differ");
}
