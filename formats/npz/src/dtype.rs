//! The dtype of an array: one scalar type, or a structured dtype whose members become fields.
//!
//! Structured dtypes are flattened: a [`DtypeField`] is one innermost member, with the dimensions and strides of
//! all subarrays around it.

use crate::element::ScalarType;
use crate::literal::Literal;
use packhorse_core::{Error, Result};
use std::collections::BTreeSet;

/// The most members of a structured dtype and the longest name, to bound the memory that a header can claim.
const MEMBERS: usize = 4096;
const NAME: usize = 1024;

/// A dimension: its length, and its stride in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) len: usize,
    pub(crate) stride: usize,
}

/// One innermost member of an item; the whole item if the dtype is not structured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DtypeField {
    /// The names of the members down to it, joined by dots; empty for the whole item.
    pub(crate) name: String,
    /// Byte offset in the item.
    pub(crate) offset: usize,
    /// The dimensions of the subarrays around it, outermost first.
    pub(crate) axes: Vec<Axis>,
    pub(crate) element: ScalarType,
}

/// The type of an item of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dtype {
    /// Bytes per item.
    pub(crate) width: usize,
    /// Its members without padding, in file order.
    pub(crate) parts: Vec<DtypeField>,
}

impl Dtype {
    /// Parses the `descr` of a header.
    pub(crate) fn parse(descr: &Literal) -> Result<Self> {
        match descr {
            Literal::Text(name) => ScalarType::parse(name).map(Self::from),
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
            // Void bytes with an empty name are padding.
            if name.is_empty() && dtype.parts.iter().all(DtypeField::is_void) {
                continue;
            }
            if name.is_empty() || name.len() > NAME || !names.insert(name) {
                return Err(Error::content(format!(
                    "has a structured dtype with an invalid member name (\"{name:.40}\" is empty, too long or repeated)"
                )));
            }
            for part in dtype.parts {
                parts.push(part.inside(name, at)?);
            }
            if parts.len() > MEMBERS {
                return Err(Error::unsupported(format!("has a structured dtype of more than {MEMBERS} members")));
            }
        }
        match parts.is_empty() {
            true => Err(Error::unsupported("has a structured dtype without members")),
            false => Ok(Self { width, parts }),
        }
    }

    /// The dtype of a subarray of such items.
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

impl From<ScalarType> for Dtype {
    fn from(element: ScalarType) -> Self {
        let width = element.width;
        Self { width, parts: vec![DtypeField { name: String::new(), offset: 0, axes: Vec::new(), element }] }
    }
}

impl DtypeField {
    fn is_void(&self) -> bool {
        self.name.is_empty() && self.element.numpy.as_deref().is_some_and(|n| n.starts_with("|V"))
    }

    /// This part, nested in `member`, which starts at `offset`.
    fn inside(mut self, member: &str, offset: usize) -> Result<Self> {
        self.name = match self.name.as_str() {
            "" => member.to_owned(),
            name => format!("{member}.{name}"),
        };
        self.offset = self.offset.checked_add(offset).ok_or_else(damaged)?;
        match self.name.len() > NAME {
            true => Err(Error::unsupported(format!("has a structured dtype with a name of more than {NAME} bytes"))),
            false => Ok(self),
        }
    }
}

/// A member's name, without its title.
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

/// A shape: a tuple, or one number for a subarray of one dimension.
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
    Error::content("has a damaged header: its descr is not a NumPy dtype")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, offset, and length and stride of each dimension.
    type Short = (String, usize, Vec<(usize, usize)>);

    fn parts(descr: &str) -> Result<(usize, Vec<Short>)> {
        let dtype = Dtype::parse(&Literal::parse(descr).unwrap())?;
        let part = |p: DtypeField| (p.name, p.offset, p.axes.iter().map(|a| (a.len, a.stride)).collect());
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
    fn invalid_dtypes_are_refused() {
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
