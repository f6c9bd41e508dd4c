//! Reads files of the layout ml-hdf5/1.

use super::attribute::text_attribute;
use super::dataset::Dataset;
use super::file::H5File;
use super::group::{Link, links};
use super::object_header::ObjectHeader;
use super::path_globs::PathGlobs;
use super::values::FieldReader;
use crate::datatype::{Datatype, HEAPED};
use crate::layout::{self, FIELD, LAYOUT, MASTER};
use packhorse_core::{Error, FieldType, KEY, NUMPY, Result, some_of};
use std::collections::BTreeMap;

/// Whether the file has our layout; `Unsupported` for a master file.
pub(crate) fn is_ours(file: &H5File<'_>, root: &ObjectHeader) -> Result<bool> {
    if text_attribute(file, root, "packhorse_layout")?.as_deref() != Some(LAYOUT) {
        return Ok(false);
    }
    match text_attribute(file, root, MASTER)? {
        None => Ok(true),
        Some(_) => Err(Error::unsupported("a dataset's master file can't be read; read its shards")),
    }
}

/// The file's fields that the globs `wanted` of their paths take, after the key, and its number of samples.
pub(crate) fn fields(file: &H5File<'_>, root: &ObjectHeader, wanted: &[String]) -> Result<(Vec<FieldReader>, u64)> {
    let root = links(file, root)?;
    let data = child(file, &root, "data")?.ok_or_else(|| Error::content("has no group data: the file is damaged"))?;
    let present = match child(file, &root, "present")? {
        Some(group) => links(file, &group)?,
        None => BTreeMap::new(),
    };
    let mut fields = Vec::new();
    let data = links(file, &data)?;
    for name in data.keys() {
        let object = child(file, &data, name)?.ok_or_else(|| damaged(name))?;
        let mut field = open(file, &object, name)?;
        if let Some(object) = child(file, &present, name)? {
            field.present = Some(byte_dataset(Dataset::open(file, &object, &format!("/present/{name}"))?)?);
        }
        fields.push(field);
    }
    fields.sort_by(|a, b| (a.field.name() != KEY, a.field.name()).cmp(&(b.field.name() != KEY, b.field.name())));
    let samples = fields.iter().map(samples_of).next().unwrap_or(0);
    for field in &fields {
        let there = field.present.as_ref().map_or(samples, Dataset::rows);
        if samples_of(field) != samples || there != samples {
            return Err(Error::content(format!(
                "field {} has {} samples, but others have {samples}: the file is damaged",
                field.field.name(),
                samples_of(field)
            )));
        }
    }
    let wanted = PathGlobs::new(wanted);
    let all: Vec<String> = fields.iter().map(path).collect();
    // Whether values are missing belongs to their field, and the key to each sample.
    present.keys().for_each(|name| _ = wanted.wants(&format!("/present/{name}")));
    fields.retain(|field| wanted.wants(&path(field)) || field.field.name() == KEY);
    match wanted.unmatched() {
        None => Ok((fields, samples)),
        Some(glob) => {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            Err(Error::config(format!("`datasets`: no dataset matches {glob}; there are {}", some_of(&all))))
        }
    }
}

fn path(field: &FieldReader) -> String {
    format!("/data/{}", field.field.name())
}

fn damaged(name: &str) -> Error {
    Error::content(format!("field {name} does not match its attributes: the file is damaged"))
}

fn child(file: &H5File<'_>, links: &BTreeMap<String, Link>, name: &str) -> Result<Option<ObjectHeader>> {
    match links.get(name) {
        Some(Link::Object(address)) => ObjectHeader::read(file, *address).map(Some),
        _ => Ok(None),
    }
}

fn open(file: &H5File<'_>, object: &ObjectHeader, name: &str) -> Result<FieldReader> {
    let text = text_attribute(file, object, FIELD)?.ok_or_else(|| damaged(name))?;
    let (field, kind) = layout::parse_field(name, &text).ok_or_else(|| damaged(name))?;
    let inside = links(file, object)?;
    if inside.is_empty() {
        let reader = FieldReader::of_rows(field, kind, Dataset::open(file, object, &format!("/data/{name}"))?);
        return if fits(&reader) { Ok(reader) } else { Err(damaged(name)) };
    }
    let dataset = |part: &str| -> Result<Option<Dataset>> {
        let Some(object) = child(file, &inside, part)? else { return Ok(None) };
        Dataset::open(file, &object, &format!("/data/{name}/{part}")).map(Some)
    };
    let mut offsets = Vec::new();
    while let Some(found) = dataset(&layout::offsets_name(offsets.len()))? {
        offsets.push(found);
    }
    let (values, shapes) = (dataset("values")?.ok_or_else(|| damaged(name))?, dataset("shapes")?);
    let reader = FieldReader { offsets, shapes, ..FieldReader::of_rows(field, kind, values) };
    if fits(&reader) { Ok(reader) } else { Err(damaged(name)) }
}

/// Whether the datasets match the field's attributes.
fn fits(reader: &FieldReader) -> bool {
    let FieldReader { field, kind, values, offsets, shapes, .. } = reader;
    let int = |dataset: &Dataset, size: u32, rank: usize| {
        dataset.datatype == Datatype::Integer { size, signed: true, big: false } && dataset.dims.len() == rank
    };
    let byte = Datatype::Integer { size: 1, signed: false, big: false };
    let element =
        kind.element().and_then(|element| Datatype::of(element, field.metadata().get(NUMPY).map(String::as_str)));
    let same = element.is_some_and(|element| element == values.datatype);
    let flat = values.dims.len() == 1;
    let lists = offsets.iter().all(|dataset| int(dataset, 8, 1) && dataset.rows() > 0);
    lists
        && match kind {
            FieldType::Blob if offsets.is_empty() => {
                flat && values.datatype == Datatype::Vlen { of: Box::new(byte), size: HEAPED }
            }
            FieldType::Blob => flat && values.datatype == byte && offsets.len() == 1,
            FieldType::Text => flat && offsets.is_empty() && matches!(values.datatype, Datatype::VlenText { .. }),
            FieldType::Scalar(_) => flat && same && offsets.is_empty(),
            FieldType::Tensor { shape, .. } => {
                let dims = values.dims.iter().skip(1).map(|dim| usize::try_from(*dim).unwrap_or(usize::MAX));
                same && offsets.is_empty() && dims.eq(shape.iter().copied())
            }
            FieldType::Ragged { rank, .. } => {
                let rows = offsets.first().map_or(0, |offsets| offsets.rows() - 1);
                let shapes = shapes.as_ref().is_some_and(|shapes| {
                    int(shapes, 4, 2) && shapes.rows() == rows && shapes.row_elements() == *rank as u64
                });
                same && flat && offsets.len() == 1 && shapes
            }
            FieldType::List { element, depth } if layout::is_bytes(element) => {
                flat && values.datatype == byte && offsets.len() == *depth + 1
            }
            FieldType::List { depth, .. } => same && flat && offsets.len() == *depth,
        }
}

fn byte_dataset(dataset: Dataset) -> Result<Dataset> {
    match dataset.datatype.size() == 1 && dataset.dims.len() == 1 {
        true => Ok(dataset),
        false => Err(damaged(&dataset.name)),
    }
}

fn samples_of(field: &FieldReader) -> u64 {
    field.offsets.first().map_or(field.values.rows(), |offsets| offsets.rows().saturating_sub(1))
}
