//! Encodes a column as one or more features, directly from its arrays.

use crate::ints::Ints;
use crate::layout::{FeatureColumn, ListKind};
use crate::wire::{delimited, put_head};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer};
use packhorse_core::{Error, FieldType, Result, bytes_of, element_width, value_bytes};
use std::ops::Range;

/// A feature of all samples of a block.
pub(crate) struct Feature {
    pub(crate) name: String,
    nulls: Option<NullBuffer>,
    extents: Extents,
    values: Values,
}

/// The ranges of values of each sample.
#[derive(Clone)]
enum Extents {
    Each(usize),
    Offsets(Vec<usize>),
}

impl Extents {
    fn of(&self, row: usize) -> Range<usize> {
        match self {
            Extents::Each(n) => row * n..(row + 1) * n,
            Extents::Offsets(offsets) => match offsets.get(row..row + 2) {
                Some([from, to]) => *from..*to,
                _ => 0..0,
            },
        }
    }
}

enum Values {
    Ints(Ints),
    Floats(Buffer),
    Raw { bytes: Buffer, width: usize },
    Bytes(ArrayRef),
}

impl Feature {
    /// The tag and the encoded size of the list of sample `row`, which [`Feature::put`] appends; `None` for a null.
    pub(crate) fn size(&self, row: usize) -> Option<(u8, usize)> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let range = self.extents.of(row);
        let packed = |len: usize| if range.is_empty() { 0 } else { delimited(len) };
        Some(match &self.values {
            Values::Ints(ints) => (0x1a, packed(ints.size(range.clone()))),
            Values::Floats(_) => (0x12, packed(range.len() * 4)),
            Values::Raw { width, .. } => (0x0a, delimited(range.len() * width)),
            Values::Bytes(array) => (0x0a, range.map(|i| delimited(value(array, i).len())).sum()),
        })
    }

    /// Appends the list of sample `row`, `size` bytes.
    pub(crate) fn put(&self, row: usize, size: usize, out: &mut Vec<u8>) {
        let range = self.extents.of(row);
        match &self.values {
            Values::Bytes(array) => range.for_each(|i| put_bytes(out, value(array, i))),
            Values::Raw { bytes, width } => put_bytes(out, slice(bytes, range, *width)),
            _ if range.is_empty() => {}
            Values::Floats(bytes) => put_bytes(out, slice(bytes, range, 4)),
            Values::Ints(ints) => {
                let len = undelimited(size);
                put_head(out, 0x0a, len);
                ints.put(range, len, out);
            }
        }
    }
}

/// The inverse of [`delimited`].
fn undelimited(size: usize) -> usize {
    (1..=10).find_map(|head| size.checked_sub(1 + head).filter(|len| delimited(*len) == size)).unwrap_or(0)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_head(out, 0x0a, bytes.len());
    out.extend_from_slice(bytes);
}

fn slice(bytes: &Buffer, range: Range<usize>, width: usize) -> &[u8] {
    bytes.get(range.start * width..range.end * width).unwrap_or_default()
}

/// The bytes of value `i` of a column of blobs or text.
fn value(array: &ArrayRef, i: usize) -> &[u8] {
    value_bytes(array, i).unwrap_or_default()
}

/// The features of `column`, whose values are `array`.
pub(crate) fn features(column: &FeatureColumn, array: &ArrayRef) -> Result<Vec<Feature>> {
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    if nulls.is_some() && !column.field.is_nullable() {
        return Err(Error::content(format!(
            "field {} is null in a sample, but its column is not nullable",
            column.name()
        )));
    }
    let mut parts = Vec::new();
    let (extents, leaves) = match &column.kind {
        FieldType::Blob | FieldType::Text | FieldType::Scalar(_) => (Extents::Each(1), array.clone()),
        FieldType::Tensor { shape, .. } => (Extents::Each(shape.iter().product()), flat(array)),
        FieldType::Ragged { rank, .. } => ragged(column, array, *rank, &mut parts)?,
        FieldType::List { depth, .. } => lists(column, array, *depth, nulls.as_ref(), &mut parts)?,
    };
    if !matches!(column.kind, FieldType::Blob | FieldType::Text | FieldType::Scalar(_)) {
        no_nulls(column, &leaves, &extents, array.len(), nulls.as_ref())?;
    }
    let parts = parts.into_iter().map(|(extents, ints)| (extents, Values::Ints(ints)));
    let all = [(extents, values(column, leaves)?)].into_iter().chain(parts);
    let names = [column.name().to_owned()].into_iter().chain(column.parts());
    Ok(names
        .zip(all)
        .map(|(name, (extents, values))| Feature { name, nulls: nulls.clone(), extents, values })
        .collect())
}

