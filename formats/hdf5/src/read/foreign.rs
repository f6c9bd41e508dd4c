//! Anybody's files: each dataset is a field, each row of it a sample.

use super::dataset::{Dataset, describe, named};
use super::file::H5File;
use super::group::{Link, links};
use super::object::Object;
use super::values::FieldReader;
use crate::datatype::Datatype;
use packhorse_core::{DataType, Error, FieldType, NUMPY, Result, with_metadata};
use std::collections::BTreeSet;
use std::ops::Range;

/// Groups inside each other, and objects in a file.
const DEEPEST: usize = 64;
const MOST: usize = 100_000;

/// A dataset that may become a field.
struct Found {
    path: String,
    object: Object,
    datatype: Datatype,
    dims: Vec<u64>,
}

/// The fields that the datasets of a file become, in the order of their names, and how many samples.
/// `wanted` are globs of paths; empty means all that hold numbers or text. Of the samples, `items` will be read.
pub(crate) fn fields(
    file: &H5File<'_>,
    root: Object,
    wanted: &[String],
    items: &Range<u64>,
) -> Result<(Vec<FieldReader>, u64)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    walk(file, &root, "", 0, wanted, &mut seen, &mut found)?;
    let Some((path, rows)) = found.first().map(|first| (first.path.clone(), rows(&first.dims))) else {
        return Err(match wanted.is_empty() {
            true => Error::content("has no dataset of numbers or text with rows"),
            false => Error::config(format!("option datasets: no dataset is called {}", wanted.join(","))),
        });
    };
    let mut fields = Vec::new();
    for found in found {
        if self::rows(&found.dims) != rows {
            return Err(Error::content(format!(
                "dataset {path} has {rows} rows and {} has {}: choose those that belong together with option datasets",
                found.path,
                self::rows(&found.dims)
            )));
        }
        fields.extend(readers(file, &found, items)?);
    }
    fields.sort_by(|a, b| a.field.name().cmp(b.field.name()));
    for pair in fields.windows(2) {
        if let [a, b] = pair
            && a.field.name() == b.field.name()
        {
            let (one, two) = (&a.values.name, &b.values.name);
            let message = format!("datasets {one} and {two} would both be one field; choose one with option datasets");
            return Err(Error::unsupported(message));
        }
    }
    Ok((fields, rows))
}

fn rows(dims: &[u64]) -> u64 {
    dims.first().copied().unwrap_or_default()
}

fn walk(
    file: &H5File<'_>,
    group: &Object,
    path: &str,
    depth: usize,
    wanted: &[String],
    seen: &mut BTreeSet<u64>,
    found: &mut Vec<Found>,
) -> Result<()> {
    for (name, link) in links(file, group)? {
        // An object that two links name is read by the first of them.
        let Link::Object(address) = link else { continue };
        if !seen.insert(address) {
            continue;
        }
        if depth >= DEEPEST || seen.len() > MOST {
            return Err(Error::unsupported(format!("more than {MOST} objects, or groups more than {DEEPEST} deep")));
        }
        let path = format!("{path}/{name}");
        let object = Object::read(file, address).map_err(|e| named(&path, e))?;
        match describe(file, &object).map_err(|e| named(&path, e))? {
            Some((datatype, dims)) => {
                let chosen = match wanted.is_empty() {
                    true => field_type(&datatype, &dims).is_some(),
                    false => wanted.iter().any(|glob| matches(glob.as_bytes(), path.as_bytes())),
                };
                if chosen {
                    found.push(Found { path, object, datatype, dims });
                }
            }
            None => walk(file, &object, &path, depth + 1, wanted, seen, found)?,
        }
    }
    Ok(())
}

/// Whether `path` is what the glob says: `*` stands for any characters, `?` for one; a leading slash
/// may be left out.
pub(crate) fn matches(glob: &[u8], path: &[u8]) -> bool {
    let path = if glob.starts_with(b"/") { path } else { path.strip_prefix(b"/").unwrap_or(path) };
    let (mut g, mut p, mut back) = (0, 0, None);
    while p < path.len() {
        match glob.get(g) {
            Some(b'*') => {
                back = Some((g + 1, p));
                g += 1;
            }
            Some(c) if *c == b'?' || path.get(p) == Some(c) => (g, p) = (g + 1, p + 1),
            _ => match back {
                Some((after, start)) => {
                    back = Some((after, start + 1));
                    (g, p) = (after, start + 1);
                }
                None => return false,
            },
        }
    }
    glob.get(g..).unwrap_or_default().iter().all(|c| *c == b'*')
}

fn readers(file: &H5File<'_>, found: &Found, items: &Range<u64>) -> Result<Vec<FieldReader>> {
    let name = found.path.trim_start_matches('/').replace('/', ".");
    if file.offsets != 8 && matches!(found.datatype, Datatype::VlenText { .. } | Datatype::Vlen(_)) {
        return Err(odd(found, &found.datatype));
    }
    match &found.datatype {
        Datatype::Compound { members, .. } => {
            let one = |(member, offset, datatype): &(String, u32, Datatype)| {
                member_reader(file, found, &format!("{name}.{member}"), *offset, datatype, items)
            };
            members.iter().map(one).collect()
        }
        datatype => {
            let made = field_type(datatype, &found.dims).ok_or_else(|| odd(found, datatype))?;
            Ok(vec![reader(file, found, &name, made, items)?])
        }
    }
}

