//! Compares pictures of one size with a 64-bit reference.

use super::random::{at, below};
use super::{Bench, Random, Runner, numbers};
use half::{bf16, f16};
use packhorse_gpu::kernels::{Axes, CropPosition, Element, Flip, Image, Normalize, Picks, Pixels};

/// A random setting of the kernel.
pub(crate) fn request(random: &mut Random) -> Image {
    let size = (random.between(1, 67), random.between(1, 67));
    let crop = match random.below(3) {
        0 => size,
        1 => (random.between(1, size.0), random.between(1, size.1)),
        // Widths at which four pixels are stored at once.
        _ => (random.between(1, size.0), (size.1 / 4 * 4).max(size.1.min(4))),
    };
    let place = random.pick(&[CropPosition::Center, CropPosition::Given, CropPosition::Drawn]);
    let flip = random.pick(&[Flip::Never, Flip::Given, Flip::Drawn(0.0), Flip::Drawn(0.5), Flip::Drawn(1.0)]);
    let image = Image { size, channels: random.pick(&[1, 3, 4]), crop, place, flip, output: pixels(random) };
    if random.below(4) > 0 { image } else { groups(random, image) }
}

/// The same of a size and format whose pixels are made in groups of eight.
fn groups(random: &mut Random, image: Image) -> Image {
    let size = (4 * random.between(1, 16), random.between(8, 67));
    let element = random.pick(&[Element::U8, Element::F16, Element::Bf16]);
    let crop = (random.between(1, size.0), size.1 / 8 * 8);
    let normalize = if element == Element::U8 { Normalize::NONE } else { Normalize::IMAGENET };
    let output = Pixels { axes: random.pick(&[Axes::Hwc, Axes::Chw]), ..Pixels::normalized(element, normalize) };
    Image { size, channels: 3, crop, output, ..image }
}

/// A random output format.
pub(crate) fn pixels(random: &mut Random) -> Pixels {
    let element = random.pick(&[Element::U8, Element::F16, Element::Bf16, Element::F32]);
    let normalize = match (element, random.below(3)) {
        (Element::U8, _) | (_, 0) => Normalize::NONE,
        (_, 1) => Normalize::IMAGENET,
        _ => {
            let mut four = |from: f32| [from; 4].map(|from| from + random.unit());
            Normalize { mean: four(-0.5), std: four(0.01) }
        }
    };
    Pixels { element, axes: random.pick(&[Axes::Hwc, Axes::Chw]), normalize }
}

/// The expected crop and mirroring of each picture.
struct Wanted {
    top: u32,
    left: u32,
    flip: bool,
}

/// Random keys, corners and flips per row, with their addresses.
struct Rows {
    keys: Vec<u64>,
    corners: Vec<i32>,
    flips: Vec<u8>,
}

impl Rows {
    fn new(random: &mut Random, rows: u32, image: &Image) -> Self {
        let (down, across) = (image.size.0 - image.crop.0, image.size.1 - image.crop.1);
        // Some are outside.
        let mut corner = |most: u32| random.below(u64::from(most) + 5) as i32 - 2;
        let corners = (0..rows).flat_map(|_| [corner(down), corner(across)]).collect();
        let keys = (0..rows).map(|_| random.u64()).collect();
        Self { keys, corners, flips: (0..rows).map(|_| random.pick(&[0, 1, 200])).collect() }
    }

    fn upload(&self, bench: &mut Bench<'_>, image: &Image) -> Picks {
        let keys = bench.numbers(&self.keys, u64::to_le_bytes);
        let corners = bench.numbers(&self.corners, i32::to_le_bytes);
        let flips = bench.upload(&self.flips);
        let drawn = image.place == CropPosition::Drawn || matches!(image.flip, Flip::Drawn(_));
        // Unused addresses may be 0.
        Picks {
            keys: if drawn { keys } else { 0 },
            corners: if image.place == CropPosition::Given { corners } else { 0 },
            flips: if image.flip == Flip::Given { flips } else { 0 },
        }
    }

    fn wanted(&self, image: &Image, row: usize) -> Wanted {
        let (down, across) = (image.size.0 - image.crop.0, image.size.1 - image.crop.1);
        let middle = |space: u32| (f64::from(space) / 2.0).round_ties_even() as u32;
        let drawn = |lane, most: u32| below(at(self.keys[row], lane), u64::from(most) + 1) as u32;
        let given = |at: usize, most: u32| self.corners[2 * row + at].clamp(0, most as i32) as u32;
        let (top, left) = match image.place {
            CropPosition::Center => (middle(down), middle(across)),
            CropPosition::Given => (given(0, down), given(1, across)),
            CropPosition::Drawn => (drawn(3, down), drawn(4, across)),
        };
        let flip = match image.flip {
            Flip::Never => false,
            Flip::Given => self.flips[row] != 0,
            Flip::Drawn(p) => ((at(self.keys[row], 0) >> 11) as f64 / (1u64 << 53) as f64) < f64::from(p),
        };
        Wanted { top, left, flip }
    }
}

