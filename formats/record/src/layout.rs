//! What a record is, from the option's text.

use packhorse_core::{DataType, Error, Field, FieldType, KEY, Limits, NUMPY, Result, element_width, with_metadata};

/// What a record is.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Bytes of a record, at least one.
    pub(crate) width: usize,
    /// Its members without padding, in the order of their names.
    pub(crate) members: Vec<Member>,
}

/// A member of a record.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) field: Field,
    pub(crate) element: DataType,
    /// How many elements it has in a record.
    pub(crate) elements: usize,
    /// Where it starts in a record, and how many bytes it has.
    pub(crate) offset: usize,
    pub(crate) width: usize,
    /// Elements are turned around in pieces of so many bytes to be little-endian; 1 for none.
    pub(crate) swap: usize,
}

/// A type without its dimensions.
struct Type {
    element: DataType,
    swap: usize,
    numpy: Option<String>,
}

/// The name of padding.
const PADDING: &str = "_";

impl Layout {
    /// The record that `text` describes; a `Config` error says what in it can't be understood.
    pub(crate) fn parse(text: &str, limits: &Limits) -> Result<Self> {
        let (mut width, mut members) = (0usize, Vec::<Member>::new());
        for part in split(text) {
            let (name, mut member) = member(part.trim()).ok_or_else(|| {
                Error::config(format!(
                    "option record: can't understand \"{}\"; a member is a type and a name, such as <f4[3] p \
                     (with < or > where the type has more than one byte)",
                    part.trim()
                ))
            })?;
            member.offset = width;
            width = width
                .checked_add(member.width)
                .filter(|w| *w as u64 <= limits.blob)
                .ok_or_else(|| Error::config("option record: a record is over the limit of a sample"))?;
            if name == PADDING {
                continue;
            }
            if name == KEY || members.iter().any(|m| m.field.name() == name) {
                return Err(Error::config(format!("option record: the name {name} is taken; give each its own")));
            }
            members.push(member);
        }
        if width == 0 || members.is_empty() {
            return Err(Error::config(
                "option record says what a record is, such as record=\"<i4 id, <f4[3] p\"; it must have a member",
            ));
        }
        members.sort_by(|a, b| a.field.name().cmp(b.field.name()));
        Ok(Self { width, members })
    }
}

/// The parts between commas that are not in brackets.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    text.split(move |c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    })
    .filter(|part| !part.trim().is_empty())
}

/// A member at offset 0, with its name.
fn member(text: &str) -> Option<(&str, Member)> {
    let (kind, name) = text.rsplit_once(char::is_whitespace)?;
    let kind = kind.trim_end();
    let (base, shape) = dimensions(kind)?;
    let base = element(base)?;
    let elements = shape.iter().try_fold(1usize, |n, len| n.checked_mul(*len)).filter(|n| i32::try_from(*n).is_ok())?;
    let width = element_width(&base.element)?.checked_mul(elements)?;
    let kind = match shape.is_empty() {
        true => FieldType::Scalar(base.element.clone()),
        false => FieldType::Tensor { element: base.element.clone(), shape },
    };
    let field = kind.field(name, false);
    let field = match &base.numpy {
        Some(numpy) => with_metadata(field, NUMPY, numpy),
        None => field,
    };
    Some((name, Member { field, element: base.element, elements, offset: 0, width, swap: base.swap }))
}

/// `<f4[3,2]` is `<f4` and 3 by 2; the unit of `<M8[ns]` belongs to the type. No dimension is 0.
fn dimensions(kind: &str) -> Option<(&str, Vec<usize>)> {
    let Some((base, inside)) = kind.strip_suffix(']').and_then(|k| k.rsplit_once('[')) else {
        return Some((kind, Vec::new()));
    };
    if inside.contains(|c: char| c.is_ascii_alphabetic()) {
        return Some((kind, Vec::new()));
    }
    let number = |n: &str| n.trim().parse().ok().filter(|n| *n > 0usize);
    Some((base.trim_end(), inside.split(',').map(number).collect::<Option<_>>()?))
}

