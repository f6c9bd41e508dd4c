//! Numbers whose offset in the file is not known yet: in memory while they are few, then in scratch.

use packhorse_core::{Result, ScratchFile};

/// Bytes kept in memory, a multiple of a number's size.
const ROOM: usize = 1 << 20;

/// A growing array of numbers of four bytes.
pub(super) struct Spool {
    memory: Vec<u8>,
    /// Bytes in scratch.
    spilled: u64,
    scratch: Box<dyn ScratchFile>,
}

impl Spool {
    pub(super) fn new(scratch: Box<dyn ScratchFile>) -> Self {
        Self { memory: Vec::new(), spilled: 0, scratch }
    }

    pub(super) fn push(&mut self, number: [u8; 4]) -> Result<()> {
        if self.memory.len() == ROOM {
            self.scratch.append(&self.memory)?;
            self.spilled += ROOM as u64;
            self.memory.clear();
        }
        self.memory.extend_from_slice(&number);
        Ok(())
    }

    /// The number of numbers.
    pub(super) fn count(&self) -> u64 {
        (self.spilled + self.memory.len() as u64) / 4
    }

    /// Calls `each` with all numbers in order, in pieces.
    pub(super) fn each(&mut self, each: &mut dyn FnMut(&[[u8; 4]]) -> Result<()>) -> Result<()> {
        let mut piece = vec![0; if self.spilled > 0 { ROOM } else { 0 }];
        for at in (0..self.spilled).step_by(ROOM) {
            self.scratch.read_at(at, &mut piece)?;
            each(piece.as_chunks::<4>().0)?;
        }
        each(self.memory.as_chunks::<4>().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Outlet;
    use packhorse_testkit::memory::MemoryOutlet;

    #[test]
    fn numbers_come_out_in_order() {
        for n in [0u32, 1, 262_144, 262_145, 700_000] {
            let mut spool = Spool::new(MemoryOutlet::new().scratch().unwrap());
            (0..n).for_each(|i| spool.push(i.to_le_bytes()).unwrap());
            assert_eq!(spool.count(), u64::from(n));
            for _ in 0..2 {
                let mut next = 0;
                spool
                    .each(&mut |piece| {
                        for number in piece {
                            assert_eq!(u32::from_le_bytes(*number), next);
                            next += 1;
                        }
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(next, n);
            }
        }
    }
}
