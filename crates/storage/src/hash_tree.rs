//! BLAKE3 of a file whose first bytes are written last.
//!
//! BLAKE3 is a [tree](https://github.com/BLAKE3-team/BLAKE3-specs): the chaining value of a segment depends on that
//! segment only. So all segments but the first are hashed as they are written; the first stays in memory until it is
//! complete.

use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use blake3::{Hash, Hasher};

/// Bytes per segment, a power of two. The bytes written last lie in the first segment.
pub(crate) const SEGMENT: usize = 256 << 10;

/// The hash state.
#[derive(Default)]
pub(crate) struct HashTree {
    first: Vec<u8>,
    /// Chaining values of the segments after the first.
    values: Vec<ChainingValue>,
    /// The incomplete segment, and its length so far.
    open: Hasher,
    held: usize,
}

impl HashTree {
    /// Bytes left in the current segment.
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
                // `reset` would keep the old input offset.
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

    /// The hash of the file with `head` as its first bytes; `None` if `head` is longer than what was written, or than
    /// a segment.
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

/// The hash of a file from the chaining values of at least two segments: equal in length except for a shorter last
/// one, a power of two of at least 1 KiB.
pub(crate) fn root(segments: &[ChainingValue]) -> Hash {
    let (left, right) = halves(segments);
    merge_subtrees_root(&merged(left), &merged(right), Mode::Hash)
}

/// Splits at the largest power of two that leaves a non-empty right half.
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
                let mut tree = HashTree::default();
                bytes.chunks(piece).for_each(|piece| tree.update(piece));
                let head = vec![9; len.min(64)];
                bytes[..head.len()].copy_from_slice(&head);
                assert_eq!(tree.finish(&head), Some(blake3::hash(&bytes)), "{len} bytes in pieces of {piece}");
            }
        }
        assert_eq!(HashTree::default().finish(&[1]), None);
    }
}
