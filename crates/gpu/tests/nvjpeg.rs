//! Decodes JPEGs without a GPU: over fake libraries of nvJPEG and the driver that check every use of memory; and over
//! the real ones where `PACKHORSE_GPU` is set.
//!
//! Each test runs a part of this program in a child process with those libraries in its path.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failure here fails the test, or is skipped with a message"
)]

mod child;
#[expect(dead_code, reason = "shared by checks of kernels")]
mod common;
mod jpegs;
#[path = "../../read/tests/shards/mod.rs"]
#[expect(dead_code, reason = "shared by tests of the reader")]
mod shards;

use child::{child, driver, run, said};
use jpegs::*;
use packhorse_core::Kind;
use packhorse_gpu::kernels::Normalize;
use packhorse_gpu::{Backend, Cuda, JpegCounts, Jpegs, NvJpeg};
use packhorse_testkit::cuda::FakeDriver;
use std::process::Output;

/// Asserts that a child passed and freed everything.
fn assert_passed(driver: &FakeDriver, output: &Output) {
    child::assert_passed(output);
    let calls = driver.calls();
    for left in ["left.pinned", "left.device", "left.contexts", "left.nvjpeg"] {
        assert_eq!(calls.of(left), 0, "{left}");
    }
}

/// The parts that tests run in child processes.
#[test]
fn part() {
    run(&[
        ("pictures", pictures as fn()),
        ("fallbacks", fallbacks),
        ("one_fails", one_fails),
        ("hardware_fails", hardware_fails),
        ("share", share),
        ("calls", calls),
        ("side_by_side", side_by_side),
        ("parts", parts),
        ("steady", steady),
        ("bad_pictures", bad_pictures),
        ("absent", absent),
        ("goes_on", goes_on),
        ("refused", refused),
    ]);
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().unwrap())
}

/// All kinds of pictures, with consumers that keep batches or don't, in lanes that hold a batch, one picture or two.
fn pictures() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), &mixed(90));
    let gpu = Cuda::new(0).unwrap();
    for (memory, kept) in [(1 << 30, 0), (1 << 30, 3), (8 << 10, 3)] {
        let request = Request { memory, kept, ..Request::default() };
        let (jpegs, found) = found(&gpu, &dataset, &request);
        assert!(found == wanted(&gpu, &dataset, &request, &pretended), "{memory} {kept}");
        println!("{:?}", jpegs.counts());
    }
}

/// The environment gives the number of pictures that the CPU decodes in the end.
fn fallbacks() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), &mixed(40));
    let gpu = Cuda::new(0).unwrap();
    let request = Request { kept: 2, ..Request::default() };
    let (jpegs, found) = found(&gpu, &dataset, &request);
    assert!(found == wanted(&gpu, &dataset, &request, &decoded));
    let JpegCounts { hardware, hybrid, cpu, failed } = jpegs.counts();
    assert_eq!((hardware, hybrid, cpu), (0, 0, 40));
    assert_eq!(failed > 0, number("FAILED").unwrap() > 0);
}

/// If nvJPEG fails at one picture, the CPU decodes all pictures of the call, after the work that it queued has
/// finished.
fn one_fails() {
    let dir = tempfile::tempdir().unwrap();
    let mut pictures = plain(64);
    for at in [3, 30, 50] {
        pictures[at] = broken(&pictures[at]);
    }
    let dataset = dataset(dir.path(), &pictures);
    let gpu = Cuda::new(0).unwrap();
    let request = Request { kept: 2, ..Request::default() };
    let (jpegs, found) = found(&gpu, &dataset, &request);
    let counts = jpegs.counts();
    println!("{counts:?}");
    // Each fails on hardware, then on multiprocessors.
    let batches = counts.failed / 2;
    assert!(batches > 1);
    let cpu = 8 * batches;
    assert_eq!(counts, JpegCounts { hardware: 64 - cpu, cpu, hybrid: 0, failed: 2 * batches });
    let right = wanted(&gpu, &dataset, &request, &pretended);
    let by_cpu = wanted(&gpu, &dataset, &request, &decoded);
    let (mut usual, mut other) = (0, 0);
    for (at, batch) in found.iter().enumerate() {
        usual += u64::from(*batch == right[at]);
        other += u64::from(*batch == by_cpu[at]);
    }
    assert_eq!((usual, other), (8 - batches, batches));
}

