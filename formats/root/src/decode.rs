//! From the entries of baskets to an Arrow array. Every entry must be used up to its last byte: that is
//! how a wrong idea of what the bytes mean shows itself.

use crate::basket::Basket;
use crate::element::Element;
use crate::interpret::{Column, Layout};
use crate::nested::Lists;
use arrow_array::{ArrayRef, FixedSizeListArray, ListArray, StringViewArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use packhorse_core::{DataType, Error, FieldType, Result, array_of};
use std::ops::Range;
use std::sync::Arc;

/// Consecutive entries of one basket.
pub(crate) type Piece = (Arc<Basket>, Range<usize>);

/// The array of `column` over `pieces`.
pub(crate) fn array(column: &Column, pieces: &[Piece]) -> Result<ArrayRef> {
    match &column.layout {
        Layout::Flat { element, len, offset, stride } => {
            let bytes = flat(element, *len, *offset, *stride, pieces)?;
            shaped(column, element, bytes, *len)
        }
        Layout::Counted { element, inner, marker } => counted(element, inner, *marker, pieces),
        Layout::Vector { element } => vector(element, pieces),
        Layout::Text { header } => text(*header, pieces),
        Layout::Nested(inner) => {
            let mut lists = Lists::new(inner);
            for_entries(pieces, |entry| lists.entry(entry))?;
            lists.finish()
        }
    }
}

/// The values of a branch that counts another, as whole numbers.
pub(crate) fn counts(element: &Element, pieces: &[Piece]) -> Result<Vec<i64>> {
    let width = element.width();
    let bytes = flat(element, 1, 0, width, pieces)?;
    let signed = element.data_type.is_signed_integer();
    let shift = 64usize.saturating_sub(8 * width);
    let number = |bytes: &[u8]| {
        let raw = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        if signed { (raw << shift).cast_signed() >> shift } else { raw.cast_signed() }
    };
    Ok(bytes.chunks_exact(width).map(number).collect())
}

fn flat(element: &Element, len: usize, offset: usize, stride: usize, pieces: &[Piece]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for (basket, entries) in pieces {
        if basket.entries.checked_mul(stride) != Some(basket.data().len()) {
            let what =
                format!("a basket of {} entries of {stride} bytes holds {}", basket.entries, basket.data().len());
            return Err(Error::content(what));
        }
        let bytes = basket.data().get(entries.start * stride..entries.end * stride).unwrap_or_default();
        let width = len * element.width();
        match width == stride {
            true => element.append(bytes, &mut out),
            false => {
                let parts = bytes.chunks_exact(stride).filter_map(|entry| entry.get(offset..offset + width));
                parts.for_each(|part| element.append(part, &mut out));
            }
        }
    }
    Ok(out)
}

/// The bytes of an element as the column has it.
fn column_width(element: &Element) -> usize {
    packhorse_core::element_width(&element.data_type).unwrap_or(1)
}

fn numbers(element: &Element, bytes: Vec<u8>) -> Result<ArrayRef> {
    let len = bytes.len() / column_width(element);
    array_of(&element.data_type, Buffer::from_vec(bytes), len)
}

fn shaped(column: &Column, element: &Element, bytes: Vec<u8>, len: usize) -> Result<ArrayRef> {
    let values = numbers(element, bytes)?;
    let field = column.holds.field(&column.name, false);
    let (FieldType::Tensor { .. }, DataType::FixedSizeList(item, size)) = (&column.holds, field.data_type()) else {
        return Ok(values);
    };
    let entries = values.len() / len.max(1);
    let array = FixedSizeListArray::try_new_with_length(item.clone(), *size, values, None, entries);
    array.map(|array| Arc::new(array) as ArrayRef).map_err(|e| Error::bug(e.to_string()))
}

/// Ends of lists. A block of rows never holds more than an i32 counts.
#[derive(Clone)]
pub(crate) struct Ends(Vec<i32>);

impl Ends {
    pub(crate) fn new() -> Self {
        Self(vec![0])
    }

    pub(crate) fn push(&mut self, len: usize) -> Result<()> {
        let last = self.0.last().copied().unwrap_or(0);
        let end = i32::try_from(len).ok().and_then(|len| last.checked_add(len));
        self.0.push(end.ok_or_else(too_long)?);
        Ok(())
    }

    /// A list of `values` for each end.
    pub(crate) fn wrap(self, values: ArrayRef) -> Result<ArrayRef> {
        let item = FieldType::List { element: values.data_type().clone(), depth: 1 }.field("", false);
        let DataType::List(item) = item.data_type() else { return Err(Error::bug("a list that is none")) };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.0));
        let list = ListArray::try_new(item.clone(), offsets, values, None);
        list.map(|list| Arc::new(list) as ArrayRef).map_err(|e| Error::bug(e.to_string()))
    }
}

