//! Reads fields of rows from datasets.

use super::dataset::{Dataset, named};
use super::file::H5File;
use super::global_heap::GlobalHeap;
use super::leaf_member::MemberBytes;
use super::message::unpadded;
use super::native::{swap, widened, width};
use super::nested::{fixed_list, list, offsets_of, relative, with_nulls};
use super::packed::Unpacker;
use super::reference::{Reference, ReferenceShape, references};
use crate::datatype::{Datatype, Padding};
use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, BinaryViewArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer};
use packhorse_core::{DataType, Error, Field, FieldType, Kind, Memory, Result, array_of, element_width};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// A field of a file, open for reading. Clones can read different rows.
#[derive(Clone)]
pub(crate) struct FieldReader {
    pub(crate) field: Field,
    pub(crate) kind: FieldType,
    /// The elements; one row per sample if samples have a fixed number of them.
    pub(crate) values: Dataset,
    /// Offsets of lists, outermost first.
    pub(crate) offsets: Vec<Dataset>,
    pub(crate) shapes: Option<Dataset>,
    pub(crate) present: Option<Dataset>,
    /// The member to read, for compounds.
    pub(crate) member: Option<CompoundMember>,
    /// Unpacks values, if the option `scale` asks for it.
    pub(crate) unpack: Option<Unpacker>,
    pub(crate) heap: GlobalHeap,
    /// Bytes that it may still read from the heap.
    pub(crate) heap_left: u64,
}

/// A member of a compound, or elements of another type than the dataset's.
#[derive(Clone)]
pub(crate) struct CompoundMember {
    /// `None` for whole elements that are read as another type.
    pub(crate) place: Option<MemberBytes>,
    pub(crate) datatype: Datatype,
    /// The elements that any member of the same dataset read last.
    pub(crate) last: Last,
}

/// The whole elements of a range of rows.
pub(crate) type Elements = (Range<u64>, Arc<Memory>);

/// The last elements read, shared by the members of one dataset.
pub(crate) type Last = Arc<Mutex<Option<Elements>>>;

/// Clones of `fields` that read the samples `rows`.
pub(crate) fn for_rows(fields: &[FieldReader], rows: &Range<u64>) -> Vec<FieldReader> {
    let mut lasts: BTreeMap<&str, Last> = BTreeMap::new();
    let mut readers = fields.to_vec();
    for (reader, field) in readers.iter_mut().zip(fields) {
        reader.narrow(rows);
        if let Some(member) = &mut reader.member {
            member.last = lasts.entry(&field.values.name).or_default().clone();
        }
    }
    readers
}

impl FieldReader {
    /// Reads the chunk indexes of its datasets, so that their damage is found before rows are read.
    pub(crate) fn locate(&self, file: &H5File<'_>) -> Result<()> {
        let others = self.offsets.iter().chain(&self.shapes).chain(&self.present);
        others.chain([&self.values]).try_for_each(|dataset| dataset.locate(file))
    }

    /// A field whose samples are the rows of `values`.
    pub(crate) fn of_rows(field: Field, kind: FieldType, values: Dataset) -> Self {
        let heap = GlobalHeap::default();
        Self {
            field,
            kind,
            values,
            offsets: Vec::new(),
            shapes: None,
            present: None,
            member: None,
            unpack: None,
            heap,
            heap_left: u64::MAX,
        }
    }

    /// Restricts reads to the samples `rows`.
    fn narrow(&mut self, rows: &Range<u64>) {
        if self.offsets.is_empty() {
            self.values.narrow(rows);
        }
        self.present.iter_mut().for_each(|present| present.narrow(rows));
    }

    /// Approximate bytes per sample, from the datasets' dimensions.
    pub(crate) fn row_bytes(&self, samples: u64) -> u64 {
        self.bytes() / samples.max(1) + 1
    }

    /// Approximate bytes of all samples, at least one each.
    pub(crate) fn bytes(&self) -> u64 {
        let row = match self.member.as_ref().and_then(|member| member.place.as_ref()) {
            Some(place) => self.values.row_elements().saturating_mul(place.bytes()),
            None => self.values.row_bytes(),
        };
        self.values.rows().saturating_mul(row.max(1))
    }

