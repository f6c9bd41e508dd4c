//! A file's descriptions of its classes (`TStreamerInfo`): the members of each class, in order.

use crate::builtin;
use crate::bytes::Bytes;
use crate::file::RootFile;
use packhorse_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A `TStreamerElement`: one member, or base class, of a class.
#[derive(Clone, Debug)]
pub(crate) struct StreamerElement {
    pub(crate) name: Arc<str>,
    pub(crate) title: String,
    /// The C++ type.
    pub(crate) type_name: String,
    /// ROOT's type code: [`code`].
    pub(crate) code: i32,
    /// The number of elements of a fixed array, else 0 or 1.
    pub(crate) array: usize,
    /// The dimensions of a fixed array.
    pub(crate) dimensions: Vec<usize>,
    /// For a pointer to an array: the member with its length.
    pub(crate) counter: String,
}

/// ROOT's type codes of members (`TVirtualStreamerInfo::EReadWrite`).
pub(crate) mod code {
    pub(crate) const BASE: i32 = 0;
    pub(crate) const COUNTER: i32 = 6;
    pub(crate) const CHARS: i32 = 7;
    pub(crate) const BITS: i32 = 15;
    /// Offset for fixed arrays.
    pub(crate) const FIXED: i32 = 20;
    /// Offset for pointers to arrays of variable length.
    pub(crate) const POINTER: i32 = 40;
    pub(crate) const OBJECT: i32 = 61;
    pub(crate) const ANY: i32 = 62;
    pub(crate) const OBJECT_POINTER: i32 = 63;
    pub(crate) const OBJECT_POINTER_MAY_BE_NULL: i32 = 64;
    pub(crate) const STRING: i32 = 65;
    pub(crate) const TOBJECT: i32 = 66;
    pub(crate) const TNAMED: i32 = 67;
    pub(crate) const STL: i32 = 300;
    pub(crate) const STL_STRING: i32 = 365;
    /// A custom streamer; in files also collections and strings.
    pub(crate) const STREAMER: i32 = 500;
}

type Classes = BTreeMap<String, BTreeMap<i32, Described>>;

/// One version of a class.
#[derive(Debug)]
pub(crate) struct Described {
    /// Identifies the class in objects if it has no version.
    pub(crate) checksum: u32,
    pub(crate) elements: Arc<[StreamerElement]>,
}

/// The class descriptions of a file, and the built-in ones.
#[derive(Debug)]
pub(crate) struct Streamers {
    classes: Classes,
}

/// The most members of a class.
const ELEMENTS: usize = 1 << 16;

impl Streamers {
    /// Reads the descriptions in `file`; empty if it has none.
    pub(crate) fn read(file: &RootFile<'_>) -> Result<Self> {
        let mut classes = Classes::new();
        if let Some(payload) = file.streamer_info()? {
            list(&mut Bytes::new(&payload.bytes), payload.key_bytes, &mut classes)
                .map_err(|e| e.context("its list of classes"))?;
        }
        Ok(Self { classes })
    }

    /// The members of `class` in `version`: built in for ROOT's own classes, else from the file.
    pub(crate) fn members(&self, class: &str, version: u16) -> Option<Arc<[StreamerElement]>> {
        builtin::members(class, version).or_else(|| {
            let versions = self.classes.get(class)?;
            versions.get(&i32::from(version)).map(|class| class.elements.clone())
        })
    }

    /// The newest version of `class`, a name without spaces.
    pub(crate) fn newest(&self, class: &str) -> Option<(i32, &Described)> {
        let (version, described) = self.classes.get(class)?.iter().next_back()?;
        Some((*version, described))
    }

    /// The member `name` of `class` or of one of its base classes, in `version` or else the newest.
    pub(crate) fn member(&self, class: &str, version: Option<i32>, name: &str) -> Option<&StreamerElement> {
        self.member_within(class, version, name, 16)
    }

    fn member_within(&self, class: &str, version: Option<i32>, name: &str, depth: usize) -> Option<&StreamerElement> {
        let versions = self.classes.get(class)?;
        let class = version.and_then(|version| versions.get(&version)).or_else(|| versions.values().next_back())?;
        let elements = &class.elements;
        if let Some(found) = elements.iter().find(|e| &*e.name == name && e.code != code::BASE) {
            return Some(found);
        }
        let depth = depth.checked_sub(1)?;
        let mut bases = elements.iter().filter(|e| e.code == code::BASE);
        bases.find_map(|base| self.member_within(&base.name, None, name, depth))
    }
}