fn too_long() -> Error {
    Error::new(packhorse_core::Kind::Limit, "more than 2^31 values in one block of rows")
}

/// Lists of `len` each around `values`.
pub(crate) fn regular(values: ArrayRef, len: usize) -> Result<ArrayRef> {
    let mut ends = Ends::new();
    for _ in 0..values.len().checked_div(len).unwrap_or(0) {
        ends.push(len)?;
    }
    ends.wrap(values)
}

fn counted(element: &Element, inner: &[usize], marker: bool, pieces: &[Piece]) -> Result<ArrayRef> {
    let size = inner.iter().product::<usize>() * element.width();
    let (mut ends, mut out) = (Ends::new(), Vec::new());
    for (basket, entries) in pieces {
        let offsets = offsets(basket, entries)?;
        for pair in offsets.windows(2) {
            let len = span(pair).len().saturating_sub(usize::from(marker));
            if !len.is_multiple_of(size) {
                return Err(Error::content(format!("an entry of {len} bytes is no list of values of {size} bytes")));
            }
            ends.push(len / size)?;
        }
        match marker {
            // The entries lie one after the other: all of them at once.
            false => element.append(all_of(basket, offsets), &mut out),
            true => for_entries(&[(basket.clone(), entries.clone())], |entry| {
                element.append(marked(entry)?, &mut out);
                Ok(())
            })?,
        }
    }
    let mut values = numbers(element, out)?;
    for len in inner.iter().rev() {
        values = regular(values, *len)?;
    }
    ends.wrap(values)
}

/// What follows the byte that says whether there is anything.
fn marked(entry: &[u8]) -> Result<&[u8]> {
    match entry.split_first() {
        None | Some((0, [])) => Ok(&[]),
        Some((1, values)) => Ok(values),
        Some((marker, _)) => Err(Error::content(format!("an array that begins with {marker} instead of 1"))),
    }
}

fn vector(element: &Element, pieces: &[Piece]) -> Result<ArrayRef> {
    let (mut ends, mut out) = (Ends::new(), Vec::new());
    for_entries(pieces, |entry| {
        let (count, values) = collection(entry)?;
        if count.checked_mul(element.width()) != Some(values.len()) {
            let what = format!("{count} values of {} bytes in {}", element.width(), values.len());
            return Err(Error::content(what));
        }
        element.append(values, &mut out);
        ends.push(count)
    })?;
    ends.wrap(numbers(element, out)?)
}

/// How many things a collection holds, and their bytes: after a count of bytes and a version.
pub(crate) fn collection(entry: &[u8]) -> Result<(usize, &[u8])> {
    let mut bytes = crate::bytes::Bytes::new(entry);
    let header = bytes.header()?;
    if header.end != Some(entry.len()) {
        return Err(Error::content("a collection that does not fill its entry"));
    }
    if header.version & 0x4000 != 0 {
        return Err(Error::unsupported("a collection stored member by member"));
    }
    let count = bytes.count(1)?;
    Ok((count, bytes.take(bytes.left())?))
}

fn text(header: usize, pieces: &[Piece]) -> Result<ArrayRef> {
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

/// Strings without a table of where they begin.
fn strings_in_line<'a>(basket: &'a Basket, entries: &Range<usize>) -> Result<Vec<&'a str>> {
    let mut bytes = crate::bytes::Bytes::new(basket.data());
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
    let mut bytes = crate::bytes::Bytes::new(entry);
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
    std::str::from_utf8(raw)
        .map_err(|_| Error::content("text that is not UTF-8; leave the field out (option branches)"))
}

/// Calls `each` with the bytes of every entry.
fn for_entries(pieces: &[Piece], mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
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
    found.ok_or_else(|| Error::content("a basket of fewer entries than the tree says"))
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
