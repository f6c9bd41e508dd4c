//! Decodes objects, maps and nested collections: one leaf becomes the column, everything else is skipped. The length
//! of every object is checked.

use crate::bytes::Bytes;
use crate::decode::utf8;
use crate::element::NumberType;
use crate::ends::Ends;
use crate::shape::{ClassShape, Shape, ShapeLeaf};
use arrow_array::ArrayRef;
use arrow_array::builder::StringViewBuilder;
use packhorse_core::{Error, Result};
use std::sync::Arc;

/// A column of a branch of objects.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    pub(crate) frame: Framing,
    pub(crate) shape: Arc<Shape>,
    pub(crate) leaf: ShapeLeaf,
}

/// The framing of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Framing {
    /// One value.
    One,
    /// The members of one object, without its header.
    Bare,
    /// Values up to the entry's end; collections and strings share one header.
    Many,
}

/// A column under construction.
pub(crate) struct ObjectColumnBuilder<'a> {
    objects: &'a Objects,
    /// Offsets of the lists of each depth, outermost first; empty for a tensor.
    ends: Vec<Ends>,
    inner: Inner,
    /// Values of counter members of the enclosing objects.
    counters: Vec<(Arc<str>, usize)>,
}

enum Inner {
    Numbers(Vec<u8>),
    Text(StringViewBuilder),
}

/// The rest of the path to the column's values; values off the path (`None`) are skipped.
#[derive(Clone, Copy)]
struct Way<'a> {
    path: &'a [usize],
    depth: usize,
}

impl<'a> Way<'a> {
    fn member(self, number: usize) -> Option<Self> {
        let (first, path) = self.path.split_first()?;
        (*first == number).then_some(Self { path, ..self })
    }

