//! Compares pictures that turn, change colours, are blurred, erased in part and mixed with a 64-bit reference.

use super::image::{compare, each, pixels};
use super::random::{at, below};
use super::{Bench, Random, Runner};
use packhorse_gpu::kernels::{
    Augment, Blur, CropPosition, Element, Erase, Flip, Image, Jitter, Mix, MixedLabels, Normalize, Rotate,
};

/// What happens to a picture.
struct Plan {
    top: u32,
    left: u32,
    flip: bool,
    factor: [f64; 4],
    order: [usize; 4],
    jittered: bool,
    gray: bool,
    /// Top, left, bottom, right.
    erased: [u32; 4],
    mixed: Mixed,
    /// The angle, in radians to the left.
    angle: Option<f64>,
    /// The standard deviation of the blur.
    sigma: Option<f64>,
}

/// What a picture has of the one before it.
enum Mixed {
    Nothing,
    /// All but this share.
    Blend(f64),
    /// Top, left, bottom, right, and the share that is left.
    Part([u32; 4], f64),
}

/// The distribution Beta(alpha, alpha), by rejection: Jöhnk up to 1, Cheng's BB above.
fn beta(key: u64, alpha: f64) -> f64 {
    for lane in (52..116).step_by(2) {
        let [u, v] = [lane, lane + 1].map(|lane| 1.0 - unit(at(key, 64 + lane)));
        if alpha <= 1.0 {
            let (x, y) = (u.powf(1.0 / alpha), v.powf(1.0 / alpha));
            if x + y <= 1.0 {
                // Both may be too small for a quotient.
                return if x + y > 1e-300 { x / (x + y) } else { f64::from(u8::from(u > v)) };
            }
        } else if u < 1.0 {
            let odds = (u / (1.0 - u)).powf(alpha.sqrt().recip());
            let w = alpha * odds;
            let bound = (alpha + alpha.sqrt()) * odds.ln() - 4f64.ln() + 2.0 * alpha * (2.0 * alpha / (alpha + w)).ln();
            if bound >= (u * u * v).ln() {
                return w / (alpha + w);
            }
        }
    }
    0.5
}

fn unit(number: u64) -> f64 {
    (number >> 11) as f64 / (1u64 << 53) as f64
}

/// The order of this number of the 24, by their definition: each picks one of those that are left.
fn order(number: u64) -> [usize; 4] {
    let mut left = vec![0, 1, 2, 3];
    let picks = [number / 6, number % 6 / 2, number % 2, 0];
    picks.map(|pick| left.remove(pick as usize))
}

