//! One pass over a shard's data file: the digest of all bytes, and the checksum of each member.

use packhorse_core::{Crc32c, Input, Members, Result};
use packhorse_dataset::Digest;

/// What one pass over a data file computes.
pub(crate) struct DataPass<'a> {
    hasher: blake3::Hasher,
    members: Option<&'a Members>,
    /// The checksums of the members before the one that the pass is at or before.
    found: Vec<u32>,
    /// The checksum of the bytes of that member seen so far.
    crc: Crc32c,
    at: u64,
}

impl<'a> DataPass<'a> {
    /// A pass over a data file that holds `members`, in the order of their offsets.
    pub(crate) fn new(members: Option<&'a Members>) -> Self {
        let (hasher, crc) = (blake3::Hasher::new(), Crc32c::default());
        Self { hasher, members, found: Vec::new(), crc, at: 0 }
    }

    /// Reads `input` to its end; `each` gets the length of each read. Returns the digest of all bytes, and the checksums
    /// of the members that are whole.
    pub(crate) fn run(
        mut self,
        input: &dyn Input,
        each: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(Digest, Vec<u32>)> {
        input.each_piece(0..input.len().unwrap_or(0), &mut |part| {
            self.hasher.update(part);
            self.members_in(part);
            self.at += part.len() as u64;
            each(part.len() as u64)
        })?;
        Ok((Digest::from(self.hasher.finalize()), self.found))
    }

    fn members_in(&mut self, part: &[u8]) {
        let end = self.at + part.len() as u64;
        while let Some(member) = self.members.and_then(|m| m.member(self.found.len())).filter(|m| m.offset <= end) {
            let from = member.offset.max(self.at) - self.at;
            let to = (member.offset.saturating_add(member.len)).min(end).max(self.at) - self.at;
            if let Some(bytes) = part.get(from as usize..to as usize) {
                self.crc.update(bytes);
            }
            if member.offset.saturating_add(member.len) > end {
                return;
            }
            self.found.push(std::mem::take(&mut self.crc).finish());
        }
    }
}
