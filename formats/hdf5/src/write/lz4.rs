//! [Filter 32004](https://github.com/nexusformat/HDF5-External-Filter-Plugins): the sizes of the chunk, of a block and
//! of the compressed block, big-endian, then one LZ4 block.

use lz4_flex::block;

/// Compresses `input` into the start of `out`; returns the number of bytes, or `None` if they do not fit. `scratch` is
/// reused memory.
pub(crate) fn compress(input: &[u8], scratch: &mut Vec<u8>, out: &mut [u8]) -> Option<usize> {
    let most = block::get_maximum_output_size(input.len());
    if scratch.len() < most {
        scratch.resize(most, 0);
    }
    let len = block::compress_into(input, scratch).ok()?;
    // Readers take a block of the uncompressed size for an uncompressed one.
    let packed = scratch.get(..len).filter(|packed| packed.len() < input.len())?;
    let (whole, size) = (input.len() as u64, u32::try_from(input.len()).ok()?);
    let parts = [&whole.to_be_bytes()[..], &size.to_be_bytes(), &(len as u32).to_be_bytes(), packed];
    let mut at = 0;
    for part in parts {
        out.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    Some(at)
}