impl Plan {
    fn new(augment: &Augment, key: u64) -> Self {
        let (image, jitter, erase) = (&augment.image, &augment.jitter, &augment.erase);
        let (down, across) = (image.size.0 - image.crop.0, image.size.1 - image.crop.1);
        let middle = |space: u32| (f64::from(space) / 2.0).round_ties_even() as u32;
        let drawn = |lane, most: u32| below(at(key, lane), u64::from(most) + 1) as u32;
        let (top, left) = match image.place {
            CropPosition::Drawn => (drawn(3, down), drawn(4, across)),
            _ => (middle(down), middle(across)),
        };
        let flip = matches!(image.flip, Flip::Drawn(p) if unit(at(key, 0)) < f64::from(p));
        let own = |lane: u64| unit(at(key, 64 + lane));
        let between = |lane, (from, to): (f64, f64)| from + own(lane) * (to - from);
        let ranges = [jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue];
        let factor = [0, 1, 2, 3].map(|i: usize| {
            let (from, to) = (f64::from(ranges[i].0), f64::from(ranges[i].1));
            // Drawn in 64 bits, used in 32.
            f64::from(between(i as u64, (from, to)) as f32)
        });
        let mut erased = [0; 4];
        if own(7) < f64::from(erase.probability) {
            let (height, width) = (f64::from(image.crop.0), f64::from(image.crop.1));
            for lane in (8..48).step_by(4) {
                let area = height * width * between(lane, (erase.area.0.into(), erase.area.1.into()));
                let logs = (f64::from(erase.ratio.0).ln(), f64::from(erase.ratio.1).ln());
                let ratio = between(lane + 1, logs).exp();
                let (h, w) = ((area * ratio).sqrt().round_ties_even(), (area / ratio).sqrt().round_ties_even());
                if h < height && w < width {
                    let top = drawn(64 + lane + 2, (height - h) as u32);
                    let left = drawn(64 + lane + 3, (width - w) as u32);
                    erased = [top, left, top + h as u32, left + w as u32];
                    break;
                }
            }
        }
        let (mix, (height, width)) = (&augment.mix, image.crop);
        let mixed = match own(48) < f64::from(mix.probability) && mix.is_any() {
            false => Mixed::Nothing,
            // With both, half of them.
            true if mix.cutmix > 0.0 && (mix.mixup == 0.0 || own(49) < 0.5) => {
                let half = (1.0 - beta(key, mix.cutmix.into())).sqrt() / 2.0;
                let [y, x] =
                    [(50, height), (51, width)].map(|(lane, side)| below(at(key, 64 + lane), side.into()) as i64);
                let [h, w] = [height, width].map(|side| (half * f64::from(side)) as i64);
                let part = [(y - h).max(0), (x - w).max(0), (y + h).min(height.into()), (x + w).min(width.into())];
                let area = (part[2] - part[0]) * (part[3] - part[1]);
                Mixed::Part(part.map(|side| side as u32), 1.0 - area as f64 / f64::from(height * width))
            }
            true => Mixed::Blend(beta(key, mix.mixup.into())),
        };
        let (rotate, blur) = (&augment.rotate, &augment.blur);
        let of = |lane: u64, probability: f32, (from, to): (f32, f32)| {
            let drawn = own(lane) < f64::from(probability);
            drawn.then(|| between(lane + 1, (from.into(), to.into())))
        };
        Self {
            angle: of(116, rotate.probability, rotate.degrees).map(f64::to_radians),
            sigma: of(118, blur.probability, blur.sigma).filter(|_| blur.kernel > 1),
            mixed,
            top,
            left,
            flip,
            factor,
            order: order(below(at(key, 68), 24)),
            jittered: own(5) < f64::from(jitter.probability),
            gray: own(6) < f64::from(augment.grayscale),
            erased,
        }
    }

    /// The colours of a pixel after all steps, or after those before the contrast.
    fn colors(&self, mut v: [f64; 3], mean: Option<f64>) -> [f64; 3] {
        if self.jittered {
            for step in self.order {
                let factor = self.factor[step];
                let blend = |v: [f64; 3], other: f64| v.map(|v| (factor * v + (1.0 - factor) * other).clamp(0.0, 1.0));
                v = match (step, mean) {
                    (0, _) => blend(v, 0.0),
                    (1, None) => return v,
                    (1, Some(mean)) => blend(v, mean),
                    (2, _) => blend(v, gray(v)),
                    _ => turned(v, factor),
                };
            }
        }
        if self.gray && mean.is_some() { [gray(v); 3] } else { v }
    }

    fn is_erased(&self, y: u32, x: u32) -> bool {
        let [top, left, bottom, right] = self.erased;
        (top..bottom).contains(&y) && (left..right).contains(&x)
    }
}

fn gray([r, g, b]: [f64; 3]) -> f64 {
    0.2989 * r + 0.587 * g + 0.114 * b
}

/// Turns the hue by a share of the circle: by the hexagon of HSV (A. R. Smith, "Color gamut transform pairs", 1978).
fn turned([r, g, b]: [f64; 3], by: f64) -> [f64; 3] {
    let (most, least) = (r.max(g).max(b), r.min(g).min(b));
    let spread = most - least;
    if spread == 0.0 {
        return [r, g, b];
    }
    let sixth = if most == r {
        (g - b) / spread
    } else if most == g {
        2.0 + (b - r) / spread
    } else {
        4.0 + (r - g) / spread
    };
    let hue = (sixth / 6.0 + by).rem_euclid(1.0) * 6.0;
    // The value of a channel whose full hue is `at` sixths.
    let channel = |at: f64| {
        let away = (hue - at).rem_euclid(6.0);
        let away = away.min(6.0 - away);
        most - spread * (away - 1.0).clamp(0.0, 1.0)
    };
    [channel(0.0), channel(2.0), channel(4.0)]
}

