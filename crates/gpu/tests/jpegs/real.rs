//! nvJPEG on a GPU: the same pixels with any batches, the difference to the CPU's, and pictures per second.

use super::*;
use packhorse_gpu::kernels::Axes;
use std::time::Instant;

/// A picture with gradients, waves and a little noise.
fn photo(seed: usize, (width, height): (usize, usize), change: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) -> Vec<u8> {
    let value = |at: usize| {
        let (y, x, c) = ((at / 3 / width) as f64, (at / 3 % width) as f64, at % 3);
        let (phase, scale) = ((seed * 7 + c * 3) as f64, width.max(height) as f64);
        let wave = ((x * (2.0 + c as f64) + phase) * 9.0 / scale).sin() * ((y + phase * 5.0) * 7.0 / scale).cos();
        let noise = (draw_of(seed, at) % 9) as f64;
        (110.0 + 70.0 * wave + 40.0 * (x + y) / scale / 2.0 + noise).clamp(0.0, 255.0) as u8
    };
    let pixels: Vec<u8> = (0..3 * width * height).map(value).collect();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 90);
    change(&mut encoder);
    encoder.encode(&pixels, width as u16, height as u16, ColorType::Rgb).unwrap();
    bytes
}

/// Pictures of many sizes, every fifth progressive.
fn photos(many: usize) -> Vec<Vec<u8>> {
    let one = |seed: usize| {
        photo(seed, (96 + seed * 37 % 301, 96 + seed * 53 % 257), |encoder| {
            encoder.set_progressive(seed % 5 == 4);
            encoder.set_sampling_factor(FACTORS[seed % 3].1);
        })
    };
    (0..many).map(one).collect()
}

const FACTORS: [(&str, SamplingFactor); 3] =
    [("4:4:4", SamplingFactor::R_4_4_4), ("4:2:2", SamplingFactor::R_4_2_2), ("4:2:0", SamplingFactor::R_4_2_0)];

fn draw_of(seed: usize, at: usize) -> u64 {
    packhorse_order::draw(seed as u64, 0, at as u64, 0)
}

/// Settings that change no pixels of pictures of this size.
fn plainly(side: u32) -> Resize {
    let output = Pixels { element: Element::U8, axes: Axes::Hwc, normalize: Normalize::NONE };
    Resize { channels: 3, size: (side, side), crop: Crop::Squash, flip: Flip::Never, output }
}

