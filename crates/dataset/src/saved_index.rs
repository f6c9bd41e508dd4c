//! What indexing keeps of a third-party shard, so that it reads each shard once.
//!
//! All numbers are little-endian:
//!
//! ```text
//! 0        8 B       "PHSAVED\x01"
//! 8        u64       bytes of the facts
//! 16       u64       B, the number of bounds
//! 24       bytes     the facts, JSON: a [`SavedIndex`]
//!          u64 [B]   bounds: the offset of each sample's first header, then the end of the last sample
//!          bytes     the member index, with names as other readers see them, and checksums of 0
//! last 4   u32       CRC-32C of all bytes before
//! ```

use crate::{Digest, FileRecord, decode_index, encode_index};
use packhorse_core::{Error, Limits, Members, Result, crc32c};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The folder of these documents, in the folder of the indexes.
pub const INDEX_FOLDER: &str = ".packhorse-index";

const MAGIC: &[u8; 8] = b"PHSAVED\x01";

/// The facts about an indexed shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedIndex {
    /// The shard's length in bytes.
    pub bytes: u64,
    /// Its modification time in nanoseconds since 1970.
    pub mtime: i64,
    /// The indexes that were wanted.
    pub index: String,
    /// The indexes that belong to this shard alone.
    pub files: Vec<FileRecord>,
    /// Notes of the format for the indexes of all shards.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, String>,
}

impl SavedIndex {
    /// The document's bytes, with `members`, and the digest of what the members are and where.
    pub fn encode(&self, members: &Members) -> Result<(Vec<u8>, Digest)> {
        let facts = serde_json::to_vec(self).map_err(|e| Error::bug(format!("can't encode an index: {e}")))?;
        let bounds = members.bounds();
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&(facts.len() as u64).to_le_bytes());
        out.extend_from_slice(&(bounds.len() as u64).to_le_bytes());
        out.extend_from_slice(&facts);
        let from = out.len();
        out.extend(bounds.iter().flat_map(|offset| offset.to_le_bytes()));
        out.extend_from_slice(&encode_index(members));
        let digest = Digest::of(out.get(from..).unwrap_or_default());
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        Ok((out, digest))
    }

    /// Parses a document: the facts, the members, and the digest of these.
    ///
    /// Errors: `Content` for anything else. Allocates no more than `bytes` can back.
    pub fn decode(bytes: &[u8], limits: &Limits) -> Result<(Self, Members, Digest)> {
        let damaged = || Error::content("is not a saved index, or is damaged");
        let (facts, bounds, members) = parts(bytes).ok_or_else(damaged)?;
        let facts = serde_json::from_slice(facts).map_err(|_| damaged())?;
        let mut layout = blake3::Hasher::new();
        layout.update(bounds.as_flattened()).update(members);
        let members = decode_index(members, limits)?;
        if bounds.len() != members.samples() + 1 {
            return Err(damaged());
        }
        let bounds = bounds.iter().map(|offset| u64::from_le_bytes(*offset)).collect();
        Ok((facts, members.with_bounds(bounds), layout.finalize().into()))
    }
}

/// Facts, bounds and member index.
type Parts<'a> = (&'a [u8], &'a [[u8; 8]], &'a [u8]);

fn parts(bytes: &[u8]) -> Option<Parts<'_>> {
    let (body, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    let rest = body.strip_prefix(MAGIC)?;
    let (facts, rest) = rest.split_first_chunk::<8>()?;
    let (bounds, rest) = rest.split_first_chunk::<8>()?;
    let (facts, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*facts)).ok()?)?;
    let bounds = usize::try_from(u64::from_le_bytes(*bounds)).ok()?.checked_mul(8)?;
    let (bounds, members) = rest.split_at_checked(bounds)?;
    (crc32c(body).to_le_bytes() == *crc).then_some((facts, bounds.as_chunks().0, members))
}

/// The indexes of all shards together that were written, so that later runs know them for theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexedFiles {
    /// The files, by paths relative to the folder of the indexes.
    pub files: Vec<FileRecord>,
}

impl IndexedFiles {
    /// The document's name in [`INDEX_FOLDER`].
    pub const NAME: &'static str = "files.json";

    /// The document's bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(|e| Error::bug(format!("can't encode a list of files: {e}")))
    }

    /// Parses a document; `Content` for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|e| Error::content(format!("is not a list of indexes: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> (SavedIndex, Members) {
        let mut members = Members::new(vec!["jpg".into(), "cls".into()]);
        for (i, key) in ["a", "d/b"].into_iter().enumerate() {
            members.push_sample(key);
            (0..2).for_each(|field| members.push_member(field, 512 + 4096 * i as u64, 7, 0));
        }
        let file = FileRecord { name: "x.idx".into(), bytes: 3, blake3: Digest::of(b"idx") };
        let facts = SavedIndex {
            bytes: 10240,
            mtime: -5,
            index: "dali".into(),
            files: vec![file],
            notes: [("md5".to_owned(), "0".repeat(32))].into(),
        };
        (facts, members.with_bounds(vec![0, 4096, 8192]))
    }

    #[test]
    fn what_is_saved_is_found_again() {
        let (facts, members) = saved();
        let (bytes, digest) = facts.encode(&members).unwrap();
        assert_eq!(SavedIndex::decode(&bytes, &Limits::default()).unwrap(), (facts, members, digest));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let (facts, members) = saved();
        let (good, _) = facts.encode(&members).unwrap();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(SavedIndex::decode(&bad, &Limits::default()).is_err(), "byte {at} bit {bit}");
            }
            assert!(SavedIndex::decode(&good[..at], &Limits::default()).is_err(), "cut at {at}");
        }
    }
}
