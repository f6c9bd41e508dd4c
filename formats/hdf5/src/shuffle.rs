//! HDF5's filter 2: the bytes of elements, grouped by their significance.

/// `input` shuffled into `out`, elements of `width` bytes; bytes after the last element stay last.
pub(crate) fn shuffle(input: &[u8], width: usize, out: &mut Vec<u8>) {
    // What was there before is written over.
    out.resize(input.len(), 0);
    match width {
        2 => split::<2, 2>(input, out),
        4 => split::<4, 4>(input, out),
        8 => split::<8, 4>(input, out),
        _ => split_any(input, width, out),
    }
}

/// The opposite of [`shuffle`], into `out` of the same length.
pub(crate) fn unshuffle(input: &[u8], width: usize, out: &mut [u8]) {
    match width {
        0 | 1 => out.copy_from_slice(input),
        2 => join::<2>(input, out),
        4 => join::<4>(input, out),
        8 => join::<8>(input, out),
        _ => join_any(input, width, out),
    }
}

/// Elements handled at once: enough for the widest registers.
const BLOCK: usize = 64;

/// Elements of `W` bytes, by parts of `P`: compilers turn [`BLOCK`] parts of up to four bytes around in registers.
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

fn join<const W: usize>(input: &[u8], out: &mut [u8]) {
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
    for (i, block) in blocks.iter_mut().enumerate() {
        let from: [&[u8; BLOCK]; W] = whole.map(|(plane, _)| plane.get(i).unwrap_or(&[0; BLOCK]));
        for (j, element) in block.iter_mut().enumerate() {
            *element =
                std::array::from_fn(|byte| from.get(byte).and_then(|plane| plane.get(j)).copied().unwrap_or_default());
        }
    }
    for (j, element) in last.iter_mut().enumerate() {
        *element = whole.map(|(_, part)| part.get(j).copied().unwrap_or_default());
    }
    rest.copy_from_slice(tail);
}

fn split_any(input: &[u8], width: usize, out: &mut [u8]) {
    let count = input.len() / width.max(1);
    for (i, element) in input.chunks_exact(width.max(1)).enumerate() {
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
    fn there_and_back() {
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
