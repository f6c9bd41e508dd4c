//! The first values of a column, which tell what others are.

use crate::fields::shape_of;
use crate::on_error::OnError;
use crate::sample_block::Row;
use crate::{Reader, SampleBlock, Value, Wants};
use packhorse_core::{Error, Result};
use std::cell::Cell;
use std::collections::BTreeMap;

/// What a search for values may cost in all, and once one is found.
const BUDGET: u64 = 100_000;
const FOUND: u64 = 4_000;
/// What it costs to look at a sample in a shard whose index says which have the field, to read one, and to open another shard.
const LOOK: u64 = 1;
const READ: u64 = 100;
const OPEN: u64 = 300;
/// Values that can't be read before the search ends.
const FAILURES: usize = 4;
/// Values whose shapes are compared.
const SHAPES: usize = 16;

/// Finds the first values of columns: among the samples of a reader, or if these have none among all of its shards. So the fields of a
/// small view have the types of its dataset.
pub(crate) struct FirstValues<'a> {
    pub(crate) reader: &'a Reader,
    pub(crate) on_error: OnError,
}

impl FirstValues<'_> {
    /// Shows `read` the values of a column in the first samples that have it, until it has enough (`true`). What it can't read it may
    /// find elsewhere: returns the first such error, also where there are several of them.
    ///
    /// Errors: a shard that can't be opened; under [`OnError::Skip`] only if none of the first samples is in another shard.
    pub(crate) fn show(&self, column: usize, mut read: impl FnMut(Value<'_>) -> Result<bool>) -> Result<Option<Error>> {
        let shown = Cell::new(false);
        let mut read = |value: Value<'_>| {
            shown.set(true);
            read(value)
        };
        let failed = search(self.reader, column, self.on_error, &mut read)?;
        if shown.get() {
            return Ok(failed);
        }
        let whole = self.reader.of_whole_shards()?;
        whole.map_or(Ok(None), |whole| search(&whole, column, self.on_error, read))
    }

    /// The shape that most of the first lists, or arrays of `rank` dimensions, of a column have: one bad sample does not decide. Empty
    /// ones count if there are no others.
    pub(crate) fn usual_shape(&self, column: usize, rank: usize) -> Result<Option<Vec<usize>>> {
        let mut counts: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let count = |value: Value<'_>| {
            shape_of(value, rank).into_iter().for_each(|shape| *counts.entry(shape).or_default() += 1);
            Ok(counts.values().sum::<usize>() >= SHAPES)
        };
        self.show(column, count)?;
        let usual = counts.into_iter().max_by_key(|(shape, count)| (!shape.contains(&0), *count));
        Ok(usual.map(|(shape, _)| shape))
    }
}

impl FirstValues<'_> {
    /// The length of the inner lists of the first list of lists of a column that has any.
    pub(crate) fn inner_length(&self, column: usize) -> Result<Option<usize>> {
        let mut found = None;
        self.show(column, |value| {
            found = shape_of(value, 2).filter(|shape| !shape.contains(&0)).and_then(|shape| shape.last().copied());
            Ok(found.is_some())
        })?;
        Ok(found)
    }
}

/// See [`FirstValues::show`].
fn search(
    reader: &Reader,
    column: usize,
    on_error: OnError,
    mut read: impl FnMut(Value<'_>) -> Result<bool>,
) -> Result<Option<Error>> {
    let (mut wants, mut fetched) = (Wants::default(), SampleBlock::default());
    let (mut left, mut seen, mut lost, mut failures) = (BUDGET, false, None, Vec::new());
    let (dataset, mut opened) = (reader.dataset(), None);
    for (run, samples) in (0u32..).zip(dataset.runs()) {
        let shard = dataset.shards().get(samples.shard as usize);
        let cost = if shard.is_some_and(|shard| shard.is_table()) { READ } else { LOOK };
        if opened.replace(samples.shard) != Some(samples.shard) {
            left = left.saturating_sub(OPEN);
        }
        for at in 0..samples.len {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(cost);
            if reader.knows_lack(samples.shard, samples.first + at, column) {
                seen = true;
                continue;
            }
            reader.read_places(std::iter::once((run, at)), &mut wants, &mut fetched)?;
            if let (Some(Row::None), Some(fault)) = (fetched.rows.first(), fetched.fault(0)) {
                lost = Some(fault.clone());
                break;
            }
            seen = true;
            let Some(value) = fetched.value(0, column) else { continue };
            left = left.saturating_sub(READ);
            match read(value) {
                Ok(true) => return Ok(None),
                Ok(false) => left = left.min(FOUND),
                Err(error) => {
                    // Codecs know the name of the field only, and say what to do in packing.
                    let error = Error::new(error.kind(), error.message()).with_code(error.code());
                    let error = error.in_sample(fetched.key(0).unwrap_or_default());
                    failures.push(shard.into_iter().fold(error, |error, shard| error.in_input(&shard.name)));
                    if failures.len() == FAILURES {
                        left = 0;
                    }
                }
            }
        }
        if left == 0 || (lost.is_some() && on_error == OnError::Fail) {
            break;
        }
    }
    match lost {
        Some(error) if !seen || on_error == OnError::Fail => Err(error),
        _ => Ok(failures.into_iter().next()),
    }
}