/// Any picture, any settings: every element equals the rounded reference.
pub(crate) fn check(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for case in 0..cases {
        let (image, rows) = (request(random), random.between(1, 5));
        let channels = image.channels as usize;
        let bytes = random.bytes(rows as usize * (image.size.0 * image.size.1) as usize * channels);
        let per_row = Rows::new(random, rows, &image);
        let mut bench = Bench::new(runner);
        let input = bench.upload_at(random.pick(&[0, 4, 12]), &bytes);
        let picks = per_row.upload(&mut bench, &image);
        let tensor = image.output(rows).unwrap();
        let output = bench.reserve_at(random.pick(&[0, 0, 1, 2]) * tensor.element.width(), tensor.bytes());
        bench.run([&image.launch(input, &picks, output, rows).unwrap()]);
        let found = bench.download(output);
        bench.finish();
        let (h, w) = image.crop;
        let mut place = 0;
        for row in 0..rows as usize {
            let Wanted { top, left, flip } = per_row.wanted(&image, row);
            each(image.output.axes, (h, w), channels, |y, x, c| {
                let x = left + if flip { w - 1 - x } else { x };
                let pixel = (row as u32 * image.size.0 + top + y) * image.size.1 + x;
                let byte = bytes[pixel as usize * channels + c];
                let context = || format!("case {case}: {image:?}, row {row} of {rows}, y {y}, x {x}, channel {c}");
                compare(&image.output, c, f64::from(byte), 0.0, &found, place, context);
                place += 1;
            });
        }
    }
}

/// Calls `f(y, x, channel)` for all elements of a picture in order.
pub(crate) fn each(axes: Axes, (h, w): (u32, u32), channels: usize, mut f: impl FnMut(u32, u32, usize)) {
    let outer = if axes == Axes::Chw { channels } else { 1 };
    let inner = channels / outer;
    for a in 0..outer {
        for y in 0..h {
            for x in 0..w {
                (0..inner).for_each(|b| f(y, x, a + b));
            }
        }
    }
}

/// Asserts that element `place` is the conversion of a byte `value`, known up to `slack`.
///
/// Without slack: bit-identical to division, subtraction and division in 32 bits, rounded; and near the exact quotient,
/// within the errors of those (half a unit in the last of 24 bits each) and of rounding. With slack: within the scaled
/// slack and one more rounding.
pub(crate) fn compare(
    output: &Pixels,
    channel: usize,
    value: f64,
    slack: f64,
    found: &[u8],
    place: usize,
    context: impl Fn() -> String,
) {
    let width = output.element.width();
    let bytes = &found[place * width..(place + 1) * width];
    if output.element == Element::U8 {
        let difference = (f64::from(bytes[0]) - value).abs();
        assert!(difference <= if slack == 0.0 { 0.0 } else { 0.5 + slack }, "{bytes:?}, not {value}; {}", context());
        return;
    }
    let (mean, std) = (f64::from(output.normalize.mean[channel]), f64::from(output.normalize.std[channel]));
    let wanted = (value / 255.0 - mean) / std;
    let rounded = output.normalize.value(value as f32, channel);
    let two = || [bytes[0], bytes[1]];
    let (got, exact, rounding) = match output.element {
        Element::F16 => (
            f16::from_le_bytes(two()).to_f64(),
            f16::from_f32(rounded).to_f64(),
            wanted.abs() / 2048.0 + 2f64.powi(-25),
        ),
        Element::Bf16 => (bf16::from_le_bytes(two()).to_f64(), bf16::from_f32(rounded).to_f64(), wanted.abs() / 256.0),
        _ => (f64::from(numbers(bytes, f32::from_le_bytes)[0]), f64::from(rounded), wanted.abs() * 2f64.powi(-24)),
    };
    if slack == 0.0 {
        assert!(got.to_bits() == exact.to_bits(), "{got}, not {exact}; {}", context());
    }
    let parts = ((value / 255.0).abs() + mean.abs()) / std.abs();
    let within = (parts * 2f64.powi(-23) + rounding) * 1.001 + slack / 255.0 / std.abs();
    assert!((got - wanted).abs() <= within, "{got}, not {wanted}, by more than {within}; {}", context());
}
