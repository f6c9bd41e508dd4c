//! Compares synthetic samples with their specification.

use super::image::{compare, each, pixels};
use super::random::{at, below};
use super::{Bench, Random, Runner, numbers};
use packhorse_gpu::kernels::{Element, Motif, Origin, SyntheticPictures, SyntheticTokens};

fn origin(random: &mut Random) -> Origin {
    Origin { seed: random.u64(), step: random.below(1 << 40), first: random.below(1 << 40) }
}

fn key(origin: &Origin, tag: &[u8; 8], row: u64) -> u64 {
    at(at(at(origin.seed, u64::from_le_bytes(*tag)), origin.step), origin.first + row)
}

/// Three glyphs of the font as pixels.
const GLYPHS: [(usize, [&str; 7]); 3] = [
    (2, [".###.", "#...#", "....#", "..##.", ".#...", "#....", "#####"]),
    (10, [".###.", "#...#", "#...#", "#####", "#...#", "#...#", "#...#"]),
    (15, ["#####", "#....", "#....", "####.", "#....", "#....", "#...."]),
];

/// The value of a channel of a pixel; `None` where it depends on a letter that is not in [`GLYPHS`].
fn letters(key: u64, dot: u32, width: u32, (y, x): (u32, u32), c: usize) -> Option<u8> {
    let byte = |word: u64, at: usize| word.to_le_bytes()[at];
    let background = byte(at(key, 0), c);
    let (wide, high) = (8 * dot, 10 * dot);
    let u = x + below(at(key, 1), wide.into()) as u32;
    let v = y + below(at(key, 2), high.into()) as u32;
    let cell = u64::from(v / high) * u64::from(width / wide + 2) + u64::from(u / wide);
    let number = at(key, 3 + cell);
    let jitter = |of: usize| u32::from(byte(number, of)) * (3 * dot + 1) / 256;
    let (Some(gx), Some(gy)) = ((u % wide).checked_sub(jitter(1)), (v % high).checked_sub(jitter(2))) else {
        return Some(background);
    };
    let (gx, gy, glyph) = (gx / dot, gy / dot, usize::from(byte(number, 0)) * 48 / 256);
    if gx >= 5 || gy >= 7 || glyph >= 36 {
        return Some(background);
    }
    let (_, lines) = GLYPHS.iter().find(|(number, _)| *number == glyph)?;
    let ink = lines[gy as usize].as_bytes()[gx as usize] == b'#';
    let colour = background.wrapping_add(96).wrapping_add((number >> (24 + 8 * c)) as u8 & 63);
    Some(if ink { colour } else { background })
}

/// Noise and letters of any kind.
pub(crate) fn check_pictures(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for case in 0..cases {
        let (rows, size) = (random.between(1, 4), (random.between(1, 67), random.between(1, 67)));
        let motif = random.pick(&[Motif::Noise, Motif::Letters { dot: 1 }, Motif::Letters { dot: 3 }]);
        let request = SyntheticPictures { motif, size, channels: random.pick(&[1, 3, 4]), output: pixels(random) };
        let origin = origin(random);
        let mut bench = Bench::new(runner);
        let output = bench.reserve(request.output(rows).unwrap().bytes());
        bench.run([&request.launch(&origin, output, rows).unwrap()]);
        let found = bench.download(output);
        bench.finish();
        let mut place = 0;
        for row in 0..u64::from(rows) {
            each(request.output.axes, size, request.channels as usize, |y, x, c| {
                let value = match motif {
                    Motif::Noise => {
                        let pixel = u64::from(y) * u64::from(size.1) + u64::from(x);
                        Some(at(key(&origin, b"noise...", row), pixel).to_le_bytes()[c])
                    }
                    Motif::Letters { dot } => letters(key(&origin, b"letters.", row), dot, size.1, (y, x), c),
                };
                if let Some(value) = value {
                    let context = || format!("case {case}: {request:?}, row {row}, y {y}, x {x}, channel {c}");
                    compare(&request.output, c, value.into(), 0.0, &found, place, context);
                }
                place += 1;
            });
        }
    }
}

/// Tokens of any type; the second half of a batch equals a batch of its own.
pub(crate) fn check_tokens(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for _ in 0..cases {
        let (rows, width) = (random.between(2, 9), random.between(1, 67));
        let (token, most) = random.pick(&[(Element::U16, 1 << 16), (Element::I32, 1 << 31), (Element::I64, 1 << 63)]);
        let vocabulary = if random.chance(3) { most } else { 1 + random.below(most) };
        let end = random.pick(&[None, Some((3, 1)), Some((7, 5))]);
        let (request, from) = (SyntheticTokens { token, width, vocabulary, end }, origin(random));
        let mut bench = Bench::new(runner);
        let bytes = request.output(rows).unwrap().bytes();
        let all = bench.reserve(bytes);
        bench.run([&request.launch(&from, all, rows).unwrap()]);
        let all = bench.download(all);
        let later = Origin { first: from.first + 1, ..from };
        let rest = bench.reserve(request.output(rows - 1).unwrap().bytes());
        bench.run([&request.launch(&later, rest, rows - 1).unwrap()]);
        assert_eq!(bench.download(rest), all[bytes / rows as usize..]);
        bench.finish();
        let found = match token {
            Element::U16 => numbers(&all, |id| i64::from(u16::from_le_bytes(id))),
            Element::I32 => numbers(&all, |id| i64::from(i32::from_le_bytes(id))),
            _ => numbers(&all, i64::from_le_bytes),
        };
        for (k, found) in found.into_iter().enumerate() {
            let (row, i) = (k as u64 / u64::from(width), k as u64 % u64::from(width));
            let number = at(key(&from, b"tokens..", row), i);
            // Subtracting STEP from the seed leaves only the generator's mixing function.
            let mixed = at(number.wrapping_sub(0x9e37_79b9_7f4a_7c15), 0);
            let wanted = match end {
                Some((end, every)) if below(mixed, every) == 0 => end,
                _ => below(number, vocabulary) as i64,
            };
            assert_eq!(found, wanted, "{request:?}, {from:?}, row {row}, token {i}");
        }
    }
}