/// If the hardware fails once, the multiprocessors decode.
fn hardware_fails() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), &plain(64));
    let gpu = Cuda::new(0).unwrap();
    let (jpegs, found) = found(&gpu, &dataset, &Request::default());
    assert!(found == wanted(&gpu, &dataset, &Request::default(), &pretended));
    assert_eq!(jpegs.counts(), JpegCounts { hardware: 56, hybrid: 8, cpu: 0, failed: 1 });
}

/// The CPU decodes its share of the pictures, whatever the engines do meanwhile.
fn share() {
    let dir = tempfile::tempdir().unwrap();
    let gpu = Cuda::new(0).unwrap();
    let mut pictures = plain(64);
    for (share, broken_one) in [(0.5, false), (0.25, false), (1.0, false), (0.5, true)] {
        if broken_one {
            pictures[20] = broken(&pictures[20]);
        }
        let dir = dir.path().join(format!("{share}-{broken_one}"));
        std::fs::create_dir(&dir).unwrap();
        let dataset = dataset(&dir, &pictures);
        let request = Request { share, kept: 2, ..Request::default() };
        let (jpegs, found) = found(&gpu, &dataset, &request);
        let all = [wanted(&gpu, &dataset, &request, &pretended), wanted(&gpu, &dataset, &request, &decoded)];
        let row = 9 * 12 * 3 * 4;
        let mut of_cpu = 0;
        for (at, batch) in found.iter().enumerate() {
            for (number, picture) in batch.chunks(row).enumerate() {
                let [engine, cpu] = [0, 1].map(|who| &all[who][at][number * row..][..row] == picture);
                assert!(engine || cpu, "picture {number} of batch {at}");
                of_cpu += u64::from(cpu);
            }
        }
        let counts = jpegs.counts();
        println!("{share}: {counts:?}");
        // The other four pictures of that batch are decoded by the CPU too, after both backends have failed.
        let more = if broken_one { 4 } else { 0 };
        assert_eq!((counts.cpu, counts.hardware), ((64.0 * share) as u64 + more, 64 - (64.0 * share) as u64 - more));
        assert_eq!((of_cpu, counts.failed), (counts.cpu, if broken_one { 2 } else { 0 }));
    }
}

/// Large batches are decoded by several calls side by side, by hardware and by multiprocessors; if one of them fails, the pictures of
/// all go to the next.
fn calls() {
    let dir = tempfile::tempdir().unwrap();
    let gpu = Cuda::new(0).unwrap();
    let mut pictures = plain(660);
    for failed in [0, 2] {
        let dir = dir.path().join(format!("{failed}"));
        std::fs::create_dir(&dir).unwrap();
        if failed > 0 {
            pictures[200] = broken(&pictures[200]);
        }
        let dataset = dataset(&dir, &pictures);
        for (memory, backends) in [
            (1 << 30, vec![Backend::Hardware, Backend::Hybrid]),
            (1 << 30, vec![Backend::Hybrid]),
            (200 << 10, vec![Backend::Hardware, Backend::Hybrid]),
        ] {
            let backends = Some(backends);
            let request = Request { memory, kept: 1, batch: 330, calls: 7, epochs: 2, backends, ..Request::default() };
            let (jpegs, found) = found(&gpu, &dataset, &request);
            let [right, by_cpu] =
                [&pretended as &dyn Fn(&[u8]) -> Decoded, &decoded].map(|how| wanted(&gpu, &dataset, &request, how));
            let counts = jpegs.counts();
            println!("{counts:?}");
            assert_eq!(counts.hardware + counts.hybrid + counts.cpu, 2 * 660);
            assert_eq!((counts.failed > 0, counts.cpu > 0), (failed > 0, failed > 0));
            let rows = |batches: &[Vec<u8>]| {
                batches.iter().flat_map(|batch| batch.chunks(9 * 12 * 3 * 4).map(<[u8]>::to_vec)).collect::<Vec<_>>()
            };
            let mut of_cpu = 0;
            for ((found, right), by_cpu) in rows(&found).iter().zip(&rows(&right)).zip(&rows(&by_cpu)) {
                assert!(found == right || found == by_cpu);
                of_cpu += u64::from(found == by_cpu);
            }
            assert_eq!(of_cpu, counts.cpu);
        }
    }
}

