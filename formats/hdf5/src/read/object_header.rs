//! Reads object headers, versions 1 and 2.

use super::file::H5File;
use crate::bytes::Cursor;
use packhorse_core::{Error, Result};

/// Message types.
pub(crate) mod kind {
    pub(crate) const DATASPACE: u16 = 0x01;
    pub(crate) const LINK_INFO: u16 = 0x02;
    pub(crate) const DATATYPE: u16 = 0x03;
    pub(crate) const OLD_FILL: u16 = 0x04;
    pub(crate) const FILL: u16 = 0x05;
    pub(crate) const LINK: u16 = 0x06;
    pub(crate) const EXTERNAL_FILES: u16 = 0x07;
    pub(crate) const LAYOUT: u16 = 0x08;
    pub(crate) const FILTERS: u16 = 0x0b;
    pub(crate) const ATTRIBUTE: u16 = 0x0c;
    pub(crate) const CONTINUATION: u16 = 0x10;
    pub(crate) const SYMBOL_TABLE: u16 = 0x11;
    pub(crate) const ATTRIBUTES: u16 = 0x15;
    pub(crate) const CACHE_IMAGE: u16 = 0x18;
}

const BLOCKS: usize = 1 << 16;
const SHARED: u8 = 2;

/// One message of an object.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    flags: u8,
    bytes: Vec<u8>,
}

/// The messages of an object header.
#[derive(Debug)]
pub(crate) struct ObjectHeader {
    messages: Vec<Message>,
}

impl ObjectHeader {
    pub(crate) fn read(file: &H5File<'_>, address: u64) -> Result<Self> {
        let start = file.bytes(address, 16)?;
        let left = file.limits.header(file.limits.header)?.saturating_mul(16);
        let mut reader = MessageReader { file, left, messages: Vec::new() };
        let mut blocks = match start.starts_with(b"OHDR") {
            true => reader.second(address, &start)?,
            false => reader.first(address, &start)?,
        };
        // Continuation messages append further blocks.
        let mut done = 0;
        while let Some(&(address, len, style)) = blocks.get(done) {
            done += 1;
            if done > BLOCKS {
                return Err(Error::content("an object header has too many continuations: the file is damaged"));
            }
            blocks.extend(reader.block(address, len, style)?);
        }
        Ok(Self { messages: reader.messages })
    }

    /// The messages of one kind.
    pub(crate) fn all(&self, kind: u16) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }

    /// The bytes of the first message of this kind.
    pub(crate) fn first(&self, kind: u16) -> Result<Option<&[u8]>> {
        self.all(kind).next().map(Message::bytes).transpose()
    }

    /// The first message of this kind, shared or not.
    pub(crate) fn message(&self, kind: u16) -> Option<&Message> {
        self.all(kind).next()
    }
}

impl Message {
    /// Its bytes; `Unsupported` if they are in a shared message table.
    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        match self.flags & SHARED {
            0 => Ok(&self.bytes),
            _ => Err(in_table()),
        }
    }

    /// The address of the committed datatype that this message refers to, if it does.
    pub(crate) fn committed(&self, file: &H5File<'_>) -> Result<Option<u64>> {
        match self.flags & SHARED {
            0 => Ok(None),
            _ => shared_address(file, &self.bytes).map(Some),
        }
    }
}

/// The address in a message that refers to another object; `Unsupported` if it refers to a shared message table.
pub(crate) fn shared_address(file: &H5File<'_>, bytes: &[u8]) -> Result<u64> {
    let mut cursor = Cursor::new(bytes, "a shared message");
    let (version, kind) = (cursor.u8()?, cursor.u8()?);
    if version == 3 && kind == 1 {
        return Err(in_table());
    }
    // Files of HDF5 before 1.6 name a local heap too.
    cursor.skip(if version == 1 { 6 + file.lengths } else { 0 })?;
    cursor.address(file.offsets)
}

fn in_table() -> Error {
    Error::unsupported("shared object header messages; rewrite the file with h5repack")
}

/// The version of an object header.
#[derive(Clone, Copy, Debug)]
enum Style {
    First,
    /// `head` is the size of a message's head in bytes, which depends on the object's flags.
    Second {
        head: usize,
    },
}

