//! Attributes of objects, stored as messages (compact) or in a fractal heap (dense).

use super::btree_v2;
use super::file::H5File;
use super::fractal_heap::FractalHeap;
use super::global_heap::GlobalHeap;
use super::message::{Space, committed_datatype, space, unpadded};
use super::native::{swap, widened};
use super::object_header::{ObjectHeader, kind, shared_address};
use crate::bytes::{self, Cursor, UNDEFINED};
use crate::datatype::Datatype;
use packhorse_core::{Error, Kind, Result};

/// An attribute's value.
#[derive(Clone, Debug)]
pub(crate) struct Attribute {
    pub(crate) datatype: Datatype,
    pub(crate) space: Space,
    /// As stored.
    pub(crate) data: Vec<u8>,
}

/// A number, without loss of precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    pub(crate) fn value(self) -> f64 {
        match self {
            Number::Integer(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

/// The text of the attribute `name`, if it exists and is text.
pub(crate) fn text_attribute(file: &H5File<'_>, object: &ObjectHeader, name: &str) -> Result<Option<String>> {
    match find(file, object, name)? {
        Some(attribute) => attribute.text(file),
        None => Ok(None),
    }
}

/// The attribute `name` of `object`, if it exists and its type is supported.
pub(crate) fn find(file: &H5File<'_>, object: &ObjectHeader, name: &str) -> Result<Option<Attribute>> {
    let mut found = None;
    visit(file, object, &mut |bytes| {
        if found.is_none()
            && let Ok(message) = bytes.and_then(AttributeMessage::parse)
            && message.name == name.as_bytes()
        {
            found = message.attribute(file).ok();
        }
        found.is_none()
    })?;
    Ok(found)
}

/// Gives the attributes of `object` to `each`, with their names, or why one can't be read (then perhaps without).
pub(crate) fn all(
    file: &H5File<'_>,
    object: &ObjectHeader,
    each: &mut dyn FnMut(Option<String>, Result<Attribute>) -> Result<()>,
) -> Result<()> {
    let mut done = Ok(());
    visit(file, object, &mut |bytes| {
        done = match bytes.and_then(AttributeMessage::parse) {
            Ok(message) => each(Some(message.name()), message.attribute(file)),
            Err(e) => each(None, Err(e)),
        };
        done.is_ok()
    })?;
    done
}

/// Gives the message of each attribute to `each`, which says whether it wants more; `Unsupported` or `Limit` where it can't be had.
fn visit(file: &H5File<'_>, object: &ObjectHeader, each: &mut dyn FnMut(Result<&[u8]>) -> bool) -> Result<()> {
    for message in object.all(kind::ATTRIBUTE) {
        if !each(message.bytes()) {
            return Ok(());
        }
    }
    let Some(bytes) = object.first(kind::ATTRIBUTES)? else { return Ok(()) };
    let mut cursor = Cursor::new(bytes, "an object's attributes");
    cursor.skip(1)?;
    let flags = cursor.u8()?;
    cursor.skip(if flags & 1 != 0 { 2 } else { 0 })?;
    let (heap, tree) = (cursor.address(file.offsets)?, cursor.address(file.offsets)?);
    if heap == UNDEFINED {
        return Ok(());
    }
    let heap = FractalHeap::open(file, heap)?;
    // Each has its own bytes in the file.
    let (mut more, mut left) = (true, file.len());
    btree_v2::records(file, tree, &mut |_, record| {
        if !more {
            return Ok(());
        }
        let (id, rest) = record.split_at_checked(8).unwrap_or_default();
        let bytes = match rest.first().is_none_or(|flags| flags & 2 != 0) {
            true => Err(Error::unsupported("shared attributes; rewrite the file with h5repack")),
            false => heap.object(file, id),
        };
        if let Ok(bytes) = &bytes {
            let overlap = || Error::content("has attributes larger than the file: it is damaged");
            left = left.checked_sub(bytes.len() as u64).ok_or_else(overlap)?;
        }
        more = match bytes {
            Err(e) if !matches!(e.kind(), Kind::Unsupported | Kind::Limit) => return Err(e),
            bytes => each(bytes.as_deref().map_err(Error::clone)),
        };
        Ok(())
    })
}

/// The parts of an attribute's message.
struct AttributeMessage<'a> {
    name: &'a [u8],
    /// The datatype, or where it is if `is_committed`.
    datatype: &'a [u8],
    is_committed: bool,
    space: &'a [u8],
    data: &'a [u8],
}

impl<'a> AttributeMessage<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "an attribute");
        let (version, flags) = (cursor.u8()?, cursor.u8()?);
        let sizes = [cursor.u16()?, cursor.u16()?, cursor.u16()?].map(usize::from);
        // Those of version 1 have no flags.
        let flags = if version == 1 { 0 } else { flags };
        if !(1..=3).contains(&version) || flags > 1 {
            return Err(Error::unsupported("an attribute of an unknown version or with a shared dataspace"));
        }
        cursor.skip(if version == 3 { 1 } else { 0 })?;
        let part =
            |cursor: &mut Cursor<'a>, len: usize| cursor.take(if version == 1 { len.next_multiple_of(8) } else { len });
        let [name, datatype, space] = sizes;
        let name = part(&mut cursor, name)?.split(|byte| *byte == 0).next().unwrap_or_default();
        let (datatype, space) = (part(&mut cursor, datatype)?, part(&mut cursor, space)?);
        Ok(Self { name, datatype, is_committed: flags == 1, space, data: cursor.rest() })
    }

    fn name(&self) -> String {
        bytes::name(self.name)
    }

    fn attribute(&self, file: &H5File<'_>) -> Result<Attribute> {
        let datatype = match self.is_committed {
            true => committed_datatype(file, shared_address(file, self.datatype)?)?,
            false => Datatype::parse(&mut Cursor::new(self.datatype, "an attribute's datatype"))?,
        };
        Ok(Attribute { datatype, space: space(file, self.space)?, data: self.data.to_vec() })
    }
}

