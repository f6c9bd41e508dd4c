//! HDF5's filter 2: the bytes of elements, grouped by their significance.

/// `input` shuffled into `out`, elements of `width` bytes; bytes after the last element stay last.
pub(crate) fn shuffle(input: &[u8], width: usize, out: &mut Vec<u8>) {
    out.clear();
    out.resize(input.len(), 0);
    match width {
        2 => split::<2>(input, out),
        4 => split::<4>(input, out),
        8 => split::<8>(input, out),
        _ => split_any(input, width, out),
    }
}

/// The opposite of [`shuffle`], into `out` of the same length.
pub(crate) fn unshuffle(input: &[u8], width: usize, out: &mut [u8]) {
    match width {
        2 => join::<2>(input, out),
        4 => join::<4>(input, out),
        8 => join::<8>(input, out),
        _ => join_any(input, width, out),
    }
}

/// Elements handled at once: enough for the widest registers.
const BLOCK: usize = 64;

fn split<const W: usize>(input: &[u8], out: &mut [u8]) {
    let count = input.len() / W;
    if count == 0 {
        return out.copy_from_slice(input);
    }
    let (planes, tail) = out.split_at_mut(count * W);
    let mut planes: Vec<_> = planes.chunks_exact_mut(count).map(|plane| plane.chunks_mut(BLOCK)).collect();
    for block in input.get(..count * W).unwrap_or_default().chunks(BLOCK * W) {
        for (byte, plane) in planes.iter_mut().enumerate() {
            let Some(plane) = plane.next() else { continue };
            for (to, element) in plane.iter_mut().zip(block.as_chunks::<W>().0) {
                *to = element.get(byte).copied().unwrap_or_default();
            }
        }
    }
    tail.copy_from_slice(input.get(count * W..).unwrap_or_default());
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