/// A picture of one crop, from 0 to 1.
struct Pixels {
    height: usize,
    width: usize,
    values: Vec<[f64; 3]>,
}

impl Pixels {
    fn at(&self, y: i64, x: i64) -> [f64; 3] {
        let inside = (0..self.height as i64).contains(&y) && (0..self.width as i64).contains(&x);
        if inside { self.values[y as usize * self.width + x as usize] } else { [0.0; 3] }
    }

    fn map(&self, of: impl Fn(i64, i64) -> [f64; 3]) -> Self {
        let places = (0..self.height).flat_map(|y| (0..self.width).map(move |x| (y as i64, x as i64)));
        Self { height: self.height, width: self.width, values: places.map(|(y, x)| of(y, x)).collect() }
    }

    /// Turned to the left around its centre: each pixel is interpolated where it comes from.
    fn turned(&self, angle: f64) -> Self {
        let (middle_y, middle_x) = ((self.height as f64 - 1.0) / 2.0, (self.width as f64 - 1.0) / 2.0);
        self.map(|y, x| {
            let (down, right) = (y as f64 - middle_y, x as f64 - middle_x);
            let from_y = middle_y + angle.cos() * down + angle.sin() * right;
            let from_x = middle_x + angle.cos() * right - angle.sin() * down;
            let mut sum = [0.0; 3];
            for (y, x) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let (y, x) = (from_y.floor() + f64::from(y), from_x.floor() + f64::from(x));
                let weight = (1.0 - (y - from_y).abs()) * (1.0 - (x - from_x).abs());
                let pixel = self.at(y as i64, x as i64);
                sum = [0, 1, 2].map(|c: usize| sum[c] + weight * pixel[c]);
            }
            sum
        })
    }

    /// The weighted mean of the pixels around each, mirrored at the borders.
    fn blurred(&self, kernel: u32, sigma: f64) -> Self {
        let radius = i64::from(kernel / 2);
        let weight = |far: i64| (-0.5 * (far as f64 / sigma).powi(2)).exp();
        let all: f64 = (-radius..=radius).map(weight).sum();
        let mirrored = |at: i64, length: usize| {
            let last = length as i64 - 1;
            last - (last - at.abs()).abs()
        };
        let mean = |pixels: &dyn Fn(i64) -> [f64; 3]| {
            (-radius..=radius).fold([0.0; 3], |sum, far| {
                let pixel = pixels(far);
                [0, 1, 2].map(|c: usize| sum[c] + weight(far) / all * pixel[c])
            })
        };
        let across = self.map(|y, x| mean(&|far| self.at(y, mirrored(x + far, self.width))));
        across.map(|y, x| mean(&|far| across.at(mirrored(y + far, self.height), x)))
    }
}

/// A random setting of the kernel.
fn request(random: &mut Random) -> Augment {
    // Sometimes of more groups of pixels than there are partial sums.
    let (least, most) = if random.chance(6) { (70, 90) } else { (1, 45) };
    let size = (random.between(least, most), random.between(least, most));
    let crop = if random.chance(2) { size } else { (random.between(1, size.0), random.between(1, size.1)) };
    let place = random.pick(&[CropPosition::Center, CropPosition::Drawn]);
    let flip = random.pick(&[Flip::Never, Flip::Drawn(0.5)]);
    let image = Image { size, channels: 3, crop, place, flip, output: pixels(random) };
    let probability = random.pick(&[0.0, 0.5, 1.0, 1.0]);
    let mut jitter =
        Jitter { probability, ..Jitter::new(random.unit(), random.unit(), random.unit(), random.unit() / 2.0) };
    match random.below(5) {
        0 => jitter.contrast = (1.0, 1.0),
        1 => jitter = Jitter { contrast: jitter.contrast, probability, ..Jitter::NONE },
        2 => jitter = Jitter { hue: jitter.hue, probability, ..Jitter::NONE },
        _ => {}
    }
    let mut erase = Erase::new(random.pick(&[0.0, 0.5, 1.0]));
    if random.chance(3) {
        erase.area = (0.3, 0.9);
    }
    let mix = Mix {
        probability: random.pick(&[0.0, 0.5, 1.0, 1.0]),
        mixup: random.pick(&[0.0, 0.2, 1.0, 4.0]),
        cutmix: random.pick(&[0.0, 0.5, 1.0, 2.0]),
    };
    let rotate = Rotate {
        probability: random.pick(&[0.0, 0.0, 0.5, 1.0]),
        degrees: random.pick(&[(-15.0, 15.0), (-180.0, 180.0), (90.0, 90.0), (0.0, 0.0), (200.0, 360.0)]),
    };
    let most = 2 * (crop.0.min(crop.1) - 1) + 1;
    let kernel = random.pick(&[3, 5, 23, 127]).min(most);
    let mut blur = Blur::new(kernel, random.pick(&[0.0, 0.0, 0.5, 1.0]));
    if random.chance(2) {
        blur.sigma = (0.05, 9.0);
    }
    Augment { image, rotate, jitter, grayscale: random.pick(&[0.0, 0.3, 1.0]), blur, erase, mix }
}

