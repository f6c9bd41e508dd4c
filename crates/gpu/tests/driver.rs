//! CUDA without a GPU: over a fake driver of threads that checks every use of memory; and over the real one where
//! `PACKHORSE_GPU` is set.
//!
//! Each test runs a part of this program in a child process with that driver in its path.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure here fails the test, or is skipped with a message"
)]

mod child;
#[expect(dead_code, reason = "shared by checks of kernels")]
mod common;
#[path = "../../read/tests/shards/mod.rs"]
#[expect(dead_code, reason = "shared by tests of the reader")]
mod shards;
mod slow;
mod uploads;

use child::{assert_passed, child, driver, run, said};
use packhorse_core::Kind;
use packhorse_gpu::kernels::checksum;
use packhorse_gpu::{Cuda, Gpu, Resident, Upload, View};
use packhorse_read::{Loader, LoaderOptions};
use packhorse_testkit::cuda::FakeDriver;
use std::sync::Arc;
use uploads::*;

/// The number of epochs, of about 40 batches each, that the child sends.
fn epochs() -> u64 {
    std::env::var("EPOCHS").map_or(2, |epochs| epochs.parse().unwrap())
}

fn batches() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 330);
    let options = options(8, epochs());
    let wanted = wanted(&dataset, &options);
    let gpu = Cuda::of_rank(5).unwrap();
    for consumer in [PLAIN, Consumer { ahead: 0, ..PLAIN }, Consumer { kept: 4, pause: 200, streams: 2, ahead: 3 }] {
        assert!(found(&gpu, &dataset, &options, consumer, Vec::new()) == wanted, "{consumer:?}");
    }
    ends_in_any_order(&gpu, &dataset);
}

fn plain() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 330);
    let options = options(8, epochs());
    let consumer = Consumer { pause: 2000, ..PLAIN };
    let found = found(&Cuda::new(0).unwrap(), &dataset, &options, consumer, Vec::new());
    assert!(found == wanted(&dataset, &options), "batches differ");
}

/// Batches that transforms and a consumer take their time for.
fn slow() {
    let dir = tempfile::tempdir().unwrap();
    slow::batches(&Cuda::new(0).unwrap(), &dataset(dir.path(), 330));
}

/// Batches of samples that the GPU keeps.
fn resident() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 330);
    let options = options(8, epochs());
    let gpu = Cuda::new(0).unwrap();
    let loaded = Resident::load(&gpu, &dataset, &[], &LoaderOptions { batch: 50, ..options.clone() });
    let samples = match std::env::var("FAKE_CUDA_FREE") {
        Ok(_) => {
            return println!("refused: {:?}: {}", loaded.as_ref().unwrap_err().kind(), loaded.as_ref().unwrap_err());
        }
        Err(_) => Arc::new(loaded.unwrap()),
    };
    let wanted = wanted(&dataset, &options);
    for consumer in [PLAIN, Consumer { kept: 4, pause: 200, streams: 2, ahead: 3 }] {
        let upload = Upload::resident(&samples, Vec::new()).unwrap();
        assert!(found_of(upload, &gpu, &dataset, &options, consumer) == wanted, "{consumer:?}");
    }
    // Batches keep the samples they were gathered from, and the loader needs nothing else.
    let upload = Upload::resident(&samples, Vec::new()).unwrap();
    let mut loader = Loader::new(dataset, &[], &options, upload).unwrap();
    drop(samples);
    let last: Vec<_> = loader.by_ref().take(3).map(Result::unwrap).collect();
    drop(loader);
    last.iter().for_each(|batch| assert!(batch.names().iter().all(|name| batch.download(name).is_ok())));
}

/// A failed copy is one error, and later batches succeed.
fn goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let gpu = Cuda::new(0).unwrap();
    let upload = Upload::new(gpu.clone()).unwrap();
    let loader = Loader::new(dataset(dir.path(), 330), &[], &options(8, 1), upload).unwrap();
    let stream = gpu.stream().unwrap();
    let mut errors = Vec::new();
    let mut arrived = 0;
    for batch in loader {
        match batch.and_then(|batch| batch.wait(&stream)) {
            Ok(()) => arrived += 1,
            Err(error) => errors.push(error),
        }
    }
    assert!(errors.iter().all(|error| error.kind() == Kind::Environment), "{errors:?}");
    let wanted: usize = std::env::var("ERRORS").unwrap().parse().unwrap();
    assert_eq!((arrived, errors.len()), (42 - wanted, wanted), "{errors:?}");
}

