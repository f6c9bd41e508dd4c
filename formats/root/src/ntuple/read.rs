//! Reads the elements of a cluster's columns, page by page, and assembles arrays.

use super::Ntuple;
use super::clusters::{Cluster, PageLocation};
use super::node::Node;
use super::page;
use crate::decode::utf8;
use crate::ends::{Ends, regular};
use crate::file::RootFile;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, StringViewArray};
use arrow_buffer::Buffer;
use packhorse_core::{Code, DataType, Error, FieldType, Result, array_of, element_width};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The last page of each column, where the next block may start: cluster, page number, bytes.
pub(crate) type Kept = Mutex<BTreeMap<usize, (u64, u64, Arc<Vec<u8>>)>>;

/// The context for reading from one cluster.
pub(crate) struct ClusterReader<'a> {
    pub(crate) file: &'a RootFile<'a>,
    pub(crate) ntuple: &'a Ntuple,
    pub(crate) cluster: &'a Cluster,
    pub(crate) kept: &'a Kept,
}

impl ClusterReader<'_> {
    /// The array of `node` over the elements `range`; `total` is the number of elements in the cluster, if known.
    /// Arrays of numbers become a tensor named `name`, or lists if it is `None`.
    pub(crate) fn array(
        &self,
        node: &Node,
        range: Range<u64>,
        total: Option<u64>,
        name: Option<&str>,
    ) -> Result<ArrayRef> {
        match node {
            Node::Number { columns, element } => self.numbers(columns, element, range, total),
            Node::Count { columns, element } => {
                let (start, ends) = self.ends(columns, range, total)?;
                let starts = std::iter::once(start).chain(ends.iter().copied());
                let counts = starts.zip(&ends).map(|(start, end)| end - start);
                let bytes: Vec<u8> = match element {
                    DataType::UInt64 => counts.flat_map(u64::to_le_bytes).collect(),
                    _ => counts.flat_map(|count| (count as u32).to_le_bytes()).collect(),
                };
                array_of(element, Buffer::from_vec(bytes), ends.len())
            }
            Node::Text { ends, characters } => self.text(ends, characters, range, total),
            Node::List { ends, inner } => {
                let (start, ends) = self.ends(ends, range, total)?;
                let end = ends.last().copied().unwrap_or(start);
                let inner = self.array(inner, start..end, None, None)?;
                let mut lists = Ends::new();
                let mut last = start;
                for end in ends {
                    lists.push(usize::try_from(end - last).unwrap_or(usize::MAX))?;
                    last = end;
                }
                lists.wrap(inner)
            }
            Node::Array { len, inner } => {
                let times = |n: u64| {
                    n.checked_mul(*len as u64).ok_or_else(|| Error::content("an array with more than 2^64 elements"))
                };
                let elements = times(range.start)?..times(range.end)?;
                let total = total.map(times).transpose()?;
                match (name, node.holds()) {
                    (Some(name), FieldType::Tensor { .. }) => {
                        tensor(node, self.array(inner, elements, total, Some(name))?, *len, name)
                    }
                    _ => regular(self.array(inner, elements, total, None)?, *len),
                }
            }
        }
    }

    fn text(&self, ends: &[usize], characters: &[usize], range: Range<u64>, total: Option<u64>) -> Result<ArrayRef> {
        let (start, ends) = self.ends(ends, range, total)?;
        let end = ends.last().copied().unwrap_or(start);
        let (_, bytes) = self.elements(characters, start..end, None)?;
        let mut found = Vec::with_capacity(ends.len());
        let mut last = start;
        for end in ends {
            let local = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
            found.push(utf8(bytes.get(local(last)..local(end)).unwrap_or_default())?);
            last = end;
        }
        Ok(Arc::new(StringViewArray::from_iter_values(found)))
    }

    /// The start of the first item of `range`, and the end of each; sorted.
    fn ends(&self, columns: &[usize], range: Range<u64>, total: Option<u64>) -> Result<(u64, Vec<u64>)> {
        let from = range.start.saturating_sub(1);
        let (element, bytes) = self.elements(columns, from..range.end.max(from), total)?;
        let width = element_width(&element).unwrap_or(8);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let mut ends: Vec<u64> = bytes.chunks_exact(width).map(number).collect();
        if ends.windows(2).any(|pair| pair.first() > pair.last()) {
            return Err(Error::content("list offsets that decrease"));
        }
        let start = if range.start > 0 && !ends.is_empty() { ends.remove(0) } else { 0 };
        Ok((start, ends))
    }

    fn numbers(
        &self,
        columns: &[usize],
        element: &DataType,
        range: Range<u64>,
        total: Option<u64>,
    ) -> Result<ArrayRef> {
        let (found, bytes) = self.elements(columns, range, total)?;
        let len = bytes.len() / element_width(&found).unwrap_or(1);
        let bytes = if found == *element { bytes } else { widen(&found, element, &bytes)? };
        array_of(element, Buffer::from_vec(bytes), len)
    }

    /// The elements `range`, little-endian, with their type.
    fn elements(&self, columns: &[usize], range: Range<u64>, total: Option<u64>) -> Result<(DataType, Vec<u8>)> {
        let used = columns.iter().find_map(|column| Some((*column, self.cluster.columns.get(*column)?.as_ref()?)));
        let (column, pages) = match (used, columns.first()) {
            (Some((column, pages)), _) => (column, pages.as_slice()),
            (None, Some(column)) => (*column, &[][..]),
            (None, None) => return Err(Error::bug("a field without columns")),
        };
        let record = self.ntuple.records.columns.get(column).ok_or_else(|| Error::bug("a column without a record"))?;
        let (element, _) = page::kind(record.kind).ok_or_else(|| Error::unsupported("a column of an unknown type"))?;
        let width = element_width(&element).unwrap_or(1) as u64;
        let held = pages.last().map_or(0, |page| page.first.saturating_add(page.elements));
        // A deferred column has no elements for earlier entries; they are zero.
        let missing = match total {
            Some(total) if record.deferred => total.saturating_sub(held),
            _ => 0,
        };
        if range.end > range.start && range.end.saturating_sub(missing) > held {
            return Err(Error::content(format!("a column of {held} elements instead of {}", range.end)));
        }
        let zeros = range.end.min(missing).saturating_sub(range.start);
        self.file.limits().blob((range.end - range.start).saturating_mul(width))?;
        let mut out = vec![0; usize::try_from(zeros * width).unwrap_or(0)];
        let range = range.start.saturating_sub(missing)..range.end.saturating_sub(missing);
        let from = pages.partition_point(|page| page.first.saturating_add(page.elements) <= range.start);
        for (number, page) in pages.iter().enumerate().skip(from).take_while(|(_, page)| page.first < range.end) {
            let bytes = self.page(column, number as u64, page)?;
            let local = |at: u64| (at.clamp(page.first, page.first + page.elements) - page.first).saturating_mul(width);
            let part = usize::try_from(local(range.start)).unwrap_or(usize::MAX)
                ..usize::try_from(local(range.end)).unwrap_or(0);
            out.extend_from_slice(bytes.get(part).ok_or_else(|| Error::content("a page with too few elements"))?);
        }
        Ok((element, out))
    }

    fn page(&self, column: usize, number: u64, page: &PageLocation) -> Result<Arc<Vec<u8>>> {
        let lock = || self.kept.lock().map_err(|_| Error::bug("a thread that read pages panicked"));
        match lock()?.get(&column) {
            Some((cluster, n, bytes)) if *cluster == self.cluster.first && *n == number => return Ok(bytes.clone()),
            _ => {}
        }
        let bytes = Arc::new(self.unpack(column, page)?);
        lock()?.insert(column, (self.cluster.first, number, bytes.clone()));
        Ok(bytes)
    }

    fn unpack(&self, column: usize, page: &PageLocation) -> Result<Vec<u8>> {
        let record = self.ntuple.records.columns.get(column).ok_or_else(|| Error::bug("a column without a record"))?;
        let bits = page.elements.saturating_mul(u64::from(record.bits));
        let len = self.file.limits().blob(bits.div_ceil(8))?;
        let stored = page.place.len.saturating_add(if page.has_checksum { 8 } else { 0 });
        let mut bytes = self.file.read(page.place.at, stored)?;
        if page.has_checksum {
            let sum = bytes.split_off(usize::try_from(page.place.len).unwrap_or(0));
            if twox_hash::XxHash3_64::oneshot(&bytes).to_le_bytes() != *sum {
                return Err(
                    Error::content("a page's checksum is wrong: the file is damaged").with_code(Code::ChecksumDiffers)
                );
            }
        }
        if bytes.len() != len {
            bytes = self.file.coders().unpack(&bytes, len)?;
        }
        page::decode(record, bytes, usize::try_from(page.elements).unwrap_or(usize::MAX))
    }
}