/// Four batches of one size: the fake library's calls tell how many there were for each.
fn side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), &plain(660));
    let request = Request { batch: 330, calls: 4, epochs: 2, ..Request::default() };
    let (jpegs, _) = found(&Cuda::new(0).unwrap(), &dataset, &request);
    assert_eq!(jpegs.counts(), JpegCounts { hardware: 2 * 660, ..JpegCounts::default() });
}

/// Detects only lanes that are reused too early: batches are decoded in many parts, and each batch is checked before
/// the next is sent.
fn parts() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), &plain(64));
    let gpu = Cuda::new(0).unwrap();
    let request = Request { memory: 8 << 10, ..Request::default() };
    let (jpegs, found) = found(&gpu, &dataset, &request);
    assert!(found == wanted(&gpu, &dataset, &request, &pretended));
    assert_eq!(jpegs.counts(), JpegCounts { hardware: 64, ..JpegCounts::default() });
}

/// Batches of one size, all decoded by hardware.
fn steady() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(dir.path(), &plain(64));
    let gpu = Cuda::new(0).unwrap();
    let request = Request { epochs: number("EPOCHS").unwrap(), kept: 1, ..Request::default() };
    found(&gpu, &dataset, &request);
}

/// Bad pictures are errors that name them, and later batches succeed.
fn bad_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let good = plain(40);
    let bad: [(&str, Vec<u8>); 6] = [
        ("is empty", Vec::new()),
        ("is cut short", good[9][..good[9].len() * 3 / 5].to_vec()),
        ("is not a known image", b"plain text, say".to_vec()),
        ("is a JPEG without a picture", b"\xff\xd8\xff\xd9".to_vec()),
        ("has no pixels", resized(&good[9], 0, 8)),
        ("over the limit", resized(&good[9], 60_000, 60_000)),
    ];
    let gpu = Cuda::new(0).unwrap();
    for (at, (why, bad)) in bad.into_iter().enumerate() {
        let mut pictures = good.clone();
        pictures[9] = bad;
        let dir = dir.path().join(format!("{at}"));
        std::fs::create_dir(&dir).unwrap();
        let (good, errors) = outcomes(&gpu, &dataset(&dir, &pictures));
        assert_eq!((good, errors.len()), (4, 1), "{why}");
        let text = errors[0].to_string();
        assert!(text.contains("s00-0009") && text.contains("field jpg") && text.contains(why), "{text}");
        assert!(matches!(errors[0].kind(), Kind::Content | Kind::Limit), "{text}");
    }
}

/// A missing optional picture is black.
fn absent() {
    let dir = tempfile::tempdir().unwrap();
    let mut pictures = plain(20);
    pictures[5].clear();
    let gpu = Cuda::new(0).unwrap();
    let request = Request { optional: true, ..Request::default() };
    let (_, found) = found(&gpu, &dataset(dir.path(), &pictures), &request);
    let black = Normalize::IMAGENET.value(0.0, 0).to_le_bytes();
    let rows = found.iter().flat_map(|batch| batch.chunks(9 * 12 * 3 * 4));
    assert_eq!(rows.filter(|row| row[..4] == black && row[4..8] == black).count(), 1);
}

