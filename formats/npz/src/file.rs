//! The arrays of one `.npy` or `.npz` file, and the names of their fields.

use crate::bytes::Bytes;
use crate::header_cache::HeaderCache;
use crate::npy_header::{MAGIC, NpyHeader};
use crate::zip::{ZipMember, members};
use packhorse_core::{Error, Field, Limits, NUMPY, Result, with_metadata};
use std::borrow::Cow;
use std::sync::Arc;

/// How the arrays in a field are named: `depth.npy` becomes `depth`; arrays in `view.npz` get the prefix `view.`,
/// those in `npz` keep their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The name of the only array of an `.npy` file.
    One(String),
    /// The prefix for the arrays of an `.npz` file.
    Many(String),
}

impl Naming {
    /// By the name of the field; `Config` if it names neither kind of file.
    pub(crate) fn of(field: &str) -> Result<Self> {
        let stem = |extension: &str| field.strip_suffix(extension).and_then(|s| s.strip_suffix('.'));
        match field {
            "npy" => Ok(Naming::One("npy".into())),
            "npz" => Ok(Naming::Many(String::new())),
            _ => match (stem("npy"), stem("npz")) {
                (Some(stem), _) => Ok(Naming::One(stem.into())),
                (_, Some(stem)) => Ok(Naming::Many(format!("{stem}."))),
                _ => Err(Error::config(format!("field {field} is not a NumPy file: its name must end in npy or npz"))),
            },
        }
    }
}

/// An array of a file: the name of its field, and its member if the file is an archive.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) field: String,
    pub(crate) member: Option<ZipMember>,
}

/// The arrays in file order; if `chosen` is set, only those of an archive. An archive without arrays is a `Content`
/// error.
pub(crate) fn arrays(
    naming: &Naming,
    bytes: Bytes<'_>,
    chosen: Option<&[String]>,
    limits: &Limits,
) -> Result<Vec<Array>> {
    members_of(naming, bytes, chosen, limits).map(|(arrays, _)| arrays)
}

/// [`arrays`], and the names of the archive's other members unless `chosen` is set.
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
        return Err(Error::content("is an .npy file named .npz; rename it to .npy"));
    }
    let (mut found, mut others) = members(bytes, limits)?;
    if found.is_empty() {
        return Err(Error::content("holds no array: no member of the archive has a name that ends in .npy"));
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
    /// Reads the header, or takes it from `known`.
    pub(crate) fn header(&self, bytes: Bytes<'_>, known: &HeaderCache, limits: &Limits) -> Result<Arc<NpyHeader>> {
        let (head, len) = match &self.member {
            Some(member) => (member.head(bytes, limits)?, member.size),
            None => (npy_head(bytes, limits)?, bytes.len()),
        };
        let header = known.header(&head, limits)?;
        header.check_len(len)?;
        Ok(header)
    }

    /// Refuses an array that is too large to be whole in memory.
    pub(crate) fn require_room(&self, limits: &Limits) -> Result<()> {
        self.member.as_ref().map_or(Ok(()), |member| member.check(limits).map(drop))
    }

    /// Adds the name of this array to an error.
    pub(crate) fn named(&self, error: Error) -> Error {
        error.subject(format_args!("array {}", self.field)).in_field(&self.field)
    }
}

fn npy_head<'a>(bytes: Bytes<'a>, limits: &Limits) -> Result<Cow<'a, [u8]>> {
    let head = bytes.read(0, 4096)?;
    let size = NpyHeader::size(&head, limits)?;
    match size > head.len() {
        true => bytes.read(0, size),
        false => Ok(head),
    }
}

/// The fields of a file's arrays, sorted by name. With `rows`, a sample is an entry of the first dimension.
pub(crate) fn fields(arrays: &[(Array, Arc<NpyHeader>)], rows: bool) -> Result<Vec<Field>> {
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
        Some(twice) => Err(Error::content(format!("has two fields named {}; rename an array", twice.name()))),
        None => Ok(fields),
    }
}

/// The field name for the member `part` of `array`.
pub(crate) fn field_name(array: &str, part: &str) -> String {
    match part {
        "" => array.to_owned(),
        part => format!("{array}.{part}"),
    }
}