/// Threads of a framework on another GPU keep their context.
#[expect(unsafe_code, reason = "what a framework does")]
fn contexts() {
    use cudarc::driver::result;
    let gpu = Cuda::new(0).unwrap();
    // SAFETY: the GPU exists, and its context is released at the end.
    let other = unsafe { result::primary_ctx::retain(1) }.unwrap();
    // SAFETY: it was just retained.
    unsafe { result::ctx::set_current(other) }.unwrap();
    let stream = gpu.stream().unwrap();
    let event = gpu.event().unwrap();
    gpu.record(&event, &stream).unwrap();
    drop((gpu.memory(10).unwrap(), gpu.pinned(10).unwrap(), event));
    gpu.drain().unwrap();
    drop(gpu);
    assert_eq!(result::ctx::get_current().unwrap(), Some(other));
    // SAFETY: retained above.
    unsafe { result::primary_ctx::release(1) }.unwrap();
}

/// Streams of other GPUs and per-thread default streams are refused; streams that a batch waited on live as long as it.
#[expect(unsafe_code, reason = "streams by their handles")]
fn streams() {
    let dir = tempfile::tempdir().unwrap();
    let (gpu, other) = (Cuda::new(0).unwrap(), Cuda::new(1).unwrap());
    let upload = Upload::new(gpu.clone()).unwrap();
    let mut loader = Loader::new(dataset(dir.path(), 60), &[], &options(8, 1), upload).unwrap();
    let batch = loader.next().unwrap().unwrap();
    assert_eq!(batch.wait(&other.stream().unwrap()).unwrap_err().kind(), Kind::Config);
    let foreign = other.stream().unwrap();
    // SAFETY: the stream lives to the end.
    let named = |handle| unsafe { gpu.stream_from_raw(handle) };
    assert_eq!(named(foreign.handle()).unwrap_err().kind(), Kind::Config);
    assert_eq!(named(2).unwrap_err().kind(), Kind::Config);
    let own = gpu.stream().unwrap();
    for stream in [named(0).unwrap(), named(own.handle()).unwrap(), Cuda::new(0).unwrap().stream().unwrap()] {
        batch.wait(&stream).unwrap();
    }
    drop((gpu, loader, batch));
}

/// Streams of other code by their handles wait, and copies of a field are its bytes.
#[expect(unsafe_code, reason = "streams by their handles")]
fn handles() {
    let dir = tempfile::tempdir().unwrap();
    let (gpu, other) = (Cuda::new(0).unwrap(), Cuda::new(1).unwrap());
    let upload = Upload::new(gpu.clone()).unwrap();
    let mut loader = Loader::new(dataset(dir.path(), 60), &[], &options(8, 1), upload).unwrap();
    let batch = loader.next().unwrap().unwrap();
    let (own, foreign) = (gpu.stream().unwrap(), other.stream().unwrap());
    let (view, whole) = (batch.unordered_view("cls").unwrap(), batch.download("cls").unwrap());
    for handle in [own.handle(), 1, 2] {
        // SAFETY: the streams live to the end.
        unsafe { batch.wait_on_handle(handle) }.unwrap();
        // SAFETY: as above.
        let copied = unsafe { batch.copy_on_handle(&view, handle) }.unwrap();
        gpu.drain().unwrap();
        let mut bytes = vec![0; whole.len()];
        // SAFETY: the copy has these bytes, and is complete.
        unsafe { gpu.download(copied.address(), &mut bytes) }.unwrap();
        assert!(bytes == whole && copied.address() != view.address);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { batch.wait_on_handle(foreign.handle()) }.unwrap_err().kind(), Kind::Config);
    let mut part = view.clone();
    part.shape[0] -= 2;
    part.address += 16;
    assert_eq!(batch.download_view(&part).unwrap(), whole[16..]);
    for beyond in [View { address: view.address - 8, ..view.clone() }, View { shape: vec![1 << 40], ..view.clone() }] {
        assert_eq!(batch.download_view(&beyond).unwrap_err().kind(), Kind::Config);
        // SAFETY: as above.
        assert_eq!(unsafe { batch.copy_on_handle(&beyond, 1) }.unwrap_err().kind(), Kind::Config);
    }
    drop((gpu, loader, batch));
}