/// A block of messages: address, length, version.
type MessageBlock = (u64, u64, Style);

struct MessageReader<'a> {
    file: &'a H5File<'a>,
    /// Bytes that may still be read.
    left: usize,
    messages: Vec<Message>,
}

impl MessageReader<'_> {
    fn take(&mut self, len: u64) -> Result<usize> {
        let found = usize::try_from(len).ok().filter(|len| *len <= self.left);
        let len = found.ok_or_else(|| {
            Error::new(packhorse_core::Kind::Limit, format!("an object header of {len} bytes is over the limit"))
        })?;
        self.left -= len;
        Ok(len)
    }

    fn first(&mut self, address: u64, start: &[u8]) -> Result<Vec<MessageBlock>> {
        let mut cursor = Cursor::new(start, "an object header");
        let version = cursor.u8()?;
        if version != 1 {
            return Err(cursor.bad(&format!("has version {version}: the file is damaged")));
        }
        cursor.skip(7)?;
        let len = cursor.u32()?;
        Ok(vec![(address.saturating_add(16), u64::from(len), Style::First)])
    }

    fn second(&mut self, address: u64, start: &[u8]) -> Result<Vec<MessageBlock>> {
        let mut cursor = Cursor::new(start, "an object header");
        cursor.skip(4)?;
        let (version, flags) = (cursor.u8()?, cursor.u8()?);
        if version != 2 {
            return Err(cursor.bad(&format!("has version {version}: the file is damaged")));
        }
        let times = if flags & 0x20 != 0 { 16 } else { 0 };
        let phases = if flags & 0x10 != 0 { 4 } else { 0 };
        let width = 1 << (flags & 3);
        let before = 6 + times + phases + width;
        let head = self.file.bytes(address, before)?;
        let len = Cursor::new(head.get(before - width..).unwrap_or_default(), "an object header").uint(width)?;
        let all = self.take(len.saturating_add(before as u64 + 4))?;
        let bytes = self.file.checked(address, all, "an object header")?;
        let style = Style::Second { head: if flags & 4 != 0 { 6 } else { 4 } };
        self.messages_of(bytes.get(before..).unwrap_or_default(), style)
    }

    fn block(&mut self, address: u64, len: u64, style: Style) -> Result<Vec<MessageBlock>> {
        let len = self.take(len)?;
        match style {
            Style::First => {
                let bytes = self.file.bytes(address, len)?;
                self.messages_of(&bytes, style)
            }
            Style::Second { .. } => {
                let bytes = self.file.checked(address, len.max(8), "an object header's continuation")?;
                let mut cursor = Cursor::new(&bytes, "an object header's continuation");
                cursor.expect(b"OCHK")?;
                self.messages_of(cursor.rest(), style)
            }
        }
    }

    /// Collects the messages in `bytes`; returns the blocks of its continuation messages.
    fn messages_of(&mut self, bytes: &[u8], style: Style) -> Result<Vec<MessageBlock>> {
        let mut cursor = Cursor::new(bytes, "an object header");
        let mut blocks = Vec::new();
        let smallest = match style {
            Style::First => 8,
            Style::Second { head } => head,
        };
        while cursor.rest().len() >= smallest {
            let message = one(&mut cursor, style)?;
            if message.kind == kind::CONTINUATION {
                let mut cursor = Cursor::new(&message.bytes, "a continuation");
                let address = cursor.address(self.file.offsets)?;
                blocks.push((address, cursor.uint(self.file.lengths)?, style));
            } else {
                self.messages.push(message);
            }
        }
        Ok(blocks)
    }
}

fn one(cursor: &mut Cursor<'_>, style: Style) -> Result<Message> {
    let (kind, size, flags) = match style {
        Style::First => {
            let found = (cursor.u16()?, cursor.u16()?, cursor.u8()?);
            cursor.skip(3)?;
            found
        }
        Style::Second { head } => {
            let found = (u16::from(cursor.u8()?), cursor.u16()?, cursor.u8()?);
            cursor.skip(head - 4)?;
            found
        }
    };
    Ok(Message { kind, flags, bytes: cursor.take(usize::from(size))?.to_vec() })
}
