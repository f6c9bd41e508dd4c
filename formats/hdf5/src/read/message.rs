//! Parses header messages: dataspaces, data layouts, filter pipelines, fill values.

use super::file::H5File;
use super::object_header::{ObjectHeader, kind};
use crate::bytes::Cursor;
use crate::datatype::{Datatype, Padding};
use packhorse_core::{Error, Result};

/// A dataspace: dimensions, and maximum dimensions (`u64::MAX`: unlimited).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) dims: Vec<u64>,
    pub(crate) most: Vec<u64>,
    /// Whether it is a null dataspace, without elements.
    pub(crate) none: bool,
}

pub(crate) fn space(file: &H5File<'_>, bytes: &[u8]) -> Result<Space> {
    let mut cursor = Cursor::new(bytes, "a dataspace");
    let (version, rank, flags) = (cursor.u8()?, usize::from(cursor.u8()?), cursor.u8()?);
    let none = match version {
        1 => cursor.skip(5).map(|()| false)?,
        2 => cursor.u8()? == 2,
        _ => return Err(Error::unsupported(format!("dataspaces of version {version}"))),
    };
    if rank > 32 {
        return Err(cursor.bad(&format!("has {rank} dimensions, more than HDF5's 32")));
    }
    let dims = (0..rank).map(|_| cursor.uint(file.lengths)).collect::<Result<Vec<_>>>()?;
    let most = match flags & 1 {
        0 => dims.clone(),
        _ => (0..rank).map(|_| cursor.address(file.lengths)).collect::<Result<_>>()?,
    };
    Ok(Space { dims, most, none })
}

/// The datatype of an object, which may be a committed datatype.
pub(crate) fn datatype(file: &H5File<'_>, object: &ObjectHeader) -> Result<Datatype> {
    let message = object.message(kind::DATATYPE).ok_or_else(|| Error::content("a dataset lacks its datatype"))?;
    match message.committed(file)? {
        None => parse_datatype(message.bytes()?),
        Some(address) => committed_datatype(file, address),
    }
}

/// The committed datatype at `address`.
pub(crate) fn committed_datatype(file: &H5File<'_>, address: u64) -> Result<Datatype> {
    let object = ObjectHeader::read(file, address)?;
    let lacking = || Error::content("a committed datatype lacks its message");
    parse_datatype(object.first(kind::DATATYPE)?.ok_or_else(lacking)?)
}

fn parse_datatype(bytes: &[u8]) -> Result<Datatype> {
    Datatype::parse(&mut Cursor::new(bytes, "a datatype"))
}

/// The data layout of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DataLayout {
    Compact(Vec<u8>),
    Contiguous { address: u64 },
    Chunked(ChunkLayout),
    Virtual,
}

/// The chunked data layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLayout {
    /// The dimensions of a chunk, without the element size.
    pub(crate) dims: Vec<u64>,
    /// Address of the index, or of the only chunk.
    pub(crate) address: u64,
    pub(crate) index: ChunkIndexType,
    /// Partial edge chunks are not filtered.
    pub(crate) whole_only: bool,
}

/// The kind of a chunk index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChunkIndexType {
    BTreeV1,
    /// One chunk; with size and filter mask if it is filtered.
    Single(Option<(u64, u32)>),
    Implicit,
    FixedArray,
    ExtensibleArray,
    BTreeV2,
}

pub(crate) fn layout(file: &H5File<'_>, bytes: &[u8]) -> Result<DataLayout> {
    let mut cursor = Cursor::new(bytes, "a layout");
    let version = cursor.u8()?;
    match version {
        1 | 2 => old_layout(file, &mut cursor),
        3..=5 => match cursor.u8()? {
            0 => {
                let size = cursor.u16()?;
                Ok(DataLayout::Compact(cursor.take(usize::from(size))?.to_vec()))
            }
            1 => Ok(DataLayout::Contiguous { address: cursor.address(file.offsets)? }),
            2 if version == 3 => {
                let rank = usize::from(cursor.u8()?);
                let address = cursor.address(file.offsets)?;
                let dims = dims(&mut cursor, rank, 4)?;
                Ok(DataLayout::Chunked(ChunkLayout {
                    dims,
                    address,
                    index: ChunkIndexType::BTreeV1,
                    whole_only: false,
                }))
            }
            2 => new_chunks(file, &mut cursor),
            3 => Ok(DataLayout::Virtual),
            class => Err(cursor.bad(&format!("has the unknown class {class}"))),
        },
        _ => Err(Error::unsupported(format!("layouts of version {version}"))),
    }
}

