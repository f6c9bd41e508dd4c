//! What the header of a message claims, checked before the crate `arrow` allocates for it.

use arrow_ipc::{BodyCompression, Message, RecordBatch};
use packhorse_core::{Error, Kind, Limits, Result};

/// More than Zstandard's densest blocks unpack to, a byte.
const RATIO: u64 = 1 << 15;

/// The rows of a record batch, 0 for other messages; a number that `body` bytes can't hold is refused.
pub(crate) fn rows(message: &Message<'_>, body: u64) -> Result<u64> {
    let Some(batch) = message.header_as_record_batch() else { return Ok(0) };
    let most = body.saturating_mul(8).saturating_mul(if batch.compression().is_some() { RATIO } else { 1 });
    let fits = |n: i64| u64::try_from(n).ok().filter(|n| *n <= most.saturating_add(1 << 16));
    let damaged = || Error::content("has a record batch that claims more rows than its bytes can hold; write it anew");
    for node in batch.nodes().into_iter().flatten() {
        fits(node.length()).ok_or_else(damaged)?;
    }
    fits(batch.length()).ok_or_else(damaged)
}

/// Checks what the buffers in `body` claim to unpack to.
pub(crate) fn unpacked(message: &Message<'_>, body: &[u8], limits: Limits) -> Result<()> {
    let dictionary = message.header_as_dictionary_batch();
    if dictionary.is_some_and(|dictionary| dictionary.isDelta()) {
        return Err(Error::unsupported("has a dictionary that grows; write it anew with whole dictionaries"));
    }
    let batch = message.header_as_record_batch().or_else(|| dictionary?.data());
    match batch.and_then(|batch| Some((batch, batch.compression()?))) {
        Some((batch, compression)) => each(batch, compression, body, limits),
        None => Ok(()),
    }
}

fn each(batch: RecordBatch<'_>, _: BodyCompression<'_>, body: &[u8], limits: Limits) -> Result<()> {
    let mut sum = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let start = usize::try_from(buffer.offset()).ok();
        let packed = u64::try_from(buffer.length()).unwrap_or(0);
        let first = start.and_then(|start| body.get(start..)?.first_chunk::<8>());
        let Some(claim) = first.filter(|_| packed > 0).map(|first| i64::from_le_bytes(*first)) else { continue };
        // -1 says that this buffer is not compressed.
        let claim = u64::try_from(claim).unwrap_or(0);
        if claim > packed.saturating_mul(RATIO).saturating_add(1 << 16) {
            return Err(Error::content(format!("has {packed} bytes that claim to unpack to {claim}; write it anew")));
        }
        sum = sum.saturating_add(claim);
    }
    match sum <= limits.blob {
        true => Ok(()),
        false => {
            let text = format!("has a record batch of {sum} bytes, over the limit of {} bytes", limits.blob);
            Err(Error::new(Kind::Limit, text))
        }
    }
}
