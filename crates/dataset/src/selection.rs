//! The samples of a view, as runs of samples of shards.
//!
//! All numbers are little-endian. R runs:
//!
//! ```text
//! 0        8 B       "PHVIEW\0\x01"
//! 8        u64       R
//! 16       u32 [R]   shards, as positions in the manifest
//!          u64 [R]   the first sample of each run in its shard
//!          u64 [R]   samples of each run, at least 1
//! ```

use packhorse_core::{Error, Result};

/// Consecutive samples of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRun {
    /// The shard, as its position in the dataset.
    pub shard: u32,
    /// The first sample, as its position in the shard.
    pub first: u64,
    /// Number of samples.
    pub len: u64,
}

const MAGIC: &[u8; 8] = b"PHVIEW\0\x01";

/// Bytes of a run.
const RUN: usize = 20;

/// Encodes `runs`.
pub fn encode_selection(runs: &[SampleRun]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + runs.len() * RUN);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&(runs.len() as u64).to_le_bytes());
    runs.iter().for_each(|run| out.extend_from_slice(&run.shard.to_le_bytes()));
    runs.iter().for_each(|run| out.extend_from_slice(&run.first.to_le_bytes()));
    runs.iter().for_each(|run| out.extend_from_slice(&run.len.to_le_bytes()));
    out
}

/// Decodes runs. A `Content` error for anything but exactly one selection, and for a run without samples or with an end
/// beyond 2^64. Allocates no more than `bytes` can back.
pub fn decode_selection(bytes: &[u8]) -> Result<Vec<SampleRun>> {
    decode(bytes).ok_or_else(|| Error::content("is not the selection of a view, or is damaged"))
}

fn decode(bytes: &[u8]) -> Option<Vec<SampleRun>> {
    let (count, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
    if rest.len() != count.checked_mul(RUN)? {
        return None;
    }
    let (shards, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
    let (firsts, lens) = rest.split_at_checked(count.checked_mul(8)?)?;
    let runs = shards.as_chunks::<4>().0.iter().zip(firsts.as_chunks::<8>().0).zip(lens.as_chunks::<8>().0);
    runs.map(|((shard, first), len)| {
        let (shard, first) = (u32::from_le_bytes(*shard), u64::from_le_bytes(*first));
        let len = u64::from_le_bytes(*len);
        (len > 0 && first.checked_add(len).is_some()).then_some(SampleRun { shard, first, len })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run() -> impl Strategy<Value = SampleRun> {
        (any::<u32>(), 0..u64::MAX / 2, 1..u64::MAX / 2).prop_map(|(shard, first, len)| SampleRun { shard, first, len })
    }

    proptest! {
        #[test]
        fn round_trip(runs in prop::collection::vec(run(), 0..50)) {
            let bytes = encode_selection(&runs);
            prop_assert_eq!(bytes.len(), 16 + 20 * runs.len());
            prop_assert_eq!(decode_selection(&bytes).unwrap(), runs);
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(mut bytes: Vec<u8>) {
            bytes.splice(0..0, *MAGIC);
            if let Ok(runs) = decode_selection(&bytes) {
                prop_assert_eq!(encode_selection(&runs), bytes);
            }
        }
    }

    #[test]
    fn a_declared_number_of_runs_allocates_nothing() {
        let mut bytes = encode_selection(&[SampleRun { shard: 1, first: 2, len: 3 }]);
        for count in [0, 2, u64::MAX, u64::MAX / 20] {
            bytes[8..16].copy_from_slice(&count.to_le_bytes());
            assert!(decode_selection(&bytes).is_err(), "{count}");
        }
        let bad = |first, len| decode_selection(&encode_selection(&[SampleRun { shard: 0, first, len }]));
        assert!(bad(0, 0).is_err() && bad(2, u64::MAX - 1).is_err() && bad(1, u64::MAX - 1).is_ok());
    }
}
