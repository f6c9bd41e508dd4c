//! Compares bits, ragged rows and pieces of memory with plain loops.

use super::{Bench, Random, Runner, numbers};
use half::{bf16, f16};
use packhorse_gpu::kernels::{Bits, Element, Gathered, Pad, RaggedValues};
use packhorse_read::Gather;

/// Any number of bits, and any two values, rounded to nearest, ties to even.
pub(crate) fn check_bits(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for _ in 0..cases {
        let (rows, count) = (random.between(1, 9), u64::from(random.between(1, 67)));
        let element = random.pick(&[Element::U8, Element::F16, Element::Bf16, Element::F32]);
        let mut request = Bits::new(count, element);
        if element == Element::U8 {
            (request.zero, request.one) = (random.between(0, 255) as f32, random.between(0, 255) as f32);
        } else if !random.chance(4) {
            (request.zero, request.one) = (any_number(random), any_number(random));
        }
        let bytes = count.div_ceil(8) as usize;
        let packed = random.bytes(rows as usize * bytes);
        let mut bench = Bench::new(runner);
        let input = bench.upload_at(random.pick(&[0, 1, 3]), &packed);
        let output = bench.reserve_at(random.pick(&[0, 1]) * element.width(), request.output(rows).unwrap().bytes());
        bench.run([&request.launch(input, output, rows).unwrap()]);
        let found = bench.download(output);
        bench.finish();
        let wanted = |number: f32| match element {
            Element::U8 => vec![number as u8],
            // NaN stays NaN, with any payload.
            _ if number.is_nan() => Vec::new(),
            Element::F16 => f16::from_f32(number).to_le_bytes().to_vec(),
            Element::Bf16 => bf16::from_f32(number).to_le_bytes().to_vec(),
            _ => number.to_le_bytes().to_vec(),
        };
        for (k, found) in found.chunks(element.width()).enumerate() {
            let (row, at) = (k / count as usize, k % count as usize);
            let number = if packed[row * bytes + at / 8] >> (at % 8) & 1 != 0 { request.one } else { request.zero };
            if number.is_nan() {
                assert!(is_nan(element, found), "{request:?}, bit {at} of row {row}: {found:?}");
            } else {
                assert_eq!(found, wanted(number), "{request:?}, bit {at} of row {row}");
            }
        }
    }
}

/// Any 32 bits, and values at the limits of narrower types.
fn any_number(random: &mut Random) -> f32 {
    let near = |random: &mut Random, number: f32| {
        f32::from_bits(number.to_bits().wrapping_add(random.between(0, 4)).wrapping_sub(2))
    };
    let half = f16::from_bits(random.u64() as u16);
    let high = f32::from_bits((random.u64() as u32) << 15);
    let between = (half.to_f32() + f16::from_bits(half.to_bits() ^ 1).to_f32()) / 2.0;
    match random.below(4) {
        0 => f32::from_bits(random.u64() as u32),
        // Halfway between two 16-bit values, and next to it.
        1 => near(random, between),
        2 => near(random, high),
        _ => near(random, half.to_f32()),
    }
}

fn is_nan(element: Element, bytes: &[u8]) -> bool {
    match element {
        Element::F16 => numbers(bytes, f16::from_le_bytes)[0].is_nan(),
        Element::Bf16 => numbers(bytes, bf16::from_le_bytes)[0].is_nan(),
        _ => numbers(bytes, f32::from_le_bytes)[0].is_nan(),
    }
}

