//! What an item of an array is: one element, or a structure whose members are fields of their own.
//!
//! Structures are flattened here: a [`Part`] is one member down to its element, with the dimensions of
//! all sub-arrays on the way and how far apart their entries lie.

use crate::element::Element;
use crate::literal::Literal;
use packhorse_core::{Error, Result};
use std::collections::BTreeSet;

/// More members than any structure has, and longer names; bounds what a header makes us hold.
const MEMBERS: usize = 4096;
const NAME: usize = 1024;

/// A dimension: how many entries, and how many bytes from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) len: usize,
    pub(crate) stride: usize,
}

/// One member of an item down to its element; the whole item where it is no structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The names on the way to it, joined by dots; empty for the whole item.
    pub(crate) name: String,
    /// Where it starts in the item.
    pub(crate) offset: usize,
    /// The dimensions of the sub-arrays that it lies in.
    pub(crate) axes: Vec<Axis>,
    pub(crate) element: Element,
}

/// What an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dtype {
    /// Bytes of an item.
    pub(crate) width: usize,
    /// Its members without padding, in the order of the file.
    pub(crate) parts: Vec<Part>,
}

impl Dtype {
    /// What the `descr` of a header says.
    pub(crate) fn parse(descr: &Literal) -> Result<Self> {
        match descr {
            Literal::Text(name) => Element::parse(name).map(Self::from),
            Literal::Tuple(pair) => match pair.as_slice() {
                [base, shape] => Self::parse(base)?.repeated(&shape_of(shape)?),
                _ => Err(damaged()),
            },
            Literal::List(members) => Self::structure(members),
            _ => Err(damaged()),
        }
    }

    fn structure(members: &[Literal]) -> Result<Self> {
        let (mut parts, mut width, mut names) = (Vec::new(), 0usize, BTreeSet::new());
        for member in members {
            let Literal::Tuple(member) = member else { return Err(damaged()) };
            let (name, dtype) = match member.as_slice() {
                [name, descr] => (name, Self::parse(descr)?),
                [name, descr, shape] => (name, Self::parse(descr)?.repeated(&shape_of(shape)?)?),
                _ => return Err(damaged()),
            };
            let name = name_of(name)?;
            let at = width;
            width = width.checked_add(dtype.width).ok_or_else(damaged)?;
            // Where a name is empty, void bytes are padding.
            if name.is_empty() && dtype.parts.iter().all(Part::is_void) {
                continue;
            }
            if name.is_empty() || name.len() > NAME || !names.insert(name) {
                return Err(Error::content(format!(
                    "has a structure with members of odd names (\"{name:.40}\" is empty, too long or there twice)"
                )));
            }
            for part in dtype.parts {
                parts.push(part.inside(name, at)?);
            }
            if parts.len() > MEMBERS {
                return Err(Error::unsupported(format!("has a structure of more than {MEMBERS} members")));
            }
        }
        match parts.is_empty() {
            true => Err(Error::unsupported("has items without any member")),
            false => Ok(Self { width, parts }),
        }
    }

    /// A sub-array of items.
    fn repeated(mut self, shape: &[usize]) -> Result<Self> {
        let mut axes = Vec::with_capacity(shape.len());
        for len in shape.iter().rev() {
            axes.push(Axis { len: *len, stride: self.width });
            self.width = self.width.checked_mul(*len).filter(|w| i64::try_from(*w).is_ok()).ok_or_else(damaged)?;
        }
        axes.reverse();
        for part in &mut self.parts {
            part.axes.splice(0..0, axes.iter().copied());
        }
        Ok(self)
    }
}

impl From<Element> for Dtype {
    fn from(element: Element) -> Self {
        let width = element.width;
        Self { width, parts: vec![Part { name: String::new(), offset: 0, axes: Vec::new(), element }] }
    }
}

impl Part {
    fn is_void(&self) -> bool {
        self.name.is_empty() && self.element.numpy.as_deref().is_some_and(|n| n.starts_with("|V"))
    }

    /// This part of a member called `member` that starts at `offset`.
    fn inside(mut self, member: &str, offset: usize) -> Result<Self> {
        self.name = match self.name.as_str() {
            "" => member.to_owned(),
            name => format!("{member}.{name}"),
        };
        self.offset = self.offset.checked_add(offset).ok_or_else(damaged)?;
        match self.name.len() > NAME {
            true => Err(Error::unsupported("has members with too long a name")),
            false => Ok(self),
        }
    }
}

/// A member's name; a title, where it has one, is left out.
fn name_of(name: &Literal) -> Result<&str> {
    match name {
        Literal::Text(name) => Ok(name),
        Literal::Tuple(pair) => match pair.as_slice() {
            [Literal::Text(_), Literal::Text(name)] => Ok(name),
            _ => Err(damaged()),
        },
        _ => Err(damaged()),
    }
}

/// A shape: a tuple, or one number where it stands for a sub-array of one dimension.
pub(crate) fn shape_of(shape: &Literal) -> Result<Vec<usize>> {
    let number = |n: &Literal| match n {
        Literal::Number(n) => usize::try_from(*n).ok().filter(|n| i64::try_from(*n).is_ok()).ok_or_else(damaged),
        _ => Err(damaged()),
    };
    match shape {
        Literal::Tuple(numbers) => numbers.iter().map(number).collect(),
        one => number(one).map(|n| vec![n]),
    }
}

fn damaged() -> Error {
    Error::content("has a damaged header: its descr is no NumPy type")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, offset, and length and stride of each dimension.
    type Short = (String, usize, Vec<(usize, usize)>);

    fn parts(descr: &str) -> Result<(usize, Vec<Short>)> {
        let dtype = Dtype::parse(&Literal::parse(descr).unwrap())?;
        let part = |p: Part| (p.name, p.offset, p.axes.iter().map(|a| (a.len, a.stride)).collect());
        Ok((dtype.width, dtype.parts.into_iter().map(part).collect()))
    }

    #[test]
    fn structures_are_flat() {
        let found =
            parts("[('id', '<i4'), ('', '|V4'), (('T', 'p'), [('x', '<f8'), ('y', '<f4', (2,))], (3,))]").unwrap();
        let wanted =
            vec![("id".into(), 0, vec![]), ("p.x".into(), 8, vec![(3, 16)]), ("p.y".into(), 16, vec![(3, 16), (2, 4)])];
        assert_eq!(found, (56, wanted));
    }

    #[test]
    fn odd_ones_are_refused() {
        for descr in [
            "[('a', '<i4'), ('a', '<i4')]",
            "[('', '<i4')]",
            "[]",
            "[('', '|V4')]",
            "('<f4', (4611686018427387904, 4611686018427387904))",
            "[('a', '|V2147483647', (9223372036854775807,))]",
            "(1, 2)",
            "['<f4']",
            "[('a',)]",
        ] {
            assert!(parts(descr).is_err(), "{descr}");
        }
    }
}