/// Any picture, any settings: every element is near the reference, and exactly 0 in erased parts.
pub(crate) fn check(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for case in 0..cases {
        let (augment, rows) = (request(random), random.between(1, 4));
        let Augment { image, .. } = augment;
        let mut bytes = random.bytes(rows as usize * (image.size.0 * image.size.1) as usize * 3);
        if random.chance(4) {
            // Grays, whose hue is not defined, and the ends of the range.
            bytes.chunks_mut(3).for_each(|pixel| pixel.fill([0, 255, 128][pixel[0] as usize % 3]));
        }
        let keys: Vec<u64> = (0..rows).map(|_| random.u64()).collect();
        let mut bench = Bench::new(runner);
        let input = bench.upload_at(random.pick(&[0, 4, 12]), &bytes);
        let at_keys = bench.numbers(&keys, u64::to_le_bytes);
        let tensor = augment.output(rows).unwrap();
        let output = bench.reserve_at(random.pick(&[0, 1, 2]) * tensor.element.width(), tensor.bytes());
        let scratch = bench.reserve(augment.scratch(rows));
        let (classes, labels) = (random.between(1, 700), bench_labels(random, rows));
        let at_labels = bench.numbers(&labels, i64::to_le_bytes);
        let targets = bench.reserve(4 * (rows * classes) as usize);
        let mixed = MixedLabels { labels: at_labels, targets, classes };
        bench.run(&augment.launches(input, at_keys, output, scratch, (rows, Some(mixed))).unwrap());
        let (found, targets) = (bench.download(output), super::numbers(&bench.download(targets), f32::from_le_bytes));
        bench.finish();
        let (h, w) = image.crop;
        let plans: Vec<Plan> = keys.iter().map(|key| Plan::new(&augment, *key)).collect();
        let made = |row: u32| {
            let plan = &plans[row as usize];
            let black = Pixels { height: h as usize, width: w as usize, values: Vec::new() };
            let pixels = black.map(|y, x| {
                let (y, x) = (y as u32, x as u32);
                let x = plan.left + if plan.flip { w - 1 - x } else { x };
                let at = 3 * ((row * image.size.0 + plan.top + y) * image.size.1 + x) as usize;
                [0, 1, 2].map(|c| f64::from(bytes[at + c]) / 255.0)
            });
            let pixels = match plan.angle {
                Some(angle) => pixels.turned(angle),
                None => pixels,
            };
            let grays = pixels.values.iter().map(|pixel| gray(plan.colors(*pixel, None)));
            let mean = grays.sum::<f64>() / f64::from(h * w);
            let colored = pixels.map(|y, x| plan.colors(pixels.at(y, x), Some(mean)));
            match plan.sigma {
                Some(sigma) => colored.blurred(augment.blur.kernel, sigma),
                None => colored,
            }
        };
        let pictures: Vec<Pixels> = (0..rows).map(made).collect();
        let bytes_out = image.output.element == Element::U8;
        // A value, and whether it is exactly 0.
        let value = |row: u32, y: u32, x: u32, c: usize| {
            let plan = &plans[row as usize];
            let erased = if bytes_out { 0.0 } else { 255.0 * f64::from(image.output.normalize.mean[c]) };
            match plan.is_erased(y, x) {
                true => (erased, true),
                false => (255.0 * pictures[row as usize].at(y.into(), x.into())[c], false),
            }
        };
        let mut place = 0;
        for row in 0..rows {
            let other = (row + rows - 1) % rows;
            let plan = &plans[row as usize];
            each(image.output.axes, (h, w), 3, |y, x, c| {
                let context = || format!("case {case}: {augment:?}, row {row} of {rows}, y {y}, x {x}, channel {c}");
                let (value, erased) = match plan.mixed {
                    Mixed::Blend(own) if rows > 1 => {
                        (own * value(row, y, x, c).0 + (1.0 - own) * value(other, y, x, c).0, false)
                    }
                    Mixed::Part([top, left, bottom, right], _)
                        if rows > 1 && (top..bottom).contains(&y) && (left..right).contains(&x) =>
                    {
                        value(other, y, x, c)
                    }
                    _ => value(row, y, x, c),
                };
                if erased {
                    let width = tensor.element.width();
                    assert!(found[place * width..][..width].iter().all(|byte| *byte == 0), "{}", context());
                } else {
                    // Of 32 bits in some steps. Near grays the hue is a quotient of small differences.
                    compare(&image.output, c, value, 2e-3, &found, place, context);
                }
                place += 1;
            });
            let own = match plan.mixed {
                Mixed::Blend(own) | Mixed::Part(_, own) if rows > 1 => own,
                _ => 1.0,
            };
            for class in 0..classes {
                let is = |row: u32| f64::from(u8::from(labels[row as usize] == i64::from(class)));
                let wanted = own * is(row) + (1.0 - own) * is(other);
                let found = f64::from(targets[(row * classes + class) as usize]);
                assert!(
                    (found - wanted).abs() < 1e-6,
                    "case {case}: {augment:?}, row {row}, class {class}: {found}, {wanted}"
                );
            }
        }
    }
}

