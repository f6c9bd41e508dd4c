//! Reads third-party files: each dataset is a field, each row a sample.

use super::attribute::text_attribute;
use super::dataset::Dataset;
use super::dataset_walk::{DatasetWalk, FoundDataset};
use super::element::Made;
use super::file::H5File;
use super::leaf_member::LeafMember;
use super::netcdf::{self, NetcdfOptions};
use super::object_header::ObjectHeader;
use super::path_globs::field_name;
use super::values::{CompoundMember, FieldReader};
use crate::datatype::Datatype;
use packhorse_core::{
    DataType, Error, FieldType, Kind, NUMPY, Omission, PACKED, Result, like_groups, some_of, with_metadata,
};
use std::sync::Arc;

/// The most omitted datasets that an error names.
const NAMED: usize = 5;

/// The fields of a file.
pub(crate) struct ForeignFields {
    /// Sorted by field name.
    pub(crate) readers: Vec<FieldReader>,
    pub(crate) samples: u64,
    pub(crate) omitted: Vec<Omission>,
}

/// Whether PyTables wrote the file.
pub(crate) fn is_of_pytables(file: &H5File<'_>, root: &ObjectHeader) -> Result<bool> {
    Ok(text_attribute(file, root, "PYTABLES_FORMAT_VERSION")?.is_some())
}

/// The fields of a file's datasets. `wanted` are globs of paths, empty for all.
pub(crate) fn fields(
    file: &H5File<'_>,
    root: &ObjectHeader,
    wanted: &[String],
    reading: &NetcdfOptions,
    text: FixedText,
) -> Result<ForeignFields> {
    let pytables = is_of_pytables(file, root)?;
    let mut walk = DatasetWalk::of(file, root, wanted, pytables)?;
    let found = netcdf::records(file, root, &mut walk, reading)?;
    // An unlimited dimension may be longer than a variable that uses it: the rest are fill values.
    let samples = match walk.records {
        true => found.iter().map(FoundDataset::rows).max().unwrap_or(0),
        false => equal_rows(&found)?,
    };
    let mut readers = Vec::new();
    for found in found {
        match self::readers(file, &found, text) {
            Ok(fields) => readers.extend(fields.into_iter().map(|mut field| {
                field.values.pad(samples);
                field
            })),
            Err(e) if e.kind() == Kind::Unsupported => walk.omit(&found.path, e)?,
            Err(e) => return Err(e),
        }
    }
    if readers.is_empty() {
        let error = nothing(wanted, &walk.omitted);
        let all = DatasetWalk::of(file, root, &[], pytables)?.found;
        let all: Vec<&str> = all.iter().map(|found| found.path.as_str()).collect();
        return Err(if all.is_empty() || wanted.is_empty() {
            error
        } else {
            error.hint(format!("there are {}", some_of(&all)))
        });
    }
    if let Some(glob) = walk.wanted.unmatched() {
        let known: Vec<&str> = readers.iter().map(|reader| reader.field.name().as_str()).collect();
        let message =
            format!("`datasets`: no dataset matches {glob}; fields of those that match are {}", some_of(&known));
        return Err(Error::config(message));
    }
    readers.sort_by(|a, b| a.field.name().cmp(b.field.name()));
    distinct(&readers)?;
    Ok(ForeignFields { readers, samples, omitted: walk.omitted })
}

fn equal_rows(found: &[FoundDataset]) -> Result<u64> {
    let Some(first) = found.first() else { return Ok(0) };
    match found.iter().find(|found| found.rows() != first.rows()) {
        None => Ok(first.rows()),
        Some(other) => {
            let (path, rows) = (&first.path, first.rows());
            let text = format!("dataset {path} has {rows} rows and {} has {}", other.path, other.rows());
            let error = Error::content(text).hint(
                "choose those that belong together with `datasets` (`!NAME` leaves one out), or pack each file as it is with `from=files`",
            );
            Err(match like_groups(found.iter().map(|found| found.path.as_str()), '/') {
                Some(groups) => error.hint(format!("if each group is a sample, pack with `groups={groups}`")),
                None => {
                    error.hint("if the file is one sample, pack with `groups=/`; if each dataset is, with `groups=*`")
                }
            })
        }
    }
}

