//! The chunk index of a dataset: a version 1 B-tree, which every HDF5 reads, built bottom up in one pass.

use super::main_file::MainFile;
use crate::bytes::UNDEFINED;
use packhorse_core::Result;

/// Half the maximum children per node: HDF5's default, which superblock 2 implies.
const K: usize = 32;

/// A chunk written to the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredChunk {
    pub(crate) address: u64,
    pub(crate) size: u32,
    /// Bit `i`: filter `i` was skipped.
    pub(crate) mask: u32,
}

/// A key and the address of its child.
struct Entry {
    size: u32,
    mask: u32,
    offsets: Vec<u64>,
    child: u64,
}

/// Writes the index of `chunks` and returns its address. `offsets` gives the start of a chunk by number, in elements
/// per axis, also for the number after the last.
pub(crate) fn write(chunks: &[StoredChunk], offsets: impl Fn(u64) -> Vec<u64>, main: &mut MainFile) -> Result<u64> {
    let entry = |(i, chunk): (usize, &StoredChunk)| Entry {
        size: chunk.size,
        mask: chunk.mask,
        offsets: offsets(i as u64),
        child: chunk.address,
    };
    let mut entries: Vec<Entry> = chunks.iter().enumerate().map(entry).collect();
    let end = offsets(chunks.len() as u64);
    if entries.is_empty() {
        return Ok(UNDEFINED);
    }
    for level in 0.. {
        entries = write_level(level, &entries, &end, main)?;
        if entries.len() == 1 {
            break;
        }
    }
    Ok(entries.first().map_or(UNDEFINED, |entry| entry.child))
}

/// Writes the nodes of one level; returns the entries of the level above.
fn write_level(level: u8, entries: &[Entry], end: &[u64], main: &mut MainFile) -> Result<Vec<Entry>> {
    main.align()?;
    let key = 8 + 8 * (end.len() + 1);
    let size = (24 + 2 * K * 8 + (2 * K + 1) * key) as u64;
    let (start, count) = (main.at(), entries.len().div_ceil(2 * K) as u64);
    let address = |node: u64| if node < count { start + node * size } else { UNDEFINED };
    let mut above = Vec::new();
    for (node, children) in (0u64..).zip(entries.chunks(2 * K)) {
        let mut bytes = b"TREE\x01".to_vec();
        bytes.push(level);
        bytes.extend((children.len() as u16).to_le_bytes());
        bytes.extend(address(node.wrapping_sub(1)).to_le_bytes());
        bytes.extend(address(node + 1).to_le_bytes());
        for child in children {
            push_key(&mut bytes, child.size, child.mask, &child.offsets);
            bytes.extend(child.child.to_le_bytes());
        }
        let next = entries.get((node as usize + 1) * 2 * K);
        push_key(&mut bytes, 0, 0, next.map_or(end, |next| &next.offsets));
        bytes.resize(size as usize, 0);
        main.append(&bytes)?;
        if let Some(first) = children.first() {
            above.push(Entry {
                size: first.size,
                mask: first.mask,
                offsets: first.offsets.clone(),
                child: address(node),
            });
        }
    }
    Ok(above)
}

fn push_key(bytes: &mut Vec<u8>, size: u32, mask: u32, offsets: &[u64]) {
    bytes.extend(size.to_le_bytes());
    bytes.extend(mask.to_le_bytes());
    offsets.iter().chain([&0]).for_each(|offset| bytes.extend(offset.to_le_bytes()));
}