/// Labels of which some are beyond the classes.
fn bench_labels(random: &mut Random, rows: u32) -> Vec<i64> {
    (0..rows).map(|_| i64::from(random.below(5) as i32) - 1 + i64::from(random.chance(4)) * 300).collect()
}

/// The shares of mixed pictures have the distributions that were asked for (Kolmogorov and Smirnov), and pasted parts the areas.
pub(crate) fn check_mixes(runner: &mut dyn Runner, random: &mut Random, _: usize) {
    let rows = 4000u32;
    let image = Image::new((8, 8), 3, packhorse_gpu::kernels::Pixels::BYTES);
    let bytes = vec![7; (rows * 8 * 8 * 3) as usize];
    let labels: Vec<i64> = (0..rows).map(|row| i64::from(row % 2)).collect();
    let keys: Vec<u64> = (0..rows).map(|_| random.u64()).collect();
    let mut shares = |mix: Mix| {
        let augment = Augment { mix, ..Augment::new(image) };
        let mut bench = Bench::new(runner);
        let (input, at_keys) = (bench.upload(&bytes), bench.numbers(&keys, u64::to_le_bytes));
        let (output, scratch) = (bench.reserve(bytes.len()), bench.reserve(augment.scratch(rows)));
        let (labels, targets) = (bench.numbers(&labels, i64::to_le_bytes), bench.reserve(8 * rows as usize));
        let mixed = MixedLabels { labels, targets, classes: 2 };
        bench.run(&augment.launches(input, at_keys, output, scratch, (rows, Some(mixed))).unwrap());
        let targets = super::numbers(&bench.download(targets), f32::from_le_bytes);
        bench.finish();
        targets.chunks(2).enumerate().map(|(row, both)| f64::from(both[row % 2])).collect::<Vec<f64>>()
    };
    let mixup = |alpha| Mix { probability: 1.0, mixup: alpha, cutmix: 0.0 };
    let cubic = |x: f64| x * x * (3.0 - 2.0 * x);
    let quintic = |x: f64| x * x * x * (10.0 - 15.0 * x + 6.0 * x * x);
    let distributions: [(f32, &dyn Fn(f64) -> f64); 4] =
        [(0.5, &|x| 2.0 / std::f64::consts::PI * x.sqrt().asin()), (1.0, &|x| x), (2.0, &cubic), (3.0, &quintic)];
    for (alpha, below) in distributions {
        let mut found = shares(mixup(alpha));
        found.sort_by(f64::total_cmp);
        let far = found.iter().enumerate().map(|(at, x)| (below(*x) - at as f64 / f64::from(rows)).abs());
        // Of as many draws once in 10^10 runs.
        assert!(far.fold(0.0, f64::max) < 0.055, "alpha {alpha}");
    }
    let some = shares(Mix { probability: 0.3, ..mixup(1.0) });
    let mixed = some.iter().filter(|share| **share < 1.0).count();
    assert!((1000..1400).contains(&mixed), "{mixed} of {rows} mixed");
    // Small alphas mix little; of pasted parts the border cuts off some.
    assert!(shares(mixup(0.05)).iter().filter(|share| (0.05..0.95).contains(*share)).count() < rows as usize / 6);
    let pasted = shares(Mix { probability: 1.0, mixup: 0.0, cutmix: 1.0 });
    let mean = pasted.iter().sum::<f64>() / f64::from(rows);
    assert!((0.6..0.85).contains(&mean) && pasted.iter().all(|share| (share * 64.0).fract() == 0.0), "{mean}");
}

