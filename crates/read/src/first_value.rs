//! The first value of a column, which tells what others are.

use crate::fields::shape_of;
use crate::on_error::OnError;
use crate::sample_block::Row;
use crate::{Reader, SampleBlock, Value, Wants};
use packhorse_core::Result;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Samples to search for one that has a field.
const LOOKED_AT: u64 = 1000;
/// Values whose shapes are compared.
const SHAPES: usize = 16;

/// What `read` takes from a column of the first sample that has it, of the first thousand.
///
/// Errors: a shard that can't be opened; under [`OnError::Skip`] only if none of the first thousand samples is in another shard.
pub(crate) fn first_value<T>(
    reader: &Reader,
    column: usize,
    on_error: OnError,
    read: impl Fn(Value<'_>) -> Option<T>,
) -> Result<Option<T>> {
    let (mut wants, mut fetched) = (Wants::default(), SampleBlock::default());
    let (mut left, mut seen, mut lost) = (LOOKED_AT, false, None);
    for (run, samples) in (0u32..).zip(reader.dataset().runs()) {
        for at in 0..samples.len.min(left) {
            left -= 1;
            reader.read_places(std::iter::once((run, at)), &mut wants, &mut fetched)?;
            if let (Some(Row::None), Some(fault)) = (fetched.rows.first(), fetched.fault(0)) {
                lost = Some(fault.clone());
                break;
            }
            seen = true;
            if let Some(found) = fetched.value(0, column).and_then(&read) {
                return Ok(Some(found));
            }
        }
        if left == 0 || (lost.is_some() && on_error == OnError::Fail) {
            break;
        }
    }
    match lost {
        Some(error) if !seen || on_error == OnError::Fail => Err(error),
        _ => Ok(None),
    }
}

/// The shape that most of the first lists, or arrays of `rank` dimensions, of a column have: one bad sample does not decide. Empty ones
/// count if there are no others.
pub(crate) fn usual_shape(
    reader: &Reader,
    column: usize,
    rank: usize,
    on_error: OnError,
) -> Result<Option<Vec<usize>>> {
    let counts: RefCell<BTreeMap<Vec<usize>, usize>> = RefCell::default();
    let count = |value: Value<'_>| {
        let shape = shape_of(value, rank)?;
        let mut counts = counts.borrow_mut();
        *counts.entry(shape).or_default() += 1;
        (counts.values().sum::<usize>() >= SHAPES).then_some(())
    };
    first_value(reader, column, on_error, count)?;
    let usual = counts.into_inner().into_iter().max_by_key(|(shape, count)| (!shape.contains(&0), *count));
    Ok(usual.map(|(shape, _)| shape))
}