/// The error for a file without any readable dataset.
fn nothing(wanted: &[String], omitted: &[Omission]) -> Error {
    if omitted.is_empty() {
        return match wanted.is_empty() {
            true => Error::content("has no dataset with rows"),
            false => Error::config(format!("`datasets`: no dataset matches {}", wanted.join(","))),
        };
    }
    let mut each: Vec<String> =
        omitted.iter().take(NAMED).map(|omitted| format!("{}: {}", omitted.field, omitted.reason)).collect();
    if omitted.len() > NAMED {
        each.push(format!("and {} more", omitted.len() - NAMED));
    }
    Error::unsupported(format!("has no readable dataset with rows ({})", each.join("; ")))
}

fn distinct(readers: &[FieldReader]) -> Result<()> {
    for pair in readers.windows(2) {
        if let [a, b] = pair
            && a.field.name() == b.field.name()
        {
            let (one, two) = (&a.values.name, &b.values.name);
            let message = format!("datasets {one} and {two} give the same field name; choose one with `datasets`");
            return Err(Error::unsupported(message));
        }
    }
    Ok(())
}

fn readers(file: &H5File<'_>, found: &FoundDataset, text: FixedText) -> Result<Vec<FieldReader>> {
    let values = Dataset::open(file, &found.object, &found.path)?;
    Ok(found
        .fields
        .iter()
        .map(|(leaf, made)| reader(&found.path, leaf, text.of(leaf, made.clone()), values.clone()))
        .collect())
}

/// How strings of fixed length are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FixedText {
    Utf8,
    /// As NumPy's bytes.
    Bytes,
    /// As blobs, which may have different lengths; in arrays as NumPy's bytes.
    Blob,
}

impl FixedText {
    /// The field of a leaf that is of the type `made` as text.
    pub(crate) fn of(self, leaf: &LeafMember, made: Made) -> Made {
        match self {
            FixedText::Utf8 => made,
            FixedText::Blob if made.0 == FieldType::Text && matches!(leaf.datatype, Datatype::Fixed { .. }) => {
                (FieldType::Blob, None)
            }
            FixedText::Bytes | FixedText::Blob => of_bytes(leaf, made),
        }
    }
}

/// Strings of fixed length as NumPy's bytes; other types as they are.
fn of_bytes(leaf: &LeafMember, (kind, numpy): Made) -> Made {
    let Datatype::Fixed { size, .. } = leaf.datatype else { return (kind, numpy) };
    let element = DataType::FixedSizeBinary(i32::try_from(size).unwrap_or(i32::MAX));
    match kind {
        FieldType::Text => (FieldType::Scalar(element), Some(format!("|S{size}"))),
        FieldType::Tensor { element: DataType::Utf8View, shape } => {
            (FieldType::Tensor { element, shape }, Some(format!("|S{size}")))
        }
        kind => (kind, numpy),
    }
}

/// The reader of one leaf of the dataset `path`, whose whole elements are `values`.
pub(crate) fn reader(path: &str, leaf: &LeafMember, (kind, numpy): Made, mut values: Dataset) -> FieldReader {
    let mut field = kind.field(&format!("{}{}", field_name(path), leaf.name), false);
    if let Some(numpy) = numpy {
        field = with_metadata(field, NUMPY, &numpy);
    }
    if let Some(notes) = &leaf.notes {
        field = with_metadata(field, PACKED, notes);
    }
    // The dataset's own type is that of whole elements; a leaf outside a compound may have another type.
    if leaf.place.is_none() && !leaf.joined {
        values.datatype = leaf.datatype.clone();
    }
    let mut reader = FieldReader::of_rows(field, kind, values);
    if leaf.place.is_some() || leaf.joined {
        let (place, datatype) = (leaf.place.clone(), leaf.datatype.clone());
        reader.member = Some(CompoundMember { place, datatype, last: Arc::default() });
    }
    reader.unpack = leaf.unpack.clone();
    reader
}
