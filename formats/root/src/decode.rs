//! Decodes the entries of baskets to Arrow arrays. Every entry must be used up to its last byte, which
//! exposes wrong interpretations.

use crate::basket::Basket;
use crate::bytes::Bytes;
use crate::element::NumberType;
use crate::ends::{Ends, regular, too_long};
use crate::interpret::{BranchColumn, EntryLayout};
use crate::objects::{ObjectColumnBuilder, Objects, Values};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, FixedSizeListArray, StringViewArray, UInt32Array};
use arrow_buffer::Buffer;
use packhorse_core::{DataType, Error, FieldType, Pool, Result, array_of};
use std::ops::Range;
use std::sync::Arc;

/// Consecutive entries of one basket.
pub(crate) type BasketSlice = (Arc<Basket>, Range<usize>);

/// Decodes `pieces` to the array of `column`, in memory from `buffers`.
pub(crate) fn array(column: &BranchColumn, pieces: &[BasketSlice], buffers: &Pool) -> Result<ArrayRef> {
    match &column.layout {
        EntryLayout::Flat { element, len, offset, stride } => {
            let bytes = flat(element, *len, *offset, *stride, pieces, buffers)?;
            shaped(column, element, bytes, *len)
        }
        EntryLayout::Counted { element, inner, marker } => counted(element, inner, *marker, pieces, buffers),
        EntryLayout::Bits { list } => bits(*list, pieces),
        EntryLayout::Vector { element } => vector(element, pieces),
        EntryLayout::Text { header } => text(*header, pieces),
        EntryLayout::Objects(of) => objects(column, of, pieces),
    }
}

fn objects(column: &BranchColumn, objects: &Objects, pieces: &[BasketSlice]) -> Result<ArrayRef> {
    let mut reading = ObjectColumnBuilder::new(objects);
    for_entries(pieces, |entry| reading.entry(entry))?;
    let (ends, values) = reading.finish();
    let values = match (values, &objects.leaf.element) {
        (Values::Text(text), _) => text,
        (Values::Numbers(bytes), Some(element)) => {
            let len = objects.leaf.lists.iter().copied().flatten().product();
            shaped(column, element, Buffer::from_vec(bytes), len)?
        }
        (Values::Numbers(_), None) => return Err(Error::bug("numbers in a column of text")),
    };
    ends.into_iter().rev().try_fold(values, |values, ends| ends.wrap(values))
}

/// Checks the lengths of the lists of `array` against the values of its counter.
pub(crate) fn check_lengths(array: &ArrayRef, counts: &[i64]) -> Result<()> {
    let Some(list) = array.as_list_opt::<i32>() else { return Ok(()) };
    let lengths = list.offsets().windows(2).map(|pair| match pair {
        [start, end] => i64::from(*end) - i64::from(*start),
        _ => 0,
    });
    match lengths.zip(counts).find(|(length, count)| length != *count) {
        Some((length, count)) => {
            Err(Error::content(format!("an entry of {length} values, but its counter says {count}")))
        }
        None => Ok(()),
    }
}

/// The values of a counter branch.
pub(crate) fn counts(element: &NumberType, pieces: &[BasketSlice], buffers: &Pool) -> Result<Vec<i64>> {
    let width = element.width();
    let bytes = flat(element, 1, 0, width, pieces, buffers)?;
    let signed = element.data_type.is_signed_integer();
    let shift = 64usize.saturating_sub(8 * width);
    let number = |bytes: &[u8]| {
        let raw = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        if signed { (raw << shift).cast_signed() >> shift } else { raw.cast_signed() }
    };
    Ok(bytes.chunks_exact(width).map(number).collect())
}

fn flat(
    element: &NumberType,
    len: usize,
    offset: usize,
    stride: usize,
    pieces: &[BasketSlice],
    buffers: &Pool,
) -> Result<Buffer> {
    let (width, wide) = (len * element.width(), len * element.column_width());
    let mut entries = Vec::with_capacity(pieces.len());
    for (basket, wanted) in pieces {
        let (held, bytes) = (basket.entries, basket.data());
        if held.checked_mul(stride) != Some(bytes.len()) {
            let what = format!("a basket of {held} entries of {stride} bytes has {} bytes", bytes.len());
            return Err(Error::content(what));
        }
        entries.push(bytes.get(wanted.start * stride..wanted.end * stride).ok_or_else(too_few)?);
    }
    let total: usize = pieces.iter().map(|(_, wanted)| wanted.len()).sum();
    let total = total.checked_mul(wide).ok_or_else(too_long)?;
    buffers.filled(total, |out| {
        let mut rest = out;
        for ((_, wanted), bytes) in pieces.iter().zip(entries) {
            let (part, after) = rest.split_at_mut_checked(wanted.len() * wide).ok_or_else(too_few)?;
            rest = after;
            if width == stride {
                element.write(bytes, part);
                continue;
            }
            for (entry, place) in bytes.chunks_exact(stride).zip(part.chunks_exact_mut(wide.max(1))) {
                element.write(entry.get(offset..offset + width).ok_or_else(too_few)?, place);
            }
        }
        Ok(())
    })
}