/// The environment gives the number of GPU errors.
fn goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (good, errors) = outcomes(&Cuda::new(0).unwrap(), &dataset(dir.path(), &mixed(80)));
    println!("{errors:?}");
    assert!(errors.iter().all(|error| error.kind() == Kind::Environment));
    let wanted = number("ERRORS").unwrap() as usize;
    assert_eq!((good, errors.len()), (10 - wanted, wanted));
}

fn refused() {
    let gpu = Cuda::new(0).unwrap();
    let request = Request::default();
    let made = NvJpeg::load(None).and_then(|library| {
        let backends = std::env::var("HARDWARE").map_or(request.backends(), |_| vec![Backend::Hardware]);
        Jpegs::new(&gpu, &library, packhorse_gpu::JpegOptions { backends, ..request.options() })
    });
    let error = made.unwrap_err();
    println!("refused: {:?}: {error}", error.kind());
}

/// The tests that run on a real GPU with the real library.
#[test]
fn on_this_machines_gpu() {
    if std::env::var_os("PACKHORSE_GPU").is_none() {
        return packhorse_testkit::external::skip(
            "set PACKHORSE_GPU where there is a GPU, and PACKHORSE_NVJPEG if nvJPEG is not found",
        );
    }
    let gpu = Cuda::new(0).unwrap();
    println!("{} {:?}", gpu.name().unwrap(), NvJpeg::load(None).unwrap());
    for check in [real::is_measured, real::is_near_the_cpu, real::is_the_same_however_it_is_called] {
        check(&gpu, tempfile::tempdir().unwrap().path());
    }
}

/// The real library has all functions, and reports an error without a GPU.
#[test]
#[expect(unsafe_code, reason = "a library is loaded and called")]
fn the_real_library_can_be_called() {
    let Some(path) = std::env::var_os("PACKHORSE_TEST_NVJPEG") else {
        return packhorse_testkit::external::skip("say in PACKHORSE_TEST_NVJPEG where libnvjpeg.so.12 is");
    };
    let library = NvJpeg::load(Some(path.as_ref())).unwrap();
    println!("{library:?}");
    assert!(library.version().unwrap()[0] >= 12);
    if std::env::var_os("PACKHORSE_GPU").is_none() {
        type Create = unsafe extern "C" fn(i32, usize, usize, u32, *mut usize) -> i32;
        let mut handle = 0;
        // SAFETY: `nvjpegCreateEx` has this type, with pointers as integers; it is already loaded.
        let status = unsafe {
            let library = libloading::Library::new(path).unwrap();
            let create = *library.get::<Create>("nvjpegCreateEx").unwrap();
            std::mem::forget(library);
            create(3, 0, 0, 0, &raw mut handle)
        };
        println!("without a GPU: {status}");
        assert!((1..=10).contains(&status));
    }
}

#[test]
fn pictures_of_all_kinds_arrive_decoded() {
    let Some(driver) = driver() else { return };
    for (environment, wanted) in [
        (("FAKE_CUDA_JITTER", "0"), "hardware: 47, hybrid: 12, cpu: 31, failed: 0"),
        (("FAKE_CUDA_JITTER", "400"), "hardware: 47, hybrid: 12, cpu: 31, failed: 0"),
        (("FAKE_NVJPEG_ENGINES", "0"), "hardware: 0, hybrid: 59, cpu: 31, failed: 0"),
        (("FAKE_NVJPEG_STRICT", "0"), "hardware: 47, hybrid: 12, cpu: 31, failed: 0"),
    ] {
        let output = child(&driver, "pictures", &[environment]);
        assert_passed(&driver, &output);
        assert!(said(&output).contains(wanted), "{environment:?}\n{}", said(&output));
    }
}

