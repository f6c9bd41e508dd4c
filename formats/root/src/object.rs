//! Deserializes objects: members by name, as their class descriptions say. Resolves ROOT's references
//! between objects. Of trees it knows only baskets.

use crate::basket::Embedded;
use crate::bytes::{Bytes, ObjectHeader};
use crate::streamer::{StreamerElement, Streamers, code};
use packhorse_core::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object: its class, and its members, with those of base classes.
#[derive(Debug, Default)]
pub(crate) struct RootObject {
    pub(crate) class: String,
    members: Vec<(Arc<str>, MemberValue)>,
}

/// The value of a member. Floats are not needed.
#[derive(Debug)]
pub(crate) enum MemberValue {
    Int(i64),
    Ints(Vec<i64>),
    Text(String),
    /// The index of an object.
    Object(Option<usize>),
    /// The indices of objects.
    Objects(Vec<Option<usize>>),
    Basket(Embedded),
}

impl RootObject {
    fn member(&self, name: &str) -> Option<&MemberValue> {
        self.members.iter().find(|(member, _)| &**member == name).map(|(_, value)| value)
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        match self.member(name) {
            Some(MemberValue::Int(value)) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn ints(&self, name: &str) -> &[i64] {
        match self.member(name) {
            Some(MemberValue::Ints(values)) => values,
            _ => &[],
        }
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        match self.member(name) {
            Some(MemberValue::Text(value)) => value,
            _ => "",
        }
    }

    pub(crate) fn object(&self, name: &str) -> Option<usize> {
        match self.member(name) {
            Some(MemberValue::Object(id)) => *id,
            _ => None,
        }
    }

    /// The indices of the objects in the list `name`; `None` if it was not read.
    pub(crate) fn objects(&self, name: &str) -> Option<&[Option<usize>]> {
        match self.member(name) {
            Some(MemberValue::Objects(ids)) => Some(ids),
            _ => None,
        }
    }

    pub(crate) fn basket(&self) -> Option<&Embedded> {
        match self.member("basket") {
            Some(MemberValue::Basket(basket)) => Some(basket),
            _ => None,
        }
    }
}

/// Reads an object of `class` from `bytes`, and all objects that it refers to. The first of the result is the object.
pub(crate) fn read(bytes: &[u8], key_bytes: usize, class: &str, streamers: &Streamers) -> Result<Vec<RootObject>> {
    let mut reader = ObjectReader {
        bytes: Bytes::new(bytes),
        key_bytes,
        streamers,
        refs: BTreeMap::new(),
        objects: vec![RootObject { class: class.to_owned(), members: Vec::new() }],
        known: BTreeMap::new(),
        depth: 0,
    };
    reader.class(class, 0)?;
    Ok(reader.objects)
}

struct ObjectReader<'a> {
    bytes: Bytes<'a>,
    key_bytes: usize,
    streamers: &'a Streamers,
    refs: BTreeMap<usize, Ref>,
    objects: Vec<RootObject>,
    known: BTreeMap<(String, u16), Option<Arc<[StreamerElement]>>>,
    depth: usize,
}

#[derive(Clone)]
enum Ref {
    Class(String),
    Object(usize),
}

const DEPTH: usize = 128;
const BYTE_COUNT: u32 = 0x4000_0000;
const NEW_CLASS: u32 = u32::MAX;
const CLASS: u32 = 0x8000_0000;
/// ROOT adds this to positions in references, so that none is 0.
const OFFSET: usize = 2;

impl ObjectReader<'_> {
    /// Reads an object of `class`, header included, into the object `id`.
    fn class(&mut self, class: &str, id: usize) -> Result<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Error::content(format!("objects nested more than {DEPTH} deep")));
        }
        match class {
            "TObjArray" => {
                let list = self.list()?;
                self.put(id, &"list".into(), MemberValue::Objects(list));
            }
            "TBasket" => {
                let basket = Embedded::read(&mut self.bytes)?;
                self.put(id, &"basket".into(), MemberValue::Basket(basket));
            }
            _ => self.described(class, id)?,
        }
        self.depth -= 1;
        Ok(())
    }

    fn described(&mut self, class: &str, id: usize) -> Result<()> {
        let header = self.bytes.header()?;
        let version = header.version & 0x3fff;
        let found = self.known.entry((class.to_owned(), version));
        let elements = found.or_insert_with(|| self.streamers.members(class, version)).clone();
        for element in elements.iter().flat_map(|elements| elements.iter()) {
            // Members after an unreadable one are not needed, or callers notice that they are missing.
            if !self.element(element, id)? {
                break;
            }
        }
        if header.end.is_none() && elements.is_none() {
            let what = format!("class {class} version {version}, which the file does not describe");
            return Err(Error::unsupported(what));
        }
        self.bytes.finish(header)
    }

    fn put(&mut self, id: usize, name: &Arc<str>, value: MemberValue) {
        if let Some(object) = self.objects.get_mut(id) {
            object.members.push((name.clone(), value));
        }
    }

    /// Reads one member; `false` if its type is not supported.
    fn element(&mut self, element: &StreamerElement, id: usize) -> Result<bool> {
        let value = match element.code {
            code::BASE => {
                self.class(&element.name, id)?;
                return Ok(true);
            }
            code::TOBJECT => {
                self.bytes.skip_object()?;
                return Ok(true);
            }
            code::TNAMED => {
                let (name, title) = self.bytes.named()?;
                self.put(id, &"fName".into(), MemberValue::Text(name));
                self.put(id, &"fTitle".into(), MemberValue::Text(title));
                return Ok(true);
            }
            code::STRING => MemberValue::Text(self.bytes.string()?),
            code::OBJECT | code::ANY if element.type_name == "TObjArray" => MemberValue::Objects(self.list()?),
            code::OBJECT | code::ANY => {
                let header = self.bytes.header()?;
                self.bytes.finish(header)?;
                return Ok(header.end.is_some());
            }
            code::OBJECT_POINTER | code::OBJECT_POINTER_MAY_BE_NULL => MemberValue::Object(self.any()?),
            1..code::FIXED => match self.number(element.code)? {
                Some(value) => MemberValue::Int(value),
                None => return Ok(false),
            },
            code::FIXED..code::POINTER => return self.fixed(element),
            code::POINTER..code::OBJECT => match self.counted(element, id)? {
                Some(values) => MemberValue::Ints(values),
                None => return Ok(false),
            },
            _ => return Ok(false),
        };
        self.put(id, &element.name, value);
        Ok(true)
    }

    fn fixed(&mut self, element: &StreamerElement) -> Result<bool> {
        let Some(width) = width(element.code - code::FIXED) else { return Ok(false) };
        self.bytes.take(element.array.saturating_mul(width))?;
        Ok(true)
    }

    /// A pointer to an array: a marker byte (0 for null), then the numbers.
    fn counted(&mut self, element: &StreamerElement, id: usize) -> Result<Option<Vec<i64>>> {
        let code = element.code - code::POINTER;
        let Some(mut width) = width(code) else { return Ok(None) };
        let marker = self.bytes.u8()?;
        if marker == 0 {
            return Ok(Some(Vec::new()));
        }
        // Old versions mark file offsets of 8 bytes instead of 4 with a 2.
        let wide = marker == 2 && width == 4;
        if wide {
            width = 8;
        }
        let count = self.objects.get(id).and_then(|object| object.int(&element.counter));
        let count = count.and_then(|n| usize::try_from(n).ok());
        let count = count.filter(|n| n.checked_mul(width).is_some_and(|bytes| bytes <= self.bytes.left()));
        let count =
            count.ok_or_else(|| Error::content(format!("an array {} that is longer than its object", element.name)))?;
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            match self.number(if wide { 16 } else { code })? {
                Some(value) => values.push(value),
                None => return Ok(None),
            }
        }
        Ok(Some(values))
    }

    /// A number with the type code `code`; `None` if its width is unknown.
    fn number(&mut self, code: i32) -> Result<Option<i64>> {
        let Some(width) = width(code) else { return Ok(None) };
        let bytes = self.bytes.take(width)?;
        let raw = bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        // Early versions stored the number of entries as a double.
        if code == 8 {
            let value = f64::from_bits(raw);
            return Ok(Some(if value.abs() < 9e15 { value as i64 } else { -1 }));
        }
        let unsigned = matches!(code, 11..=15 | 17 | 18);
        let shift = 64 - 8 * width as u32;
        let signed = (raw << shift).cast_signed() >> shift;
        Ok(Some(if unsigned { raw.cast_signed() } else { signed }))
    }

    fn list(&mut self) -> Result<Vec<Option<usize>>> {
        let header = self.bytes.header()?;
        self.bytes.skip_object()?;
        if header.version > 2 {
            self.bytes.string()?;
        }
        let count = self.bytes.count(4)?;
        self.bytes.u32()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(self.any()?);
        }
        self.bytes.finish(header)?;
        Ok(list)
    }

    /// An object of any class, or a reference to an earlier one.
    fn any(&mut self) -> Result<Option<usize>> {
        let start = self.bytes.at();
        let count = self.bytes.u32()?;
        let counted = count & BYTE_COUNT != 0 && count != NEW_CLASS;
        let (end, tag_at, tag) = if counted {
            let end = self.bytes.at().saturating_add((count & !BYTE_COUNT) as usize);
            (Some(end), self.bytes.at(), self.bytes.u32()?)
        } else {
            (None, 0, count)
        };
        let header = ObjectHeader { version: 0, end };
        if tag & CLASS == 0 {
            let found = match self.refs.get(&(tag as usize)) {
                Some(Ref::Object(id)) => Some(*id),
                _ => None,
            };
            self.bytes.finish(header)?;
            return Ok(found);
        }
        let class = self.tag(tag, counted.then_some(tag_at))?;
        let id = self.objects.len();
        self.objects.push(RootObject { class: class.clone(), members: Vec::new() });
        let key = if counted { start + self.key_bytes + OFFSET } else { self.refs.len() + 1 };
        self.refs.insert(key, Ref::Object(id));
        let known = matches!(&*class, "TObjArray" | "TBasket");
        if known || end.is_none() || class.starts_with("TBranch") || class.starts_with("TLeaf") {
            self.class(&class, id)?;
        }
        self.bytes.finish(header)?;
        Ok(Some(id))
    }

    fn tag(&mut self, tag: u32, at: Option<usize>) -> Result<String> {
        if tag == NEW_CLASS {
            let class = self.bytes.c_string()?;
            let key = at.map_or(self.refs.len() + 1, |at| at + self.key_bytes + OFFSET);
            self.refs.insert(key, Ref::Class(class.clone()));
            return Ok(class);
        }
        match self.refs.get(&((tag & !CLASS) as usize)) {
            Some(Ref::Class(class)) => Ok(class.clone()),
            _ => Err(Error::content("an object with an unknown class tag")),
        }
    }
}

/// The bytes of a number with the type code `code`.
fn width(code: i32) -> Option<usize> {
    Some(match code {
        1 | 10 | 11 | 18 => 1,
        2 | 12 => 2,
        3 | 5 | 6 | 13 | 15 => 4,
        4 | 8 | 14 | 16 | 17 => 8,
        _ => return None,
    })
}
