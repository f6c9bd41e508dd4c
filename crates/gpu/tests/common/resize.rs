//! Compares resized pictures with a 64-bit reference.

use super::image::{compare, each, pixels};
use super::random::{at, below};
use super::{Bench, Random, Runner};
use packhorse_gpu::kernels::{Crop, Flip, Picks, RaggedPictures, Resize};

/// In units of a byte: the weights have 24 bits.
const SLACK: f64 = 1e-3;

/// A picture: height, width, bytes.
type Picture = (u32, u32, Vec<u8>);

/// A random setting of the kernel.
fn request(random: &mut Random) -> Resize {
    let most = random.pick(&[5, 67]);
    let size = (random.between(1, most), random.between(1, most));
    let crop = match random.below(3) {
        0 => Crop::Squash,
        1 => Crop::Center { short: size.0.max(size.1) + random.between(0, 40) },
        _ => random_crop(random),
    };
    let flip = random.pick(&[Flip::Never, Flip::Given, Flip::Drawn(0.5)]);
    Resize { channels: random.pick(&[1, 3, 4]), size, crop, flip, output: pixels(random) }
}

fn random_crop(random: &mut Random) -> Crop {
    let mut ordered = |from: f32, to: f32| {
        let mut number = || from + random.unit() * (to - from);
        let (a, b) = (number(), number());
        (a.min(b), a.max(b))
    };
    // Sometimes aspect ratios that no try satisfies.
    Crop::Random { scale: ordered(0.05, 1.0), ratio: ordered(0.2, 5.0) }
}

/// Left, top, width and height of a crop; and whether pixels outside of it are ignored.
struct Shown {
    sides: [f64; 4],
    alone: bool,
}

fn shown(crop: Crop, (height, width): (u32, u32), (h, w): (u32, u32), key: u64) -> Shown {
    let whole = |left: u32, top: u32, w: u32, h: u32| Shown { sides: [left, top, w, h].map(f64::from), alone: true };
    match crop {
        Crop::Squash => whole(0, 0, width, height),
        Crop::Center { short } => {
            let side = |side: u32| u64::from(side) * u64::from(short) / u64::from(width.min(height));
            let (wide, high) = (side(width), side(height));
            let cut = |side: u64, target: u32| ((side - u64::from(target)) as f64 / 2.0).round_ties_even();
            let (across, down) = (f64::from(width) / wide as f64, f64::from(height) / high as f64);
            let sides = [cut(wide, w) * across, cut(high, h) * down, f64::from(w) * across, f64::from(h) * down];
            Shown { sides, alone: false }
        }
        Crop::Random { scale, ratio } => {
            let unit = |lane| (at(key, lane) >> 11) as f64 / (1u64 << 53) as f64;
            let between = |lane, from: f64, to: f64| from + unit(lane) * (to - from);
            let (least, most) = (f64::from(ratio.0), f64::from(ratio.1));
            for lane in (0..10).map(|n| 1 + 4 * n) {
                let area = f64::from(width) * f64::from(height) * between(lane, scale.0.into(), scale.1.into());
                let ratio = between(lane + 1, least.ln(), most.ln()).exp();
                let [w, h] = [area * ratio, area / ratio].map(|area| area.sqrt().round_ties_even() as u32);
                if (1..=width).contains(&w) && (1..=height).contains(&h) {
                    let up_to = |lane, last: u32| below(at(key, lane), u64::from(last) + 1) as u32;
                    return whole(up_to(lane + 3, width - w), up_to(lane + 2, height - h), w, h);
                }
            }
            let own = f64::from(width) / f64::from(height);
            let side = |side: f64, most: u32| (side.round_ties_even() as u32).clamp(1, most);
            let (w, h) = match own {
                _ if own < least => (width, side(f64::from(width) / least, height)),
                _ if own > most => (side(f64::from(height) * most, width), height),
                _ => (width, height),
            };
            whole((width - w) / 2, (height - h) / 2, w, h)
        }
    }
}

/// For each output pixel of a line, the first input pixel that it covers and the weights from there on.
fn weights(start: f64, len: f64, alone: bool, all: u32, target: u32) -> Vec<(usize, Vec<f64>)> {
    let scale = len / f64::from(target);
    let radius = scale.max(1.0);
    let (low, high) = if alone { (start, start + len) } else { (0.0, f64::from(all)) };
    (0..target)
        .map(|i| {
            let centre = start + (f64::from(i) + 0.5) * scale;
            let (from, to) = ((centre - radius).floor().max(low), (centre + radius).ceil().min(high));
            let raw = (from as usize..to as usize).map(|x| (1.0 - (x as f64 + 0.5 - centre).abs() / radius).max(0.0));
            let raw: Vec<f64> = raw.collect();
            let sum: f64 = raw.iter().sum();
            (from as usize, raw.into_iter().map(|weight| weight / sum).collect())
        })
        .collect()
}