fn old_layout(file: &H5File<'_>, cursor: &mut Cursor<'_>) -> Result<DataLayout> {
    let (rank, class) = (usize::from(cursor.u8()?), cursor.u8()?);
    cursor.skip(5)?;
    match class {
        0 => {
            cursor.skip(4 * rank)?;
            let size = cursor.u32()? as usize;
            Ok(DataLayout::Compact(cursor.take(size)?.to_vec()))
        }
        1 => Ok(DataLayout::Contiguous { address: cursor.address(file.offsets)? }),
        2 => {
            let address = cursor.address(file.offsets)?;
            let dims = dims(cursor, rank, 4)?;
            Ok(DataLayout::Chunked(ChunkLayout { dims, address, index: ChunkIndexType::BTreeV1, whole_only: false }))
        }
        _ => Err(cursor.bad(&format!("has the unknown class {class}"))),
    }
}

/// The dimensions of a chunk, without the last one, which is the element size.
fn dims(cursor: &mut Cursor<'_>, rank: usize, width: usize) -> Result<Vec<u64>> {
    let mut dims = (0..rank).map(|_| cursor.uint(width)).collect::<Result<Vec<_>>>()?;
    dims.pop();
    match dims.contains(&0) {
        true => Err(cursor.bad("has chunks without elements")),
        false => Ok(dims),
    }
}

fn new_chunks(file: &H5File<'_>, cursor: &mut Cursor<'_>) -> Result<DataLayout> {
    let (flags, rank, width) = (cursor.u8()?, usize::from(cursor.u8()?), usize::from(cursor.u8()?));
    let dims = dims(cursor, rank, width)?;
    let kind = cursor.u8()?;
    let index = match kind {
        1 if flags & 2 != 0 => ChunkIndexType::Single(Some((cursor.uint(file.lengths)?, cursor.u32()?))),
        1 => ChunkIndexType::Single(None),
        2 => ChunkIndexType::Implicit,
        3 => cursor.skip(1).map(|()| ChunkIndexType::FixedArray)?,
        4 => cursor.skip(5).map(|()| ChunkIndexType::ExtensibleArray)?,
        5 => cursor.skip(6).map(|()| ChunkIndexType::BTreeV2)?,
        _ => return Err(Error::unsupported(format!("chunk indexes of type {kind}"))),
    };
    let address = cursor.address(file.offsets)?;
    Ok(DataLayout::Chunked(ChunkLayout { dims, address, index, whole_only: flags & 1 != 0 }))
}

/// A filter of a dataset's pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterDescription {
    pub(crate) id: u16,
    pub(crate) name: String,
    pub(crate) parameters: Vec<u32>,
}

pub(crate) fn filters(bytes: &[u8]) -> Result<Vec<FilterDescription>> {
    let mut cursor = Cursor::new(bytes, "a list of filters");
    let (version, count) = (cursor.u8()?, cursor.u8()?);
    if !matches!(version, 1 | 2) {
        return Err(Error::unsupported(format!("lists of filters of version {version}")));
    }
    cursor.skip(if version == 1 { 6 } else { 0 })?;
    (0..count.min(32)).map(|_| filter(&mut cursor, version)).collect()
}

fn filter(cursor: &mut Cursor<'_>, version: u8) -> Result<FilterDescription> {
    let id = cursor.u16()?;
    let len = if version == 1 || id >= 256 { usize::from(cursor.u16()?) } else { 0 };
    cursor.skip(2)?;
    let count = cursor.u16()?;
    let len = if version == 1 { len.next_multiple_of(8) } else { len };
    let name = cursor.take(len)?.split(|byte| *byte == 0).next().unwrap_or_default();
    let parameters = (0..count).map(|_| cursor.u32()).collect::<Result<_>>()?;
    cursor.skip(if version == 1 && count % 2 == 1 { 4 } else { 0 })?;
    Ok(FilterDescription { id, name: String::from_utf8_lossy(name).into_owned(), parameters })
}

/// The fill value; empty for zeros.
pub(crate) fn fill(object: &ObjectHeader) -> Result<Vec<u8>> {
    if let Some(bytes) = object.first(kind::FILL)? {
        let mut cursor = Cursor::new(bytes, "a fill value");
        let version = cursor.u8()?;
        let flags = cursor.u8()?;
        let given = match version {
            3 => flags & 0x20 != 0,
            _ => cursor.u16()? >> 8 != 0,
        };
        if given {
            let len = cursor.u32()? as usize;
            return Ok(cursor.take(len)?.to_vec());
        }
        return Ok(Vec::new());
    }
    let Some(bytes) = object.first(kind::OLD_FILL)? else { return Ok(Vec::new()) };
    let mut cursor = Cursor::new(bytes, "a fill value");
    let len = cursor.u32()? as usize;
    Ok(cursor.take(len)?.to_vec())
}

/// Fixed-length text without its padding.
pub(crate) fn unpadded(text: &[u8], padding: Padding) -> &[u8] {
    let filler = if padding == Padding::Spaces { b' ' } else { 0 };
    let len = match padding {
        Padding::Zero => text.iter().position(|byte| *byte == 0).unwrap_or(text.len()),
        Padding::Zeros | Padding::Spaces => text.iter().rposition(|byte| *byte != filler).map_or(0, |last| last + 1),
    };
    text.get(..len).unwrap_or_default()
}
