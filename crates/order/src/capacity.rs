//! Open bins by the space they have left, with a bitset of the spaces in use.

use crate::array::room;
use packhorse_core::Result;

/// No bin.
const NONE: u32 = u32::MAX;

/// Bins that are not full, as a stack of bins for each remaining space.
pub(crate) struct Capacities {
    capacity: u32,
    /// The top bin of each remaining space, or `NONE`.
    top: Vec<u32>,
    /// The bin below each bin in its stack.
    below: Vec<u32>,
    /// Bit `r % 64` of word `r / 64`: some bin has space `r` left.
    rooms: Vec<u64>,
    /// Bit `w % 64` of word `w / 64`: word `w` of `rooms` is not zero.
    words: Vec<u64>,
}

impl Capacities {
    /// No bins yet, and never more than `bins`.
    pub(crate) fn new(capacity: u32, bins: u64) -> Result<Self> {
        let mut top = room(u64::from(capacity) + 1, "open bins")?;
        top.resize(capacity as usize + 1, NONE);
        let rooms = vec![0; top.len().div_ceil(64)];
        let words = vec![0; rooms.len().div_ceil(64)];
        Ok(Self { capacity, top, below: room(bins, "open bins")?, rooms, words })
    }

    /// The number of bins opened so far.
    pub(crate) fn opened(&self) -> u32 {
        self.below.len() as u32
    }

    /// Puts a piece into the bin with the least sufficient space (the one filled last, of several) or into a new bin.
    #[inline]
    pub(crate) fn put(&mut self, length: u32) -> u32 {
        let (bin, space) = match self.least(length) {
            Some(space) => (self.pop(space), space),
            None => {
                self.below.push(NONE);
                (self.opened() - 1, self.capacity)
            }
        };
        if space > length {
            self.push(space - length, bin);
        }
        bin
    }

    /// The least space of any bin that is at least `length`.
    #[inline]
    fn least(&self, length: u32) -> Option<u32> {
        let word = length / 64;
        let here = self.rooms.get(word as usize)? & u64::MAX << (length % 64);
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros());
        }
        let after = word + 1;
        let mut mask = u64::MAX << (after % 64);
        for (at, words) in self.words.iter().enumerate().skip(after as usize / 64) {
            if words & mask != 0 {
                let word = at as u32 * 64 + (words & mask).trailing_zeros();
                return Some(word * 64 + self.rooms.get(word as usize)?.trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }

    #[inline]
    fn pop(&mut self, space: u32) -> u32 {
        let top = &mut self.top[space as usize];
        let bin = *top;
        *top = self.below[bin as usize];
        if *top == NONE {
            let word = space as usize / 64;
            self.rooms[word] &= !(1 << (space % 64));
            if self.rooms[word] == 0 {
                self.words[word / 64] &= !(1 << (word % 64));
            }
        }
        bin
    }

    #[inline]
    fn push(&mut self, space: u32, bin: u32) {
        let word = space as usize / 64;
        self.below[bin as usize] = std::mem::replace(&mut self.top[space as usize], bin);
        self.rooms[word] |= 1 << (space % 64);
        self.words[word / 64] |= 1 << (word % 64);
    }
}