fn too_few() -> Error {
    Error::content("a basket with fewer entries than its branch says")
}

fn numbers(element: &NumberType, bytes: Buffer) -> Result<ArrayRef> {
    let len = bytes.len() / element.column_width();
    array_of(&element.data_type, bytes, len)
}

fn shaped(column: &BranchColumn, element: &NumberType, bytes: Buffer, len: usize) -> Result<ArrayRef> {
    let values = numbers(element, bytes)?;
    let field = column.holds.field(&column.name, false);
    let (FieldType::Tensor { .. }, DataType::FixedSizeList(item, size)) = (&column.holds, field.data_type()) else {
        return Ok(values);
    };
    let entries = values.len() / len.max(1);
    let array = FixedSizeListArray::try_new_with_length(item.clone(), *size, values, None, entries);
    array.map(|array| Arc::new(array) as ArrayRef).map_err(|e| Error::bug(e.to_string()))
}

fn counted(
    element: &NumberType,
    inner: &[usize],
    marker: bool,
    pieces: &[BasketSlice],
    buffers: &Pool,
) -> Result<ArrayRef> {
    let size = inner.iter().product::<usize>() * element.width();
    if size == 0 {
        return Err(Error::unsupported("lists of empty arrays"));
    }
    let (ends, values) = match marker {
        true => marked_lists(element, size, pieces)?,
        false => lists(element, size, pieces, buffers)?,
    };
    let mut values = numbers(element, values)?;
    for len in inner.iter().rev() {
        values = regular(values, *len)?;
    }
    ends.wrap(values)
}

/// Lists whose values, of `size` bytes each, are contiguous in a basket.
fn lists(element: &NumberType, size: usize, pieces: &[BasketSlice], buffers: &Pool) -> Result<(Ends, Buffer)> {
    let (mut ends, mut runs) = (Ends::of(pieces), Vec::with_capacity(pieces.len()));
    for (basket, entries) in pieces {
        let offsets = offsets(basket, entries)?;
        ends.extend(offsets, size)?;
        runs.push(all_of(basket, offsets));
    }
    let wide = |run: &[u8]| run.len() / element.width() * element.column_width();
    let values = buffers.filled(runs.iter().map(|run| wide(run)).sum(), |out| {
        let mut rest = out;
        for run in runs {
            let (part, after) = rest.split_at_mut_checked(wide(run)).ok_or_else(too_few)?;
            element.write(run, part);
            rest = after;
        }
        Ok(())
    })?;
    Ok((ends, values))
}

/// Lists with a marker byte before each.
fn marked_lists(element: &NumberType, size: usize, pieces: &[BasketSlice]) -> Result<(Ends, Buffer)> {
    let (mut ends, mut out) = (Ends::of(pieces), Vec::new());
    for_entries(pieces, |entry| {
        let values = marked(entry)?;
        if !values.len().is_multiple_of(size) {
            let len = values.len();
            return Err(Error::content(format!("an entry of {len} bytes, which is not a multiple of {size} bytes")));
        }
        element.append(values, &mut out);
        ends.push(values.len() / size)
    })?;
    Ok((ends, Buffer::from_vec(out)))
}

/// The `fBits` of `TObject`s, whose sizes vary.
fn bits(list: bool, pieces: &[BasketSlice]) -> Result<ArrayRef> {
    let (mut ends, mut out) = (Ends::of(pieces), Vec::new());
    for (basket, entries) in pieces {
        if !list && basket.offsets.is_none() {
            let mut bytes = Bytes::new(basket.data());
            for entry in 0..entries.end {
                let bits = bytes.object_bits()?;
                if entry >= entries.start {
                    out.push(bits);
                }
            }
            continue;
        }
        for pair in offsets(basket, entries)?.windows(2) {
            let (mut bytes, before) = (Bytes::new(basket.data().get(span(pair)).unwrap_or_default()), out.len());
            while bytes.left() > 0 {
                out.push(bytes.object_bits()?);
            }
            ends.push(out.len() - before)?;
            if !list && out.len() != before + 1 {
                return Err(Error::content(format!("the bits of {} objects instead of one", out.len() - before)));
            }
        }
    }
    let values: ArrayRef = Arc::new(UInt32Array::from(out));
    if list { ends.wrap(values) } else { Ok(values) }
}

