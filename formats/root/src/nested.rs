//! Collections inside collections, and collections of strings: values whose size only reading tells.

use crate::bytes::Bytes;
use crate::decode::{Ends, collection, utf8};
use crate::element::Element;
use crate::typename::Type;
use arrow_array::ArrayRef;
use arrow_array::builder::StringViewBuilder;
use arrow_buffer::Buffer;
use packhorse_core::{Error, Result, array_of, element_width};
use std::sync::Arc;

/// A column of lists while it is read.
pub(crate) struct Lists {
    /// Where the lists of each depth end, the outermost first.
    ends: Vec<Ends>,
    inner: Inner,
}

enum Inner {
    Numbers(Element, Vec<u8>),
    Text(StringViewBuilder),
}

impl Lists {
    /// A column whose entries are of the type `of`, a list.
    pub(crate) fn new(of: &Type) -> Self {
        let (mut ends, mut of) = (Vec::new(), of);
        while let Type::List(inner) = of {
            ends.push(Ends::new());
            of = inner;
        }
        let inner = match of {
            Type::Number(element) => Inner::Numbers(element.clone(), Vec::new()),
            _ => Inner::Text(StringViewBuilder::new()),
        };
        Self { ends, inner }
    }

    /// One entry: the header of the outermost collection, then counts and values.
    pub(crate) fn entry(&mut self, entry: &[u8]) -> Result<()> {
        let (count, values) = collection(entry)?;
        let mut bytes = Bytes::new(values);
        self.list(0, count, &mut bytes)?;
        match bytes.left() {
            0 => Ok(()),
            left => Err(Error::content(format!("{left} bytes after a collection"))),
        }
    }

    /// The `count` things of a list at `depth`; every one of them takes bytes, so that it ends.
    fn list(&mut self, depth: usize, count: usize, bytes: &mut Bytes<'_>) -> Result<()> {
        self.ends.get_mut(depth).map_or(Ok(()), |ends| ends.push(count))?;
        if depth + 1 < self.ends.len() {
            for _ in 0..count {
                let inner = bytes.count(1)?;
                self.list(depth + 1, inner, bytes)?;
            }
            return Ok(());
        }
        match &mut self.inner {
            Inner::Numbers(element, out) => {
                element.append(bytes.take(count.saturating_mul(element.width()))?, out);
            }
            Inner::Text(out) => {
                for _ in 0..count {
                    out.append_value(utf8(bytes.raw_string()?)?);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<ArrayRef> {
        let values: ArrayRef = match self.inner {
            Inner::Numbers(element, bytes) => {
                let len = bytes.len() / element_width(&element.data_type).unwrap_or(1);
                array_of(&element.data_type, Buffer::from_vec(bytes), len)?
            }
            Inner::Text(mut builder) => Arc::new(builder.finish()),
        };
        self.ends.into_iter().rev().try_fold(values, |values, ends| ends.wrap(values))
    }
}
