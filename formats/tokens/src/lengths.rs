//! The lengths of all sequences of a pair: the only input of the training order.

use crate::index_header::IndexHeader;
use crate::merge::checked_summary;
use crate::numbers;
use crate::pair::Pair;
use packhorse_core::{Error, Input, Kind, Result};
use std::sync::Arc;

/// The lengths, in tokens, of all sequences of a pair; `input` is either of its files. Takes four bytes of memory per
/// sequence. An inconsistent pair is a `Content` error.
pub fn lengths(input: &dyn Input) -> Result<Vec<i32>> {
    checked_summary(input)?;
    let pair = Pair::open(Arc::new(input))?;
    let idx = &*pair.idx;
    let (header, _) = IndexHeader::read(idx).map_err(|e| e.in_input(idx.name()))?;
    let many = || Error::new(Kind::Limit, "has more sequences than memory holds").in_input(idx.name());
    let mut lengths = Vec::new();
    // The header was checked against the length of the file.
    lengths.try_reserve_exact(usize::try_from(header.sequences).map_err(|_| many())?).map_err(|_| many())?;
    numbers::each::<4>(idx, header.length_at(0), header.sequences, &mut |piece| {
        lengths.extend(piece.iter().map(|length| i32::from_le_bytes(*length)));
        Ok(())
    })?;
    match lengths.iter().find(|length| **length < 0) {
        None => Ok(lengths),
        Some(length) => Err(Error::content(format!("has a sequence of {length} tokens")).in_input(idx.name())),
    }
}
