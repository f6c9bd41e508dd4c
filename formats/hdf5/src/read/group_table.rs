//! Reads files whose groups are samples.

use super::attribute::{self, Attribute};
use super::dataset::{Dataset, named};
use super::description::{Described, describe};
use super::file::H5File;
use super::foreign::reader;
use super::global_heap::GlobalHeap;
use super::group_walk::{GroupField, GroupSample, GroupSamples, GroupValue, TypeOptions, of_values, whole_leaves};
use super::nested::{fixed_list, list, offsets_of, with_nulls};
use super::object_header::ObjectHeader;
use super::values::Last;
use super::wider::widened;
use arrow_array::builder::StringViewBuilder;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringViewArray, StructArray, new_empty_array};
use arrow_buffer::{Buffer, NullBuffer};
use packhorse_core::{
    Blocks, DataType, Error, Field, FieldType, Result, Rows, Schema, SchemaRef, Table, TableInfo, array_of, blocks,
    element_width,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// The approximate bytes and the most samples of a block.
const BLOCK_BYTES: u64 = 8 << 20;
const BLOCK_ROWS: usize = 1 << 12;
/// The bytes of a text in a column, without those that do not fit into it.
const VIEW: usize = 16;
/// The column of the samples' paths.
const PATH: &str = "path";

/// A file whose groups are samples.
pub(crate) struct GroupTable<'a> {
    file: H5File<'a>,
    found: Arc<GroupSamples>,
    types: TypeOptions,
    /// Whether each of its fields is read.
    kept: Vec<bool>,
    /// The names of attributes that are read.
    attributes: BTreeSet<String>,
    has_path: bool,
    schema: SchemaRef,
    /// Bytes that each field may read from the global heap.
    heap: u64,
}

impl<'a> GroupTable<'a> {
    /// Of the samples `found`, with the fields `names`, if set. `heap`: the bytes that each field may read from the global heap.
    pub(crate) fn new(
        file: H5File<'a>,
        found: Arc<GroupSamples>,
        types: TypeOptions,
        names: Option<&[String]>,
        heap: u64,
    ) -> Result<Self> {
        let samples = found.samples.len() as u64;
        let is_kept = |name: &str| names.is_none_or(|names| names.iter().any(|kept| kept == name));
        let is_file = matches!(found.samples.as_slice(), [root] if root.path.is_empty());
        if !is_file && found.fields.iter().any(|field| field.name == PATH) {
            let message = "a dataset or attribute has the name of the field path, which is the path of the sample: leave it out with \
                           `datasets` or `attributes`";
            return Err(Error::unsupported(message).in_field(PATH));
        }
        let has_path = !is_file && is_kept(PATH);
        let kept: Vec<bool> = found.fields.iter().map(|field| is_kept(&field.name)).collect();
        let path = has_path.then(|| FieldType::Text.field(PATH, false));
        let fields = || found.fields.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(field, _)| field);
        let columns = path.into_iter().chain(fields().map(|field| field.column(samples)));
        let schema = Arc::new(Schema::new(columns.collect::<Vec<Field>>()));
        let attributes = fields().filter_map(|field| field.attribute().map(str::to_owned)).collect();
        Ok(Self { file, found, types, kept, attributes, has_path, schema, heap })
    }

    fn is_kept(&self, field: usize) -> bool {
        self.kept.get(field).copied().unwrap_or_default()
    }

    /// The fields that are read, with their places.
    fn kept(&self) -> impl Iterator<Item = (usize, &GroupField)> {
        self.found.fields.iter().enumerate().filter(|(place, _)| self.is_kept(*place))
    }
}