/// The error that a dataset's elements are none that rows can hold.
fn odd(found: &Found, datatype: &Datatype) -> Error {
    named(&found.path, Error::unsupported(format!("{datatype} with dimensions {:?}", found.dims)))
}

fn reader(
    file: &H5File<'_>,
    found: &Found,
    name: &str,
    (kind, numpy): (FieldType, Option<String>),
    items: &Range<u64>,
) -> Result<FieldReader> {
    let mut field = kind.field(name, false);
    if let Some(numpy) = numpy {
        field = with_metadata(field, NUMPY, &numpy);
    }
    Ok(FieldReader::of_rows(field, kind, Dataset::open(file, &found.object, &found.path, items)?))
}

fn member_reader(
    file: &H5File<'_>,
    found: &Found,
    name: &str,
    offset: u32,
    datatype: &Datatype,
    items: &Range<u64>,
) -> Result<FieldReader> {
    let mut dims = found.dims.clone();
    let element = match datatype {
        Datatype::Array { dims: inner, of, .. } => {
            dims.extend(inner.iter().map(|dim| u64::from(*dim)));
            of
        }
        other => other,
    };
    let made = member_type(element, &dims).ok_or_else(|| odd(found, datatype))?;
    let mut reader = reader(file, found, name, made, items)?;
    reader.member = Some((offset, datatype.clone()));
    Ok(reader)
}

fn member_type(datatype: &Datatype, dims: &[u64]) -> Option<(FieldType, Option<String>)> {
    match datatype {
        Datatype::VlenText { .. } | Datatype::Vlen(_) | Datatype::Compound { .. } => None,
        other => field_type(other, dims),
    }
}

/// What rows of these dimensions are, and their NumPy type where Arrow has no twin.
fn field_type(datatype: &Datatype, dims: &[u64]) -> Option<(FieldType, Option<String>)> {
    if let Datatype::Compound { members, .. } = datatype {
        let all = members.iter().all(|(_, _, of)| match of {
            Datatype::Array { of, .. } => member_type(of, dims).is_some(),
            other => member_type(other, dims).is_some(),
        });
        return (all && !members.is_empty()).then_some((FieldType::Blob, None));
    }
    let shape = dims.iter().skip(1).map(|dim| usize::try_from(*dim).ok()).collect::<Option<Vec<_>>>()?;
    let count = shape.iter().try_fold(1usize, |count, dim| count.checked_mul((*dim).max(1)))?;
    i32::try_from(count).ok()?;
    if let Datatype::Vlen(of) = datatype {
        let byte = matches!(**of, Datatype::Integer { size: 1, signed: false, .. });
        let numbers = matches!(**of, Datatype::Integer { .. } | Datatype::Float { .. });
        let kind = if byte { FieldType::Blob } else { FieldType::List { element: element(of)?.0, depth: 1 } };
        return (numbers && shape.is_empty()).then_some((kind, None));
    }
    let (element, numpy) = element(datatype)?;
    let kind = match (shape.is_empty(), &element) {
        (true, DataType::Utf8View) => FieldType::Text,
        (true, _) => FieldType::Scalar(element),
        (false, _) => FieldType::Tensor { element, shape },
    };
    Some((kind, numpy))
}

fn element(datatype: &Datatype) -> Option<(DataType, Option<String>)> {
    let plain = |element| Some((element, None));
    match datatype {
        Datatype::Boolean => plain(DataType::Boolean),
        Datatype::Integer { size, signed, .. } => plain(match (size, signed) {
            (1, true) => DataType::Int8,
            (2, true) => DataType::Int16,
            (4, true) => DataType::Int32,
            (8, true) => DataType::Int64,
            (1, false) => DataType::UInt8,
            (2, false) => DataType::UInt16,
            (4, false) => DataType::UInt32,
            (8, false) => DataType::UInt64,
            _ => return None,
        }),
        Datatype::Float { size: 2, .. } => plain(DataType::Float16),
        Datatype::Float { size: 4, .. } => plain(DataType::Float32),
        Datatype::Float { size: 8, .. } => plain(DataType::Float64),
        Datatype::Fixed { .. } | Datatype::VlenText { .. } => plain(DataType::Utf8View),
        Datatype::Complex { .. } => fixed(datatype.size(), format!("<c{}", datatype.size())),
        Datatype::Opaque { size } => fixed(*size, format!("|V{size}")),
        _ => None,
    }
}

fn fixed(size: u32, numpy: String) -> Option<(DataType, Option<String>)> {
    Some((DataType::FixedSizeBinary(i32::try_from(size).ok()?), Some(numpy)))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs() {
        for (glob, path, fits) in [
            ("/a/b", "/a/b", true),
            ("a/b", "/a/b", true),
            ("*", "/a/b", true),
            ("a/*", "/a/b/c", true),
            ("*/x?", "/g/x1", true),
            ("*x", "/g/x1", false),
            ("b", "/a/b", false),
        ] {
            assert_eq!(matches(glob.as_bytes(), path.as_bytes()), fits, "{glob} {path}");
        }
    }
}
