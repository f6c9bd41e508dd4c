//! The checksum of HDF5's metadata: Bob Jenkins' lookup3 (`hashlittle` with initial value 0).

/// `hashlittle(bytes, 0)`.
pub(crate) fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = bytes;
    while rest.len() > 12 {
        let (head, tail) = rest.split_at(12);
        let [x, y, z] = words(head);
        (a, b, c) = mix(a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z));
        rest = tail;
    }
    if rest.is_empty() {
        return c;
    }
    let [x, y, z] = words(rest);
    finish(a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z))
}

/// Up to twelve bytes as three little-endian words, padded with zeros.
fn words(bytes: &[u8]) -> [u32; 3] {
    let mut words = [0u32; 3];
    for (word, part) in words.iter_mut().zip(bytes.chunks(4)) {
        *word = part.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    words
}

fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    (a, b, c)
}

fn finish(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_test_vectors() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