/// Erased parts have the areas and ratios that were asked for, and settings change as many pictures as they should.
pub(crate) fn check_shares(runner: &mut dyn Runner, random: &mut Random, _: usize) {
    let (rows, side) = (600u32, 40u32);
    let output = packhorse_gpu::kernels::Pixels::normalized(Element::F32, Normalize::NONE);
    let image = Image::new((side, side), 3, output);
    let augment = Augment { grayscale: 0.25, erase: Erase::new(0.5), ..Augment::new(image) };
    let bytes: Vec<u8> = [40, 90, 200].repeat((rows * side * side) as usize);
    let keys: Vec<u64> = (0..rows).map(|_| random.u64()).collect();
    let mut bench = Bench::new(runner);
    let input = bench.upload(&bytes);
    let at_keys = bench.numbers(&keys, u64::to_le_bytes);
    let output = bench.reserve(augment.output(rows).unwrap().bytes());
    let scratch = bench.reserve(augment.scratch(rows));
    bench.run(&augment.launches(input, at_keys, output, scratch, (rows, None)).unwrap());
    let found = super::numbers(&bench.download(output), f32::from_le_bytes);
    bench.finish();
    let plane = (side * side) as usize;
    let (mut grays, mut erased) = (0, Vec::new());
    for picture in found.chunks(3 * plane) {
        let holes = picture[..plane].iter().filter(|value| **value == 0.0).count();
        erased.extend((holes > 0).then_some(holes as f64 / plane as f64));
        let kept = (0..plane).find(|at| picture[*at] != 0.0).unwrap();
        grays += usize::from(picture[kept] == picture[kept + plane]);
    }
    // Far more than five standard deviations of 600 draws.
    assert!((90..210).contains(&grays), "{grays} of {rows} gray");
    assert!((230..370).contains(&erased.len()), "{} of {rows} erased", erased.len());
    assert!(erased.iter().all(|share| (0.01..0.36).contains(share)), "{erased:?}");
    let mean = erased.iter().sum::<f64>() / erased.len() as f64;
    assert!((0.14..0.21).contains(&mean), "{mean} of the area erased");
}