/// The resized crop of a picture in HWC order, without rounding.
fn resampled((height, width, bytes): &Picture, request: &Resize, key: u64) -> Vec<f64> {
    let channels = request.channels as usize;
    let Shown { sides: [left, top, w, h], alone } = shown(request.crop, (*height, *width), request.size, key);
    let across = weights(left, w, alone, *width, request.size.1);
    let down = weights(top, h, alone, *height, request.size.0);
    // Horizontally first.
    let lines: Vec<f64> = (0..*height as usize)
        .flat_map(|y| {
            let line = &bytes[y * *width as usize * channels..(y + 1) * *width as usize * channels];
            across.iter().flat_map(move |(from, weights)| {
                (0..channels).map(move |c| {
                    let pixels = weights.iter().zip(*from..);
                    pixels.map(|(weight, x)| weight * f64::from(line[x * channels + c])).sum()
                })
            })
        })
        .collect();
    let stride = request.size.1 as usize * channels;
    let column = |(from, weights): &(usize, Vec<f64>), k: usize| {
        weights.iter().zip(*from..).map(|(weight, y)| weight * lines[y * stride + k]).sum()
    };
    down.iter().flat_map(|taps| (0..stride).map(|k| column(taps, k)).collect::<Vec<f64>>()).collect()
}

/// Copies pictures to a device, one after another.
pub(crate) fn upload(bench: &mut Bench<'_>, pictures: &[Picture], channels: u32) -> RaggedPictures {
    let (mut values, mut offsets, mut shapes) = (Vec::new(), vec![0], Vec::new());
    for (height, width, bytes) in pictures {
        values.extend(bytes);
        offsets.push(values.len() as i64);
        shapes.extend([*height as i32, *width as i32, channels as i32]);
    }
    RaggedPictures {
        values: bench.upload(&values),
        bytes: values.len() as u64,
        offsets: bench.numbers(&offsets, i64::to_le_bytes),
        shapes: bench.numbers(&shapes, i32::to_le_bytes),
    }
}

/// Any pictures, any settings.
pub(crate) fn check(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for case in 0..cases {
        let (request, rows) = (request(random), random.between(1, 5));
        let channels = request.channels as usize;
        let most = random.pick(&[4, 67, 67, 300]);
        let mut pictures: Vec<Picture> = (0..rows)
            .map(|_| {
                let (height, width) = (random.between(1, most), random.between(1, most));
                (height, width, random.bytes((height * width) as usize * channels))
            })
            .collect();
        // One with a wrong shape.
        let broken = random.chance(4).then(|| random.below(rows.into()) as usize);
        if let Some(row) = broken {
            pictures[row].0 += random.between(1, 1 << 30);
        }
        let keys: Vec<u64> = (0..rows).map(|_| random.u64()).collect();
        let flips: Vec<u8> = (0..rows).map(|_| random.pick(&[0, 1])).collect();
        let mut bench = Bench::new(runner);
        let from = upload(&mut bench, &pictures, request.channels);
        let picks = Picks { keys: bench.numbers(&keys, u64::to_le_bytes), flips: bench.upload(&flips), corners: 0 };
        let output = bench.reserve(request.output(rows).unwrap().bytes());
        let scratch = bench.reserve(request.scratch(rows).unwrap());
        bench.run(&request.launch(&from, &picks, output, scratch, rows).unwrap());
        let found = bench.download(output);
        bench.finish();
        let mut place = 0;
        for (row, picture) in pictures.iter().enumerate() {
            let whole = broken != Some(row);
            let wanted = if whole { resampled(picture, &request, keys[row]) } else { Vec::new() };
            let flip = whole
                && match request.flip {
                    Flip::Never => false,
                    Flip::Given => flips[row] != 0,
                    Flip::Drawn(p) => ((at(keys[row], 0) >> 11) as f64 / (1u64 << 53) as f64) < f64::from(p),
                };
            let (h, w) = request.size;
            each(request.output.axes, (h, w), channels, |y, x, c| {
                let x = if flip { w - 1 - x } else { x };
                let value = wanted.get((y * w + x) as usize * channels + c).copied().unwrap_or(0.0);
                let context = || {
                    let (height, width, _) = picture;
                    format!("case {case}: {request:?} of {height} × {width}, row {row}, y {y}, x {x}, channel {c}")
                };
                compare(&request.output, c, value, SLACK, &found, place, context);
                place += 1;
            });
        }
    }
}
