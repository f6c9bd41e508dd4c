//! Groups shards that one writer fills in order.

use crate::Part;
use packhorse_dataset::ShardFrame;

/// The shards of a part, in lists that one writer each fills in order: their shared compressed input is decompressed
/// once.
pub(crate) fn chains(shards: &[ShardFrame], part: Part) -> Vec<Vec<&ShardFrame>> {
    let mut chains: Vec<Vec<&ShardFrame>> = Vec::new();
    let mut ended = true;
    for (i, shard) in shards.iter().enumerate() {
        ended |= !shard.goes_on;
        match chains.last_mut().filter(|_| !ended) {
            _ if !part.holds(i) => continue,
            Some(chain) => chain.push(shard),
            None => chains.push(vec![shard]),
        }
        ended = false;
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_that_go_on_follow_those_of_their_part() {
        let shard = |i: usize, goes_on: bool| -> ShardFrame {
            let digest = "0".repeat(64);
            let (offset, len) = (i, 1);
            let json = serde_json::json!({
                "name": i.to_string(), "samples": 1, "bytes": 1, "goes_on": goes_on, "offset": offset, "len": len,
                "blake3": digest
            });
            serde_json::from_value(json).unwrap()
        };
        let goes_on = [false, true, true, true, false, true, false, false, true];
        let shards: Vec<ShardFrame> = goes_on.iter().enumerate().map(|(i, on)| shard(i, *on)).collect();
        let found = |part: &str| -> Vec<Vec<u64>> {
            let chains = chains(&shards, part.parse().unwrap());
            chains.iter().map(|chain| chain.iter().map(|shard| shard.place()).collect()).collect()
        };
        assert_eq!(found("1/1"), [&[0, 1, 2, 3][..], &[4, 5], &[6], &[7, 8]]);
        assert_eq!(found("1/2"), [&[0, 2][..], &[4], &[6], &[8]]);
        assert_eq!(found("2/2"), [&[1, 3][..], &[5], &[7]]);
        assert_eq!(found("2/5"), [&[1][..], &[6]]);
    }
}