    /// Whether its values lie in the global heap.
    pub(crate) fn is_in_heap(&self) -> bool {
        self.datatype().is_in_heap()
    }

    /// The datatype of the field's elements.
    fn datatype(&self) -> &Datatype {
        self.member.as_ref().map_or(&self.values.datatype, |member| &member.datatype)
    }

    /// The elements of rows `from..to`, little-endian; for compounds, those of the member.
    fn cells(&mut self, file: &H5File<'_>, from: u64, to: u64) -> Result<Buffer> {
        let Some((member, place)) = self.member.as_ref().and_then(|member| Some((member, member.place.as_ref()?)))
        else {
            return Ok(Buffer::from(self.values.read(file, from, to)?));
        };
        let last = member.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let elements = match last.filter(|(rows, _)| *rows == (from..to)) {
            Some((_, elements)) => elements,
            None => {
                let elements = Arc::new(self.values.read(file, from, to)?);
                *member.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((from..to, elements.clone()));
                elements
            }
        };
        let mut bytes = place.gather(&elements, self.values.datatype.size() as usize)?;
        swap(&member.datatype, &mut bytes);
        Ok(Buffer::from(bytes))
    }

    /// Approximate bytes of each of the samples `from..to`.
    pub(crate) fn weights(&mut self, file: &H5File<'_>, from: u64, to: u64) -> Result<Vec<u64>> {
        let count = (to - from) as usize;
        if let Some(offsets) = self.offsets.first_mut() {
            let ends = read_offsets(offsets, file, from, to)?;
            // Of lists in lists, and of bytes in lists, the mean.
            let inside = self.offsets.get(1).map_or(self.values.rows(), |inner| inner.rows().saturating_sub(1));
            let bytes = self.values.row_bytes().saturating_mul(self.values.rows());
            let each = bytes.div_ceil(inside.max(1)).max(1);
            return Ok(ends.windows(2).map(|ends| length(ends).saturating_mul(each)).collect());
        }
        let (row, rows) = (self.bytes() / self.values.rows().max(1), self.values.rows());
        if !self.is_in_heap() {
            return Ok(vec![row; count]);
        }
        let (bytes, shape) = (self.cells(file, from, to.min(rows))?, self.shape());
        let row = (row as usize).max(1);
        let size = |found: Result<Option<Reference>>| found.ok().flatten().map_or(16, |found| found.len as u64 + 16);
        let sum = |row: &[u8]| references(row, shape).map(size).sum();
        Ok(bytes.chunks(row).map(sum).chain(std::iter::repeat(1)).take(count).collect())
    }

    /// The samples `from..to`, as a column of the field's type.
    pub(crate) fn read(&mut self, file: &H5File<'_>, from: u64, to: u64) -> Result<ArrayRef> {
        let name = self.values.name.clone();
        self.column(file, from, to).map_err(|e| match e.kind() {
            Kind::Content if e.field().is_none() => named(&name, e),
            _ => e,
        })
    }

    /// All rows of the values as one value: its elements, or the only row of a column of blobs or lists.
    pub(crate) fn whole(&mut self, file: &H5File<'_>) -> Result<ArrayRef> {
        let rows = self.values.rows();
        match self.kind.clone() {
            FieldType::Blob => self.whole_blobs(file, 0, rows, None),
            FieldType::List { element, .. } => self.heap_lists(file, 0, rows, &element, None),
            FieldType::Text => self.elements(file, &DataType::Utf8View, 0, rows),
            FieldType::Scalar(element) | FieldType::Tensor { element, .. } | FieldType::Ragged { element, .. } => {
                self.elements(file, &element, 0, rows)
            }
        }
    }

