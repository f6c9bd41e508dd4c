//! HDF5's filter 2: groups the bytes of elements by significance.

use std::ops::{BitOr, Shl};

/// Shuffles `input`, elements of `width` bytes, into `out`; bytes after the last element stay last.
pub(crate) fn shuffle(input: &[u8], width: usize, out: &mut Vec<u8>) {
    out.resize(input.len(), 0);
    match width {
        2 => split::<2, 2>(input, out),
        4 => split4(input, out),
        8 => split::<8, 4>(input, out),
        _ => split_from(0, input, width, out),
    }
}

/// The inverse of [`shuffle`]; `out` must have the length of `input`.
pub(crate) fn unshuffle(input: &[u8], width: usize, out: &mut [u8]) {
    match width {
        0 | 1 => out.copy_from_slice(input),
        2 => join::<2>(input, out, |[a, b], out| {
            out.iter_mut().zip(a).zip(b).for_each(|((out, a), b)| *out = [*a, *b]);
        }),
        4 => join::<4>(input, out, |[a, b, c, d], out| *out = four(a, b, c, d).map(u32::to_le_bytes)),
        8 => join::<8>(input, out, |[a, b, c, d, e, f, g, h], out| {
            *out = beside::<u32, u64>(&four(a, b, c, d), &four(e, f, g, h)).map(u64::to_le_bytes);
        }),
        _ => join_any(input, width, out),
    }
}

/// Elements per step: enough for the widest registers.
const BLOCK: usize = 64;

/// Elements of `W` bytes in parts of `P` bytes: compilers transpose [`BLOCK`] parts of up to four bytes in registers.
fn split<const W: usize, const P: usize>(input: &[u8], out: &mut [u8]) {
    let (elements, rest) = input.as_chunks::<W>();
    let (planes, tail) = out.split_at_mut(elements.len() * W);
    let mut planes = planes.chunks_exact_mut(elements.len().max(1));
    let mut planes: [&mut [u8]; W] = std::array::from_fn(|_| planes.next().unwrap_or_default());
    let (blocks, last) = elements.as_chunks::<BLOCK>();
    for (i, block) in blocks.iter().enumerate() {
        for (part, planes) in planes.chunks_mut(P).enumerate() {
            let parts = block.map(|element| element.as_chunks::<P>().0.get(part).copied().unwrap_or([0; P]));
            for (byte, plane) in planes.iter_mut().enumerate() {
                if let Some(place) = plane.get_mut(i * BLOCK..).and_then(|rest| rest.first_chunk_mut()) {
                    *place = parts.map(|bytes| bytes.get(byte).copied().unwrap_or_default());
                }
            }
        }
    }
    for (j, element) in last.iter().enumerate() {
        for (plane, byte) in planes.iter_mut().zip(element) {
            plane.get_mut(blocks.len() * BLOCK + j).into_iter().for_each(|place| *place = *byte);
        }
    }
    tail.copy_from_slice(rest);
}

/// `split::<4, 4>` in a shape that compiles to code half as fast again.
fn split4(input: &[u8], out: &mut [u8]) {
    const FEW: usize = 16;
    let count = input.len() / 4;
    let (blocks, _) = input.as_chunks::<{ 4 * FEW }>();
    let mut planes = out.chunks_exact_mut(count.max(1));
    let mut plane = || planes.next().unwrap_or_default();
    let (first, second, third, fourth) = (plane(), plane(), plane(), plane());
    let places = first.as_chunks_mut::<FEW>().0.iter_mut().zip(second.as_chunks_mut::<FEW>().0);
    let places = places.zip(third.as_chunks_mut::<FEW>().0.iter_mut().zip(fourth.as_chunks_mut::<FEW>().0));
    for (block, ((a, b), (c, d))) in blocks.iter().zip(places) {
        let mut numbers = [0; FEW];
        let elements = block.as_chunks::<4>().0.iter();
        numbers.iter_mut().zip(elements).for_each(|(number, bytes)| *number = u32::from_le_bytes(*bytes));
        *a = numbers.map(|number| number as u8);
        *b = numbers.map(|number| (number >> 8) as u8);
        *c = numbers.map(|number| (number >> 16) as u8);
        *d = numbers.map(|number| (number >> 24) as u8);
    }
    split_from(blocks.len() * FEW, input, 4, out);
}

