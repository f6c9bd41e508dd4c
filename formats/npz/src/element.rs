//! NumPy's scalar types: their names, widths and Arrow types.
//!
//! [The array interface](https://numpy.org/doc/stable/reference/arrays.interface.html) defines the
//! names: byte order, kind, width.

use packhorse_core::{DataType, Error, Result, number_kind, numpy_number};

/// The type of one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalarType {
    /// Bytes of an element in the file.
    pub(crate) width: usize,
    /// Size in bytes of the units to byte-swap into little-endian; 1 if none.
    pub(crate) swap: usize,
    /// Its type in a column.
    pub(crate) data_type: DataType,
    /// Its NumPy name in little-endian byte order, unless `data_type` determines it.
    pub(crate) numpy: Option<String>,
}

impl ScalarType {
    /// Parses a NumPy name. Without a byte order, or with `=` or `|`, it is little-endian.
    pub(crate) fn parse(name: &str) -> Result<Self> {
        let unknown = || Error::unsupported(format!("has the unknown NumPy type \"{name}\""));
        let (big, rest) = match name.strip_prefix('>') {
            Some(rest) => (true, rest),
            None => (false, name.strip_prefix(['<', '=', '|']).unwrap_or(name)),
        };
        let mut chars = rest.chars();
        let kind = chars.next().ok_or_else(unknown)?;
        if matches!(kind, 'M' | 'm') {
            return times(kind, chars.as_str(), big).ok_or_else(unknown);
        }
        let size = chars.as_str();
        let digits = !size.is_empty() && size.bytes().all(|b| b.is_ascii_digit());
        match (kind, size) {
            ('O', _) => return Err(pickled()),
            ('f', "12" | "16") | ('c', "24" | "32") | ('g' | 'G', "") => return Err(long_double(name)),
            _ if !digits => return Err(unknown()),
            _ => {}
        }
        let size: usize = size.parse().map_err(|_| unknown())?;
        let swap = |unit: usize| if big { unit } else { 1 };
        let (data_type, width, swap, numpy) = match (kind, size) {
            ('c', 8 | 16) => (binary(size)?, size, swap(size / 2), Some(format!("<c{size}"))),
            ('S' | 'a', n) => (binary(n)?, n, 1, Some(format!("|S{n}"))),
            ('V', n) => (binary(n)?, n, 1, Some(format!("|V{n}"))),
            ('U', n) => {
                let width = n.checked_mul(4).filter(|w| i32::try_from(*w).is_ok()).ok_or_else(unknown)?;
                (DataType::Utf8View, width, swap(4), Some(format!("<U{n}")))
            }
            _ => (numpy_number(kind, size).ok_or_else(unknown)?, size, swap(size), None),
        };
        Ok(Self { width, swap, data_type, numpy })
    }

    /// The NumPy name of `data_type`, if it has one.
    pub(crate) fn name_of(data_type: &DataType) -> Option<String> {
        if let DataType::FixedSizeBinary(n) = data_type {
            return Some(format!("|V{n}"));
        }
        let (kind, size) = number_kind(data_type)?;
        Some(format!("{}{kind}{size}", if size == 1 { '|' } else { '<' }))
    }

    /// Whether elements are text.
    pub(crate) fn is_text(&self) -> bool {
        self.data_type == DataType::Utf8View
    }
}

fn binary(width: usize) -> Result<DataType> {
    let width = i32::try_from(width).map_err(|_| Error::unsupported(format!("has elements of {width} bytes")))?;
    Ok(DataType::FixedSizeBinary(width))
}

/// `M8[ns]`, `m8[25us]`, `M8[D/3]`, `M8`: the unit is checked for its form and kept as text.
fn times(kind: char, rest: &str, big: bool) -> Option<ScalarType> {
    let unit = rest.strip_prefix('8')?;
    if !unit.is_empty() {
        let inside = unit.strip_prefix('[')?.strip_suffix(']')?;
        let inside = inside.trim_start_matches(|c: char| c.is_ascii_digit());
        let (unit, divisor) = inside.split_once('/').unwrap_or((inside, "1"));
        let known = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "μs", "ns", "ps", "fs", "as", "generic"];
        if !known.contains(&unit) || divisor.is_empty() || !divisor.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
    }
    let numpy = Some(format!("<{kind}8{unit}"));
    Some(ScalarType { width: 8, swap: if big { 8 } else { 1 }, data_type: DataType::FixedSizeBinary(8), numpy })
}

fn pickled() -> Error {
    Error::unsupported(
        "is a pickled object array, which only Python can load; convert it to numbers or text \
         (x.astype(float), x.astype(str)) and save it again",
    )
}

fn long_double(name: &str) -> Error {
    Error::unsupported(format!(
        "is an array of long doubles ({name}), whose layout depends on the machine; save x.astype(\"f8\") instead \
         (complex: \"c16\")"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    #[test]
    fn names_of_elements() {
        let of = |name: &str| {
            let e = ScalarType::parse(name).unwrap();
            (e.width, e.swap, e.data_type, e.numpy.unwrap_or_default())
        };
        assert_eq!(of("<f4"), (4, 1, DataType::Float32, String::new()));
        assert_eq!(of(">f2"), (2, 2, DataType::Float16, String::new()));
        assert_eq!(of("|b1"), (1, 1, DataType::Boolean, String::new()));
        assert_eq!(of(">c16"), (16, 8, DataType::FixedSizeBinary(16), "<c16".into()));
        assert_eq!(of(">U7"), (28, 4, DataType::Utf8View, "<U7".into()));
        assert_eq!(of("|S0"), (0, 1, DataType::FixedSizeBinary(0), "|S0".into()));
        assert_eq!(of(">M8[25us]"), (8, 8, DataType::FixedSizeBinary(8), "<M8[25us]".into()));
        assert_eq!(of("<m8"), (8, 1, DataType::FixedSizeBinary(8), "<m8".into()));
    }

    #[test]
    fn refused_types_are_named() {
        for (name, word) in [
            ("|O", "pickled object array"),
            ("<f16", "long doubles"),
            (">c32", "long doubles"),
            ("<f3", "<f3"),
            ("<U99999999999999999999", "unknown"),
            ("<U999999999", "unknown"),
            ("<M8[parsec]", "unknown"),
            ("", "unknown"),
            ("<", "unknown"),
            ("<i+4", "unknown"),
        ] {
            let error = ScalarType::parse(name).unwrap_err();
            assert!(error.kind() == Kind::Unsupported && error.message().contains(word), "{name}: {error}");
        }
    }

    #[test]
    fn names_round_trip() {
        for name in ["|b1", "|i1", "<u2", "<i8", "<f2", "<f8"] {
            assert_eq!(ScalarType::name_of(&ScalarType::parse(name).unwrap().data_type).unwrap(), name);
        }
    }
}
