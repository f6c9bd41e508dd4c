//! Batches on simulated GPUs: none lost, none in another's place, none changed, whatever consumers and streams do.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what goes wrong here fails the test, or is skipped with a word"
)]

#[expect(dead_code, reason = "checks of kernels share it")]
mod common;
#[path = "../../read/tests/shards/mod.rs"]
#[expect(dead_code, reason = "tests of the reader share it")]
mod shards;
mod uploads;

use common::host::Host;
use packhorse_core::{Kind, Result};
use packhorse_gpu::kernels::Launch;
use packhorse_gpu::{Gpu, Simulated, Upload};
use packhorse_read::{HostSlab, Loader};
use std::sync::Mutex;
use std::time::Duration;
use uploads::*;

/// A simulated GPU that runs our kernels; `None` where there is no C++ compiler.
fn simulated(seed: u64, jitter: u64) -> Option<Simulated> {
    let host = Mutex::new(Host::new()?);
    let gpu = Simulated::with_jitter(seed, Duration::from_micros(jitter));
    Some(gpu.with_kernels(move |launch| {
        common::Runner::launch(&mut *host.lock().unwrap(), launch);
        Ok(())
    }))
}

const CONSUMERS: [Consumer; 6] = [
    PLAIN,
    Consumer { ahead: 0, ..PLAIN },
    Consumer { kept: 0, ahead: 1, ..PLAIN },
    Consumer { kept: 7, ..PLAIN },
    Consumer { kept: 2, ahead: 4, pause: 300, streams: 1 },
    Consumer { streams: 3, pause: 100, ..PLAIN },
];

#[test]
fn batches_arrive_whole_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 730);
    let options = options(16, 2);
    let wanted = wanted(&dataset, &options);
    for (seed, consumer) in CONSUMERS.into_iter().enumerate() {
        for jitter in [0, 200] {
            let Some(gpu) = simulated(seed as u64, jitter) else { return };
            assert!(found(&gpu, &dataset, &options, consumer, Vec::new()) == wanted, "{consumer:?} {jitter}");
        }
    }
}

#[test]
fn loaders_batches_and_the_gpu_go_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    ends_in_any_order(&Simulated::with_jitter(1, Duration::from_micros(300)), &dataset(dir.path(), 300));
}

#[test]
fn kernels_on_a_gpu_without_them_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let gpu = Simulated::new();
    let mut loader =
        Loader::new(dataset(dir.path(), 60), &[], &options(8, 1), Upload::new(gpu.clone()).unwrap()).unwrap();
    let batch = loader.next().unwrap().unwrap();
    let launch = packhorse_gpu::kernels::Spin::new(1).launch().unwrap();
    batch.synchronize().unwrap();
    assert!(batch.ready().unwrap());
    // SAFETY: it is refused.
    #[expect(unsafe_code, reason = "a launch")]
    let refused = unsafe { gpu.launch(&launch, gpu.stream().unwrap()) };
    assert_eq!(refused.unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(batch.download("nothing").unwrap_err().kind(), Kind::Config);
}

/// A GPU whose driver forgets something.
#[derive(Clone)]
struct Forgetful {
    gpu: Simulated,
    fault: Fault,
    copies: std::sync::Arc<Mutex<Option<<Simulated as Gpu>::Stream>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    CopyDoesNotWait,
    ConsumerDoesNotWait,
    CopyCountsAsOver,
}

#[expect(unsafe_code, reason = "calls are handed on")]
impl Gpu for Forgetful {
    type Pinned = HostSlab;
    type Memory = <Simulated as Gpu>::Memory;
    type Event = <Simulated as Gpu>::Event;
    type Stream = <Simulated as Gpu>::Stream;

    fn pinned(&self, bytes: usize) -> Result<HostSlab> {
        self.gpu.pinned(bytes)
    }

    fn memory(&self, bytes: usize) -> Result<Self::Memory> {
        self.gpu.memory(bytes)
    }

    fn address(&self, memory: &Self::Memory) -> u64 {
        self.gpu.address(memory)
    }

    fn stream(&self) -> Result<Self::Stream> {
        let stream = self.gpu.stream()?;
        self.copies.lock().unwrap().get_or_insert(stream);
        Ok(stream)
    }

    fn event(&self) -> Result<Self::Event> {
        self.gpu.event()
    }

    fn record(&self, event: &Self::Event, stream: Self::Stream) -> Result<()> {
        self.gpu.record(event, stream)
    }

    fn wait(&self, stream: Self::Stream, event: &Self::Event) -> Result<()> {
        let of_copies = *self.copies.lock().unwrap() == Some(stream);
        match self.fault {
            Fault::CopyDoesNotWait if of_copies => Ok(()),
            Fault::ConsumerDoesNotWait if !of_copies => Ok(()),
            _ => self.gpu.wait(stream, event),
        }
    }

    fn over(&self, event: &Self::Event) -> Result<bool> {
        Ok(self.fault == Fault::CopyCountsAsOver || self.gpu.over(event)?)
    }

    fn synchronize(&self, event: &Self::Event) -> Result<()> {
        self.gpu.synchronize(event)
    }

    fn drain(&self) -> Result<()> {
        self.gpu.drain()
    }

    unsafe fn upload(&self, from: &[u8], to: &Self::Memory, stream: Self::Stream) -> Result<()> {
        // SAFETY: the caller's word is handed on; what is planted here breaks it, which is what the test is about.
        unsafe { self.gpu.upload(from, to, stream) }
    }

    unsafe fn download(&self, from: u64, to: &mut [u8], stream: Self::Stream) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.gpu.download(from, to, stream) }
    }

    unsafe fn launch(&self, launch: &Launch, stream: Self::Stream) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.gpu.launch(launch, stream) }
    }
}

#[test]
fn each_planted_mistake_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 400);
    let options = options(8, 1);
    let wanted = wanted(&dataset, &options);
    for fault in [Fault::CopyDoesNotWait, Fault::ConsumerDoesNotWait, Fault::CopyCountsAsOver] {
        let Some(gpu) = simulated(1, 500) else { return };
        let gpu = Forgetful { gpu, fault, copies: Default::default() };
        let consumer = Consumer { kept: 0, ahead: 1, ..PLAIN };
        assert!(found(&gpu, &dataset, &options, consumer, Vec::new()) != wanted, "not found: {fault:?}");
    }
}