#[test]
fn batches_are_shared_among_calls_and_the_cpu() {
    let Some(driver) = driver() else { return };
    for jitter in ["0", "500"] {
        for part in ["share", "calls"] {
            assert_passed(&driver, &child(&driver, part, &[("FAKE_CUDA_JITTER", jitter)]));
        }
        let output = child(&driver, "side_by_side", &[("FAKE_CUDA_JITTER", jitter)]);
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(driver.calls().of("nvjpegDecodeBatched"), 4 * 4);
    }
}

#[test]
fn what_nvjpeg_fails_at_the_cpu_decodes() {
    let Some(driver) = driver() else { return };
    let statuses = [1, 2, 3, 4, 6, 7, 8, 9, 10, 77];
    let decode = statuses.map(|status| (format!("nvjpegDecodeBatched:0:{status}"), "1"));
    let others = ["DecodeBatchedInitialize:0:8", "JpegStreamParse:0:10", "JpegStreamGetFrameDimensions:0:2"];
    let failed = ["1", "0", "0"];
    let others = others.iter().zip(failed).map(|(other, failed)| (format!("nvjpeg{other}"), failed));
    for (fail, failed) in decode.into_iter().chain(others) {
        let output = child(&driver, "fallbacks", &[("FAKE_NVJPEG_FAIL", &fail), ("FAILED", failed)]);
        assert_passed(&driver, &output);
    }
    // Pictures whose header nvJPEG reads differently are decoded by the CPU: their pixels would not fit.
    assert_passed(&driver, &child(&driver, "fallbacks", &[("FAKE_NVJPEG_SIZE", "1"), ("FAILED", "0")]));
}

#[test]
fn what_nvjpeg_fails_at_takes_its_batch_along() {
    let Some(driver) = driver() else { return };
    for jitter in ["0", "500", "20000"] {
        assert_passed(&driver, &child(&driver, "one_fails", &[("FAKE_CUDA_JITTER", jitter)]));
    }
}

#[test]
fn what_hardware_fails_at_multiprocessors_decode() {
    let Some(driver) = driver() else { return };
    for fail in ["nvjpegDecodeBatched:1:6", "nvjpegDecodeBatched:4:3", "nvjpegDecodeBatchedInitialize:1:2"] {
        let environment = [("FAKE_NVJPEG_FAIL", fail), ("FAKE_CUDA_JITTER", "200")];
        assert_passed(&driver, &child(&driver, "hardware_fails", &environment));
    }
}

#[test]
fn bad_pictures_are_errors_that_name_them() {
    let Some(driver) = driver() else { return };
    assert_passed(&driver, &child(&driver, "bad_pictures", &[("FAKE_CUDA_JITTER", "100")]));
    assert_passed(&driver, &child(&driver, "absent", &[]));
}

#[test]
fn faults_of_the_gpu_are_errors_and_lose_nothing_else() {
    let Some(driver) = driver() else { return };
    for (variable, fail, errors) in [
        ("FAKE_NVJPEG_FAIL", "nvjpegDecodeBatched:3:5", "1"),
        ("FAKE_CUDA_FAIL", "cuMemcpyHtoDAsync_v2:5:700", "1"),
        ("FAKE_CUDA_FAIL", "cuLaunchKernel:4:700", "1"),
        ("FAKE_CUDA_FAIL", "cuMemAlloc_v2:4:2", "1"),
        // Of the second slot: the first one does.
        ("FAKE_CUDA_FAIL", "cuMemAlloc_v2:7:2", "0"),
        ("FAKE_CUDA_FAIL", "cuEventRecord:9:400", "1"),
    ] {
        let output = child(&driver, "goes_on", &[(variable, fail), ("FAKE_CUDA_JITTER", "100"), ("ERRORS", errors)]);
        assert!(output.status.success() && said(&output).contains(" passed\n"), "{fail}\n{}", said(&output));
        assert_eq!(driver.calls().of("left.pinned"), 0, "{fail}");
    }
}