    fn column(&mut self, file: &H5File<'_>, from: u64, to: u64) -> Result<ArrayRef> {
        let count = (to - from) as usize;
        let nulls = match &mut self.present {
            Some(present) => Some(NullBuffer::from_iter(present.read(file, from, to)?.iter().map(|byte| *byte != 0))),
            None => None,
        };
        match self.kind.clone() {
            FieldType::Blob if self.offsets.is_empty() => self.whole_blobs(file, from, to, nulls),
            FieldType::Blob => self.blobs(file, 0, from, to, nulls),
            FieldType::Text => Ok(with_nulls(self.elements(file, &DataType::Utf8View, from, to)?, nulls)?),
            FieldType::Scalar(element) => with_nulls(self.elements(file, &element, from, to)?, nulls),
            FieldType::Tensor { element, .. } => {
                let flat = self.elements(file, &element, from, to)?;
                fixed_list(self.field.data_type(), flat, count, nulls)
            }
            FieldType::Ragged { element, rank } => self.ragged(file, from..to, &element, rank, nulls),
            FieldType::List { element, .. } if self.offsets.is_empty() => {
                self.heap_lists(file, from, to, &element, nulls)
            }
            FieldType::List { element, .. } => {
                let of = self.field.data_type().clone();
                self.lists(file, from..to, 0, &of, &element, nulls)
            }
        }
    }

    /// The elements of rows `from..to` of the values, in C order.
    fn elements(&mut self, file: &H5File<'_>, element: &DataType, from: u64, to: u64) -> Result<ArrayRef> {
        let cells = self.cells(file, from, to)?;
        let datatype = self.datatype().clone();
        let (bytes, datatype) = match &self.unpack {
            Some(unpack) => (Buffer::from(unpack.apply(&cells)?), unpack.becomes()),
            None => (widened(&datatype, &cells).map_or(cells, Buffer::from), datatype),
        };
        let size = width(&datatype);
        match (&datatype, element) {
            (Datatype::VlenText { .. }, DataType::Utf8View) => self.heap_texts(file, &bytes),
            (Datatype::Fixed { padding, .. }, DataType::Utf8View) => {
                let mut texts = StringViewBuilder::new();
                for text in bytes.chunks_exact(size.max(1)) {
                    texts.append_value(utf8(unpadded(text, *padding))?);
                }
                Ok(Arc::new(texts.finish()))
            }
            _ if element_width(element) == Some(size) => {
                let count = bytes.len() / size.max(1);
                array_of(element, bytes, count)
            }
            _ => Err(Error::content(format!("holds {datatype} instead of {element}: the file is damaged"))),
        }
    }

    fn heap_texts(&mut self, file: &H5File<'_>, bytes: &[u8]) -> Result<ArrayRef> {
        let mut texts = StringViewBuilder::new();
        let mut blocks = BTreeMap::new();
        for reference in references(bytes, self.shape()) {
            let Some(Reference { len, address, index }) = reference? else {
                texts.append_value("");
                continue;
            };
            let collection = self.heap.collection(file, address)?;
            let at = collection.object(index, len)?;
            self.heap_left = self.heap_left.checked_sub(len as u64).ok_or_else(too_often)?;
            let block = *blocks.entry(address).or_insert_with(|| texts.append_block(collection.bytes.clone()));
            texts
                .try_append_view(block, view(at)?, view(len)?)
                .map_err(|_| Error::content("holds text that is not UTF-8").hint(LEAVE_OUT))?;
        }
        Ok(Arc::new(texts.finish()))
    }

