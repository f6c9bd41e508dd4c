//! Checks the sizes in the header of a message before the crate `arrow` allocates for them.

use arrow_ipc::{FieldNode, Message};
use packhorse_core::{DataType, Error, Field, Limits, Result, element_width};

/// An upper bound of the expansion of Zstandard.
const RATIO: u64 = 1 << 15;

/// The number of rows of a record batch with `columns` columns; 0 for other messages. Refuses a number that `body`
/// bytes can't hold or that differs from the length of the first column.
pub(crate) fn rows(message: &Message<'_>, columns: usize, body: u64) -> Result<u64> {
    let Some(batch) = message.header_as_record_batch() else { return Ok(0) };
    let most = body.saturating_mul(8).saturating_mul(if batch.compression().is_some() { RATIO } else { 1 });
    let fits = |n: i64| u64::try_from(n).ok().filter(|n| *n <= most.saturating_add(1 << 16));
    let damaged =
        || Error::content("has a record batch that declares more rows than its bytes can hold; write it again");
    for node in batch.nodes().into_iter().flatten() {
        fits(node.length()).ok_or_else(damaged)?;
    }
    let first = batch.nodes().filter(|nodes| !nodes.is_empty()).map(|nodes| nodes.get(0).length());
    if columns > 0 && first != Some(batch.length()) {
        return Err(Error::content("has a record batch whose first column has another length; write it again"));
    }
    fits(batch.length()).ok_or_else(damaged)
}

/// The bytes per entry of `field` and of the fields inside, in the order of the nodes of a message.
pub(crate) fn widths(field: &Field, all: &mut Vec<u64>) {
    all.push(match field.data_type() {
        DataType::Null | DataType::Struct(_) | DataType::FixedSizeList(..) => 0,
        DataType::Dictionary(key, _) => element_width(key).unwrap_or(0) as u64,
        // At least the offsets, or the view, of values of any length.
        other => element_width(other).unwrap_or(16) as u64,
    });
    match field.data_type() {
        DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => widths(inner, all),
        DataType::Map(inner, _) => widths(inner, all),
        DataType::Union(inner, _) => inner.iter().for_each(|(_, field)| widths(field, all)),
        DataType::RunEndEncoded(ends, inner) => [ends, inner].into_iter().for_each(|field| widths(field, all)),
        DataType::Struct(inner) => inner.iter().for_each(|field| widths(field, all)),
        _ => {}
    }
}

/// About the bytes of a message of `body` bytes in memory, where nodes have `widths` bytes per entry.
pub(crate) fn decoded(message: &Message<'_>, widths: &[u64], body: u64) -> u64 {
    let nodes = message.header_as_record_batch().and_then(|batch| batch.nodes()).into_iter().flatten();
    let of = |(node, width): (&FieldNode, &u64)| u64::try_from(node.length()).unwrap_or(0).saturating_mul(*width);
    nodes.zip(widths).map(of).fold(0, u64::saturating_add).max(body)
}

/// Checks that the buffers lie in `body`, and bounds their declared uncompressed sizes.
pub(crate) fn buffers(message: &Message<'_>, body: &[u8], limits: Limits) -> Result<()> {
    let dictionary = message.header_as_dictionary_batch();
    if dictionary.is_some_and(|dictionary| dictionary.isDelta()) {
        return Err(Error::unsupported("has a delta dictionary; write it again with complete dictionaries"));
    }
    let Some(batch) = message.header_as_record_batch().or_else(|| dictionary?.data()) else { return Ok(()) };
    let mut sum = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let bytes = range.and_then(|(start, len)| body.get(start..start.checked_add(len)?));
        let bytes = bytes.ok_or_else(|| Error::content("has a column outside of its record batch; write it again"))?;
        if batch.compression().is_some() {
            sum = sum.saturating_add(unpacked(bytes)?);
        }
    }
    limits.blob(sum).map(drop).map_err(|e| e.subject("a record batch"))
}

/// The declared uncompressed size of the buffer `bytes`; -1 marks an uncompressed buffer.
fn unpacked(bytes: &[u8]) -> Result<u64> {
    let Some(claim) = bytes.first_chunk::<8>().map(|first| i64::from_le_bytes(*first)) else { return Ok(0) };
    let (claim, packed) = (u64::try_from(claim).unwrap_or(0), bytes.len() as u64);
    match claim <= packed.saturating_mul(RATIO) {
        true => Ok(claim),
        false => Err(Error::content(format!(
            "has {packed} bytes that declare an uncompressed size of {claim}; write it again"
        ))),
    }
}
