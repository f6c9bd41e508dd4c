//! The header of an `.npy` file: magic, version, and the dictionary with type, order and shape.
//!
//! Specification: [numpy.lib.format](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html),
//! versions 1.0, 2.0 and 3.0.

use crate::dtype::{Axis, Dtype, DtypeField, shape_of};
use crate::literal::Literal;
use packhorse_core::{Error, FieldType, Limits, Result};

pub(crate) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// NumPy's limit on dimensions.
const RANK: usize = 64;

/// The most elements of zero bytes in an array, since the file's size does not bound them.
const EMPTY_ELEMENTS: usize = 1 << 16;

/// A parsed header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NpyHeader {
    pub(crate) dtype: Dtype,
    pub(crate) fortran: bool,
    pub(crate) shape: Vec<usize>,
    /// The product of `shape`.
    pub(crate) items: usize,
    /// Byte offset of the data.
    pub(crate) start: usize,
}

impl NpyHeader {
    /// Bytes before the data, from the first 12 bytes of a file.
    pub(crate) fn size(bytes: &[u8], limits: &Limits) -> Result<usize> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Err(Error::content("is not an .npy file (it does not start with \\x93NUMPY)"));
        };
        match rest {
            [1, 0, a, b, ..] => Ok(10 + usize::from(u16::from_le_bytes([*a, *b]))),
            [2 | 3, 0, a, b, c, d, ..] => {
                let len = limits.header(u64::from(u32::from_le_bytes([*a, *b, *c, *d])))?;
                Ok(12usize.saturating_add(len))
            }
            [1..=3, 0, ..] => Err(cut()),
            [major, minor, ..] => {
                Err(Error::unsupported(format!("has .npy version {major}.{minor}; supported are 1.0 to 3.0")))
            }
            _ => Err(cut()),
        }
    }

    /// Parses the header at the start of `bytes`.
    pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let start = Self::size(bytes, limits)?;
        let prefix = if bytes.get(6) == Some(&1) { 10 } else { 12 };
        let text = bytes.get(prefix..start).ok_or_else(cut)?;
        let dict = match (bytes.get(6), std::str::from_utf8(text)) {
            (_, Ok(text)) if text.is_ascii() => Literal::parse(text)?,
            // Versions before 3.0 are Latin-1.
            (Some(3), Ok(text)) => Literal::parse(text)?,
            (Some(3), Err(_)) => return Err(Error::content("has a header that is not UTF-8")),
            _ => Literal::parse(&text.iter().map(|b| char::from(*b)).collect::<String>())?,
        };
        Self::of(dict, start)
    }

    fn of(dict: Literal, start: usize) -> Result<Self> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        let Literal::Dict(entries) = dict else { return Err(odd_keys()) };
        for (key, value) in entries {
            let Literal::Text(key) = key else { return Err(odd_keys()) };
            let slot = match key.as_str() {
                "descr" => &mut descr,
                "fortran_order" => &mut fortran,
                "shape" => &mut shape,
                _ => return Err(odd_keys()),
            };
            if slot.replace(value).is_some() {
                return Err(odd_keys());
            }
        }
        let (Some(descr), Some(Literal::Truth(fortran)), Some(shape @ Literal::Tuple(_))) = (descr, fortran, shape)
        else {
            return Err(odd_keys());
        };
        let (dtype, shape) = (Dtype::parse(&descr)?, shape_of(&shape)?);
        let items = check_size(&dtype, &shape)?;
        Ok(Self { dtype, fortran, shape, items, start })
    }

    /// Size of the data in bytes.
    pub(crate) fn data_len(&self) -> usize {
        self.items.saturating_mul(self.dtype.width)
    }

    /// Refuses a file of `len` bytes whose data is cut short or followed by more bytes.
    pub(crate) fn check_len(&self, len: u64) -> Result<()> {
        let wanted = (self.start as u64).saturating_add(self.data_len() as u64);
        if len < wanted {
            return Err(Error::content(format!(
                "is cut short: it has {len} of the {wanted} bytes that the shape {:?} needs",
                self.shape
            )));
        }
        match len - wanted {
            0 => Ok(()),
            more => Err(Error::content(format!(
                "has {more} bytes after its data; if numpy.save wrote several arrays to this file, save each to its own"
            ))),
        }
    }

    /// The data in `bytes`, the whole file.
    pub(crate) fn data<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        self.check_len(bytes.len() as u64)?;
        bytes.get(self.start..).ok_or_else(cut)
    }

    /// The dimensions with their strides in bytes, outermost first, for data in C or `fortran` order.
    pub(crate) fn axes(&self, fortran: bool) -> Vec<Axis> {
        let mut stride = self.dtype.width;
        let mut axes: Vec<Axis> = self.shape.iter().map(|len| Axis { len: *len, stride: 0 }).collect();
        let mut set = |axis: &mut Axis| {
            axis.stride = stride;
            stride = stride.saturating_mul(axis.len.max(1));
        };
        match fortran {
            true => axes.iter_mut().for_each(&mut set),
            false => axes.iter_mut().rev().for_each(&mut set),
        }
        axes
    }

    /// The type of `part` in a sample: the whole array, or with `rows` an entry of its first dimension, which must
    /// exist.
    pub(crate) fn field_type(&self, part: &DtypeField, rows: bool) -> Result<FieldType> {
        let outer = self.shape.get(usize::from(rows)..).unwrap_or_default();
        let shape: Vec<usize> = outer.iter().copied().chain(part.axes.iter().map(|a| a.len)).collect();
        let element = part.element.data_type.clone();
        let elements = shape.iter().try_fold(1usize, |n, len| n.checked_mul(*len));
        let most = i32::MAX as usize;
        if elements.is_none_or(|n| n > most) || shape.iter().any(|len| *len > most) {
            return Err(Error::unsupported(format!(
                "has the shape {shape:?}, but a sample holds at most {most} elements; \
                 `rows` makes each entry of the first dimension a sample"
            )));
        }
        Ok(match shape.is_empty() {
            true => FieldType::Scalar(element),
            false => FieldType::Tensor { element, shape },
        })
    }
}