/// torchvision makes the same, step by step.
pub(crate) fn check_torchvision(runner: &mut dyn Runner, random: &mut Random) {
    let Some(python) = packhorse_testkit::external::python() else { return };
    let script = "import sys\n\
        try:\n    import torch, torchvision.transforms.functional as F\n\
        except ImportError:\n    sys.exit(3)\n\
        h, w = int(sys.argv[1]), int(sys.argv[2])\n\
        picture = torch.frombuffer(bytearray(sys.stdin.buffer.read()), dtype=torch.uint8).reshape(h, w, 3).permute(2, 0, 1) / 255\n\
        for step, factor in zip(sys.argv[3::2], sys.argv[4::2]):\n\
        \x20   if step == 'gray': made = F.rgb_to_grayscale(picture, 3)\n\
        \x20   elif step == 'rotate': made = F.rotate(picture, float(factor), F.InterpolationMode.BILINEAR)\n\
        \x20   elif step == 'blur': made = F.gaussian_blur(picture, 23, float(factor))\n\
        \x20   else: made = getattr(F, 'adjust_' + step)(picture, float(factor))\n\
        \x20   sys.stdout.buffer.write(made.contiguous().numpy().tobytes())";
    let (h, w) = (29, 34);
    let bytes = random.bytes(3 * (h * w) as usize);
    let output = packhorse_gpu::kernels::Pixels::normalized(Element::F32, Normalize::NONE);
    let plain = Augment::new(Image::new((h, w), 3, output));
    let with = |change: &dyn Fn(&mut Jitter)| {
        let mut jitter = Jitter { probability: 1.0, ..Jitter::NONE };
        change(&mut jitter);
        Augment { jitter, ..plain }
    };
    let steps = [
        ("brightness", "1.4", with(&|jitter| jitter.brightness = (1.4, 1.4))),
        ("contrast", "1.7", with(&|jitter| jitter.contrast = (1.7, 1.7))),
        ("contrast", "0.2", with(&|jitter| jitter.contrast = (0.2, 0.2))),
        ("saturation", "0.3", with(&|jitter| jitter.saturation = (0.3, 0.3))),
        ("hue", "-0.3", with(&|jitter| jitter.hue = (-0.3, -0.3))),
        ("hue", "0.5", with(&|jitter| jitter.hue = (0.5, 0.5))),
        ("gray", "0", Augment { grayscale: 1.0, ..plain }),
        ("rotate", "12.5", Augment { rotate: Rotate { probability: 1.0, degrees: (12.5, 12.5) }, ..plain }),
        ("rotate", "-100", Augment { rotate: Rotate { probability: 1.0, degrees: (-100.0, -100.0) }, ..plain }),
        ("blur", "0.4", Augment { blur: Blur { sigma: (0.4, 0.4), ..Blur::new(23, 1.0) }, ..plain }),
        ("blur", "3.5", Augment { blur: Blur { sigma: (3.5, 3.5), ..Blur::new(23, 1.0) }, ..plain }),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("picture");
    std::fs::write(&file, &bytes).unwrap();
    let mut command = std::process::Command::new(&python);
    command.args(["-c", script]).args([h, w].map(|side| side.to_string()));
    command.args(steps.iter().flat_map(|(step, factor, _)| [step, factor]));
    let said = command.stdin(std::fs::File::open(&file).unwrap()).output().unwrap();
    if said.status.code() == Some(3) {
        return packhorse_testkit::external::skip("no torchvision");
    }
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    for ((step, factor, augment), wanted) in steps.iter().zip(said.stdout.chunks(4 * bytes.len())) {
        let mut bench = Bench::new(runner);
        let (input, keys) = (bench.upload(&bytes), bench.numbers(&[random.u64()], u64::to_le_bytes));
        let output = bench.reserve(augment.output(1).unwrap().bytes());
        let scratch = bench.reserve(augment.scratch(1));
        bench.run(&augment.launches(input, keys, output, scratch, (1, None)).unwrap());
        let found = super::numbers(&bench.download(output), f32::from_le_bytes);
        bench.finish();
        let wanted = super::numbers(wanted, f32::from_le_bytes);
        let most = found.iter().zip(&wanted).map(|(found, wanted)| (found - wanted).abs()).fold(0.0, f32::max);
        assert!(
            found.len() == wanted.len() && most < if *step == "rotate" { 5e-5 } else { 1e-5 },
            "{step} {factor}: {most}"
        );
    }
    assert_eq!(said.stdout.len(), steps.len() * 4 * bytes.len());
}