/// The record is a `TList` of `TStreamerInfo`; schema evolution rules may follow.
fn list(bytes: &mut Bytes<'_>, key_bytes: usize, classes: &mut Classes) -> Result<()> {
    let mut tags = Tags { key_bytes, classes: BTreeMap::new() };
    let header = bytes.header()?;
    bytes.skip_object()?;
    bytes.string()?;
    for _ in 0..bytes.count(1)? {
        if let Some((class, end)) = tags.next(bytes)? {
            if class == "TStreamerInfo" {
                info(bytes, &mut tags, classes)?;
            }
            bytes.advance_to(end)?;
        }
        bytes.raw_string()?;
    }
    bytes.finish(header)
}

fn info(bytes: &mut Bytes<'_>, tags: &mut Tags, classes: &mut Classes) -> Result<()> {
    bytes.header()?;
    let (name, _) = bytes.named()?;
    let (checksum, version) = (bytes.u32()?, bytes.i32()?);
    let Some((_, end)) = tags.next(bytes)? else { return Ok(()) };
    bytes.header()?;
    bytes.skip_object()?;
    bytes.string()?;
    let count = bytes.count(4)?;
    bytes.u32()?;
    let mut elements = Vec::new();
    for _ in 0..count.min(ELEMENTS) {
        if let Some((class, end)) = tags.next(bytes)? {
            elements.push(element(bytes, &class)?);
            bytes.advance_to(end)?;
        }
    }
    bytes.advance_to(end)?;
    classes
        .entry(name.replace(' ', ""))
        .or_default()
        .insert(version, Described { checksum, elements: elements.into() });
    Ok(())
}

fn element(bytes: &mut Bytes<'_>, class: &str) -> Result<StreamerElement> {
    // One header per class between this one and `TStreamerElement`.
    let bases = match class {
        "TStreamerElement" => 0,
        "TStreamerSTLstring" => 2,
        _ => 1,
    };
    for _ in 0..bases {
        bytes.header()?;
    }
    let header = bytes.header()?;
    let (name, title) = bytes.named()?;
    let code = bytes.i32()?;
    bytes.i32()?;
    let array = usize::try_from(bytes.i32()?).unwrap_or(0);
    let dimensions = usize::try_from(bytes.i32()?).unwrap_or(0);
    let slots = if header.version == 1 { bytes.count(4)? } else { 5 };
    let (slots, _) = bytes.take(4 * slots)?.as_chunks::<4>();
    let dimensions = slots.iter().take(dimensions).filter_map(|n| i32::from_be_bytes(*n).try_into().ok()).collect();
    let type_name = bytes.string()?;
    bytes.finish(header)?;
    let mut counter = String::new();
    if class == "TStreamerBasicPointer" || class == "TStreamerLoop" {
        bytes.i32()?;
        counter = bytes.string()?;
    }
    let code =
        if class == "TStreamerBase" && code != code::TOBJECT && code != code::TNAMED { code::BASE } else { code };
    Ok(StreamerElement { name: name.as_str().into(), title, type_name, code, array, dimensions, counter })
}

/// Class tags: each class name is stored once and then referred to by its position.
struct Tags {
    key_bytes: usize,
    classes: BTreeMap<usize, String>,
}

impl Tags {
    /// Class and end of the next object; `None` for null and for a reference.
    fn next(&mut self, bytes: &mut Bytes<'_>) -> Result<Option<(String, usize)>> {
        let start = bytes.at();
        let count = bytes.u32()?;
        if count & 0x4000_0000 == 0 || count == u32::MAX {
            return Ok(None);
        }
        let end = start.saturating_add(4).saturating_add((count & !0x4000_0000) as usize);
        let tag_at = bytes.at() + self.key_bytes + 2;
        let class = match bytes.u32()? {
            u32::MAX => {
                let class = bytes.c_string()?;
                self.classes.insert(tag_at, class.clone());
                class
            }
            tag if tag & 0x8000_0000 != 0 => {
                let at = (tag & !0x8000_0000) as usize;
                let found = self.classes.get(&at).cloned();
                found.ok_or_else(|| Error::content("an object with an unknown class tag"))?
            }
            _ => {
                bytes.advance_to(end)?;
                return Ok(None);
            }
        };
        Ok(Some((class, end)))
    }
}
