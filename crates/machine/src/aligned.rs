//! Memory for reads that bypass the page cache, which have to begin at a multiple of a block.

/// The largest block that a device asks for.
pub(crate) const BLOCK: usize = 4096;

/// A buffer that grows and keeps its alignment.
#[derive(Default)]
pub(crate) struct Aligned(Vec<u8>);

impl Aligned {
    /// `len` bytes that begin at a multiple of [`BLOCK`].
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        if self.0.len() < len + BLOCK {
            self.0 = vec![0; len + BLOCK];
        }
        let skip = self.0.as_ptr().align_offset(BLOCK).min(BLOCK);
        self.0.get_mut(skip..skip + len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_aligned_and_as_long_as_it_was_asked_for() {
        let mut buffer = Aligned::default();
        for len in [1, 512, BLOCK, 3 << 20, 7] {
            let room = buffer.room(len);
            assert_eq!((room.len(), room.as_ptr() as usize % BLOCK), (len, 0));
        }
    }
}