impl Table for GroupTable<'_> {
    fn info(&self) -> Result<TableInfo> {
        let (schema, omitted) = (Arc::clone(&self.schema), self.found.omitted.clone());
        let (items, least) = (self.found.samples.len() as u64, if self.found.in_heap { self.file.len() } else { 0 });
        Ok(TableInfo { schema, items, bytes: self.found.bytes().max(least), counted: true, omitted })
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let all = self.found.samples.len();
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(all);
        let (mut next, end) = (place(items.start), place(items.end));
        let heap = || Heap { collections: GlobalHeap::default(), left: self.heap };
        let mut heaps: Vec<Heap> = self.found.fields.iter().map(|_| heap()).collect();
        let empty = self.empty_bytes();
        let (mut held, mut attributes): (Option<Values>, KnownAttributes) = (None, KnownAttributes::default());
        Ok(blocks(self.file.name(), move || {
            let (first, mut rows, mut bytes) = (next - usize::from(held.is_some()), Vec::new(), 0u64);
            if let Some(values) = held.take() {
                bytes = values.bytes.saturating_add(empty);
                rows.push(values);
            }
            while next < end && rows.len() < BLOCK_ROWS {
                let Some(sample) = self.found.samples.get(next) else { break };
                let values = self.sample(sample, &mut heaps, &mut attributes)?;
                next += 1;
                bytes = bytes.saturating_add(values.bytes).saturating_add(empty);
                // Only reading tells the size of text and lists. A large sample is a block of its own.
                if bytes > BLOCK_BYTES && !rows.is_empty() {
                    held = Some(values);
                    break;
                }
                rows.push(values);
            }
            if rows.is_empty() { Ok(None) } else { self.block(first, rows).map(Some) }
        }))
    }
}

/// Objects whose attributes are kept: a sample and the groups around it.
const KNOWN: usize = 8;

/// The attributes that are fields of the objects that were read last, by their addresses, the last one first.
#[derive(Default)]
struct KnownAttributes(Vec<(u64, BTreeMap<String, Attribute>)>);

/// What a field read from the global heap.
struct Heap {
    collections: GlobalHeap,
    left: u64,
}

/// The values of one sample by the places of their fields.
struct Values {
    of_fields: Vec<(usize, Value)>,
    /// About their bytes in memory.
    bytes: u64,
}

/// A field's value of one sample: the elements of a scalar or an array, which has a shape, or the only row of a column.
struct Value {
    elements: ArrayRef,
    shape: Vec<u64>,
}

