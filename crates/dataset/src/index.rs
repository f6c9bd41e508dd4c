//! The member index of a shard: offset, length and CRC-32C of every field of every sample.
//!
//! All numbers are little-endian. S samples, M members, F fields:
//!
//! ```text
//! 0        8 B       "PHINDEX\x01"
//! 8        u32       F
//! 12       u32       bytes of the field names
//! 16       u64       S
//! 24       u64       M
//! 32       u64       bytes of the keys
//! 40       u64 [S]   key ends: the end of each key within the keys
//!          u64 [S]   member ends: the end of each sample's members in the arrays below
//!          u64 [M]   offsets of the members' bytes in the data file
//!          u64 [M]   lengths
//!          u32 [M]   CRC-32C of the members' bytes (RFC 3720)
//!          u16 [M]   fields, as indices into the names
//!          bytes     the field names, each followed by a newline
//!          bytes     the keys, UTF-8, concatenated
//! last 4   u32       CRC-32C of all bytes before
//! ```

use packhorse_core::{Error, Limits, Members, Result, crc32c};
use std::collections::HashMap;

/// The suffix of the index file, after the shard's name.
pub const INDEX_SUFFIX: &str = ".members";

const MAGIC: &[u8; 8] = b"PHINDEX\x01";
const HEAD: usize = 40;

/// Encodes the index of `members`.
pub fn encode_index(members: &Members) -> Vec<u8> {
    let names: String = members.fields().iter().flat_map(|name| [name.as_str(), "\n"]).collect();
    let keys: u64 = members.iter().map(|(key, _)| key.len() as u64).sum();
    let mut out = Vec::with_capacity(HEAD + members.samples() * 40 + members.len() * 22 + names.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&(members.fields().len() as u32).to_le_bytes());
    out.extend_from_slice(&(names.len() as u32).to_le_bytes());
    for n in [members.samples() as u64, members.len() as u64, keys] {
        out.extend_from_slice(&n.to_le_bytes());
    }
    ends(&mut out, members.iter().map(|(key, _)| key.len()));
    ends(&mut out, members.iter().map(|(_, members)| members.count()));
    let all = || (0..members.len()).filter_map(|m| members.member(m));
    all().for_each(|m| out.extend_from_slice(&m.offset.to_le_bytes()));
    all().for_each(|m| out.extend_from_slice(&m.len.to_le_bytes()));
    all().for_each(|m| out.extend_from_slice(&m.crc32c.to_le_bytes()));
    let mut places = HashMap::with_capacity(members.fields().len());
    for (place, name) in members.fields().iter().enumerate() {
        places.entry(name.as_str()).or_insert(place);
    }
    for m in all() {
        let field = places.get(m.field).copied().unwrap_or_default();
        out.extend_from_slice(&(field as u16).to_le_bytes());
    }
    out.extend_from_slice(names.as_bytes());
    members.iter().for_each(|(key, _)| out.extend_from_slice(key.as_bytes()));
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn ends(out: &mut Vec<u8>, lengths: impl Iterator<Item = usize>) {
    let mut end = 0u64;
    for len in lengths {
        end += len as u64;
        out.extend_from_slice(&end.to_le_bytes());
    }
}

/// Decodes an index. A `Content` error for anything but exactly one index. Allocates no more than `bytes` can back.
pub fn decode_index(bytes: &[u8], limits: &Limits) -> Result<Members> {
    limits.blob(bytes.len() as u64)?;
    decode(bytes).ok_or_else(|| Error::content("is not a member index, or is damaged"))
}

fn decode(bytes: &[u8]) -> Option<Members> {
    let (body, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    if crc32c(body).to_le_bytes() != *crc || !body.starts_with(MAGIC) {
        return None;
    }
    let mut rest = Cut(body.get(8..)?);
    let fields = usize::try_from(rest.u32()?).ok()?;
    let names = usize::try_from(rest.u32()?).ok()?;
    let (samples, count) = (rest.size()?, rest.size()?);
    let keys = rest.size()?;
    let key_ends = rest.array::<8>(samples)?;
    let member_ends = rest.array::<8>(samples)?;
    let offsets = rest.array::<8>(count)?;
    let lens = rest.array::<8>(count)?;
    let crcs = rest.array::<4>(count)?;
    let field = rest.array::<2>(count)?;
    let names = std::str::from_utf8(rest.take(names)?).ok()?;
    let keys = std::str::from_utf8(rest.take(keys)?).ok()?;
    let names: Vec<String> = names.lines().map(str::to_owned).collect();
    if names.len() != fields || !rest.0.is_empty() {
        return None;
    }
    let mut members = Members::new(names);
    let (mut key_from, mut m) = (0, 0);
    for (key_end, member_end) in key_ends.iter().zip(member_ends) {
        let (key_end, member_end) = (size(key_end)?, size(member_end)?);
        members.push_sample(keys.get(key_from..key_end)?);
        key_from = key_end;
        for i in m..member_end {
            let field = u16::from_le_bytes(*field.get(i)?);
            members.fields().get(usize::from(field))?;
            let crc = u32::from_le_bytes(*crcs.get(i)?);
            members.push_member(field, u64::from_le_bytes(*offsets.get(i)?), u64::from_le_bytes(*lens.get(i)?), crc);
        }
        m = m.max(member_end);
    }
    (key_from == keys.len() && m == count && members.len() == count).then_some(members)
}

fn size(bytes: &[u8; 8]) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(*bytes)).ok()
}

struct Cut<'a>(&'a [u8]);

impl<'a> Cut<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self, n: usize) -> Option<&'a [[u8; N]]> {
        Some(self.take(n.checked_mul(N)?)?.as_chunks().0)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn size(&mut self) -> Option<usize> {
        size(self.take(8)?.try_into().ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Key, then field, offset, length and checksum of each member.
    type Sample = (String, Vec<(u16, u64, u64, u32)>);

    fn members(samples: &[Sample]) -> Members {
        let mut members = Members::new(vec!["cls".into(), "jpg".into(), "seg.png".into()]);
        for (key, list) in samples {
            members.push_sample(key);
            list.iter().for_each(|(f, o, l, c)| members.push_member(f % 3, *o, *l, *c));
        }
        members
    }

    #[test]
    fn golden_bytes() {
        let one = members(&[("a/b".into(), vec![(1, 512, 3, 0x1234_5678)])]);
        assert_eq!(blake3::hash(&encode_index(&one)).to_hex().as_str(), GOLDEN);
    }

    const GOLDEN: &str = "34221feb0b27cc479021edca194a6480b7ee69b5d76a27b7084fd242444a5fda";

    proptest! {
        #[test]
        fn round_trip(samples: Vec<Sample>) {
            let members = members(&samples);
            prop_assert_eq!(decode_index(&encode_index(&members), &Limits::default()).unwrap(), members);
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(mut bytes: Vec<u8>) {
            bytes.splice(0..0, *MAGIC);
            let crc = crc32c(&bytes);
            bytes.extend(crc.to_le_bytes());
            let _ = decode_index(&bytes, &Limits::default());
        }
    }
}