    /// The samples `from..to` as blobs that lie in rows, or in the global heap.
    fn whole_blobs(&mut self, file: &H5File<'_>, from: u64, to: u64, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let padding = match *self.datatype() {
            // Bytes may hold zeros: only those at the end are padding.
            Datatype::Fixed { padding: Padding::Spaces, .. } => Some(Padding::Spaces),
            Datatype::Fixed { .. } => Some(Padding::Zeros),
            Datatype::Opaque { .. } => None,
            _ => return self.heap_blobs(file, from, to, nulls),
        };
        let (cells, size) = (self.cells(file, from, to)?, self.datatype().size() as usize);
        let blob = |cell| padding.map_or(cell, |padding| unpadded(cell, padding));
        let blobs = BinaryViewArray::from_iter_values(cells.chunks_exact(size.max(1)).map(blob));
        with_nulls(Arc::new(blobs), nulls)
    }

    fn heap_blobs(&mut self, file: &H5File<'_>, from: u64, to: u64, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let bytes = self.cells(file, from, to)?;
        let mut blobs = BinaryViewBuilder::new();
        let mut blocks = BTreeMap::new();
        for (row, reference) in references(&bytes, self.shape()).enumerate() {
            match reference? {
                _ if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => blobs.append_null(),
                None => blobs.append_value([]),
                Some(Reference { len, address, index }) => {
                    let collection = self.heap.collection(file, address)?;
                    let at = collection.object(index, len)?;
                    self.heap_left = self.heap_left.checked_sub(len as u64).ok_or_else(too_often)?;
                    let block = *blocks.entry(address).or_insert_with(|| blobs.append_block(collection.bytes.clone()));
                    blobs.try_append_view(block, view(at)?, view(len)?).map_err(|e| Error::bug(e.to_string()))?;
                }
            }
        }
        Ok(Arc::new(blobs.finish()))
    }

    fn heap_lists(
        &mut self,
        file: &H5File<'_>,
        from: u64,
        to: u64,
        element: &DataType,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let bytes = self.cells(file, from, to)?;
        let shape = self.shape();
        let (mut flat, mut lens) = (Vec::new(), Vec::new());
        for reference in references(&bytes, shape) {
            let found = reference?;
            lens.push(found.as_ref().map_or(0, |found| found.len / shape.element));
            if let Some(Reference { len, address, index }) = found {
                let collection = self.heap.collection(file, address)?;
                let at = collection.object(index, len)?;
                self.heap_left = self.heap_left.checked_sub(len as u64).ok_or_else(too_often)?;
                flat.extend_from_slice(collection.bytes.as_slice().get(at..at + len).unwrap_or_default());
            }
        }
        let count = flat.len() / shape.element;
        if let Datatype::Vlen { of, .. } = self.datatype() {
            swap(of, &mut flat);
            flat = widened(of, &flat).unwrap_or(flat);
        }
        let flat = array_of(element, Buffer::from(flat), count)?;
        list(self.field.data_type(), offsets_of(lens.into_iter())?, flat, nulls)
    }

    /// The sizes of its references into the global heap.
    fn shape(&self) -> ReferenceShape {
        let element = match self.datatype() {
            Datatype::Vlen { of, .. } => (of.size() as usize).max(1),
            _ => 1,
        };
        ReferenceShape { size: self.datatype().size() as usize, element }
    }

    /// Bytes whose ends are the offsets of `level`.
    fn blobs(
        &mut self,
        file: &H5File<'_>,
        level: usize,
        from: u64,
        to: u64,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let ends = self.ends(file, level, from, to)?;
        let (start, end) = (ends.first().copied().unwrap_or(0), ends.last().copied().unwrap_or(0));
        let mut blobs = BinaryViewBuilder::new();
        let block = blobs.append_block(Buffer::from(self.values.read(file, start, end)?));
        for (row, ends) in ends.windows(2).enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                blobs.append_null();
                continue;
            }
            let at = ends.first().map_or(0, |at| at - start);
            blobs
                .try_append_view(block, view(at as usize)?, view(length(ends) as usize)?)
                .map_err(|e| Error::bug(e.to_string()))?;
        }
        Ok(Arc::new(blobs.finish()))
    }

    fn ends(&mut self, file: &H5File<'_>, level: usize, from: u64, to: u64) -> Result<Vec<u64>> {
        let offsets = self.offsets.get_mut(level).ok_or_else(|| Error::bug("a list without offsets"))?;
        read_offsets(offsets, file, from, to)
    }

    fn ragged(
        &mut self,
        file: &H5File<'_>,
        rows: Range<u64>,
        element: &DataType,
        rank: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let DataType::Struct(parts) = self.field.data_type().clone() else {
            return Err(Error::bug("not a ragged column"));
        };
        let ends = self.ends(file, 0, rows.start, rows.end)?;
        let shapes = self.shapes.as_mut().ok_or_else(|| Error::bug("a ragged field without shapes"))?;
        let dims = shapes.read(file, rows.start, rows.end)?;
        for (shape, ends) in dims.chunks_exact(4 * rank.max(1)).zip(ends.windows(2)) {
            if elements_of(shape) != Some(length(ends)) {
                return Err(Error::content(
                    "has a sample whose shape does not match its number of elements: the file is damaged",
                ));
            }
        }
        let (start, end) = (ends.first().copied().unwrap_or(0), ends.last().copied().unwrap_or(0));
        let flat = self.elements(file, element, start, end)?;
        let count = (rows.end - rows.start) as usize;
        let types: Vec<DataType> = parts.iter().map(|part| part.data_type().clone()).collect();
        let [data_type, shape_type] = types.as_slice() else { return Err(Error::bug("not a ragged column")) };
        let data = list(data_type, relative(&ends)?, flat, None)?;
        let dims = array_of(&DataType::Int32, Buffer::from(dims), count * rank)?;
        let shape = fixed_list(shape_type, dims, count, None)?;
        let array = StructArray::try_new_with_length(parts, vec![data, shape], nulls, count);
        Ok(Arc::new(array.map_err(|e| Error::bug(e.to_string()))?))
    }

    fn lists(
        &mut self,
        file: &H5File<'_>,
        rows: Range<u64>,
        level: usize,
        of: &DataType,
        element: &DataType,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        if *of == DataType::BinaryView {
            return self.blobs(file, level, rows.start, rows.end, nulls);
        }
        let ends = self.ends(file, level, rows.start, rows.end)?;
        let (start, end) = (ends.first().copied().unwrap_or(0), ends.last().copied().unwrap_or(0));
        let inside = match (level + 1 < self.offsets.len(), of) {
            (true, DataType::List(item)) => self.lists(file, start..end, level + 1, item.data_type(), element, None)?,
            _ => self.elements(file, element, start, end)?,
        };
        list(of, relative(&ends)?, inside, nulls)
    }
}

