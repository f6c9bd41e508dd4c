//! Tiles of LZW whose last bytes the decoder loses.
//!
//! The crate `tiff` 0.11 reads the rows of a tile that is wider than the image one by one. What the LZW decoder holds back when it has taken
//! the last byte of the tile, it never gets: a file that is whole seems to be cut short. With more bytes behind each tile it gets it.

use super::directory::Directory;
use weezl::decode::Decoder;
use weezl::{BitOrder, LzwStatus};

/// Tag Compression, of which 5 is LZW.
const COMPRESSION: u16 = 259;
/// Tags TileOffsets and TileByteCounts.
const TILE_OFFSETS: u16 = 324;
const TILE_BYTE_COUNTS: u16 = 325;

/// Bytes behind each tile.
const MORE: usize = 16;

/// A copy of a file with tiles of LZW of `bytes_of_tile` that seem to be longer; `None` for other files, and where a tile is not whole.
pub(in crate::image::other) fn with_longer_tiles(bytes: &[u8], bytes_of_tile: usize) -> Option<Vec<u8>> {
    let directory = Directory::of(bytes)?;
    let values = |tag| directory.values(bytes, tag);
    if directory.numbers(bytes, &values(COMPRESSION)?) != [5] {
        return None;
    }
    let (offsets, lengths) = (values(TILE_OFFSETS)?, values(TILE_BYTE_COUNTS)?);
    let tiles = directory.numbers(bytes, &offsets).into_iter().zip(directory.numbers(bytes, &lengths));
    let mut longer = bytes.to_vec();
    longer.resize(bytes.len() + MORE, 0);
    let mut out = vec![0; 64 << 10];
    // Tiles of a sound file share no bytes.
    let mut left = bytes.len();
    for (index, (offset, length)) in tiles.enumerate() {
        let tile = bytes.get(offset..offset.checked_add(length)?)?;
        left = left.checked_sub(length)?;
        if !is_whole(tile, bytes_of_tile, &mut out) {
            return None;
        }
        directory.put(&mut longer, &lengths, index, (length + MORE) as u64)?;
    }
    Some(longer)
}

/// Whether a tile ends where it says so, and has all its bytes by then. Decodes into `out`.
fn is_whole(tile: &[u8], wanted: usize, out: &mut [u8]) -> bool {
    let mut decoder = Decoder::with_tiff_size_switch(BitOrder::Msb, 8);
    let mut found = 0usize;
    for mut rest in [tile, &[0; MORE]] {
        while found <= wanted && !rest.is_empty() {
            let step = decoder.decode_bytes(rest, out);
            found = found.saturating_add(step.consumed_out);
            rest = rest.get(step.consumed_in..).unwrap_or_default();
            match step.status {
                Ok(LzwStatus::Ok) => {}
                Ok(LzwStatus::Done) => return found == wanted,
                Ok(LzwStatus::NoProgress) | Err(_) => return false,
            }
        }
    }
    false
}
