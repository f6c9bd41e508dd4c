//! The first value of a column, which tells what others are.

use crate::fields::raw;
use crate::{Reader, SampleBlock, Wants};
use packhorse_core::Result;

/// Samples to search for one that has a field.
const LOOKED_AT: u64 = 1000;

/// The bytes of a column in the first sample that has it, of the first thousand.
pub(crate) fn first_value(reader: &Reader, column: usize) -> Result<Option<Vec<u8>>> {
    let (mut wants, mut fetched) = (Wants::default(), SampleBlock::default());
    for number in 0..reader.dataset().len().min(LOOKED_AT) {
        reader.read_numbers(std::iter::once(number), &mut wants, &mut fetched)?;
        if let Some(bytes) = fetched.value(0, column).and_then(|value| raw(value).ok()) {
            return Ok(Some(bytes.to_vec()));
        }
    }
    Ok(None)
}