fn element(name: &str) -> Option<Type> {
    let (order, rest) = match name.strip_prefix(['<', '>', '|']) {
        Some(rest) => (name.chars().next(), rest),
        None => (None, name),
    };
    let kind = rest.chars().next()?;
    let size = rest.get(kind.len_utf8()..)?;
    let plain = |element: DataType, unit: usize, numpy: Option<String>| {
        let swap = match order {
            Some('>') => unit,
            Some('<') => 1,
            // Where the order of bytes matters, it must be said.
            _ if unit <= 1 => 1,
            _ => return None,
        };
        Some(Type { element, swap, numpy })
    };
    if matches!(kind, 'M' | 'm') {
        let unit = size.strip_prefix('8')?;
        let inside = unit.strip_prefix('[')?.strip_suffix(']')?.trim_start_matches(|c: char| c.is_ascii_digit());
        let known = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"].contains(&inside);
        return plain(DataType::FixedSizeBinary(8), 8, Some(format!("<{kind}8{unit}"))).filter(|_| known);
    }
    if !size.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let width: i32 = size.parse().ok().filter(|n| *n > 0)?;
    match (kind, width) {
        ('c', 8 | 16) => {
            plain(DataType::FixedSizeBinary(width), width.unsigned_abs() as usize / 2, Some(format!("<c{width}")))
        }
        ('S' | 'V', n) => plain(DataType::FixedSizeBinary(n), 1, Some(format!("|{kind}{n}"))),
        _ => plain(number(kind, width)?, width.unsigned_abs() as usize, None),
    }
}

fn number(kind: char, width: i32) -> Option<DataType> {
    Some(match (kind, width) {
        ('b', 1) => DataType::Boolean,
        ('i', 1) => DataType::Int8,
        ('i', 2) => DataType::Int16,
        ('i', 4) => DataType::Int32,
        ('i', 8) => DataType::Int64,
        ('u', 1) => DataType::UInt8,
        ('u', 2) => DataType::UInt16,
        ('u', 4) => DataType::UInt32,
        ('u', 8) => DataType::UInt64,
        ('f', 2) => DataType::Float16,
        ('f', 4) => DataType::Float32,
        ('f', 8) => DataType::Float64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Kind, numpy_type};

    fn parse(text: &str) -> Result<Layout> {
        Layout::parse(text, &Limits::default())
    }

    #[test]
    fn a_record_is_understood() {
        let layout = parse("<i4 id, >f4[3, 2] p,V3 _,|S8  tag , <M8[25us][2] t, u1 b,").unwrap();
        assert_eq!(layout.width, 4 + 24 + 3 + 8 + 16 + 1);
        let found: Vec<_> = layout
            .members
            .iter()
            .map(|m| (m.field.name().as_str(), m.offset, m.swap, FieldType::of(&m.field).unwrap().to_string()))
            .collect();
        let wanted = [
            ("b", 55, 1, "UInt8"),
            ("id", 0, 1, "Int32"),
            ("p", 4, 4, "Float32[3,2]"),
            ("t", 39, 1, "FixedSizeBinary(8)[2]"),
            ("tag", 31, 1, "FixedSizeBinary(8)"),
        ];
        assert_eq!(found, wanted.map(|(n, o, s, t)| (n, o, s, t.to_owned())));
        assert_eq!(numpy_type(&layout.members[3].field), Some("<M8[25us]"));
    }

    #[test]
    fn what_is_not_understood_is_shown() {
        for (text, words) in [
            ("", "says what a record is"),
            ("V4 _", "must have a member"),
            ("i4 id", "\"i4 id\""),
            ("<i4", "\"<i4\""),
            ("<i4 a, <f4 a", "name a is taken"),
            ("<i4 __key__", "taken"),
            ("<f4[0] a", "<f4[0] a"),
            ("<f4[99999999999999999999] a", "understand"),
            ("<f4[65536,65536] a", "understand"),
            ("S2147483647[2147483647] a", "over the limit"),
            ("<q9 a", "understand"),
            ("<f4] a", "understand"),
            ("<M8[x] a", "understand"),
            ("é4 a", "understand"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.kind() == Kind::Config && error.message().contains(words), "{text}: {error}");
        }
    }
}