/// `offsets[from..=to]`; a `Content` error if they decrease.
fn read_offsets(offsets: &mut Dataset, file: &H5File<'_>, from: u64, to: u64) -> Result<Vec<u64>> {
    let end = to.checked_add(1).ok_or_else(|| Error::bug("rows without end"))?;
    let bytes = offsets.read(file, from, end)?;
    let ends: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    match ends.is_sorted() && ends.last().is_none_or(|end| *end <= i64::MAX as u64) {
        true => Ok(ends),
        false => Err(named(&offsets.name, Error::content("has offsets that decrease: the file is damaged"))),
    }
}

/// The difference of two offsets.
pub(crate) fn length(ends: &[u64]) -> u64 {
    match ends {
        [from, to] => to.saturating_sub(*from),
        _ => 0,
    }
}

/// The number of elements of a shape of little-endian `i32`.
fn elements_of(shape: &[u8]) -> Option<u64> {
    let dims = shape.as_chunks::<4>().0.iter().map(|dim| u64::try_from(i32::from_le_bytes(*dim)).ok());
    dims.into_iter().try_fold(1u64, |count, dim| count.checked_mul(dim?))
}

const LEAVE_OUT: &str = "leave it out with `datasets`, an attribute with `attributes`";

fn view(value: usize) -> Result<u32> {
    let fits = u32::try_from(value).ok().filter(|value| i32::try_from(*value).is_ok());
    fits.ok_or_else(|| Error::new(Kind::Limit, "has a value of over 2 GiB"))
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    let hint = "read strings of fixed length as bytes with `from=hdf5` and `read=text=bytes`, or `read=text=blob` where files differ in their length";
    std::str::from_utf8(bytes).map_err(|_| Error::content("holds text that is not UTF-8").hint(hint).hint(LEAVE_OUT))
}

/// The error for fields that exceed their limit in the global heap.
fn too_often() -> Error {
    Error::new(Kind::Limit, "repeats the same variable-length values, far more bytes than the file has")
        .hint("leave it out with the option `datasets`, or read it with `from=hdf5` and `read=expansion=any`")
}