#[test]
fn each_planted_mistake_is_found() {
    let Some(driver) = driver() else { return };
    for (test, plant, busy) in [
        // Bytes are returned to the loader before they are read.
        ("pictures", "cuEventQuery", "0"),
        // Slots are written while they are read, and read before they are written.
        ("pictures", "cuEventRecord", "0"),
        // Lanes are reused too early: their states, and without checks of those, their memory.
        ("parts", "cuEventSynchronize", "0"),
        ("parts", "cuEventSynchronize", "1"),
    ] {
        let environment = [("FAKE_CUDA_PLANT", plant), ("FAKE_NVJPEG_BUSY", busy), ("FAKE_CUDA_JITTER", "500")];
        let output = child(&driver, test, &environment);
        assert!(!output.status.success(), "not found: {test} {plant}\n{}", said(&output));
        println!("{plant}: {}", said(&output).lines().take(5).collect::<Vec<_>>().join("\n"));
        driver.calls();
    }
    assert_passed(&driver, &child(&driver, "parts", &[("FAKE_CUDA_JITTER", "500")]));
}

/// JPEGs add to the cost of a batch one call of nvJPEG, one copy, two records (of the lane, and between copy and transforms) and
/// one wait of the host (for a lane last used two batches before), and no allocations or handles.
#[test]
fn a_batch_has_its_budget() {
    let Some(driver) = driver() else { return };
    let [few, many] = ["3", "13"].map(|epochs| {
        let output = child(&driver, "steady", &[("EPOCHS", epochs)]);
        assert!(output.status.success(), "{}", said(&output));
        driver.calls()
    });
    let batches = 10.0 * 8.0;
    for (name, budget) in [
        ("nvjpegDecodeBatched", 1.0),
        ("nvjpegDecodeBatchedInitialize", 0.0),
        ("nvjpegJpegStateCreate", 0.0),
        ("nvjpegJpegStreamParse", 8.0),
        ("cuMemcpyHtoDAsync_v2", 2.0),
        ("cuLaunchKernel", 3.0),
        ("cuEventRecord", 4.0),
        ("cuEventCreate", 0.0),
        ("cuMemHostAlloc", 0.0),
        ("cuMemAlloc_v2", 0.0),
        ("cuCtxSynchronize", 0.0),
    ] {
        let each = (many.of(name) as f64 - few.of(name) as f64) / batches;
        assert!(each <= budget + 0.05, "{name}: {each} a batch, not {budget}");
    }
}

#[test]
fn machines_without_nvjpeg_are_told_so() {
    let Some(driver) = driver() else { return };
    for (environment, wanted) in [
        (&[("PACKHORSE_NVJPEG", "/nowhere/libnvjpeg.so.12")][..], "Unsupported: JPEGs can't be decoded on the GPU"),
        (&[("PACKHORSE_NVJPEG", "libc.so.6")], "it has no nvjpegGetProperty; install nvidia-nvjpeg-cu12"),
        (
            &[("FAKE_NVJPEG_ENGINES", "0"), ("HARDWARE", "1")],
            "Unsupported: this GPU does not decode JPEGs by hardware (NVJPEG_STATUS_ARCH_MISMATCH)",
        ),
        (&[("FAKE_NVJPEG_FAIL", "nvjpegCreateEx:0:1")], "Environment: start nvJPEG: NVJPEG_STATUS_NOT_INITIALIZED (1)"),
        (&[("FAKE_NVJPEG_FAIL", "nvjpegCreateEx:2:5")], "Environment: start nvJPEG: memory is used up"),
        (&[("FAKE_NVJPEG_FAIL", "nvjpegJpegStreamCreate:2:8")], "Environment: start nvJPEG's parser"),
        (&[("FAKE_NVJPEG_FAIL", "nvjpegJpegStateCreate:3:8")], "Environment: make a state of nvJPEG"),
    ] {
        let output = child(&driver, "refused", environment);
        assert_passed(&driver, &output);
        assert!(said(&output).contains(wanted), "{}", said(&output));
    }
}