/// A stream that is being captured is refused, and a batch that is dropped during a capture leaves no mark in it.
#[expect(unsafe_code, reason = "what a framework does")]
fn captures() {
    use cudarc::driver::sys;
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 330);
    let options = options(8, 1);
    let wanted = wanted(&dataset, &options);
    let gpu = Cuda::new(0).unwrap();
    let loader = Loader::new(dataset, &[], &options, Upload::new(gpu.clone()).unwrap()).unwrap();
    let stream = gpu.stream().unwrap();
    let raw = stream.handle() as sys::CUstream;
    let begin = || {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: the stream is alive.
        unsafe { sys::cuStreamBeginCapture_v2(raw, mode) }.result().unwrap();
    };
    let end = || {
        let mut graph = std::ptr::null_mut();
        // SAFETY: as above.
        unsafe { sys::cuStreamEndCapture(raw, &raw mut graph) }.result().unwrap();
    };
    let names: Vec<String> = loader.layout().fields().iter().map(|field| field.name.clone()).collect();
    let (mut found, mut capturing) = (Vec::new(), false);
    for batch in loader {
        let batch = batch.unwrap();
        if capturing {
            let error = batch.wait(&stream).unwrap_err();
            assert!(error.kind() == Kind::Config && error.to_string().contains("captured into a graph"), "{error}");
            end();
        }
        batch.wait(&stream).unwrap();
        found.push(names.iter().map(|name| checksum(&batch.download(name).unwrap())).collect::<Vec<_>>());
        // Its last use can't be marked until the capture is over. Before that, the next batch is sent.
        capturing = found.len() % 5 == 1;
        if capturing {
            begin();
        }
    }
    assert!(!capturing && found == wanted, "batches differ");
}

fn refused() {
    let error = Cuda::new(std::env::var("NUMBER").map_or(0, |number| number.parse().unwrap())).unwrap_err();
    println!("refused: {:?}: {} {error}", error.kind(), error.code());
}

/// The parts that tests run in child processes.
#[test]
fn part() {
    run(&[
        ("batches", batches as fn()),
        ("plain", plain),
        ("slow", slow),
        ("resident", resident),
        ("goes_on", goes_on),
        ("contexts", contexts),
        ("streams", streams),
        ("handles", handles),
        ("captures", captures),
        ("refused", refused),
    ]);
}

/// All parts, and ten thousand batches with a slow consumer, on a real GPU; with `EPOCHS` that many of 250 batches, as fast as they
/// come.
#[test]
fn on_this_machines_gpu() {
    if std::env::var_os("PACKHORSE_GPU").is_none() {
        return packhorse_testkit::external::skip("set PACKHORSE_GPU where there is a GPU");
    }
    batches();
    slow();
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), 2_000);
    let soak = std::env::var_os("EPOCHS").is_some();
    let options = options(8, if soak { epochs() } else { 40 });
    let consumer = Consumer { kept: 2, ahead: 2, pause: if soak { 0 } else { 300 }, streams: 2 };
    let gpu = Cuda::new(0).unwrap();
    let wanted = wanted(&dataset, &options);
    assert!(found(&gpu, &dataset, &options, consumer, Vec::new()) == wanted, "batches differ");
    let samples = Arc::new(Resident::load(&gpu, &dataset, &[], &options).unwrap());
    let upload = Upload::resident(&samples, Vec::new()).unwrap();
    assert!(found_of(upload, &gpu, &dataset, &options, consumer) == wanted, "batches of resident samples differ");
    captures();
    println!("CPUs near {}: {:?}", gpu.name().unwrap(), gpu.near_cpus());
}

#[test]
fn slow_work_is_waited_for() {
    let Some(driver) = driver() else { return };
    assert_passed(&child(&driver, "slow", &[]));
    for plant in ["cuStreamWaitEvent", "cuEventRecord"] {
        let output = child(&driver, "slow", &[("FAKE_CUDA_PLANT", plant)]);
        assert!(!output.status.success(), "not found: {plant}\n{}", said(&output));
    }
}

