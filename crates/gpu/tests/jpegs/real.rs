//! nvJPEG on a GPU: the same pixels however it is called, how far they are from the CPU's, and how many pictures a second.

use super::*;
use packhorse_gpu::kernels::Axes;
use std::time::Instant;

/// A picture with slopes, waves and a little noise.
fn photo(seed: usize, side: usize, factor: SamplingFactor) -> Vec<u8> {
    let value = |at: usize| {
        let (y, x, c) = ((at / 3 / side) as f64, (at / 3 % side) as f64, at % 3);
        let (phase, scale) = ((seed * 7 + c * 3) as f64, side as f64);
        let wave = ((x * (2.0 + c as f64) + phase) * 9.0 / scale).sin() * ((y + phase * 5.0) * 7.0 / scale).cos();
        let noise = (draw_of(seed, at) % 9) as f64;
        (110.0 + 70.0 * wave + 40.0 * (x + y) / scale / 2.0 + noise).clamp(0.0, 255.0) as u8
    };
    let pixels: Vec<u8> = (0..3 * side * side).map(value).collect();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 90);
    encoder.set_sampling_factor(factor);
    encoder.encode(&pixels, side as u16, side as u16, ColorType::Rgb).unwrap();
    bytes
}

fn draw_of(seed: usize, at: usize) -> u64 {
    packhorse_order::draw(seed as u64, 0, at as u64, 0)
}

/// Pictures as they are decoded.
fn plainly(side: u32) -> Resize {
    let output = Pixels { element: Element::U8, axes: Axes::Hwc, normalize: Normalize::NONE };
    Resize { channels: 3, size: (side, side), part: Part::Squash, flip: Flip::Never, output }
}

/// However batches are cut into parts and whoever keeps them, pixels are those of a batch that is waited for.
pub(crate) fn is_the_same_however_it_is_called(gpu: &Cuda, dir: &Path) {
    let dataset = dataset(dir, &mixed(400));
    for backends in [vec![Backend::Hardware, Backend::Hybrid], vec![Backend::Hybrid]] {
        let calm = Request { batch: 64, epochs: 5, backends: Some(backends), ..Request::default() };
        let (jpegs, wanted) = found(gpu, &dataset, &calm);
        println!("{:?}: {:?}", jpegs.backends(), jpegs.counts());
        assert_eq!(jpegs.counts().failed, 0);
        for (memory, kept) in [(1 << 30, 3), (64 << 10, 0), (64 << 10, 3)] {
            let (_, found) = found(gpu, &dataset, &Request { memory, kept, ..calm.clone() });
            assert!(found == wanted, "{memory} {kept}");
        }
    }
}

/// How far pixels are from the CPU's.
pub(crate) fn is_near_the_cpu(gpu: &Cuda, dir: &Path) {
    let factors = [SamplingFactor::R_4_4_4, SamplingFactor::R_4_2_2, SamplingFactor::R_4_2_0];
    for (at, (name, factor)) in ["4:4:4", "4:2:2", "4:2:0"].into_iter().zip(factors).enumerate() {
        let dir = dir.join(format!("{at}"));
        std::fs::create_dir(&dir).unwrap();
        let dataset = dataset(&dir, &(0..40).map(|seed| photo(seed, 224, factor)).collect::<Vec<_>>());
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

/// Pictures a second, of 224 pixels in 256 a batch, to normalised `bf16`.
pub(crate) fn is_measured(gpu: &Cuda, dir: &Path) {
    let photos: Vec<Vec<u8>> = (0..2048).map(|seed| photo(seed % 64, 224, SamplingFactor::R_4_2_0)).collect();
    let dataset = dataset(dir, &photos);
    for backends in [vec![Backend::Hardware], vec![Backend::Hybrid], vec![]] {
        let resize = JpegOptions::new("jpg", (224, 224)).resize;
        let request = Request { resize, batch: 256, epochs: 12, backends: Some(backends), ..Request::default() };
        let (jpegs, loader) = loader(gpu, &dataset, &request);
        let stream = gpu.stream().unwrap();
        let (mut start, mut rows) = (Instant::now(), 0);
        for (step, batch) in Ahead::new(loader, 2).unwrap().enumerate() {
            let batch = batch.unwrap();
            batch.wait(stream).unwrap();
            if step == 15 {
                gpu.finish(stream).unwrap();
                start = Instant::now();
            }
            rows += if step > 15 { batch.rows() } else { 0 };
        }
        gpu.finish(stream).unwrap();
        let rate = rows as f64 / start.elapsed().as_secs_f64();
        println!("{:?}: {rate:.0} pictures/s; {:?}", request.backends(), jpegs.counts());
    }
}
