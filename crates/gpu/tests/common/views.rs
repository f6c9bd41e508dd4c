//! Compares pictures of kernels with those of the loader's CPU decoder with the same keys, and of Pillow.
use super::{Bench, Random, Runner, resize};
use packhorse_core::Limits;
use packhorse_gpu::kernels::{Crop, Flip, Picks, Pixels, Resize};
use packhorse_order::draw;
use packhorse_testkit::external::python;
use packhorse_transform::image::{Draws, Size, View, ViewDecoder};
use std::process::Command;

/// Height, width, and RGB.
type Picture = (u32, u32, Vec<u8>);

/// Random pictures of at least two pixels per side.
fn pictures(random: &mut Random, count: usize, most: u32) -> Vec<Picture> {
    let mut picture = |_| {
        let (height, width) = (random.between(2, most), random.between(2, most));
        (height, width, random.bytes(3 * (height * width) as usize))
    };
    (0..count).map(&mut picture).collect()
}

/// The resized pictures with these keys, as bytes in HWC order.
fn resized(runner: &mut dyn Runner, request: &Resize, pictures: &[Picture], keys: &[u64]) -> Vec<u8> {
    let rows = pictures.len() as u32;
    let mut bench = Bench::new(runner);
    let from = resize::upload(&mut bench, pictures, 3);
    let picks = Picks { keys: bench.numbers(keys, u64::to_le_bytes), ..Picks::default() };
    let output = bench.reserve(request.output(rows).unwrap().bytes());
    let scratch = bench.reserve(request.scratch(rows).unwrap());
    bench.run(&request.launch(&from, &picks, output, scratch, rows).unwrap());
    let found = bench.download(output);
    bench.finish();
    found
}

/// The largest and the mean difference of bytes at the same position.
fn difference(a: &[u8], b: &[u8]) -> (u8, f64) {
    assert_eq!(a.len(), b.len());
    let differences = || a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
    let sum: u64 = differences().map(u64::from).sum();
    (differences().max().unwrap(), sum as f64 / a.len() as f64)
}

fn png((height, width, pixels): &Picture) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, *width, *height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}

/// The device makes the same pictures as the CPU.
pub(crate) fn check_loader(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    let parts = |height, width| {
        let (scale, ratio) = ((0.08, 1.0), (0.75, 4.0 / 3.0));
        [
            (Crop::Squash, Size::Squash { height, width }),
            (Crop::Center { short: 48 }, Size::Center { short: 48, height, width }),
            (Crop::Random { scale, ratio }, Size::Random { height, width, scale, ratio }),
        ]
    };
    for case in 0..cases {
        let size = (random.between(1, 48), random.between(1, 48));
        let pictures = pictures(random, 5, 120);
        let (seed, epoch) = (random.u64(), random.below(100));
        let keys: Vec<u64> = (0..5).map(|number| draw(seed, epoch, number, 0)).collect();
        for (crop, of_view) in parts(size.0, size.1) {
            let flip = Flip::Drawn(0.5);
            let request = Resize { channels: 3, size, crop, flip, output: Pixels::BYTES };
            let found = resized(runner, &request, &pictures, &keys);
            let view = View { size: of_view, flip: 0.5, ..View::default() };
            let mut decoder = ViewDecoder::new(view, Limits::default()).unwrap();
            let each = found.chunks(3 * (size.0 * size.1) as usize);
            for ((picture, key), found) in pictures.iter().zip(&keys).zip(each) {
                let mut wanted = vec![0; found.len()];
                decoder.decode_into(&png(picture), Draws::new(*key), &mut wanted).unwrap();
                let (most, mean) = difference(found, &wanted);
                let (height, width, _) = picture;
                // The mean of few pixels is meaningless.
                let even = mean < 0.35 || found.len() < 1000;
                assert!(most <= 2 && even, "case {case}: {request:?} of {height} × {width}: {most}, {mean}");
            }
        }
    }
}

/// Compares with Pillow's bilinear filter on noise.
pub(crate) fn check_pillow(runner: &mut dyn Runner, random: &mut Random) {
    let Some(python) = python() else { return };
    let script = "import sys; from PIL import Image; h, w, th, tw = map(int, sys.argv[1:]); \
        picture = Image.frombytes('RGB', (w, h), sys.stdin.buffer.read()); \
        sys.stdout.buffer.write(picture.resize((tw, th), Image.BILINEAR).tobytes())";
    for (height, width, size) in [(67, 41, (23, 31)), (31, 29, (64, 90)), (501, 333, (7, 224)), (200, 300, (224, 224))]
    {
        let picture = (height, width, random.bytes(3 * (height * width) as usize));
        let request = Resize { channels: 3, size, crop: Crop::Squash, flip: Flip::Never, output: Pixels::BYTES };
        let found = resized(runner, &request, std::slice::from_ref(&picture), &[0]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("picture");
        std::fs::write(&file, &picture.2).unwrap();
        let sides = [height, width, size.0, size.1].map(|side| side.to_string());
        let input = std::fs::File::open(&file).unwrap();
        let output = Command::new(&python).args(["-c", script]).args(sides).stdin(input).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (most, mean) = difference(&found, &output.stdout);
        assert!(most <= 1, "{height} × {width} to {size:?}: at most {most}, {mean:.3} on average");
    }
}
