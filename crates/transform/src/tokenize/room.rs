//! What engines take up for long pieces of text, on all threads together.

use std::sync::{Condvar, Mutex, PoisonError};

/// So many bytes of text may be in long pieces that are encoded at the same time.
pub(crate) struct Room {
    most: usize,
    used: Mutex<usize>,
    freed: Condvar,
}

/// A part of the room, until it is dropped.
pub(crate) struct Place<'a> {
    room: &'a Room,
    bytes: usize,
}

impl Room {
    /// Room for `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, used: Mutex::new(0), freed: Condvar::new() }
    }

    /// Room for `bytes` bytes, or all of it where they are more, once others have left enough. The caller holds none.
    pub(crate) fn enter(&self, bytes: usize) -> Place<'_> {
        let bytes = bytes.min(self.most);
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |used: &mut usize| *used > self.most - bytes;
        let mut used = self.freed.wait_while(used, full).unwrap_or_else(PoisonError::into_inner);
        *used += bytes;
        Place { room: self, bytes }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.room.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.room.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn pieces_at_once_fit_into_the_room() {
        let (room, held, most) = (Room::new(100), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            for thread in 0..8 {
                let (room, held, most) = (&room, &held, &most);
                threads.spawn(move || {
                    for i in 0..200 {
                        let place = room.enter(1 + (i * 37 + thread * 11) % 150);
                        most.fetch_max(held.fetch_add(place.bytes, Ordering::SeqCst) + place.bytes, Ordering::SeqCst);
                        std::thread::yield_now();
                        held.fetch_sub(place.bytes, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 100 && *room.used.lock().unwrap() == 0);
    }
}