impl Attribute {
    /// Its value, if it is UTF-8 text.
    pub(crate) fn text(&self, file: &H5File<'_>) -> Result<Option<String>> {
        let text = match &self.datatype {
            Datatype::Fixed { size, padding, .. } => {
                let text = self.data.get(..*size as usize);
                text.map(|text| unpadded(text, *padding).to_vec()).unwrap_or_default()
            }
            Datatype::VlenText { .. } if self.data.is_empty() => return Ok(None),
            Datatype::VlenText { .. } => heap_value(file, &self.data, 1)?,
            _ => return Ok(None),
        };
        Ok(String::from_utf8(text).ok())
    }

    /// Its numbers; empty if it is not numeric.
    pub(crate) fn numbers(&self) -> Vec<Number> {
        let (datatype, mut data) = (&self.datatype, self.data.clone());
        swap(datatype, &mut data);
        let data = widened(datatype, &data).unwrap_or(data);
        numbers(datatype, &data)
    }

    /// Its integers; empty if it is not an integer.
    pub(crate) fn integers(&self) -> Vec<i128> {
        let integer = |number| match number {
            Number::Integer(value) => Some(value),
            Number::Float(_) => None,
        };
        self.numbers().into_iter().filter_map(integer).collect()
    }

    /// The address of the first object reference in each of its lists.
    pub(crate) fn references(&self, file: &H5File<'_>) -> Result<Vec<Option<u64>>> {
        let Datatype::Vlen { of, size } = &self.datatype else { return Ok(Vec::new()) };
        let each = self.data.chunks_exact((*size as usize).max(1));
        each.map(|bytes| {
            let value = heap_value(file, bytes, of.size() as usize)?;
            Ok(Cursor::new(&value, "a reference").address(file.offsets).ok().filter(|at| *at != UNDEFINED))
        })
        .collect()
    }
}

/// Little-endian elements as numbers; empty if the type is not numeric.
pub(crate) fn numbers(datatype: &Datatype, data: &[u8]) -> Vec<Number> {
    let integer = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    match *datatype {
        Datatype::Integer { size, signed, .. } => {
            let size = (size as usize).clamp(1, 8);
            let rest = 64 - 8 * size as u32;
            let one = |bytes: &[u8]| match (integer(bytes), signed) {
                (value, true) => i128::from((value << rest) as i64 >> rest),
                (value, false) => i128::from(value),
            };
            data.chunks_exact(size).map(|bytes| Number::Integer(one(bytes))).collect()
        }
        Datatype::Float { size: 4, .. } => {
            data.as_chunks::<4>().0.iter().map(|bytes| Number::Float(f32::from_le_bytes(*bytes).into())).collect()
        }
        Datatype::Float { size: 8, .. } => {
            data.as_chunks::<8>().0.iter().map(|bytes| Number::Float(f64::from_le_bytes(*bytes))).collect()
        }
        _ => Vec::new(),
    }
}

/// The value in the global heap that `data` refers to.
fn heap_value(file: &H5File<'_>, data: &[u8], element: usize) -> Result<Vec<u8>> {
    let mut cursor = Cursor::new(data, "an attribute");
    let (count, address, index) = (cursor.u32()? as usize, cursor.address(file.offsets)?, cursor.u32()?);
    let len = count.saturating_mul(element);
    if len == 0 {
        return Ok(Vec::new());
    }
    let collection = GlobalHeap::default().collection(file, address)?;
    let at = collection.object(index, len)?;
    Ok(collection.bytes.as_slice().get(at..at + len).unwrap_or_default().to_vec())
}