/// Elements of `W` bytes; `block` assembles [`BLOCK`] of them from their `W` planes.
fn join<const W: usize>(input: &[u8], out: &mut [u8], block: impl Fn([&[u8; BLOCK]; W], &mut [[u8; W]; BLOCK])) {
    let count = input.len() / W;
    if count == 0 {
        return out.copy_from_slice(input);
    }
    let (planes, tail) = input.split_at(count * W);
    let (elements, rest) = out.split_at_mut(count * W);
    let planes: [&[u8]; W] =
        std::array::from_fn(|byte| planes.get(byte * count..(byte + 1) * count).unwrap_or_default());
    let (blocks, last) = elements.as_chunks_mut::<W>().0.as_chunks_mut::<BLOCK>();
    let whole = planes.map(|plane| plane.as_chunks::<BLOCK>());
    for (i, place) in blocks.iter_mut().enumerate() {
        block(whole.map(|(plane, _)| plane.get(i).unwrap_or(&[0; BLOCK])), place);
    }
    for (j, element) in last.iter_mut().enumerate() {
        *element = whole.map(|(_, part)| part.get(j).copied().unwrap_or_default());
    }
    rest.copy_from_slice(tail);
}

/// Numbers whose lower half is from `low` and upper half from `high`. Compilers vectorize this for pairs, but not for
/// four at once.
fn beside<H, N>(low: &[H; BLOCK], high: &[H; BLOCK]) -> [N; BLOCK]
where
    H: Copy,
    N: Copy + Default + From<H> + Shl<usize, Output = N> + BitOr<Output = N>,
{
    let mut out = [N::default(); BLOCK];
    for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
        *out = N::from(*low) | N::from(*high) << (8 * size_of::<H>());
    }
    out
}

fn four(a: &[u8; BLOCK], b: &[u8; BLOCK], c: &[u8; BLOCK], d: &[u8; BLOCK]) -> [u32; BLOCK] {
    beside::<u16, u32>(&beside(a, b), &beside(c, d))
}

/// The elements from `first` on, one by one, and the bytes after the last.
fn split_from(first: usize, input: &[u8], width: usize, out: &mut [u8]) {
    let count = input.len() / width.max(1);
    for (i, element) in input.chunks_exact(width.max(1)).enumerate().skip(first) {
        for (byte, from) in element.iter().enumerate() {
            if let Some(to) = out.get_mut(byte * count + i) {
                *to = *from;
            }
        }
    }
    let done = count * width.max(1);
    for (to, from) in out.iter_mut().zip(input).skip(done) {
        *to = *from;
    }
}

fn join_any(input: &[u8], width: usize, out: &mut [u8]) {
    let count = input.len() / width.max(1);
    for (i, element) in out.chunks_exact_mut(width.max(1)).enumerate() {
        for (byte, to) in element.iter_mut().enumerate() {
            *to = input.get(byte * count + i).copied().unwrap_or_default();
        }
    }
    let done = count * width.max(1);
    for (to, from) in out.iter_mut().zip(input).skip(done) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_round_trips() {
        let mut out = Vec::new();
        shuffle(&[0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24], 4, &mut out);
        assert_eq!(out, [0x11, 0x21, 0x12, 0x22, 0x13, 0x23, 0x14, 0x24]);
        for width in [1, 2, 3, 4, 5, 8, 16, 300] {
            for len in [0, 1, 7, 64, 1000, 4096, 12_345] {
                let input: Vec<u8> = (0..len).map(|i| (i * i / 7) as u8).collect();
                shuffle(&input, width, &mut out);
                let mut back = vec![0; len];
                unshuffle(&out, width, &mut back);
                assert_eq!(back, input, "width {width}, {len} bytes");
            }
        }
    }
}
