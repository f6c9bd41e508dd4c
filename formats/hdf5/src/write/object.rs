//! Writes object headers (version 2, without timestamps) and their messages.

use super::heap::{Collection, reference};
use super::main_file::MainFile;
use crate::bytes::UNDEFINED;
use crate::checksum::lookup3;
use crate::datatype::{Datatype, HEAPED, Padding};
use packhorse_core::{Error, Result};

/// A filter in the filter pipeline message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterEntry {
    pub(crate) id: u16,
    pub(crate) parameters: Vec<u32>,
}

/// The messages of one object.
#[derive(Default)]
pub(crate) struct ObjectWriter {
    messages: Vec<(u8, u8, Vec<u8>)>,
    /// Attributes in the global heap: name, texts, and whether they are a list.
    heap: Vec<(String, Vec<String>, bool)>,
}

/// The longest text, in bytes, that is stored in an attribute message.
const LONGEST_TEXT: usize = 32 << 10;
/// The most global heap references in an attribute message.
const MOST_TEXTS: usize = 2048;

impl ObjectWriter {
    /// An empty group.
    pub(crate) fn group() -> Self {
        let mut object = Self::default();
        let mut info = vec![0, 0];
        info.extend(UNDEFINED.to_le_bytes().repeat(2));
        object.push(0x02, 0, info);
        object.push(0x0a, 0, vec![0, 0]);
        object
    }

    /// A dataset of dimensions `dims`, extendable along the first if `grows`.
    pub(crate) fn dataset(datatype: &Datatype, dims: &[u64], grows: bool, layout: Vec<u8>) -> Self {
        let mut object = Self::default();
        object.push(0x01, 0, dataspace(dims, grows));
        object.push(0x03, 1, datatype.encode());
        object.push(0x05, 1, vec![3, if grows { 0x0b } else { 0x0a }]);
        object.push(0x08, 0, layout);
        object
    }

    fn push(&mut self, kind: u8, flags: u8, bytes: Vec<u8>) {
        self.messages.push((kind, flags, bytes));
    }

    /// Sets the filter pipeline, in the order of writing.
    pub(crate) fn filters(&mut self, filters: &[FilterEntry]) {
        if filters.is_empty() {
            return;
        }
        let mut bytes = vec![2, filters.len() as u8];
        for filter in filters {
            bytes.extend(filter.id.to_le_bytes());
            if filter.id >= 256 {
                bytes.extend([0, 0]);
            }
            // Optional filter: chunks that did not shrink skip it.
            bytes.extend([1, 0]);
            bytes.extend((filter.parameters.len() as u16).to_le_bytes());
            bytes.extend(filter.parameters.iter().flat_map(|parameter| parameter.to_le_bytes()));
        }
        self.push(0x0b, 0, bytes);
    }

    /// Adds a link to an object of this file.
    pub(crate) fn link(&mut self, name: &str, address: u64) {
        let mut bytes = link_head(name, 0);
        bytes.extend(address.to_le_bytes());
        self.push(0x06, 0, bytes);
    }

    /// Adds a link to the object `path` of `file`, which is relative to this file.
    pub(crate) fn external_link(&mut self, name: &str, file: &str, path: &str) {
        let mut bytes = link_head(name, 64);
        bytes.extend(((1 + file.len() + 1 + path.len() + 1) as u16).to_le_bytes());
        bytes.push(0);
        for text in [file, path] {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        }
        self.push(0x06, 0, bytes);
    }

    /// Adds a text attribute; long text goes to the global heap.
    pub(crate) fn text_attribute(&mut self, name: &str, text: &str) -> Result<()> {
        if text.len() > LONGEST_TEXT {
            self.heap.push((name.to_owned(), vec![text.to_owned()], false));
            return Ok(());
        }
        let size = text.len().max(1) as u32;
        let mut data = text.as_bytes().to_vec();
        data.resize(size as usize, 0);
        self.attribute(name, &Datatype::Fixed { size, utf8: true, padding: Padding::Zeros }, &[], data)
    }

    /// Adds an attribute that is a list of texts, in the global heap; more than [`MOST_TEXTS`] become one JSON text.
    pub(crate) fn texts_attribute(&mut self, name: &str, texts: &[String]) -> Result<()> {
        if texts.len() > MOST_TEXTS {
            return self.text_attribute(name, &serde_json::json!(texts).to_string());
        }
        self.heap.push((name.to_owned(), texts.to_vec(), true));
        Ok(())
    }