/// The bytes after the marker byte.
fn marked(entry: &[u8]) -> Result<&[u8]> {
    match entry.split_first() {
        None | Some((0, [])) => Ok(&[]),
        Some((1, values)) => Ok(values),
        Some((marker, _)) => Err(Error::content(format!("an array that begins with {marker} instead of 1"))),
    }
}

fn vector(element: &NumberType, pieces: &[BasketSlice]) -> Result<ArrayRef> {
    let held: usize = pieces.iter().map(|(basket, _)| basket.data().len()).sum();
    let (mut ends, mut out) = (Ends::of(pieces), Vec::with_capacity(held));
    for_entries(pieces, |entry| {
        let (count, values) = collection(entry)?;
        if count.checked_mul(element.width()) != Some(values.len()) {
            let what = format!("{count} values of {} bytes in {}", element.width(), values.len());
            return Err(Error::content(what));
        }
        element.append(values, &mut out);
        ends.push(count)
    })?;
    ends.wrap(numbers(element, Buffer::from_vec(out))?)
}

/// The length of a collection and the bytes of its items.
pub(crate) fn collection(entry: &[u8]) -> Result<(usize, &[u8])> {
    let mut bytes = Bytes::new(entry);
    let header = bytes.header()?;
    if header.end != Some(entry.len()) {
        return Err(Error::content("a collection that does not fill its entry"));
    }
    if header.version & 0x4000 != 0 {
        return Err(Error::unsupported("a collection stored member-wise"));
    }
    let count = bytes.count(1)?;
    Ok((count, bytes.take(bytes.left())?))
}

fn text(header: usize, pieces: &[BasketSlice]) -> Result<ArrayRef> {
    let mut out: Vec<&str> = Vec::new();
    for (basket, entries) in pieces {
        if basket.offsets.is_some() {
            let offsets = offsets(basket, entries)?;
            for pair in offsets.windows(2) {
                out.push(string(basket.data().get(span(pair)).unwrap_or_default(), header)?);
            }
        } else {
            out.extend(strings_in_line(basket, entries)?);
        }
    }
    Ok(Arc::new(StringViewArray::from_iter_values(out)))
}

/// Strings of a basket without offsets.
fn strings_in_line<'a>(basket: &'a Basket, entries: &Range<usize>) -> Result<Vec<&'a str>> {
    let mut bytes = Bytes::new(basket.data());
    let mut found = Vec::new();
    for i in 0..entries.end {
        let raw = bytes.raw_string()?;
        if i >= entries.start {
            found.push(utf8(raw)?);
        }
    }
    Ok(found)
}

fn string(entry: &[u8], header: usize) -> Result<&str> {
    let mut bytes = Bytes::new(entry);
    if header > 0 {
        bytes.header()?;
    }
    let raw = bytes.raw_string()?;
    match bytes.left() {
        0 => utf8(raw),
        left => Err(Error::content(format!("{left} bytes after a string"))),
    }
}

/// `raw` as text.
pub(crate) fn utf8(raw: &[u8]) -> Result<&str> {
    std::str::from_utf8(raw).map_err(|_| Error::content("text that is not UTF-8"))
}

/// Calls `each` with the bytes of every entry.
fn for_entries(pieces: &[BasketSlice], mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    for (basket, entries) in pieces {
        for pair in offsets(basket, entries)?.windows(2) {
            each(basket.data().get(span(pair)).unwrap_or_default())?;
        }
    }
    Ok(())
}

fn offsets<'a>(basket: &'a Basket, entries: &Range<usize>) -> Result<&'a [u32]> {
    let offsets = basket.offsets.as_deref().ok_or_else(|| Error::unsupported("a basket without offsets"))?;
    let found = offsets.get(entries.start..entries.end.saturating_add(1));
    found.ok_or_else(too_few)
}

fn span(pair: &[u32]) -> Range<usize> {
    match pair {
        [start, end] => *start as usize..*end as usize,
        _ => 0..0,
    }
}

fn all_of<'a>(basket: &'a Basket, offsets: &[u32]) -> &'a [u8] {
    match (offsets.first(), offsets.last()) {
        (Some(start), Some(end)) => basket.data().get(*start as usize..*end as usize).unwrap_or_default(),
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_must_match_counters() {
        let mut ends = Ends::new();
        ends.push(2).unwrap();
        ends.push(1).unwrap();
        let lists = ends.wrap(Arc::new(UInt32Array::from(vec![7, 8, 9]))).unwrap();
        check_lengths(&lists, &[2, 1]).unwrap();
        let error = check_lengths(&lists, &[2, 2]).unwrap_err();
        assert_eq!(error.message(), "an entry of 1 values, but its counter says 2");
    }
}