impl GroupTable<'_> {
    /// About the bytes of a row without values: zeros for arrays that some samples lack, and a place for each field.
    fn empty_bytes(&self) -> u64 {
        let samples = self.found.samples.len() as u64;
        let zeros = self.kept().filter(|(_, field)| field.count < samples).map(|(_, field)| match &field.kind {
            FieldType::Tensor { element, shape } => {
                shape.iter().product::<usize>().saturating_mul(element_width(element).unwrap_or(VIEW)) as u64
            }
            _ => 0,
        });
        let places = self.found.fields.len() as u64 * size_of::<Option<Value>>() as u64;
        zeros.fold(places, u64::saturating_add)
    }

    /// The samples from `first` on, of which these are the values.
    fn block(&self, first: usize, rows: Vec<Values>) -> Result<Rows> {
        let count = rows.len();
        let mut values: Vec<Vec<Option<Value>>> = self.found.fields.iter().map(|_| Vec::new()).collect();
        for (row, Values { of_fields, .. }) in rows.into_iter().enumerate() {
            for (field, value) in of_fields {
                let Some(column) = values.get_mut(field) else { continue };
                column.resize_with(row, || None);
                column.push(Some(value));
            }
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        if self.has_path {
            let samples = self.found.samples.get(first..first + count).unwrap_or_default();
            let paths = samples.iter().map(|sample| Some(sample.path.as_str()));
            columns.push(Arc::new(StringViewArray::from_iter(paths)));
        }
        for (place, field) in self.kept() {
            let mut values = values.get_mut(place).map(std::mem::take).unwrap_or_default();
            values.resize_with(count, || None);
            let of = self.schema.field(columns.len());
            columns.push(column(of, &field.kind, values).map_err(|e| named(&field.place, e))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        rows.map_err(|e| Error::content(format!("has fields that do not match: {e}")))
    }

    /// Reads the values of a sample.
    fn sample(&self, sample: &GroupSample, heaps: &mut [Heap], attributes: &mut KnownAttributes) -> Result<Values> {
        let mut found = Values { of_fields: Vec::with_capacity(sample.values.len()), bytes: 0 };
        let values = self.found.values.get(sample.values.clone()).unwrap_or_default();
        let place = |value: &GroupValue| self.found.fields.get(value.field as usize).map(|field| &field.place);
        for values in values.chunk_by(|a, b| a.address == b.address && place(a) == place(b)) {
            let values: Vec<GroupValue> =
                values.iter().copied().filter(|value| self.is_kept(value.field as usize)).collect();
            let Some(field) = values.first().and_then(|value| self.found.fields.get(value.field as usize)) else {
                continue;
            };
            let slash = if sample.path.is_empty() { "" } else { "/" };
            let path = format!("{slash}{}{}", sample.path, field.place);
            let opened = match (field.attribute(), values.first()) {
                (Some(name), Some(value)) => self.attribute(&path, name, value.address, attributes),
                (None, Some(value)) => self.open(&path, value.address),
                (_, None) => continue,
            };
            opened
                .and_then(|opened| self.values(&path, opened, &values, heaps, &mut found))
                .map_err(|e| if e.field().is_some() { e } else { named(&path, e) })?;
        }
        Ok(found)
    }

    /// Opens the attribute `name` of the object at `address`, with its dimensions. All of the object that are fields are read at once.
    fn attribute(
        &self,
        path: &str,
        name: &str,
        address: u64,
        known: &mut KnownAttributes,
    ) -> Result<(Dataset, Vec<u64>)> {
        // Those of groups around many samples stay.
        let found = match known.0.iter().position(|(other, _)| *other == address) {
            Some(at) => known.0.remove(at).1,
            None => self.attributes_of(address)?,
        };
        let attribute = found.get(name).cloned();
        known.0.truncate(KNOWN);
        known.0.insert(0, (address, found));
        let attribute = attribute.ok_or_else(changed)?;
        let dims = attribute.space.dims.clone();
        Ok((Dataset::of_attribute(&self.file, attribute, path)?, dims))
    }

    /// The attributes of the object at `address` that are fields.
    fn attributes_of(&self, address: u64) -> Result<BTreeMap<String, Attribute>> {
        let mut found = BTreeMap::new();
        attribute::all(&self.file, &ObjectHeader::read(&self.file, address)?, &mut |name, attribute| {
            if let (Some(name), Ok(attribute)) = (name, attribute)
                && self.attributes.contains(&name)
            {
                found.insert(name, attribute);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Opens the dataset at `address`, with its dimensions.
    fn open(&self, path: &str, address: u64) -> Result<(Dataset, Vec<u64>)> {
        let object = ObjectHeader::read(&self.file, address)?;
        let dims = match describe(&self.file, &object)? {
            Described::Rows(_, dims) => dims,
            _ => Vec::new(),
        };
        Ok((Dataset::open(&self.file, &object, path)?, dims))
    }

    /// Reads `values`, which are leaves of one dataset or attribute.
    fn values(
        &self,
        path: &str,
        (dataset, dims): (Dataset, Vec<u64>),
        values: &[GroupValue],
        heaps: &mut [Heap],
        found: &mut Values,
    ) -> Result<()> {
        let leaves = whole_leaves(&dataset.datatype, &dims, self.types);
        // The members of a compound share its elements.
        let last = Last::default();
        for value in values {
            let (leaf, made) = leaves.get(value.leaf as usize).ok_or_else(changed)?;
            let (kind, numpy) = made.clone().map_err(|_| changed())?;
            let shape = leaf.dims.get(1..).unwrap_or_default().to_vec();
            let Some(heap) = heaps.get_mut(value.field as usize) else { continue };
            let mut reader = reader(path, leaf, (of_values(leaf, kind), numpy), dataset.clone());
            if let Some(member) = &mut reader.member {
                member.last = Arc::clone(&last);
            }
            (reader.heap, reader.heap_left) = (std::mem::take(&mut heap.collections), heap.left);
            let elements = reader.whole(&self.file);
            (heap.collections, heap.left) = (reader.heap, reader.heap_left);
            let mut elements = elements?;
            let wanted = self.found.fields.get(value.field as usize).and_then(|field| field.kind.element());
            if let Some(wanted) = wanted.filter(|wanted| wanted.is_numeric() && elements.data_type().is_numeric()) {
                elements = widened(&elements, wanted)?;
            }
            found.bytes = found.bytes.saturating_add(elements.get_array_memory_size() as u64);
            found.of_fields.push((value.field as usize, Value { elements, shape }));
        }
        Ok(())
    }
}

fn changed() -> Error {
    Error::content("has changed since it was opened")
}

/// The column `of` of these values; those that a sample lacks are null.
fn column(of: &Field, kind: &FieldType, values: Vec<Option<Value>>) -> Result<ArrayRef> {
    let (count, missing) = (values.len(), values.iter().any(Option::is_none));
    let nulls = missing.then(|| values.iter().map(Option::is_some).collect::<NullBuffer>());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(count);
    for value in &values {
        match value {
            Some(value) => arrays.push(Arc::clone(&value.elements)),
            None => arrays.push(absent(of, kind)?),
        }
    }
    let parts: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    let flat = arrow_select::concat::concat(&parts).map_err(|e| Error::content(e.to_string()))?;
    let rank = match kind {
        FieldType::Tensor { .. } => return fixed_list(of.data_type(), flat, count, nulls),
        FieldType::Ragged { rank, .. } => *rank,
        FieldType::List { .. } if flat.data_type() != of.data_type() => {
            return list(of.data_type(), offsets_of(arrays.iter().map(|array| array.len()))?, flat, nulls);
        }
        _ => return with_nulls(flat, nulls),
    };
    let DataType::Struct(fields) = of.data_type() else { return Err(Error::bug("not a ragged column")) };
    let [data_type, shape_type] = &*fields.iter().map(|part| part.data_type().clone()).collect::<Vec<_>>() else {
        return Err(Error::bug("not a ragged column"));
    };
    let data = list(data_type, offsets_of(arrays.iter().map(|array| array.len()))?, flat, None)?;
    let mut shapes: Vec<i32> = Vec::with_capacity(count * rank);
    for value in &values {
        let shape = value.as_ref().map_or(&[][..], |value| &value.shape);
        let dims = (0..rank).map(|axis| i32::try_from(shape.get(axis).copied().unwrap_or_default()));
        let dims: std::result::Result<Vec<i32>, _> = dims.collect();
        shapes.extend(dims.map_err(|_| Error::unsupported("arrays of over 2,147,483,647 entries along an axis"))?);
    }
    let shapes = array_of(&DataType::Int32, Buffer::from_vec(shapes), count * rank)?;
    let shapes = fixed_list(shape_type, shapes, count, None)?;
    let column = StructArray::try_new_with_length(fields.clone(), vec![data, shapes], nulls, count);
    Ok(Arc::new(column.map_err(|e| Error::bug(e.to_string()))?))
}

/// What a sample without a value has: zeros, or nothing where the length differs.
fn absent(of: &Field, kind: &FieldType) -> Result<ArrayRef> {
    let (element, count) = match kind {
        FieldType::Scalar(element) => (element.clone(), 1),
        FieldType::Text => (DataType::Utf8View, 1),
        FieldType::Tensor { element, shape } => (element.clone(), shape.iter().product()),
        FieldType::Ragged { element, .. } => return Ok(new_empty_array(element)),
        FieldType::List { element, depth } if *depth > 1 || *element == DataType::BinaryView => {
            let DataType::List(item) = of.data_type() else { return Err(Error::bug("not a list column")) };
            return Ok(new_empty_array(item.data_type()));
        }
        FieldType::Blob | FieldType::List { .. } => return Ok(arrow_array::new_null_array(of.data_type(), 1)),
    };
    match element_width(&element) {
        Some(width) => array_of(&element, Buffer::from(vec![0; width * count]), count),
        None => {
            let mut texts = StringViewBuilder::new();
            (0..count).for_each(|_| texts.append_value(""));
            Ok(Arc::new(texts.finish()))
        }
    }
}
