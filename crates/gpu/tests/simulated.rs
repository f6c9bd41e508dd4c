//! Batches on simulated GPUs: none is lost, reordered or changed, with any consumers and streams.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure here fails the test, or is skipped with a message"
)]

#[expect(dead_code, reason = "shared by checks of kernels")]
mod common;
mod computing;
#[path = "../../read/tests/shards/mod.rs"]
#[expect(dead_code, reason = "shared by tests of the reader")]
mod shards;
mod uploads;

use packhorse_core::{Kind, Result};
use packhorse_gpu::kernels::Launch;
use packhorse_gpu::{Commands, DeviceTransform, DlDevice, Fields, Gpu, Output, Simulated, Upload};
use packhorse_read::{HostSlab, Layout, Loader};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uploads::*;

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
            let Some(gpu) = computing::simulated(seed as u64, Duration::from_micros(jitter)) else { return };
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
    // SAFETY: the launch is refused.
    #[expect(unsafe_code, reason = "a launch")]
    let refused = unsafe { gpu.launch(&launch, &gpu.stream().unwrap()) };
    assert_eq!(refused.unwrap_err().kind(), Kind::Unsupported);
    assert_eq!(batch.download("nothing").unwrap_err().kind(), Kind::Config);
}

/// Tensors keep their batch's memory until the last of them is dropped, and no longer.
#[test]
#[expect(unsafe_code, reason = "tensors are used as in C")]
fn tensors_keep_the_memory_of_their_batch() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 200);
    let options = options(8, 1);
    let wanted = wanted(&dataset, &options);
    let gpu = Simulated::with_jitter(4, Duration::from_micros(200));
    let stream = gpu.stream().unwrap();
    let upload = Upload::new(gpu.clone()).unwrap();
    let mut loader = Loader::new(dataset, &[], &options, upload).unwrap();
    let name = loader.layout().fields()[0].name.clone();
    let mut addresses = std::collections::BTreeSet::new();
    let sums: Arc<Mutex<Vec<u64>>> = Arc::default();
    for batch in loader.by_ref() {
        let batch = batch.unwrap();
        addresses.insert(batch.unordered_view(&name).unwrap().address);
        let tensors = [batch.dlpack(&name, &stream).unwrap(), batch.dlpack("cls", &stream).unwrap()];
        let (tensor, labels) = (tensors[0].tensor(), tensors[1].tensor());
        assert_eq!((labels.ndim, labels.dtype.code, labels.dtype.bits, tensor.device), (1, 0, 64, DlDevice::CPU));
        // SAFETY: shapes have as many entries as the tensor has dimensions.
        let (rows, stride) = unsafe { (*labels.shape, *labels.strides) };
        assert_eq!((rows, stride), (batch.rows() as i64, 1));
        drop(batch);
        // SAFETY: as above.
        let (data, bytes) =
            (tensor.data.expose_provenance(), unsafe { *tensor.shape } as usize * usize::from(tensor.dtype.bits) / 8);
        let sums = Arc::clone(&sums);
        gpu.run(&stream, move || {
            // SAFETY: the tensor is released after this was queued on the stream that it was made for.
            let bytes = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(data), bytes) };
            sums.lock().unwrap().push(packhorse_gpu::kernels::checksum(bytes));
        })
        .unwrap();
        let [tensor, _] = tensors;
        let raw = tensor.into_raw();
        // SAFETY: this test owns the tensor.
        unsafe { (raw.as_ref().deleter.unwrap())(raw.as_ptr()) };
    }
    gpu.drain().unwrap();
    assert!(addresses.len() <= 3, "memory is used again: {}", addresses.len());
    let wanted: Vec<u64> = wanted.iter().map(|sums| sums[0]).collect();
    assert!(*sums.lock().unwrap() == wanted);
}

/// A step that panics after the copy is queued does not free memory that the GPU uses.
#[test]
#[expect(unsafe_code, reason = "a step for the test")]
fn a_step_that_panics_frees_nothing_that_is_in_use() {
    struct Panics(std::sync::atomic::AtomicU32);
    // SAFETY: it launches nothing.
    unsafe impl DeviceTransform for Panics {
        fn outputs(&self, _: &Layout) -> Result<Vec<Output>> {
            Ok(Vec::new())
        }

        fn run(&self, _: &Fields<'_>, _: u64, _: &mut dyn Commands) -> Result<()> {
            assert!(self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 3 != 1, "planted");
            Ok(())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let gpu = Simulated::with_jitter(2, Duration::from_micros(500));
    let upload = Upload::with_transforms(gpu, vec![Arc::new(Panics(0.into()))]).unwrap();
    let mut loader = Loader::new(dataset(dir.path(), 200), &[], &options(8, 1), upload).unwrap();
    let (mut arrived, mut panics) = (0, 0);
    loop {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| loader.next())) {
            Ok(Some(batch)) => arrived += batch.map(|batch| batch.download("cls").unwrap().len() / 64).unwrap(),
            Ok(None) => break,
            Err(_) => panics += 1,
        }
    }
    assert_eq!((arrived, panics), (17, 8));
}

