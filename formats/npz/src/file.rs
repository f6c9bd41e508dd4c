//! The arrays of one `.npy` or `.npz` file, and what their fields are called.

use crate::bytes::Bytes;
use crate::header::{Header, MAGIC};
use crate::known::Known;
use crate::zip::{Member, members};
use packhorse_core::{Error, Field, Limits, NUMPY, Result, with_metadata};
use std::borrow::Cow;
use std::sync::Arc;

/// What the arrays of a field are called: `depth.npy` is `depth`; `view.npz` gives `view.` and the
/// name of each array, `npz` the arrays' own names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The one array, an `.npy` file.
    One(String),
    /// What stands before the name of each array of an `.npz` file.
    Many(String),
}

impl Naming {
    /// By the name of the field: `Config` if it is neither.
    pub(crate) fn of(field: &str) -> Result<Self> {
        let stem = |extension: &str| field.strip_suffix(extension).and_then(|s| s.strip_suffix('.'));
        match field {
            "npy" => Ok(Naming::One("npy".into())),
            "npz" => Ok(Naming::Many(String::new())),
            _ => match (stem("npy"), stem("npz")) {
                (Some(stem), _) => Ok(Naming::One(stem.into())),
                (_, Some(stem)) => Ok(Naming::Many(format!("{stem}."))),
                _ => {
                    Err(Error::config(format!("field {field} is no NumPy file: its name ends neither in npy nor npz")))
                }
            },
        }
    }
}

/// An array of a file: what its field is called, and its member where it lies in an archive.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) field: String,
    pub(crate) member: Option<Member>,
}

/// The arrays of the file in the order of the file; of an archive only those in `chosen`, if set. An archive without an
/// array is a `Content` error.
pub(crate) fn arrays(
    naming: &Naming,
    bytes: Bytes<'_>,
    chosen: Option<&[String]>,
    limits: &Limits,
) -> Result<Vec<Array>> {
    members_of(naming, bytes, chosen, limits).map(|(arrays, _)| arrays)
}

/// [`arrays`], and the names of what else the archive holds, if all of it was wanted.
pub(crate) fn members_of(
    naming: &Naming,
    bytes: Bytes<'_>,
    chosen: Option<&[String]>,
    limits: &Limits,
) -> Result<(Vec<Array>, Vec<String>)> {
    let prefix = match naming {
        Naming::One(name) => return Ok((vec![Array { field: name.clone(), member: None }], Vec::new())),
        Naming::Many(prefix) => prefix,
    };
    if *bytes.read(0, MAGIC.len())? == MAGIC[..] {
        return Err(Error::content("is an .npy file, not .npz; give it that extension"));
    }
    let (mut found, mut others) = members(bytes, limits)?;
    if found.is_empty() {
        return Err(Error::content("holds no array: its archive has no member whose name ends in .npy"));
    }
    if let Some(chosen) = chosen {
        others.clear();
        found.retain(|member| chosen.contains(&member.array));
        if let Some(missing) = chosen.iter().find(|name| !found.iter().any(|m| m.array == **name)) {
            return Err(Error::content(format!("has no array {missing}")));
        }
    }
    let arrays = found.into_iter().map(|m| Array { field: format!("{prefix}{}", m.array), member: Some(m) });
    Ok((arrays.collect(), others))
}

impl Array {
    /// Its header, which may be `known`.
    pub(crate) fn header(&self, bytes: Bytes<'_>, known: &Known, limits: &Limits) -> Result<Arc<Header>> {
        let (head, len) = match &self.member {
            Some(member) => (member.head(bytes, limits)?, member.size),
            None => (npy_head(bytes, limits)?, bytes.len()),
        };
        let header = known.header(&head, limits)?;
        header.check_len(len)?;
        Ok(header)
    }

    /// An error about this array, by name.
    pub(crate) fn named(&self, error: Error) -> Error {
        Error::new(error.kind(), format!("array {} {}", self.field, error.message())).caused_by(error)
    }
}

fn npy_head<'a>(bytes: Bytes<'a>, limits: &Limits) -> Result<Cow<'a, [u8]>> {
    let head = bytes.read(0, 4096)?;
    let size = Header::size(&head, limits)?;
    match size > head.len() {
        true => bytes.read(0, size),
        false => Ok(head),
    }
}

/// The fields that the arrays of a file become, in the order of their names: with `rows`, a sample is
/// an entry of the first dimension.
pub(crate) fn fields(arrays: &[(Array, Arc<Header>)], rows: bool) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    for (array, header) in arrays {
        for part in &header.dtype.parts {
            let kind = header.field_type(part, rows).map_err(|e| array.named(e))?;
            let name = field_name(&array.field, &part.name);
            let field = kind.field(&name, false);
            fields.push(match &part.element.numpy {
                Some(numpy) => with_metadata(field, NUMPY, numpy),
                None => field,
            });
        }
    }
    fields.sort_by(|a, b| a.name().cmp(b.name()));
    match fields.windows(2).find_map(|pair| (pair.first()?.name() == pair.last()?.name()).then(|| pair.first())?) {
        Some(twice) => Err(Error::content(format!("gives two fields the name {}; rename an array", twice.name()))),
        None => Ok(fields),
    }
}

/// What the member `part` of the array `array` is called.
pub(crate) fn field_name(array: &str, part: &str) -> String {
    match part {
        "" => array.to_owned(),
        part => format!("{array}.{part}"),
    }
}
