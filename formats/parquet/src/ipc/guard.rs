//! What the header of a message claims, checked before the crate `arrow` allocates for it.

use arrow_ipc::Message;
use packhorse_core::{Error, Kind, Limits, Result};

/// More than Zstandard's densest blocks unpack to, a byte.
const RATIO: u64 = 1 << 15;

/// The rows of a record batch of so many columns, 0 for other messages; a number that `body` bytes can't hold, or that
/// its first column does not have, is refused.
pub(crate) fn rows(message: &Message<'_>, columns: usize, body: u64) -> Result<u64> {
    let Some(batch) = message.header_as_record_batch() else { return Ok(0) };
    let most = body.saturating_mul(8).saturating_mul(if batch.compression().is_some() { RATIO } else { 1 });
    let fits = |n: i64| u64::try_from(n).ok().filter(|n| *n <= most.saturating_add(1 << 16));
    let damaged = || Error::content("has a record batch that claims more rows than its bytes can hold; write it anew");
    for node in batch.nodes().into_iter().flatten() {
        fits(node.length()).ok_or_else(damaged)?;
    }
    let first = batch.nodes().filter(|nodes| !nodes.is_empty()).map(|nodes| nodes.get(0).length());
    if columns > 0 && first != Some(batch.length()) {
        return Err(Error::content("has a record batch whose first column has another length; write it anew"));
    }
    fits(batch.length()).ok_or_else(damaged)
}

/// Checks that the buffers lie in `body`, and what they claim to unpack to.
pub(crate) fn buffers(message: &Message<'_>, body: &[u8], limits: Limits) -> Result<()> {
    let dictionary = message.header_as_dictionary_batch();
    if dictionary.is_some_and(|dictionary| dictionary.isDelta()) {
        return Err(Error::unsupported("has a dictionary that grows; write it anew with whole dictionaries"));
    }
    let Some(batch) = message.header_as_record_batch().or_else(|| dictionary?.data()) else { return Ok(()) };
    let mut sum = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let bytes = range.and_then(|(start, len)| body.get(start..start.checked_add(len)?));
        let bytes = bytes.ok_or_else(|| Error::content("has a column outside of its record batch; write it anew"))?;
        if batch.compression().is_some() {
            sum = sum.saturating_add(unpacked(bytes)?);
        }
    }
    match sum <= limits.blob {
        true => Ok(()),
        false => {
            let text = format!("has a record batch of {sum} bytes, over the limit of {} bytes", limits.blob);
            Err(Error::new(Kind::Limit, text))
        }
    }
}

/// What the compressed buffer `bytes` claims to unpack to; -1 says that it is not compressed.
fn unpacked(bytes: &[u8]) -> Result<u64> {
    let Some(claim) = bytes.first_chunk::<8>().map(|first| i64::from_le_bytes(*first)) else { return Ok(0) };
    let (claim, packed) = (u64::try_from(claim).unwrap_or(0), bytes.len() as u64);
    match claim <= packed.saturating_mul(RATIO) {
        true => Ok(claim),
        false => Err(Error::content(format!("has {packed} bytes that claim to unpack to {claim}; write it anew"))),
    }
}
