//! The central directory of an `.npz` file: names, positions and compression of its members.
//!
//! Specification: [APPNOTE 6.3.10](https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT), with
//! zip64. Sizes and offsets come from the central directory, so data descriptors are ignored. Overlapping
//! members are refused.

use crate::bytes::Bytes;
use packhorse_core::{Error, Limits, Result};
use std::borrow::Cow;

/// A file in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZipMember {
    /// The name, without `.npy`.
    pub(crate) array: String,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) crc: u32,
    /// Compressed size in bytes.
    pub(crate) packed: u64,
    /// Uncompressed size in bytes.
    pub(crate) size: u64,
    /// Offset of the local header.
    pub(crate) start: u64,
    /// Offset of the next member, or of the central directory.
    pub(crate) end: u64,
}

/// The members whose names end in `.npy`, in directory order, and the names of the others, which `numpy.load` returns
/// as bytes. Folders are dropped.
pub(crate) fn members(bytes: Bytes<'_>, limits: &Limits) -> Result<(Vec<ZipMember>, Vec<String>)> {
    let end = EndOfDirectory::find(bytes)?;
    // The directory is a part of the file, which bounds it.
    let size = limits.blob(end.size)?;
    let directory = end.directory(bytes, size)?;
    let mut rest: &[u8] = &directory;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let entry = CentralDirectoryEntry::parse(&mut rest)?;
        found.push(entry.member()?);
    }
    if found.len() as u64 != end.members {
        return Err(damaged("its central directory has another number of members than its end record says"));
    }
    set_ends(&mut found, end.at)?;
    let (arrays, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|(is_array, _)| *is_array);
    let mut arrays: Vec<ZipMember> = arrays.into_iter().map(|(_, member)| member).collect();
    let others = others.into_iter().map(|(_, member)| member.array).filter(|name| !name.ends_with('/')).collect();
    arrays.iter_mut().for_each(|m| m.array.truncate(m.array.len().saturating_sub(4)));
    let mut names: Vec<&str> = arrays.iter().map(|m| m.array.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find_map(|pair| (pair.first() == pair.last()).then(|| pair.first().copied())?) {
        Some(name) => Err(Error::content(format!("holds the array {name} twice; give each array its own name"))),
        None => Ok((arrays, others)),
    }
}

/// Sets where each member ends: at the next one, or at the central directory.
fn set_ends(members: &mut [(bool, ZipMember)], directory: u64) -> Result<()> {
    let mut order: Vec<&mut ZipMember> = members.iter_mut().map(|(_, member)| member).collect();
    order.sort_by_key(|member| std::cmp::Reverse(member.start));
    let mut end = directory;
    for member in order {
        let header = LOCAL as u64 + member.array.len() as u64;
        if member.start.checked_add(header).and_then(|n| n.checked_add(member.packed)).is_none_or(|n| n > end) {
            return Err(damaged("its members overlap or lie past its end"));
        }
        member.end = end;
        end = member.start;
    }
    Ok(())
}

fn damaged(what: &str) -> Error {
    Error::content(format!("is damaged or not an .npz file: {what}"))
}

/// Sizes in bytes of the fixed parts: local header, end of central directory record, its zip64 twin, and that one's
/// locator.
pub(crate) const LOCAL: usize = 30;
const END: usize = 22;
const END64: usize = 56;
const LOCATOR: usize = 20;
/// Bytes read first from the end of a file; with few arrays they hold the whole directory.
const TAIL: usize = 4096;

/// The end of central directory record.
struct EndOfDirectory<'a> {
    members: u64,
    /// Offset and size of the central directory.
    at: u64,
    size: u64,
    /// The last bytes of the archive.
    tail: Cow<'a, [u8]>,
    /// The offset of `tail`.
    tail_at: u64,
}

impl<'a> EndOfDirectory<'a> {
    fn find(bytes: Bytes<'a>) -> Result<Self> {
        for window in [TAIL, END + usize::from(u16::MAX) + LOCATOR] {
            let tail_at = bytes.len().saturating_sub(window as u64);
            let tail = bytes.read(tail_at, window)?;
            let whole = |at: &usize| {
                let record = tail.get(*at..).unwrap_or_default();
                record.starts_with(b"PK\x05\x06") && u16_at(record, 20).map(usize::from) == Some(record.len() - END)
            };
            let found = (0..(tail.len() + 1).saturating_sub(END)).rev().find(whole);
            // A zip64 locator may lie before it.
            if let Some(at) = found.filter(|at| *at >= LOCATOR || tail_at == 0) {
                return Self::parse(bytes, tail, tail_at, at);
            }
        }
        Err(damaged("it has no end of central directory record, so it may be cut short"))
    }