/// The innermost values of fixed-size lists.
fn flat(array: &ArrayRef) -> ArrayRef {
    match array.as_fixed_size_list_opt() {
        Some(list) => flat(list.values()),
        None => array.clone(),
    }
}

type Parts = Vec<(Extents, Ints)>;

fn ragged(column: &FeatureColumn, array: &ArrayRef, rank: usize, parts: &mut Parts) -> Result<(Extents, ArrayRef)> {
    let missing = || Error::bug(format!("field {} lacks a part", column.name()));
    let of = |name: &str| array.as_struct_opt().and_then(|parts| parts.column_by_name(name)).ok_or_else(missing);
    parts.push((Extents::Each(rank), Ints::of(&flat(of("shape")?))?));
    let (offsets, leaves) = list(of("data")?).ok_or_else(missing)?;
    Ok((Extents::Offsets(offsets), leaves))
}

fn lists(
    column: &FeatureColumn,
    array: &ArrayRef,
    depth: usize,
    nulls: Option<&NullBuffer>,
    parts: &mut Parts,
) -> Result<(Extents, ArrayRef)> {
    let missing = || Error::bug(format!("field {} is not a list", column.name()));
    let (mut offsets, mut leaves) = list(array).ok_or_else(missing)?;
    for _ in 1..depth {
        let (inner, deeper) = list(&leaves).ok_or_else(missing)?;
        let (splits, ends) = splits(&offsets, &inner);
        parts.push((Extents::Offsets(ends), Ints::I64(splits.into())));
        let next = offsets.iter().map(|i| inner.get(*i).copied().unwrap_or_default()).collect();
        no_nulls(column, &leaves, &Extents::Offsets(offsets), array.len(), nulls)?;
        (offsets, leaves) = (next, deeper);
    }
    Ok((Extents::Offsets(offsets), leaves))
}

/// Offsets and values of a list.
fn list(array: &ArrayRef) -> Option<(Vec<usize>, ArrayRef)> {
    if let Some(list) = array.as_list_opt::<i32>() {
        return Some((
            list.value_offsets().iter().map(|x| usize::try_from(*x).unwrap_or(0)).collect(),
            list.values().clone(),
        ));
    }
    let list = array.as_list_opt::<i64>()?;
    Some((list.value_offsets().iter().map(|x| usize::try_from(*x).unwrap_or(0)).collect(), list.values().clone()))
}

/// The row splits of each sample, each starting at 0, concatenated; and their ranges.
fn splits(outer: &[usize], inner: &[usize]) -> (Vec<i64>, Vec<usize>) {
    let (mut all, mut ends) = (Vec::new(), vec![0]);
    for pair in outer.windows(2) {
        let [from, to] = *pair else { continue };
        let part = inner.get(from..=to).unwrap_or_default();
        let base = part.first().copied().unwrap_or_default();
        all.extend(part.iter().map(|x| (x - base) as i64));
        ends.push(all.len());
    }
    (all, ends)
}

/// Refuses a null inside a list or tensor that is not null itself.
fn no_nulls(
    column: &FeatureColumn,
    values: &ArrayRef,
    extents: &Extents,
    rows: usize,
    outer: Option<&NullBuffer>,
) -> Result<()> {
    let Some(inside) = values.logical_nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(()) };
    let whole = (0..rows).filter(|row| outer.is_none_or(|outer| outer.is_valid(*row)));
    match whole.map(|row| extents.of(row)).any(|range| inside.slice(range.start, range.len()).null_count() > 0) {
        false => Ok(()),
        true => Err(Error::content(format!(
            "field {} holds a null inside a {}, which a feature can't represent; fill it in",
            column.name(),
            column.kind
        ))),
    }
}

fn values(column: &FeatureColumn, leaves: ArrayRef) -> Result<Values> {
    Ok(match column.carrier {
        ListKind::Bytes => Values::Bytes(leaves),
        ListKind::Ints => Values::Ints(Ints::of(&leaves)?),
        ListKind::Floats => Values::Floats(bytes_of(&leaves)?),
        ListKind::Raw => {
            Values::Raw { width: element_width(leaves.data_type()).unwrap_or(0), bytes: bytes_of(&leaves)? }
        }
    })
}