    fn inside(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

const MEMBER_WISE: u16 = 0x4000;

impl<'a> ObjectColumnBuilder<'a> {
    pub(crate) fn new(objects: &'a Objects) -> Self {
        let inner = match objects.leaf.element {
            Some(_) => Inner::Numbers(Vec::new()),
            None => Inner::Text(StringViewBuilder::new()),
        };
        let lists = if objects.leaf.is_tensor() { 0 } else { objects.leaf.lists.len() };
        Self { objects, ends: vec![Ends::new(); lists], inner, counters: Vec::new() }
    }

    /// Decodes one entry, which must be used up to its last byte.
    pub(crate) fn entry(&mut self, entry: &[u8]) -> Result<()> {
        let objects = self.objects;
        let (bytes, way) = (&mut Bytes::new(entry), Some(Way { path: &objects.leaf.path, depth: 0 }));
        self.counters.clear();
        match (objects.frame, &*objects.shape) {
            (Framing::Bare, Shape::Record(record)) => self.members(record, way, bytes)?,
            (Framing::Many, shape) => self.many(shape, way, bytes)?,
            (_, shape) => self.value(shape, way, bytes)?,
        }
        match bytes.left() {
            0 => Ok(()),
            left => Err(Error::content(format!("{left} bytes after an object"))),
        }
    }

    fn many(&mut self, shape: &Shape, way: Option<Way<'_>>, bytes: &mut Bytes<'_>) -> Result<()> {
        let mut shape = shape;
        if let Shape::Headed(inner) = shape
            && bytes.left() > 0
        {
            header(bytes, false)?;
            shape = inner;
        }
        let mut count = 0;
        while bytes.left() > 0 {
            let before = bytes.left();
            self.value(shape, way.map(Way::inside), bytes)?;
            count += 1;
            if bytes.left() == before {
                return Err(Error::content("objects of 0 bytes"));
            }
        }
        self.list(count, way)
    }

    /// Appends a list of length `count`, if it is on the path.
    fn list(&mut self, count: usize, way: Option<Way<'_>>) -> Result<()> {
        let ends = way.and_then(|way| self.ends.get_mut(way.depth));
        ends.map_or(Ok(()), |ends| ends.push(count))
    }

    fn value(&mut self, shape: &Shape, way: Option<Way<'_>>, bytes: &mut Bytes<'_>) -> Result<()> {
        match shape {
            Shape::Number(element) => self.numbers(element, 1, way, bytes),
            Shape::Counter(element) => self.numbers(element, 1, way, bytes),
            Shape::Text => {
                let raw = bytes.raw_string()?;
                self.text(raw, way)
            }
            Shape::LongText => {
                let len = bytes.count(1)?;
                self.text(bytes.take(len)?, way)
            }
            Shape::Headed(inner) => self.headed(inner, way, bytes),
            Shape::List(inner) => {
                let count = bytes.count(1)?;
                self.list(count, way)?;
                self.values(inner, count, way.map(Way::inside), bytes)
            }
            Shape::Bits => {
                let count = bytes.count(1)?;
                self.list(count, way)?;
                self.numbers(&NumberType::bool(), count, way, bytes)
            }
            Shape::Array(len, inner) => {
                self.list(*len, way)?;
                self.values(inner, *len, way.map(Way::inside), bytes)
            }
            Shape::Pointed(counter, element) => {
                let count = if bytes.u8()? == 0 { 0 } else { self.counted(counter)? };
                self.list(count, way)?;
                self.numbers(element, count, way, bytes)
            }
            Shape::Counted(counter, element) => {
                let count = self.counted(counter)?;
                self.list(count, way)?;
                self.numbers(element, count, way, bytes)
            }
            Shape::Map(..) => Err(Error::unsupported("a map that is not stored member-wise")),
            Shape::Object => bytes.skip_object(),
            Shape::Reference => {
                let number = bytes.object_number()?;
                bytes.u16()?;
                self.take(&number.to_le_bytes(), way);
                Ok(())
            }
            Shape::Record(record) => {
                let known = self.counters.len();
                self.object(record, way, bytes)?;
                self.counters.truncate(known);
                Ok(())
            }
        }
    }

    fn object(&mut self, record: &ClassShape, way: Option<Way<'_>>, bytes: &mut Bytes<'_>) -> Result<()> {
        let header = bytes.header()?;
        version(record, header.version, bytes)?;
        self.members(record, way, bytes)?;
        match header.end {
            Some(end) if end != bytes.at() => {
                Err(Error::content(format!("an object of class {} does not match its byte count", record.class)))
            }
            _ => Ok(()),
        }
    }

    fn values(&mut self, shape: &Shape, count: usize, way: Option<Way<'_>>, bytes: &mut Bytes<'_>) -> Result<()> {
        if let Shape::Number(element) = shape {
            return self.numbers(element, count, way, bytes);
        }
        (0..count).try_for_each(|_| self.value(shape, way, bytes))
    }

    fn numbers(&mut self, of: &NumberType, count: usize, way: Option<Way<'_>>, bytes: &mut Bytes<'_>) -> Result<()> {
        let found = bytes.take(count.saturating_mul(of.width()))?;
        if let (Some(_), Inner::Numbers(out)) = (way, &mut self.inner) {
            of.append(found, out);
        }
        Ok(())
    }

    fn take(&mut self, number: &[u8], way: Option<Way<'_>>) {
        if let (Some(_), Inner::Numbers(out)) = (way, &mut self.inner) {
            out.extend_from_slice(number);
        }
    }

    fn text(&mut self, raw: &[u8], way: Option<Way<'_>>) -> Result<()> {
        if let (Some(_), Inner::Text(out)) = (way, &mut self.inner) {
            out.append_value(utf8(raw)?);
        }
        Ok(())
    }

    /// The value of the member `counter` of the enclosing objects.
    fn counted(&self, counter: &str) -> Result<usize> {
        let found = self.counters.iter().rev().find(|(name, _)| &**name == counter);
        found.map(|(_, count)| *count).ok_or_else(|| Error::unsupported(format!("an array counted by {counter}")))
    }

    fn headed(&mut self, inner: &Shape, way: Option<Way<'_>>, bytes: &mut Bytes<'_>) -> Result<()> {
        let (end, member_wise) = header(bytes, true)?;
        match member_wise {
            true => self.member_wise(inner, way, bytes)?,
            false => self.value(inner, way, bytes)?,
        }
        check_end(end, bytes)
    }

    /// Decodes the members of an object, with those of its base classes.
    fn members(&mut self, record: &ClassShape, way: Option<Way<'_>>, bytes: &mut Bytes<'_>) -> Result<()> {
        for (number, member) in record.members.iter().enumerate() {
            let way = way.and_then(|way| way.member(number));
            match &member.shape {
                // The class may use counters of its base classes, so they are kept.
                Shape::Record(base) if member.is_base => self.object(base, way, bytes)?,
                Shape::Counter(element) => {
                    let count = usize::try_from(bytes.clone().i32()?);
                    let count = count.map_err(|_| Error::content("an array of negative length"))?;
                    self.counters.push((member.name.clone(), count));
                    self.numbers(element, 1, way, bytes)?;
                }
                shape => self.value(shape, way, bytes)?,
            }
        }
        Ok(())
    }

    /// A collection of objects or a map, stored member-wise: the first member of all items, then the second.
    fn member_wise(&mut self, of: &Shape, way: Option<Way<'_>>, bytes: &mut Bytes<'_>) -> Result<()> {
        match of {
            Shape::List(inner) if let Shape::Record(record) = &**inner => {
                let stored = bytes.u16()?;
                version(record, stored, bytes)?;
                let count = bytes.count(1)?;
                self.list(count, way)?;
                let way = way.map(Way::inside);
                for (number, member) in record.members.iter().enumerate() {
                    if member.is_base && member.shape != Shape::Object {
                        return Err(Error::unsupported("objects with base classes, stored member-wise"));
                    }
                    self.side(&member.shape, count, way.and_then(|way| way.member(number)), bytes)?;
                }
                Ok(())
            }
            Shape::Map(key, value) => {
                if bytes.u16()? == 0 {
                    bytes.u32()?;
                }
                let count = bytes.count(1)?;
                self.list(count, way)?;
                let way = way.map(Way::inside);
                self.side(key, count, way.and_then(|way| way.member(0)), bytes)?;
                self.side(value, count, way.and_then(|way| way.member(1)), bytes)
            }
            _ => Err(Error::unsupported("a collection stored member-wise")),
        }
    }

    /// One member of `count` objects.
    fn side(&mut self, shape: &Shape, count: usize, way: Option<Way<'_>>, bytes: &mut Bytes<'_>) -> Result<()> {
        match shape {
            _ if count == 0 => Ok(()),
            Shape::Headed(inner) => {
                let (end, _) = header(bytes, false)?;
                self.values(inner, count, way, bytes)?;
                check_end(end, bytes)
            }
            Shape::Counter(_) | Shape::Pointed(..) | Shape::Counted(..) => {
                Err(Error::unsupported("counted arrays, stored member-wise"))
            }
            _ => self.values(shape, count, way, bytes),
        }
    }

    /// The offsets of lists, and the values.
    pub(crate) fn finish(self) -> (Vec<Ends>, Values) {
        let values = match self.inner {
            Inner::Numbers(bytes) => Values::Numbers(bytes),
            Inner::Text(mut builder) => Values::Text(Arc::new(builder.finish())),
        };
        (self.ends, values)
    }
}

/// The values of a column: bytes of numbers, or text.
pub(crate) enum Values {
    Numbers(Vec<u8>),
    Text(ArrayRef),
}

/// The header of a collection or string: its end, and whether it is stored member-wise.
fn header(bytes: &mut Bytes<'_>, may_be_member_wise: bool) -> Result<(usize, bool)> {
    let header = bytes.header()?;
    let end = header.end.ok_or_else(|| Error::content("a collection without a byte count"))?;
    let member_wise = header.version & MEMBER_WISE != 0;
    match member_wise && !may_be_member_wise {
        true => Err(Error::unsupported("a collection stored member-wise")),
        false => Ok((end, member_wise)),
    }
}

fn check_end(end: usize, bytes: &Bytes<'_>) -> Result<()> {
    match bytes.at() == end {
        true => Ok(()),
        false => Err(Error::content("a collection that does not match its byte count")),
    }
}

/// Checks the class version `stored`; 0 means that a checksum follows.
fn version(record: &ClassShape, stored: u16, bytes: &mut Bytes<'_>) -> Result<()> {
    let known = match stored {
        0 => bytes.u32()? == record.checksum,
        _ => i32::from(stored) == record.version,
    };
    match known {
        true => Ok(()),
        false => Err(Error::unsupported(format!("an object of class {} in version {stored}", record.class))),
    }
}

#[cfg(test)]
mod tests;