/// A batch that can't be sent loses its slot, and another takes its place: later copies overlap as before.
#[test]
#[expect(unsafe_code, reason = "a step for the test")]
fn slots_of_failed_batches_are_replaced() {
    struct Fails(std::sync::atomic::AtomicU32);
    // SAFETY: it launches nothing.
    unsafe impl DeviceTransform for Fails {
        fn outputs(&self, _: &Layout) -> Result<Vec<Output>> {
            Ok(Vec::new())
        }

        fn run(&self, _: &Fields<'_>, _: u64, _: &mut dyn Commands) -> Result<()> {
            let before = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if before < 5 { Err(packhorse_core::Error::content("planted")) } else { Ok(()) }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let upload = Upload::with_transforms(Simulated::new(), vec![Arc::new(Fails(0.into()))]).unwrap();
    let loader = Loader::new(dataset(dir.path(), 330), &[], &options(8, 1), upload).unwrap();
    let addresses = loader.filter_map(|batch| Some(batch.ok()?.unordered_view("cls").unwrap().address));
    let addresses: Vec<u64> = addresses.collect();
    let last: std::collections::BTreeSet<u64> = addresses[addresses.len() - 12..].iter().copied().collect();
    assert_eq!((addresses.len(), last.len()), (42 - 5, 3));
}

#[test]
fn slots_are_as_many_as_copies_and_steps_overlap() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 330);
    for (kept, slots) in [(0, 3), (1, 3), (6, 7)] {
        let gpu = Simulated::new();
        let loader = Loader::new(dataset.clone(), &[], &options(8, 1), Upload::new(gpu).unwrap()).unwrap();
        let (mut addresses, mut batches) = (std::collections::BTreeSet::new(), std::collections::VecDeque::new());
        for batch in loader {
            let batch = batch.unwrap();
            addresses.insert(batch.unordered_view("cls").unwrap().address);
            batches.push_back(batch);
            if batches.len() > kept {
                batches.pop_front();
            }
        }
        assert_eq!(addresses.len(), slots, "{kept} kept");
    }
}

/// A GPU that ignores one kind of call.
#[derive(Clone)]
struct Forgetful {
    gpu: Simulated,
    fault: Fault,
    copies: Arc<Mutex<Option<<Simulated as Gpu>::Stream>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    CopyDoesNotWait,
    ConsumerDoesNotWait,
    CopyCountsAsOver,
}

// SAFETY: violated on purpose by the planted fault.
#[expect(unsafe_code, reason = "calls are forwarded")]
unsafe impl Gpu for Forgetful {
    type Pinned = HostSlab;
    type Memory = <Simulated as Gpu>::Memory;
    type Event = <Simulated as Gpu>::Event;
    type Stream = <Simulated as Gpu>::Stream;

    fn device(&self) -> DlDevice {
        self.gpu.device()
    }

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
        self.copies.lock().unwrap().get_or_insert(stream.clone());
        Ok(stream)
    }

    fn event(&self) -> Result<Self::Event> {
        self.gpu.event()
    }

    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()> {
        self.gpu.record(event, stream)
    }

    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<()> {
        let of_copies = self.copies.lock().unwrap().as_ref() == Some(stream);
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

    fn pause(&self, time: Duration, stream: &Self::Stream) -> Result<()> {
        self.gpu.pause(time, stream)
    }

    fn drain(&self) -> Result<()> {
        self.gpu.drain()
    }

    unsafe fn upload(&self, from: &[u8], to: &Self::Memory, stream: &Self::Stream) -> Result<()> {
        if self.fault == Fault::ConsumerDoesNotWait {
            // A delay, so that missing waits show.
            self.gpu.run(stream, || std::thread::sleep(Duration::from_millis(2)))?;
        }
        // SAFETY: forwards the caller's guarantee, which the planted fault breaks on purpose.
        unsafe { self.gpu.upload(from, to, stream) }
    }

    unsafe fn download(&self, from: u64, to: &mut [u8]) -> Result<()> {
        // SAFETY: as above.
        unsafe { self.gpu.download(from, to) }
    }

    unsafe fn launch(&self, launch: &Launch, stream: &Self::Stream) -> Result<()> {
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
        let Some(gpu) = computing::simulated(1, Duration::from_micros(500)) else { return };
        let gpu = Forgetful { gpu, fault, copies: Default::default() };
        let consumer = Consumer { kept: 0, ahead: 1, ..PLAIN };
        assert!(found(&gpu, &dataset, &options, consumer, Vec::new()) != wanted, "not found: {fault:?}");
    }
}