    /// Writes the attributes whose texts are in the global heap.
    fn write_heap(&mut self, main: &mut MainFile) -> Result<()> {
        for (name, texts, list) in std::mem::take(&mut self.heap) {
            let mut collection = Collection::default();
            let numbers: Vec<u16> = texts.iter().map(|text| collection.push(text.as_bytes())).collect();
            main.align()?;
            let address = main.append(&collection.close())?;
            let one = |(text, number): (&String, &u16)| match u32::try_from(text.len()) {
                Ok(0) => Ok(reference(0, 0, 0)),
                Ok(len) => Ok(reference(len, address, *number)),
                Err(_) => Err(Error::unsupported(format!("attribute {name} of over 4 GiB"))),
            };
            let data = texts.iter().zip(&numbers).map(one).collect::<Result<Vec<_>>>()?.concat();
            let dims = [texts.len() as u64];
            self.attribute(
                &name,
                &Datatype::VlenText { utf8: true, size: HEAPED },
                if list { &dims } else { &[] },
                data,
            )?;
        }
        Ok(())
    }

    /// Adds an integer attribute.
    pub(crate) fn number_attribute(&mut self, name: &str, value: i64) -> Result<()> {
        let datatype = Datatype::Integer { size: 8, signed: true, big: false };
        self.attribute(name, &datatype, &[], value.to_le_bytes().to_vec())
    }

    fn attribute(&mut self, name: &str, datatype: &Datatype, dims: &[u64], data: Vec<u8>) -> Result<()> {
        let (datatype, space) = (datatype.encode(), dataspace(dims, false));
        let mut bytes = vec![3, 0];
        for len in [name.len() + 1, datatype.len(), space.len()] {
            bytes.extend((len as u16).to_le_bytes());
        }
        bytes.push(1);
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.extend([datatype, space, data].concat());
        if bytes.len() > usize::from(u16::MAX) {
            return Err(Error::unsupported(format!(
                "attribute {name} has {} bytes, but HDF5 allows 64 KiB; shorten the field's metadata",
                bytes.len()
            )));
        }
        self.push(0x0c, 0, bytes);
        Ok(())
    }

    /// Writes the object; returns its address.
    pub(crate) fn write(mut self, main: &mut MainFile) -> Result<u64> {
        self.write_heap(main)?;
        let size: usize = self.messages.iter().map(|(_, _, bytes)| 4 + bytes.len()).sum();
        let mut header = b"OHDR\x02\x02".to_vec();
        header
            .extend(u32::try_from(size).map_err(|_| Error::unsupported("more than 4 GiB of metadata"))?.to_le_bytes());
        for (kind, flags, bytes) in self.messages {
            header.push(kind);
            header.extend((bytes.len() as u16).to_le_bytes());
            header.push(flags);
            header.extend(bytes);
        }
        header.extend(lookup3(&header).to_le_bytes());
        main.align()?;
        main.append(&header)
    }
}

fn link_head(name: &str, kind: u8) -> Vec<u8> {
    // Flags: two bytes for the name's length, character set present, link type present unless it is a hard link.
    let mut bytes = vec![1, 0x11 | if kind == 0 { 0 } else { 8 }];
    if kind != 0 {
        bytes.push(kind);
    }
    bytes.push(1);
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend(name.as_bytes());
    bytes
}

/// A dataspace message, version 2.
pub(crate) fn dataspace(dims: &[u64], grows: bool) -> Vec<u8> {
    let mut bytes = vec![2, dims.len() as u8, u8::from(grows), u8::from(!dims.is_empty())];
    dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
    if grows {
        bytes.extend(UNDEFINED.to_le_bytes());
        dims.iter().skip(1).for_each(|dim| bytes.extend(dim.to_le_bytes()));
    }
    bytes
}

/// A contiguous layout.
pub(crate) fn contiguous(address: u64, bytes: u64) -> Vec<u8> {
    let mut layout = vec![3, 1];
    layout.extend(if bytes == 0 { UNDEFINED } else { address }.to_le_bytes());
    layout.extend(bytes.to_le_bytes());
    layout
}

/// A chunked layout with chunks of dimensions `dims`, indexed by a version 1 B-tree.
pub(crate) fn chunked(tree: u64, dims: &[u64], element: u32) -> Vec<u8> {
    let mut layout = vec![3, 2, dims.len() as u8 + 1];
    layout.extend(tree.to_le_bytes());
    dims.iter().for_each(|dim| layout.extend((*dim as u32).to_le_bytes()));
    layout.extend(element.to_le_bytes());
    layout
}

/// A virtual layout, described by object `index` of the global heap collection at `address`.
pub(crate) fn virtual_layout(address: u64, index: u32) -> Vec<u8> {
    let mut layout = vec![4, 3];
    layout.extend(address.to_le_bytes());
    layout.extend(index.to_le_bytes());
    layout
}
