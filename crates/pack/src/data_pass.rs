//! One pass over a shard's data file: the digest of all bytes, and the checksum of each member.

use crate::damage::Damage;
use packhorse_core::{Crc32c, Input, Members, Result};
use packhorse_dataset::Digest;

/// What one pass over a data file computes.
pub(crate) struct DataPass<'a> {
    file: &'a str,
    hasher: blake3::Hasher,
    members: Option<&'a Members>,
    /// The member that the pass is at or before.
    next: usize,
    /// The checksum of the bytes of that member seen so far.
    crc: Crc32c,
    at: u64,
    damages: Vec<Damage>,
}

impl<'a> DataPass<'a> {
    /// A pass over the data file called `file`, whose index holds `members`.
    pub(crate) fn new(file: &'a str, members: Option<&'a Members>) -> Self {
        let (hasher, crc) = (blake3::Hasher::new(), Crc32c::default());
        Self { file, hasher, members, next: 0, crc, at: 0, damages: Vec::new() }
    }

    /// Reads `input` to its end; `each` gets the length of each read. Returns the digest of all bytes, and the members
    /// whose checksums differ.
    pub(crate) fn run(
        mut self,
        input: &dyn Input,
        each: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(Digest, Vec<Damage>)> {
        let len = input.len().unwrap_or(0);
        let mut buf = packhorse_core::aligned(usize::try_from(len).map_or(1 << 20, |len| len.min(1 << 20)));
        while self.at < len {
            let n = usize::try_from(len - self.at).map_or(buf.len(), |left| left.min(buf.len()));
            let part = buf.get_mut(..n).unwrap_or_default();
            input.read_at(self.at, part)?;
            self.hasher.update(part);
            self.check_members(part);
            self.at += n as u64;
            each(n as u64)?;
        }
        Ok((Digest::from(self.hasher.finalize()), self.damages))
    }

    fn check_members(&mut self, part: &[u8]) {
        let end = self.at + part.len() as u64;
        while let Some(member) = self.members.and_then(|m| m.member(self.next)).filter(|m| m.offset <= end) {
            let from = member.offset.max(self.at) - self.at;
            let to = (member.offset.saturating_add(member.len)).min(end).max(self.at) - self.at;
            if let Some(bytes) = part.get(from as usize..to as usize) {
                self.crc.update(bytes);
            }
            if member.offset.saturating_add(member.len) > end {
                return;
            }
            if self.crc.finish() != member.crc32c {
                let problem = "its bytes do not have the recorded checksum".to_owned();
                let damage = Damage { file: self.file.to_owned(), member: self.name_of(self.next), problem };
                self.damages.push(damage);
            }
            (self.next, self.crc) = (self.next + 1, Crc32c::default());
        }
    }

    fn name_of(&self, wanted: usize) -> Option<String> {
        let mut names = self.members?.iter().flat_map(|(key, list)| list.map(move |m| format!("{key}.{}", m.field)));
        names.nth(wanted)
    }
}