/// Combines arrays of length `len`, whose items may be arrays, into one tensor.
fn tensor(node: &Node, array: ArrayRef, len: usize, name: &str) -> Result<ArrayRef> {
    let (flat, inner) = match array.as_fixed_size_list_opt() {
        Some(list) => (list.values().clone(), usize::try_from(list.value_length()).unwrap_or(0)),
        None => (array, 1),
    };
    let field = node.holds().field(name, false);
    let DataType::FixedSizeList(item, size) = field.data_type() else {
        return Err(Error::bug("not a tensor type"));
    };
    let entries = flat.len() / (len * inner).max(1);
    let array = FixedSizeListArray::try_new_with_length(item.clone(), *size, flat, None, entries);
    array.map(|array| Arc::new(array) as ArrayRef).map_err(|e| Error::bug(e.to_string()))
}

/// Converts floats to wider floats.
fn widen(from: &DataType, to: &DataType, bytes: &[u8]) -> Result<Vec<u8>> {
    let value = |bytes: &[u8]| match bytes {
        [a, b] => half(u16::from_le_bytes([*a, *b])),
        [a, b, c, d] => f64::from(f32::from_le_bytes([*a, *b, *c, *d])),
        _ => f64::NAN,
    };
    let values = bytes.chunks_exact(element_width(from).unwrap_or(1)).map(value);
    match (from, to) {
        (DataType::Float16, DataType::Float32) => Ok(values.flat_map(|v| (v as f32).to_le_bytes()).collect()),
        (DataType::Float16 | DataType::Float32, DataType::Float64) => Ok(values.flat_map(f64::to_le_bytes).collect()),
        _ => Err(Error::unsupported(format!("{from} in one part of the file and {to} in another"))),
    }
}

/// Decodes IEEE 754 half precision.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + mantissa) * 2f64.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves() {
        for (bits, wanted) in [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 2f64.powi(-24)), (0x7c00, f64::INFINITY)] {
            assert_eq!(half(bits), wanted);
        }
    }
}
