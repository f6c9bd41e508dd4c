//! The links of a group: symbol tables, link messages, and links in a fractal heap.

use super::btree_v2;
use super::file::{H5File, Visits};
use super::fractal_heap::FractalHeap;
use super::object_header::{ObjectHeader, kind};
use crate::bytes::{Cursor, UNDEFINED};
use packhorse_core::Result;
use std::collections::BTreeMap;

/// The target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Object(u64),
    /// A soft link: its target in this file has a hard link of its own.
    Path,
    /// An external or user-defined link, which is not followed.
    Outside,
}

/// The links of `object`, sorted by name; empty if it is not a group.
pub(crate) fn links(file: &H5File<'_>, object: &ObjectHeader) -> Result<BTreeMap<String, Link>> {
    let mut links = BTreeMap::new();
    for message in object.all(kind::LINK) {
        let (name, link) = link(file, message.bytes()?)?;
        links.insert(name, link);
    }
    if let Some(bytes) = object.first(kind::LINK_INFO)? {
        dense(file, bytes, &mut links)?;
    }
    if let Some(bytes) = object.first(kind::SYMBOL_TABLE)? {
        let mut cursor = Cursor::new(bytes, "a symbol table");
        let (tree, heap) = (cursor.address(file.offsets)?, cursor.address(file.offsets)?);
        let heap = local_heap(file, heap)?;
        let mut visits = Visits::new(file, 8);
        symbols(file, tree, &heap, u8::MAX, &mut visits, &mut links)?;
    }
    Ok(links)
}

fn link(file: &H5File<'_>, bytes: &[u8]) -> Result<(String, Link)> {
    let mut cursor = Cursor::new(bytes, "a link");
    let (version, flags) = (cursor.u8()?, cursor.u8()?);
    if version != 1 {
        return Err(cursor.bad(&format!("has version {version}")));
    }
    let kind = if flags & 8 != 0 { cursor.u8()? } else { 0 };
    cursor.skip(if flags & 4 != 0 { 8 } else { 0 } + if flags & 16 != 0 { 1 } else { 0 })?;
    let len = cursor.uint(1 << (flags & 3))?;
    let name = cursor.take(usize::try_from(len).unwrap_or(usize::MAX))?;
    let name = crate::bytes::name(name);
    match kind {
        0 => Ok((name, Link::Object(cursor.address(file.offsets)?))),
        1 => Ok((name, Link::Path)),
        _ => Ok((name, Link::Outside)),
    }
}

fn dense(file: &H5File<'_>, bytes: &[u8], links: &mut BTreeMap<String, Link>) -> Result<()> {
    let mut cursor = Cursor::new(bytes, "a group's link info");
    cursor.skip(1)?;
    let flags = cursor.u8()?;
    cursor.skip(if flags & 1 != 0 { 8 } else { 0 })?;
    let (heap, tree) = (cursor.address(file.offsets)?, cursor.address(file.offsets)?);
    if heap == UNDEFINED {
        return Ok(());
    }
    let heap = FractalHeap::open(file, heap)?;
    btree_v2::records(file, tree, &mut |_, record| {
        let mut cursor = Cursor::new(record, "a link's record");
        cursor.skip(4)?;
        let (name, found) = link(file, &heap.object(file, cursor.rest())?)?;
        links.insert(name, found);
        Ok(())
    })
}

/// The local heap with the names of a symbol table.
fn local_heap(file: &H5File<'_>, address: u64) -> Result<Vec<u8>> {
    let bytes = file.bytes(address, 8 + 2 * file.lengths + file.offsets)?;
    let mut cursor = Cursor::new(&bytes, "a local heap");
    cursor.expect(b"HEAP")?;
    cursor.skip(4)?;
    let size = cursor.uint(file.lengths)?;
    cursor.skip(file.lengths)?;
    let data = cursor.address(file.offsets)?;
    file.bytes(data, file.limits.held(size)?)
}

/// Walks the B-tree of a symbol table; `above` is the parent's level.
fn symbols(
    file: &H5File<'_>,
    address: u64,
    heap: &[u8],
    above: u8,
    visits: &mut Visits,
    links: &mut BTreeMap<String, Link>,
) -> Result<()> {
    visits.one()?;
    let head = 8 + 2 * file.offsets;
    let bytes = file.bytes(address, head)?;
    let mut cursor = Cursor::new(&bytes, "a group's tree");
    cursor.expect(b"TREE\0")?;
    let (level, count) = (cursor.u8()?, usize::from(cursor.u16()?));
    if level >= above {
        return Err(cursor.bad("has levels that do not decrease: the file is damaged"));
    }
    let bytes = file.bytes(address.saturating_add(head as u64), count * (file.lengths + file.offsets))?;
    let mut cursor = Cursor::new(&bytes, "a group's tree");
    for _ in 0..count {
        cursor.skip(file.lengths)?;
        let child = cursor.address(file.offsets)?;
        match level {
            0 => symbol_node(file, child, heap, visits, links)?,
            _ => symbols(file, child, heap, level, visits, links)?,
        }
    }
    Ok(())
}

fn symbol_node(
    file: &H5File<'_>,
    address: u64,
    heap: &[u8],
    visits: &mut Visits,
    links: &mut BTreeMap<String, Link>,
) -> Result<()> {
    let head = file.bytes(address, 8)?;
    let mut cursor = Cursor::new(&head, "a symbol table's node");
    cursor.expect(b"SNOD")?;
    cursor.skip(2)?;
    let count = usize::from(cursor.u16()?);
    let bytes = file.bytes(address.saturating_add(8), count * (file.lengths + file.offsets + 24))?;
    let mut cursor = Cursor::new(&bytes, "a symbol table's node");
    for _ in 0..count {
        visits.one()?;
        let (name, object) = (cursor.uint(file.lengths)?, cursor.address(file.offsets)?);
        let cached = cursor.u32()?;
        cursor.skip(20)?;
        let at = usize::try_from(name).unwrap_or(usize::MAX);
        let name = Cursor::new(heap.get(at..).unwrap_or_default(), "a local heap").zero_ended()?;
        let link = if cached == 2 { Link::Path } else { Link::Object(object) };
        links.insert(crate::bytes::name(name), link);
    }
    Ok(())
}