/// The number of items; an error if their size overflows.
fn check_size(dtype: &Dtype, shape: &[usize]) -> Result<usize> {
    let too_many = || Error::content(format!("has a damaged header: the shape {shape:?} is too large"));
    let inner = dtype.parts.iter().map(|part| part.axes.len()).max().unwrap_or(0);
    if shape.len() > RANK || shape.len() + inner > 2 * RANK {
        return Err(Error::unsupported(format!("has {} dimensions; at most {RANK} are supported", shape.len())));
    }
    product(shape.iter().copied().chain([dtype.width])).ok_or_else(too_many)?;
    for part in &dtype.parts {
        let axes = part.axes.iter().map(|a| a.len);
        let elements = product(shape.iter().copied().chain(axes)).ok_or_else(too_many)?;
        if part.element.width == 0 && elements > EMPTY_ELEMENTS {
            return Err(Error::unsupported(format!(
                "has {elements} elements of zero bytes ({}); at most {EMPTY_ELEMENTS} are supported",
                part.element.numpy.as_deref().unwrap_or_default()
            )));
        }
    }
    Ok(shape.iter().product())
}

/// The product of `lens`. 0 counts as 1, so that it does not hide an overflow of the others.
fn product(mut lens: impl Iterator<Item = usize>) -> Option<usize> {
    lens.try_fold(1usize, |n, len| n.checked_mul(len.max(1))).filter(|n| i64::try_from(*n).is_ok())
}

fn odd_keys() -> Error {
    Error::content("has a damaged header: it is not a dictionary of descr, fortran_order (True or False) and shape")
}

pub(crate) fn cut() -> Error {
    Error::cut_short("the .npy file ends within its header or data")
}

/// Appends a header as `numpy.save` writes it: version 1.0, padded to a multiple of 64 bytes.
pub(crate) fn write_header(descr: &str, shape: &[usize], out: &mut Vec<u8>) -> Result<()> {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let tuple = match dims.as_slice() {
        [one] => format!("({one},)"),
        _ => format!("({})", dims.join(", ")),
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple}, }}");
    // NumPy reserves room for the first dimension to grow in place: the digits of the longest i64, and a sign.
    text.push_str(&" ".repeat(dims.first().map_or(0, |first| 21usize.saturating_sub(first.len()))));
    let used = MAGIC.len() + 4 + text.len() + 1;
    text.push_str(&" ".repeat(64 - used % 64));
    text.push('\n');
    let len = u16::try_from(text.len()).map_err(|_| Error::unsupported("an .npy header of more than 64 KiB"))?;
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{DataType, Kind};

    fn header(descr: &str, shape: &[usize]) -> Result<NpyHeader> {
        let mut bytes = Vec::new();
        write_header(descr, shape, &mut bytes).unwrap();
        assert_eq!(bytes.len() % 64, 0);
        NpyHeader::parse(&bytes, &Limits::default())
    }

    #[test]
    fn what_is_written_is_read() {
        let found = header("<f4", &[3, 0, 2]).unwrap();
        assert_eq!((found.items, found.start, found.shape.as_slice()), (0, 128, &[3, 0, 2][..]));
        let kind = found.field_type(&found.dtype.parts[0], false).unwrap();
        assert_eq!(kind, FieldType::Tensor { element: DataType::Float32, shape: vec![3, 0, 2] });
        let scalar = header("|b1", &[]).unwrap();
        assert_eq!(scalar.field_type(&scalar.dtype.parts[0], false).unwrap(), FieldType::Scalar(DataType::Boolean));
    }

    #[test]
    fn absurd_shapes_are_refused() {
        for (descr, shape) in [
            ("<f8", vec![usize::MAX / 2]),
            ("<f8", vec![1 << 62, 1 << 62, 0]),
            ("|S0", vec![1 << 40]),
            ("<U0", vec![1 << 40]),
            ("|u1", vec![1; 65]),
        ] {
            assert!(header(descr, &shape).is_err(), "{descr} {shape:?}");
        }
        let large = header("|u1", &[1 << 33]).unwrap();
        let error = large.field_type(&large.dtype.parts[0], false).unwrap_err();
        assert!(error.kind() == Kind::Unsupported && error.message().contains("`rows`"));
    }

    #[test]
    fn versions() {
        let limits = Limits::default();
        let error = NpyHeader::parse(b"\x93NUMPY\x04\x00\x00\x00\x00\x00", &limits).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        let error = NpyHeader::parse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff", &limits).unwrap_err();
        assert_eq!(error.kind(), Kind::Limit);
        assert!(NpyHeader::parse(b"\x93NUMPY\x01\x00\xff", &limits).is_err());
        let dict = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n";
        let v2 = [&b"\x93NUMPY\x02\x00"[..], &(dict.len() as u32).to_le_bytes(), dict].concat();
        assert_eq!(NpyHeader::parse(&v2, &limits).unwrap().shape, [2]);
    }
}
