//! The layout of a record, parsed from the option `record`. It reads no file.

use packhorse_core::{
    DataType, Error, Field, FieldType, KEY, Limits, NUMPY, Result, element_width, numpy_number, with_metadata,
};

/// The size of a record and where its members lie.
#[derive(Clone, Debug)]
pub(crate) struct RecordLayout {
    /// Bytes per record, at least one.
    pub(crate) width: usize,
    /// The members without padding, sorted by name.
    pub(crate) members: Vec<RecordMember>,
}

/// One named member of a record.
#[derive(Clone, Debug)]
pub(crate) struct RecordMember {
    pub(crate) field: Field,
    pub(crate) element: DataType,
    /// Elements per record.
    pub(crate) elements: usize,
    /// Byte offset in the record.
    pub(crate) offset: usize,
    /// Bytes per record.
    pub(crate) width: usize,
    /// Size in bytes of the units to byte-swap into little-endian; 1 if none.
    pub(crate) swap: usize,
}

/// A type without its dimensions.
struct Type {
    element: DataType,
    swap: usize,
    numpy: Option<String>,
}

/// Members with this name are padding.
const PADDING: &str = "_";

impl RecordLayout {
    /// Parses the layout that `text` describes; a `Config` error quotes the part that is not valid.
    pub(crate) fn parse(text: &str, limits: &Limits) -> Result<Self> {
        let (mut width, mut members) = (0usize, Vec::<RecordMember>::new());
        for part in split(text) {
            let (name, mut member) = member(part.trim()).ok_or_else(|| {
                Error::config(format!(
                    "`record`: can't parse \"{}\"; a member is a type and a name, such as <f4[3] p \
                     (types of more than one byte need < or >), b1 ok or S8 tag",
                    part.trim()
                ))
            })?;
            member.offset = width;
            width = width
                .checked_add(member.width)
                .filter(|w| *w as u64 <= limits.blob)
                .ok_or_else(|| Error::config("`record`: a record is larger than the limit for a sample"))?;
            if name == PADDING {
                continue;
            }
            if name == KEY || members.iter().any(|m| m.field.name() == name) {
                return Err(Error::config(format!(
                    "`record`: the name {name} is already used; give each member its own name"
                )));
            }
            members.push(member);
        }
        if width == 0 || members.is_empty() {
            return Err(Error::config(
                "`record` must describe at least one member, for example record=\"<i4 id, <f4[3] p\"",
            ));
        }
        members.sort_by(|a, b| a.field.name().cmp(b.field.name()));
        Ok(Self { width, members })
    }
}

/// Splits at the commas outside brackets; empty parts are dropped.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    text.split(move |c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    })
    .filter(|part| !part.trim().is_empty())
}

/// Parses one member: its name, and its layout at offset 0.
fn member(text: &str) -> Option<(&str, RecordMember)> {
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
    Some((name, RecordMember { field, element: base.element, elements, offset: 0, width, swap: base.swap }))
}

/// Splits `<f4[3,2]` into `<f4` and `[3, 2]`; the unit of `<M8[ns]` stays with the type. `None` if a dimension is 0.
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
    // NumPy's character for Booleans.
    let rest = if rest == "?" { "b1" } else { rest };
    let kind = rest.chars().next()?;
    let size = rest.get(kind.len_utf8()..)?;
    let plain = |element: DataType, unit: usize, numpy: Option<String>| {
        let swap = match order {
            Some('>') => unit,
            Some('<') => 1,
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
    let bytes = width.unsigned_abs() as usize;
    match (kind, width) {
        ('c', 8 | 16) => plain(DataType::FixedSizeBinary(width), bytes / 2, Some(format!("<c{width}"))),
        ('S' | 'V', n) => plain(DataType::FixedSizeBinary(n), 1, Some(format!("|{kind}{n}"))),
        _ => plain(numpy_number(kind, bytes)?, bytes, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Kind, numpy_type};

    fn parse(text: &str) -> Result<RecordLayout> {
        RecordLayout::parse(text, &Limits::default())
    }

    #[test]
    fn a_record_is_parsed() {
        for boolean in ["? ok", "|b1 ok", "b1 ok"] {
            assert_eq!(parse(boolean).unwrap().members[0].element, DataType::Boolean, "{boolean}");
        }
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
    fn errors_quote_the_invalid_part() {
        for (text, words) in [
            ("", "at least one member"),
            ("V4 _", "at least one member"),
            ("i4 id", "\"i4 id\""),
            ("<i4", "\"<i4\""),
            ("<i4 a, <f4 a", "name a is already used"),
            ("<i4 __key__", "already used"),
            ("<f4[0] a", "<f4[0] a"),
            ("<f4[99999999999999999999] a", "can't parse"),
            ("<f4[65536,65536] a", "can't parse"),
            ("S2147483647[2147483647] a", "larger than the limit"),
            ("<q9 a", "can't parse"),
            ("<f4] a", "can't parse"),
            ("<M8[x] a", "can't parse"),
            ("é4 a", "can't parse"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.kind() == Kind::Config && error.message().contains(words), "{text}: {error}");
        }
    }
}