#[test]
fn resident_samples_are_gathered() {
    let Some(driver) = driver() else { return };
    for jitter in ["0", "300"] {
        assert_passed(&child(&driver, "resident", &[("FAKE_CUDA_JITTER", jitter)]));
        let calls = driver.calls();
        for left in ["left.pinned", "left.device", "left.contexts"] {
            assert_eq!(calls.of(left), 0, "{left}");
        }
    }
    let output = child(&driver, "resident", &[("FAKE_CUDA_PLANT", "cuStreamWaitEvent"), ("FAKE_CUDA_JITTER", "500")]);
    assert!(!output.status.success(), "not found\n{}", said(&output));
    let output = child(&driver, "resident", &[("FAKE_CUDA_FREE", "1000")]);
    assert_passed(&output);
    let wanted = "refused: Limit: 330 samples take about 0.0 GB of the GPU's memory, and 0.0 GB of it are free";
    assert!(said(&output).contains(wanted), "{}", said(&output));
}

/// A batch that is gathered is one launch more than one that is sent, and a smaller copy.
#[test]
fn a_gathered_batch_has_its_budget() {
    let Some(driver) = driver() else { return };
    let [few, many] = ["3", "13"].map(|epochs| {
        assert_passed(&child(&driver, "resident", &[("EPOCHS", epochs)]));
        driver.calls()
    });
    // Two consumers, one of two streams.
    let batches = 2 * 10 * 42;
    for (name, budget) in [
        ("cuMemcpyHtoDAsync_v2", 1.0),
        ("cuEventRecord", 2.5),
        ("cuStreamWaitEvent", 3.0),
        ("cuEventQuery", 2.0),
        ("cuMemHostAlloc", 0.0),
        ("cuMemAlloc_v2", 0.0),
        ("cuEventCreate", 0.0),
    ] {
        let each = (many.of(name) as f64 - few.of(name) as f64) / f64::from(batches);
        assert!(each <= budget + 0.2, "{name}: {each} a batch, not {budget}");
    }
}

#[test]
fn the_driver_is_called_as_it_must_be() {
    let Some(driver) = driver() else { return };
    for jitter in ["0", "300"] {
        assert_passed(&child(&driver, "batches", &[("FAKE_CUDA_JITTER", jitter)]));
        let calls = driver.calls();
        for left in ["left.pinned", "left.device", "left.contexts"] {
            assert_eq!(calls.of(left), 0, "{left}");
        }
        assert!(calls.of("cuMemcpyHtoDAsync_v2") > 100);
    }
}

/// The driver calls of a batch: one copy, two records and two waits on the GPU, no wait of the host, no allocation. Whether its
/// consumer is captured is asked when that waits, and when the batch is dropped.
#[test]
fn a_batch_has_its_budget() {
    let Some(driver) = driver() else { return };
    let [few, many] = ["3", "13"].map(|epochs| {
        assert_passed(&child(&driver, "plain", &[("EPOCHS", epochs)]));
        driver.calls()
    });
    let batches = 10 * 42;
    for (name, budget) in [
        ("cuMemcpyHtoDAsync_v2", 1.0),
        ("cuEventRecord", 2.0),
        ("cuStreamWaitEvent", 2.0),
        ("cuEventQuery", 2.0),
        ("cuStreamIsCapturing", 2.0),
        ("cuEventSynchronize", 0.0),
        ("cuStreamSynchronize", 0.0),
        ("cuCtxSynchronize", 0.0),
        ("cuMemHostAlloc", 0.0),
        ("cuMemAlloc_v2", 0.0),
        ("cuEventCreate", 0.0),
        ("cuMemcpyHtoD_v2", 0.0),
    ] {
        let each = (many.of(name) as f64 - few.of(name) as f64) / f64::from(batches);
        // The scheduler of a busy machine may cause an occasional extra slab or wait.
        assert!(each <= budget + 0.2, "{name}: {each} a batch, not {budget}");
    }
}

