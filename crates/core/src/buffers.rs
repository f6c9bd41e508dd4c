//! Memory that is used again.

use arrow_buffer::{Buffer, MutableBuffer};
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// Smaller buffers are made anew: the allocator has them at hand.
const SMALL: usize = 64 << 10;

/// The most bytes that lie idle.
const IDLE: usize = 64 << 20;

/// Buffers for what is read and decoded. Those which are given out come back when the last array that views them is
/// dropped, and serve once more: fresh memory costs as much as the reading, since the system clears each of its pages
/// and maps it when it is first written to. At most 64 MiB lie idle.
#[derive(Debug, Default)]
pub struct Buffers(Mutex<Vec<MutableBuffer>>);

impl Buffers {
    /// `len` bytes, aligned for any element. `fill` writes all of them: before, they are whatever they held last.
    pub fn filled<E>(self: &Arc<Self>, len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Buffer, E> {
        if len < SMALL {
            let mut bytes = MutableBuffer::from_len_zeroed(len);
            return fill(&mut bytes).map(|()| bytes.into());
        }
        let bytes = self.fitting(len).unwrap_or_else(|| MutableBuffer::from_len_zeroed(len));
        let mut lent = Lent { bytes, len, home: Arc::clone(self) };
        fill(lent.bytes.get_mut(..len).unwrap_or_default())?;
        Ok(Bytes::from_owner(lent).into())
    }

    /// The smallest idle buffer of at least `len` bytes, unless more than half of it would be wasted.
    fn fitting(&self, len: usize) -> Option<MutableBuffer> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |(_, bytes): &(usize, &MutableBuffer)| (len..=len.saturating_mul(2)).contains(&bytes.len());
        let (place, _) = idle.iter().enumerate().filter(fits).min_by_key(|(_, bytes)| bytes.len())?;
        Some(idle.swap_remove(place))
    }

    /// Keeps `bytes` for the next who needs as many; those that lie longest make room for it.
    fn put_back(&self, bytes: MutableBuffer) {
        if bytes.len() > IDLE / 2 {
            return;
        }
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(bytes);
        while idle.iter().map(|bytes| bytes.len()).fold(0, usize::saturating_add) > IDLE {
            idle.remove(0);
        }
    }
}

/// A buffer in use.
struct Lent {
    bytes: MutableBuffer,
    /// How much of it is in use.
    len: usize,
    home: Arc<Buffers>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.put_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(buffers: &Arc<Buffers>, len: usize, byte: u8) -> Buffer {
        let fill = |bytes: &mut [u8]| {
            bytes.fill(byte);
            Ok::<(), ()>(())
        };
        buffers.filled(len, fill).unwrap()
    }

    fn idle(buffers: &Buffers) -> Vec<usize> {
        buffers.0.lock().unwrap().iter().map(|bytes| bytes.len()).collect()
    }

    #[test]
    fn what_is_dropped_is_used_again_and_what_is_viewed_is_not() {
        let buffers = Arc::new(Buffers::default());
        let first = of(&buffers, 1 << 20, 1);
        let view = first.slice_with_length(7, 2);
        drop(first);
        assert!(idle(&buffers).is_empty());
        let second = of(&buffers, 1 << 20, 2);
        assert_eq!(view.as_slice(), [1, 1]);
        drop(view);
        assert_eq!(idle(&buffers), [1 << 20]);
        let third = of(&buffers, 600 << 10, 3);
        assert!(idle(&buffers).is_empty());
        assert_eq!((third.len(), third.iter().all(|byte| *byte == 3)), (600 << 10, true));
        assert!(second.iter().all(|byte| *byte == 2));
    }

    #[test]
    fn little_wastes_no_large_buffer_and_idle_ones_are_bounded() {
        let buffers = Arc::new(Buffers::default());
        drop(of(&buffers, 1 << 20, 1));
        drop((of(&buffers, 400 << 10, 1), of(&buffers, 100, 1)));
        assert_eq!(idle(&buffers), [1 << 20, 400 << 10]);
        let many: Vec<Buffer> = (0..9).map(|_| of(&buffers, 10 << 20, 1)).collect();
        drop(many);
        assert_eq!(idle(&buffers), [10 << 20; 6]);
        drop(of(&buffers, 40 << 20, 1));
        assert_eq!(idle(&buffers), [10 << 20; 6]);
    }

    #[test]
    fn a_buffer_that_could_not_be_filled_comes_back() {
        let buffers = Arc::new(Buffers::default());
        assert_eq!(buffers.filled(1 << 20, |_| Err("cut short")), Err("cut short"));
        assert_eq!(idle(&buffers), [1 << 20]);
    }
}