/// Pixels of the hardware do not depend on the parts that batches are decoded in, nor on consumers that keep batches. Those of
/// multiprocessors do not depend on the latter, and by the parts they differ little: nvJPEG decodes large batches another way.
pub(crate) fn is_the_same_however_it_is_called(gpu: &Cuda, dir: &Path) {
    let dataset = dataset(dir, &photos(400));
    let mut wrong = Vec::new();
    for backends in [vec![Backend::Hardware, Backend::Hybrid], vec![Backend::Hybrid]] {
        let calm = Request {
            batch: 64,
            epochs: 5,
            backends: Some(backends.clone()),
            resize: plainly(96),
            ..Request::default()
        };
        let (jpegs, wanted) = found(gpu, &dataset, &calm);
        println!("{:?}: {:?}", jpegs.backends(), jpegs.counts());
        let failed = jpegs.counts().failed;
        for (memory, kept, calls) in
            [(1 << 30, 0, 1), (1 << 30, 3, 1), (2 << 20, 0, 1), (1 << 30, 0, 4), (1 << 30, 3, 4), (2 << 20, 3, 4)]
        {
            let (jpegs, found) = found(gpu, &dataset, &Request { memory, kept, calls, ..calm.clone() });
            let sizes = |batches: &[Vec<u8>]| batches.iter().map(Vec::len).collect::<Vec<_>>();
            assert_eq!(sizes(&found), sizes(&wanted));
            let both = found.iter().flatten().zip(wanted.iter().flatten());
            let (mut other, mut most) = (0u64, 0);
            for (found, wanted) in both {
                other += u64::from(found != wanted);
                most = most.max(found.abs_diff(*wanted));
            }
            let failed = failed + jpegs.counts().failed;
            println!(
                "{backends:?}, lanes of {memory}, {kept} kept, {calls} calls: {other} values differ, by at most {most}"
            );
            let hybrid = backends == [Backend::Hybrid] && memory < 1 << 30;
            if most > if hybrid { 3 } else { 0 } || failed > 0 {
                wrong.push(format!("{backends:?} {memory} {kept} {calls}: {most}, {failed} failed"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The difference of pixels to the CPU's.
pub(crate) fn is_near_the_cpu(gpu: &Cuda, dir: &Path) {
    for (at, (name, factor)) in FACTORS.into_iter().enumerate() {
        let dir = dir.join(format!("{at}"));
        std::fs::create_dir(&dir).unwrap();
        let dataset = dataset(
            &dir,
            &(0..40)
                .map(|seed| photo(seed, (224, 224), |encoder| encoder.set_sampling_factor(factor)))
                .collect::<Vec<_>>(),
        );
        for backend in [Backend::Hardware, Backend::Hybrid] {
            let request = Request { resize: plainly(224), backends: Some(vec![backend]), ..Request::default() };
            let (jpegs, found) = found(gpu, &dataset, &request);
            let wanted = wanted(gpu, &dataset, &request, &decoded);
            let both = found.iter().flatten().zip(wanted.iter().flatten());
            let (mut most, mut sum, mut all) = (0, 0u64, 0u64);
            for (found, wanted) in both {
                let difference = found.abs_diff(*wanted);
                most = most.max(difference);
                sum += u64::from(difference);
                all += 1;
            }
            let mean = sum as f64 / all as f64;
            println!("{name} {backend:?}: at most {most} of 255, {mean:.3} in the mean; {:?}", jpegs.counts());
            assert!(mean < 2.0 && jpegs.counts().cpu == 0, "{name} {backend:?}");
        }
    }
}

/// Pictures per second, at 224 pixels and 256 per batch, to normalised `bf16`.
pub(crate) fn is_measured(gpu: &Cuda, dir: &Path) {
    let few: Vec<Vec<u8>> =
        (0..64).map(|seed| photo(seed, (224, 224), |encoder| encoder.set_sampling_factor(FACTORS[2].1))).collect();
    let dataset = dataset(dir, &(0..2048).map(|at| few[at % 64].clone()).collect::<Vec<_>>());
    for (backends, share, calls) in [
        (vec![], 0.0, 1),
        (vec![Backend::Hardware], 0.0, 1),
        (vec![Backend::Hardware], 0.0, 4),
        (vec![Backend::Hardware], 0.0, 8),
        (vec![Backend::Hybrid], 0.0, 1),
        (vec![Backend::Hybrid], 0.0, 4),
        (vec![Backend::Hardware], 0.3, 4),
        (vec![Backend::Hybrid], 0.3, 4),
    ] {
        let resize = JpegOptions::new("jpg", (224, 224)).resize;
        let request =
            Request { resize, batch: 512, epochs: 24, backends: Some(backends), share, calls, ..Request::default() };
        let (jpegs, loader) = loader(gpu, &dataset, &request);
        let stream = gpu.stream().unwrap();
        let (mut start, mut rows, mut spent, mut busy) = (Instant::now(), 0, 0.0, 0.0f64);
        for (step, batch) in Ahead::new(loader, 2).unwrap().enumerate() {
            let batch = batch.unwrap();
            batch.wait(&stream).unwrap();
            if step == 15 {
                gpu.drain_stream(&stream).unwrap();
                (start, spent) = (Instant::now(), seconds_of("packhorse-ahead"));
            }
            rows += if step > 15 { batch.rows() } else { 0 };
            busy = seconds_of("packhorse-ahead").max(busy);
        }
        gpu.drain_stream(&stream).unwrap();
        let time = start.elapsed().as_secs_f64();
        let (rate, busy) = (rows as f64 / time, 100.0 * (busy - spent) / time);
        println!(
            "{:?}, {calls} calls, {share} by the CPU: {rate:.0} pictures/s, the calling thread busy {busy:.0} %; {:?}",
            request.backends(),
            jpegs.counts()
        );
    }
}

/// The processor time of a thread of this process, by its name.
fn seconds_of(name: &str) -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let ticks = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        let (before, after) = stat.rsplit_once(')')?;
        let times: Vec<f64> = after.split(' ').skip(12).take(2).map(|ticks| ticks.parse().unwrap_or(0.0)).collect();
        before.ends_with(&name[..name.len().min(15)]).then(|| times.iter().sum::<f64>())
    });
    ticks.sum::<f64>() / 100.0
}
