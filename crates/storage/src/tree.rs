//! BLAKE3 of a file whose first bytes are known last.
//!
//! The hash is a [tree](https://github.com/BLAKE3-team/BLAKE3-specs): the chaining value of a segment
//! needs nothing but the segment. So all segments but the first are summed as they are written, and the
//! first one waits in memory until it is whole.

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use blake3::{Hash, Hasher};

/// A power of two, in bytes; the bytes that are known last lie in the first.
pub(crate) const SEGMENT: usize = 256 << 10;

/// The hash of what was written so far.
#[derive(Default)]
pub(crate) struct Tree {
    first: Vec<u8>,
    /// Of the segments after the first.
    values: Vec<ChainingValue>,
    /// The segment that is not whole yet, and how much of it there is.
    open: Hasher,
    held: usize,
}

impl Tree {
    /// Bytes up to the end of the segment.
    pub(crate) fn room(&self) -> usize {
        match self.first.len() {
            SEGMENT => SEGMENT - self.held,
            first => SEGMENT - first,
        }
    }

    /// Appends `bytes`.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let (first, mut rest) = bytes.split_at((SEGMENT - self.first.len()).min(bytes.len()));
        self.first.extend_from_slice(first);
        while !rest.is_empty() {
            if self.held == 0 {
                // A hasher that was reset is still where it was.
                self.open = Hasher::new();
                self.open.set_input_offset(((self.values.len() + 1) * SEGMENT) as u64);
            }
            let (piece, after) = rest.split_at((SEGMENT - self.held).min(rest.len()));
            self.open.update(piece);
            self.held += piece.len();
            if self.held == SEGMENT {
                self.close();
            }
            rest = after;
        }
    }

    fn close(&mut self) {
        self.values.push(self.open.finalize_non_root());
        self.held = 0;
    }

    /// The hash of all, with `head` in the place of the first bytes; `None` if that is more than was
    /// written, or than a segment.
    pub(crate) fn finish(mut self, head: &[u8]) -> Option<Hash> {
        self.first.get_mut(..head.len())?.copy_from_slice(head);
        if self.held > 0 {
            self.close();
        }
        if self.values.is_empty() {
            return Some(blake3::hash(&self.first));
        }
        self.values.insert(0, Hasher::new().update(&self.first).finalize_non_root());
        Some(root(&self.values))
    }
}

/// The hash of a file of at least two segments, all as long as each other but for the last, which may be shorter: a
/// power of two of bytes, at least 1 KiB.
pub(crate) fn root(segments: &[ChainingValue]) -> Hash {
    let (left, right) = halves(segments);
    merge_subtrees_root(&merged(left), &merged(right), Mode::Hash)
}

/// The left half is the largest power of two that leaves something for the right one.
fn halves(values: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    values.split_at(values.len().next_power_of_two() / 2)
}

fn merged(values: &[ChainingValue]) -> ChainingValue {
    match values {
        [] => ChainingValue::default(),
        [one] => *one,
        _ => {
            let (left, right) = halves(values);
            merge_subtrees_non_root(&merged(left), &merged(right), Mode::Hash)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_hash_of_the_file() {
        for len in [0, 1, 100, 1024, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT, 4 * SEGMENT, 9 * SEGMENT + 4321] {
            let mut bytes: Vec<u8> = (0..len).map(|i| (i * i / 7 + i / 300) as u8).collect();
            for piece in [7000, 1 << 20] {
                let mut tree = Tree::default();
                bytes.chunks(piece).for_each(|piece| tree.update(piece));
                let head = vec![9; len.min(64)];
                bytes[..head.len()].copy_from_slice(&head);
                assert_eq!(tree.finish(&head), Some(blake3::hash(&bytes)), "{len} bytes in pieces of {piece}");
            }
        }
        assert_eq!(Tree::default().finish(&[1]), None);
    }
}