#[test]
fn each_planted_mistake_is_found() {
    let Some(driver) = driver() else { return };
    let parts = [("cuStreamWaitEvent", "batches"), ("cuEventQuery", "batches"), ("cuEventRecord", "batches")];
    for (plant, part) in parts.into_iter().chain([("cuStreamIsCapturing", "captures")]) {
        let output = child(&driver, part, &[("FAKE_CUDA_PLANT", plant), ("FAKE_CUDA_JITTER", "500")]);
        assert!(!output.status.success(), "not found: {plant}\n{}", said(&output));
    }
}

#[test]
fn faults_of_the_driver_are_errors_and_lose_nothing_else() {
    let Some(driver) = FakeDriver::new() else { return };
    for (fail, errors) in [
        ("cuMemcpyHtoDAsync_v2:10:700", "1"),
        ("cuMemAlloc_v2:1:2", "1"),
        ("cuEventCreate:1:2", "1"),
        ("cuEventQuery:5:999", "1"),
        ("cuEventRecord:7:400", "1"),
        // A last use that can't be recorded is awaited.
        ("cuEventCreate:2:2", "0"),
        ("cuEventRecord:8:400", "0"),
    ] {
        let environment = [("FAKE_CUDA_FAIL", fail), ("FAKE_CUDA_JITTER", "100"), ("ERRORS", errors)];
        assert_passed(&child(&driver, "goes_on", &environment));
        assert_eq!(driver.calls().of("left.pinned"), 0, "{fail}");
    }
}

#[test]
fn streams_are_checked_and_kept() {
    let Some(driver) = FakeDriver::new() else { return };
    for part in ["streams", "handles", "captures"] {
        assert_passed(&child(&driver, part, &[("FAKE_CUDA_JITTER", "200")]));
        let calls = driver.calls();
        assert_eq!((calls.of("left.contexts"), calls.of("left.device"), calls.of("left.pinned")), (0, 0, 0), "{part}");
    }
}

/// A copy whose use can't be awaited is not freed.
#[test]
fn copies_in_use_are_kept() {
    let Some(driver) = FakeDriver::new() else { return };
    // The first call is the test's own, the second that of the first copy.
    assert_passed(&child(&driver, "handles", &[("FAKE_CUDA_FAIL", "cuCtxSynchronize:2:999")]));
    assert_eq!(driver.calls().of("left.device"), 1);
}

#[test]
fn threads_keep_their_context() {
    let Some(driver) = FakeDriver::new() else { return };
    assert_passed(&child(&driver, "contexts", &[]));
    assert_eq!(driver.calls().of("left.contexts"), 0);
}

#[test]
fn machines_without_a_gpu_are_told_so() {
    let Some(driver) = FakeDriver::new() else { return };
    for (environment, wanted) in [
        (("FAKE_CUDA_FAIL", "cuInit:1:100"), "the driver finds no GPU; nvidia-smi and CUDA_VISIBLE_DEVICES say"),
        (("FAKE_CUDA_FAIL", "cuInit:1:34"), "the driver does not start: libcuda.so is the stub of CUDA's toolkit"),
        (("FAKE_CUDA_FAIL", "cuInit:1:3"), "the driver does not start in a process that was forked"),
        (("FAKE_CUDA_FAIL", "cuInit:1:999"), "the driver does not start: CUDA_ERROR_999"),
    ] {
        let output = child(&driver, "refused", &[environment]);
        assert_passed(&output);
        let wanted = format!("Unsupported: gpu-failed no NVIDIA GPU can be used here: {wanted}");
        assert!(said(&output).contains(&wanted), "{}", said(&output));
    }
    for (environment, wanted) in [
        (("NUMBER", "2"), "Config: bad-request there is no GPU 2: there are 2"),
        (("FAKE_CUDA_FAIL", "cuDevicePrimaryCtxRetain:1:2"), "Environment: io-failed use the GPU: memory is used up"),
    ] {
        let output = child(&driver, "refused", &[environment]);
        assert_passed(&output);
        assert!(said(&output).contains(wanted), "{}", said(&output));
    }
    if std::env::var_os("PACKHORSE_GPU").is_none() {
        // On any machine this does not panic.
        let outcome = Cuda::new(0);
        assert!(outcome.is_ok() || outcome.is_err_and(|error| error.kind() == Kind::Unsupported));
    }
}