    fn parse(bytes: Bytes<'a>, tail: Cow<'a, [u8]>, tail_at: u64, at: usize) -> Result<Self> {
        let record = tail.get(at..).unwrap_or_default();
        let short = || damaged("its end record is cut short");
        let (disk, members) = (u16_at(record, 4).ok_or_else(short)?, u16_at(record, 10).ok_or_else(short)?);
        let (size, start) = (u32_at(record, 12).ok_or_else(short)?, u32_at(record, 16).ok_or_else(short)?);
        let mut end =
            Self { members: members.into(), at: start.into(), size: size.into(), tail: Cow::Borrowed(&[]), tail_at };
        let mut record_at = tail_at + at as u64;
        let locator = at.checked_sub(LOCATOR).and_then(|at| tail.get(at..)).filter(|l| l.starts_with(b"PK\x06\x07"));
        if let Some(locator) = locator {
            record_at = u64_at(locator, 8).ok_or_else(short)?;
            end.zip64(&bytes.read(record_at, END64)?)?;
        } else if disk != 0 {
            return Err(Error::unsupported("is a zip archive in several volumes; save it as one file"));
        }
        if end.at.checked_add(end.size) != Some(record_at) {
            return Err(damaged("its central directory does not end where its end record starts"));
        }
        end.tail = tail;
        Ok(end)
    }

    fn zip64(&mut self, record: &[u8]) -> Result<()> {
        let numbers = (u64_at(record, 32), u64_at(record, 40), u64_at(record, 48));
        let (true, (Some(members), Some(size), Some(at))) = (record.starts_with(b"PK\x06\x06"), numbers) else {
            return Err(damaged("its zip64 end record is damaged"));
        };
        (self.members, self.size, self.at) = (members, size, at);
        Ok(())
    }

    fn directory(&self, bytes: Bytes<'a>, size: usize) -> Result<Cow<'a, [u8]>> {
        let from = self.at.checked_sub(self.tail_at).and_then(|from| usize::try_from(from).ok());
        let found = match (from, &self.tail) {
            (Some(from), Cow::Borrowed(tail)) => tail.get(from..).and_then(|t| t.get(..size)).map(Cow::Borrowed),
            (Some(from), Cow::Owned(tail)) => {
                tail.get(from..).and_then(|t| t.get(..size)).map(|t| Cow::Owned(t.to_vec()))
            }
            _ => None,
        };
        match found {
            Some(found) => Ok(found),
            None => bytes.read(self.at, size),
        }
    }
}

/// An entry of the central directory.
struct CentralDirectoryEntry<'a> {
    fixed: &'a [u8],
    name: &'a [u8],
    extra: &'a [u8],
}

impl<'a> CentralDirectoryEntry<'a> {
    /// The entry at the start of `rest`, which moves past it.
    fn parse(rest: &mut &'a [u8]) -> Result<Self> {
        let cut = || damaged("its central directory is damaged");
        let (fixed, after) = rest.split_at_checked(46).filter(|(f, _)| f.starts_with(b"PK\x01\x02")).ok_or_else(cut)?;
        let len = |at: usize| u16_at(fixed, at).map(usize::from).ok_or_else(cut);
        let (name, after) = after.split_at_checked(len(28)?).ok_or_else(cut)?;
        let (extra, after) = after.split_at_checked(len(30)?).ok_or_else(cut)?;
        let (_, after) = after.split_at_checked(len(32)?).ok_or_else(cut)?;
        *rest = after;
        Ok(Self { fixed, name, extra })
    }

    /// The member, and whether it is an array.
    fn member(&self) -> Result<(bool, ZipMember)> {
        let cut = || damaged("its central directory is damaged");
        let short = |at: usize| u16_at(self.fixed, at).ok_or_else(cut);
        let long = |at: usize| u32_at(self.fixed, at).ok_or_else(cut);
        let mut wide = self.zip64();
        let mut number = |at: usize| match long(at)? {
            u32::MAX => wide.next().ok_or_else(cut),
            n => Ok(u64::from(n)),
        };
        // In the order of the zip64 extra field.
        let (size, packed, start) = (number(24)?, number(20)?, number(42)?);
        let is_array = self.name.ends_with(b".npy");
        let array = match std::str::from_utf8(self.name) {
            Ok(name) => name.to_owned(),
            Err(_) if is_array => {
                return Err(Error::content(format!(
                    "holds an array whose name is not UTF-8 ({}); rename it",
                    self.name.escape_ascii()
                )));
            }
            Err(_) => self.name.escape_ascii().to_string(),
        };
        let (method, flags, crc) = (short(10)?, short(8)?, long(16)?);
        Ok((is_array, ZipMember { array, method, flags, crc, packed, size, start, end: 0 }))
    }

    /// The numbers in the zip64 extra field (id 1), in order.
    fn zip64(&self) -> impl Iterator<Item = u64> {
        let mut rest = self.extra;
        let mut found: &[u8] = &[];
        while let (Some(id), Some(len)) = (u16_at(rest, 0), u16_at(rest, 2)) {
            let Some(data) = rest.get(4..4 + usize::from(len)) else { break };
            if id == 1 {
                found = data;
                break;
            }
            rest = rest.get(4 + usize::from(len)..).unwrap_or_default();
        }
        found.as_chunks().0.iter().map(|n| u64::from_le_bytes(*n))
    }
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|n| u16::from_le_bytes(*n))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|n| u32::from_le_bytes(*n))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|n| u64::from_le_bytes(*n))
}