/// Rows of any lengths, some too long; and invalid offsets.
pub(crate) fn check_pad(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for case in 0..cases {
        let (width, rows) = (random.pick(&[1, 2, 4, 8]), random.between(1, 9) as usize);
        let inner = random.pick(&[1, 1, 2, 3, 5]) as usize;
        let length = random.between(1, 67) as usize;
        let pad = if random.chance(2) { 0 } else { random.u64() >> (64 - 8 * width) };
        let lengths = random.pick(&[Element::I32, Element::I64]);
        let request = Pad { width, inner: inner as u64, length: length as u64, pad, lengths };
        let mut offsets = vec![0i64];
        for _ in 0..rows {
            let next = offsets.last().unwrap() + i64::from(random.between(0, length as u32 + 5));
            offsets.push(next);
        }
        let entries = *offsets.last().unwrap() as usize;
        if random.chance(4) {
            let row = random.below(rows as u64 + 1) as usize;
            offsets[row] = random.u64() as i64;
        }
        let bytes = random.bytes(entries * inner * width);
        let mut bench = Bench::new(runner);
        let from = RaggedValues {
            values: bench.upload_at(random.pick(&[0, 1, 3]) * width, &bytes),
            entries: entries as u64,
            offsets: bench.numbers(&offsets, i64::to_le_bytes),
        };
        let output = bench.reserve(request.output(rows as u32).unwrap().bytes());
        let told = if random.chance(3) { 0 } else { bench.reserve(rows * lengths.width()) };
        bench.run([&request.launch(&from, output, told, rows as u32).unwrap()]);
        let mut wanted = Vec::new();
        let mut wanted_lengths = Vec::<u8>::new();
        for row in 0..rows {
            let begin = offsets[row].clamp(0, entries as i64);
            let end = offsets[row + 1].clamp(begin, entries as i64);
            let held = ((end - begin) as usize).min(length);
            let size = inner * width;
            wanted.extend(&bytes[begin as usize * size..(begin as usize + held) * size]);
            wanted.extend(pad.to_le_bytes()[..width].repeat((length - held) * inner));
            wanted_lengths.extend(&(held as u64).to_le_bytes()[..lengths.width()]);
        }
        assert!(bench.download(output) == wanted, "case {case}: {request:?} of {offsets:?}");
        if told != 0 {
            assert_eq!(bench.download(told), wanted_lengths);
        }
        bench.finish();
    }
}

/// Pieces of any lengths, from and to any addresses, next to one another.
pub(crate) fn check_gather(runner: &mut dyn Runner, random: &mut Random, cases: usize) {
    for case in 0..cases {
        let (rows, most) = (random.between(1, 20) as usize, random.pick(&[1, 17, 40, 300, 5000]));
        let lengths: Vec<usize> = (0..rows).map(|_| random.between(0, most) as usize).collect();
        let here = random.between(0, rows as u32) as usize;
        let start = (24 * rows).next_multiple_of(16);
        let mut bench = Bench::new(runner);
        // The pieces that come with their table, then memory of the others: all of sixteen bytes.
        let (mut values, mut others) = (Vec::new(), Vec::new());
        for (at, length) in lengths.iter().enumerate() {
            let to = if at < here { &mut values } else { &mut others };
            let skew = random.between(0, 9) as usize;
            to.extend(random.bytes(skew + length));
        }
        let padded = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(16).max(16), 0);
        padded(&mut others);
        let there = bench.upload_at(random.pick(&[0, 0, 256]), &others);
        let (mut table, mut wanted) = (Vec::new(), Vec::new());
        let (mut from_here, mut from_there) = (0, 0);
        let mut gaps = Vec::new();
        for (at, length) in lengths.iter().enumerate() {
            let (bytes, next, base) =
                if at < here { (&values, &mut from_here, start as u64) } else { (&others, &mut from_there, there) };
            // Anywhere among its bytes.
            *next = (*next).min(bytes.len() - length);
            let gap = random.pick(&[0, 0, 1, 7, 24]) as usize;
            wanted.resize(wanted.len() + gap, super::BLANK);
            gaps.push(gap);
            table.extend([base + *next as u64, wanted.len() as u64, *length as u64]);
            wanted.extend(&bytes[*next..*next + length]);
            *next += random.between(0, *length as u32) as usize;
        }
        let mut sent: Vec<u8> = table.iter().flat_map(|number| number.to_le_bytes()).collect();
        sent.resize(start, 0);
        sent.extend(&values);
        padded(&mut sent);
        let pieces = bench.upload_at(random.pick(&[0, 16]), &sent);
        let data = bench.reserve_at(random.pick(&[0, 16]), wanted.len());
        let longest = lengths.iter().max().map_or(0, |length| *length as u64);
        let gather = Gather { holder: 0, pieces: rows as u32, here: here as u32, bytes: sent.len(), longest };
        bench.run([&Gathered { pieces, data }.launch(&gather).unwrap()]);
        assert!(bench.download(data) == wanted, "case {case}: {lengths:?} after {gaps:?}, {here} here");
        bench.finish();
    }
}
