//! Builds one column: values of many samples, copied straight from their files.

use crate::dtype::{Axis, DtypeField};
use crate::gather::{contiguous, gather, size};
use crate::npy_header::NpyHeader;
use crate::text::push_text;
use arrow_array::builder::{ArrayBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, FixedSizeListArray, Int32Array, ListArray, StructArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use packhorse_core::{
    Code, DataType, Error, Field, FieldType, Kind, Limits, Memory, Pool, Result, array_of, element_width, numpy_type,
    swap_bytes,
};
use std::sync::Arc;

/// A column under construction.
pub(crate) struct ColumnBuilder<'a> {
    field: &'a Field,
    kind: FieldType,
    values: Values<'a>,
    /// Offsets of lists and ragged values, in elements, starting with 0.
    ends: Vec<i32>,
    /// The dimensions of each ragged value.
    shapes: Vec<i32>,
    valid: Vec<bool>,
    /// The most bytes that the column may hold.
    most: u64,
}

enum Values<'a> {
    /// Packed little-endian elements, and the bytes of each.
    Packed(Packed<'a>, usize),
    /// The same for a single sample, as a view into its file.
    Shared(Buffer, usize),
    Text(StringViewBuilder),
}

/// A growing buffer from a pool.
struct Packed<'a> {
    pool: &'a Pool,
    memory: Memory,
    used: usize,
    /// Samples not yet appended.
    samples: usize,
}

/// Alignment in bytes of values that are used without a copy.
pub(crate) const ALIGNED: usize = 16;

/// Arrays smaller than this are copied.
const SHARED: usize = 64 << 10;

/// The most bytes reserved ahead for samples not yet appended.
const AHEAD: usize = 8 << 20;

impl<'a> Packed<'a> {
    fn new(pool: &'a Pool, samples: usize) -> Result<Self> {
        Ok(Self { pool, memory: pool.take(0)?, used: 0, samples })
    }

    /// Appends `len` bytes for the next sample, for the caller to fill.
    fn grow(&mut self, len: usize) -> Result<&mut [u8]> {
        let end = self.used.saturating_add(len);
        if end > self.memory.len() {
            // Samples usually have equal sizes.
            let ahead = len.saturating_mul(self.samples).min(AHEAD);
            let mut memory = self.pool.take(end.saturating_add(self.used).max(ahead))?;
            let held = self.memory.get(..self.used).unwrap_or_default();
            memory.get_mut(..self.used).unwrap_or_default().copy_from_slice(held);
            self.memory = memory;
        }
        self.samples = self.samples.saturating_sub(1);
        let from = std::mem::replace(&mut self.used, end);
        Ok(self.memory.get_mut(from..end).unwrap_or_default())
    }

    fn finish(self) -> Buffer {
        Buffer::from(self.memory).slice_with_length(0, self.used)
    }
}

impl Values<'_> {
    /// The elements along `axes` of `src` as a view into `file`. `None` if they must be copied: not the only sample,
    /// small, not contiguous, misaligned or byte-swapped, or less than half of the memory that the view would keep
    /// alive.
    fn shared(&self, file: &Buffer, src: &[u8], axes: &[Axis], part: &DtypeField) -> Option<Self> {
        let Values::Packed(Packed { used: 0, samples: 1, .. }, width) = self else { return None };
        let len = size(axes, *width);
        let large = len >= SHARED && len >= file.len() / 2;
        if !large || part.element.swap > 1 || !contiguous(axes.iter(), *width) {
            return None;
        }
        let bytes = part_of(file, src.get(..len)?)?;
        bytes.as_ptr().addr().is_multiple_of((*width).min(ALIGNED)).then_some(Values::Shared(bytes, *width))
    }
}

/// `part` as a view into `whole`, if it lies there.
pub(crate) fn part_of(whole: &Buffer, part: &[u8]) -> Option<Buffer> {
    let at = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    (at.checked_add(part.len())? <= whole.len()).then(|| whole.slice_with_length(at, part.len()))
}

impl<'a> ColumnBuilder<'a> {
    /// An empty column for `samples` samples; `Unsupported` if `field` can't hold a NumPy array.
    pub(crate) fn new(field: &'a Field, samples: usize, limits: &Limits, pool: &'a Pool) -> Result<Self> {
        let kind = FieldType::of(field)?;
        let no_array = || Error::unsupported(format!("field {} of type {kind} can't hold a NumPy array", field.name()));
        if matches!(kind, FieldType::Blob | FieldType::List { depth: 2.., .. })
            || kind.field(field.name(), field.is_nullable()).data_type() != field.data_type()
        {
            return Err(no_array());
        }
        let values = match kind.element() {
            None | Some(DataType::Utf8View) => Values::Text(StringViewBuilder::new()),
            Some(element) => Values::Packed(Packed::new(pool, samples)?, element_width(element).ok_or_else(no_array)?),
        };
        Ok(Self { field, kind, values, ends: vec![0], shapes: Vec::new(), valid: Vec::new(), most: limits.blob })
    }

    /// Appends `part` of an array as the value of the next sample; `data` is the array's data. A large array of a
    /// single sample that lies in `file` is not copied.
    pub(crate) fn push(
        &mut self,
        header: &NpyHeader,
        part: &DtypeField,
        data: &[u8],
        file: Option<&Buffer>,
    ) -> Result<()> {
        let axes: Vec<Axis> = header.axes(header.fortran).into_iter().chain(part.axes.iter().copied()).collect();
        self.fits(header, part, &axes)?;
        let elements = axes.iter().fold(1, |n: usize, axis| n.saturating_mul(axis.len));
        self.admit(elements)?;
        let src = data.get(part.offset..).unwrap_or_default();
        match file.and_then(|file| self.values.shared(file, src, &axes, part)) {
            Some(shared) => self.values = shared,
            None => push_values(&mut self.values, src, &axes, part)?,
        }
        self.end(elements, &axes)
    }

    /// The bytes and the dimensions of `part` of an array, if its data are the elements that `push` would append, and
    /// nothing is in the way of that.
    pub(crate) fn packed(&self, header: &NpyHeader, part: &DtypeField) -> Option<(usize, Vec<usize>)> {
        let axes: Vec<Axis> = header.axes(header.fortran).into_iter().chain(part.axes.iter().copied()).collect();
        let Values::Packed(_, width) = &self.values else { return None };
        // A Boolean may be any byte but 0, and is 1 in a column.
        let equal =
            *width == part.element.width && part.element.swap <= 1 && self.kind.element() != Some(&DataType::Boolean);
        if !equal || !contiguous(axes.iter(), *width) || self.fits(header, part, &axes).is_err() {
            return None;
        }
        let shape: Vec<usize> = axes.iter().map(|axis| axis.len).collect();
        let elements = shape.iter().fold(1, |n: usize, len| n.saturating_mul(*len));
        let few = i32::try_from(elements).is_ok() && self.admit(elements).is_ok();
        few.then(|| (size(&axes, *width), shape))
    }

    /// Appends null; a `Content` error if the field is not nullable.
    pub(crate) fn push_null(&mut self) -> Result<()> {
        if !self.field.is_nullable() {
            return Err(Error::content(format!("has no array for the field {} ({})", self.field.name(), self.kind)));
        }
        let elements = match &self.kind {
            FieldType::Tensor { shape, .. } => shape.iter().product(),
            FieldType::Ragged { rank, .. } => {
                self.shapes.extend(std::iter::repeat_n(0, *rank));
                0
            }
            FieldType::List { .. } => 0,
            _ => 1,
        };
        self.admit(elements)?;
        match &mut self.values {
            Values::Packed(packed, width) => packed.grow(elements * *width)?.fill(0),
            Values::Shared(..) => return Err(Error::bug("a second sample")),
            Values::Text(text) => (0..elements).for_each(|_| text.append_value("")),
        }
        self.ends.push(self.ends.last().copied().unwrap_or(0));
        self.valid.push(false);
        Ok(())
    }

    /// Refuses a value whose type or shape is not the column's.
    fn fits(&self, header: &NpyHeader, part: &DtypeField, axes: &[Axis]) -> Result<()> {
        let found = &part.element.data_type;
        let same_element = match &self.kind {
            FieldType::Blob => false,
            FieldType::Text => part.element.is_text(),
            FieldType::Scalar(element)
            | FieldType::Tensor { element, .. }
            | FieldType::Ragged { element, .. }
            | FieldType::List { element, .. } => element == found,
        };
        // Text may have any width. Other types without an Arrow type must have the same NumPy name.
        let wanted = numpy_type(self.field).filter(|_| !part.element.is_text());
        let same_name = wanted.is_none() || wanted == part.element.numpy.as_deref();
        let same_shape = match &self.kind {
            FieldType::Tensor { shape, .. } => axes.iter().map(|axis| axis.len).eq(shape.iter().copied()),
            FieldType::Ragged { rank, .. } => axes.len() == *rank,
            FieldType::List { .. } => axes.len() == 1,
            _ => axes.is_empty(),
        };
        if same_element && same_name && same_shape {
            return Ok(());
        }
        let name = |numpy: Option<&str>| numpy.map_or(String::new(), |name| format!(" ({name})"));
        let found = header.field_type(part, false)?;
        Err(Error::content(format!(
            "is {found}{}, but the field {} holds {}{}; pack arrays of one type and shape, or leave the sample out",
            name(part.element.numpy.as_deref()),
            self.field.name(),
            self.kind,
            name(numpy_type(self.field)),
        ))
        .with_code(Code::ColumnsDiffer))
    }

    /// Refuses `elements` more elements if the column would exceed its limit.
    fn admit(&self, elements: usize) -> Result<()> {
        let (held, width) = match &self.values {
            Values::Packed(packed, width) => (packed.used, *width),
            Values::Shared(bytes, width) => (bytes.len(), *width),
            Values::Text(text) => (text.len().saturating_mul(16), 16),
        };
        let bytes = (elements as u64).saturating_mul(width as u64).saturating_add(held as u64);
        match bytes > self.most {
            true => Err(Error::new(
                Kind::Limit,
                format!(
                    "field {} would hold {bytes} bytes in one block, over the limit of {} bytes; decode fewer samples per block",
                    self.field.name(),
                    self.most
                ),
            )),
            false => Ok(()),
        }
    }

    fn end(&mut self, elements: usize, axes: &[Axis]) -> Result<()> {
        self.valid.push(true);
        if !matches!(self.kind, FieldType::Ragged { .. } | FieldType::List { .. }) {
            return Ok(());
        }
        let many = || {
            Error::new(
                Kind::Limit,
                format!(
                    "field {} holds more than 2^31 elements in one block; decode fewer samples per block",
                    self.field.name()
                ),
            )
        };
        let end =
            self.ends.last().copied().unwrap_or(0).checked_add_unsigned(u32::try_from(elements).map_err(|_| many())?);
        self.ends.push(end.ok_or_else(many)?);
        if matches!(self.kind, FieldType::Ragged { .. }) {
            for axis in axes {
                self.shapes.push(i32::try_from(axis.len).map_err(|_| many())?);
            }
        }
        Ok(())
    }

    /// The column.
    pub(crate) fn finish(self) -> Result<ArrayRef> {
        let samples = self.valid.len();
        let nulls = self.valid.contains(&false).then(|| NullBuffer::from(self.valid));
        let total = match &self.kind {
            FieldType::Tensor { shape, .. } => samples * shape.iter().product::<usize>(),
            FieldType::Ragged { .. } | FieldType::List { .. } => self.ends.last().map_or(0, |n| *n as usize),
            _ => samples,
        };
        let values: ArrayRef = match (self.values, self.kind.element()) {
            (Values::Packed(packed, _), Some(element)) => array_of(element, packed.finish(), total)?,
            (Values::Shared(bytes, _), Some(element)) => array_of(element, bytes, total)?,
            (Values::Text(mut text), _) => Arc::new(text.finish()),
            (Values::Packed(..) | Values::Shared(..), None) => return Err(Error::bug("text is not a packed element")),
        };
        assemble(self.field, values, self.ends, self.shapes, nulls, samples)
    }
}

/// The array of `field` with these elements; `ends` and `shapes` are for lists and ragged values only.
pub(crate) fn assemble(
    field: &Field,
    values: ArrayRef,
    ends: Vec<i32>,
    shapes: Vec<i32>,
    nulls: Option<NullBuffer>,
    samples: usize,
) -> Result<ArrayRef> {
    let offsets = || OffsetBuffer::new(ScalarBuffer::from(ends));
    let bug = |e: arrow_schema::ArrowError| Error::bug(e.to_string());
    match field.data_type() {
        DataType::FixedSizeList(item, size) => Ok(Arc::new(
            FixedSizeListArray::try_new_with_length(item.clone(), *size, values, nulls, samples).map_err(bug)?,
        )),
        DataType::List(item) => Ok(Arc::new(ListArray::try_new(item.clone(), offsets(), values, nulls).map_err(bug)?)),
        DataType::Struct(parts) => {
            let [data, shape] = parts.as_ref() else { return Err(Error::bug("not a ragged field")) };
            let (DataType::List(item), DataType::FixedSizeList(dimension, rank)) =
                (data.data_type(), shape.data_type())
            else {
                return Err(Error::bug("not a ragged field"));
            };
            let data = ListArray::try_new(item.clone(), offsets(), values, None).map_err(bug)?;
            let shapes = Arc::new(Int32Array::from(shapes));
            let shapes = FixedSizeListArray::try_new(dimension.clone(), *rank, shapes, None).map_err(bug)?;
            let parts = StructArray::try_new(parts.clone(), vec![Arc::new(data), Arc::new(shapes)], nulls);
            Ok(Arc::new(parts.map_err(bug)?))
        }
        _ => match nulls {
            None => Ok(values),
            nulls => {
                let data = values.to_data().into_builder().nulls(nulls).build().map_err(bug)?;
                Ok(arrow_array::make_array(data))
            }
        },
    }
}

fn push_values(values: &mut Values<'_>, src: &[u8], axes: &[Axis], part: &DtypeField) -> Result<()> {
    let width = part.element.width;
    match values {
        Values::Packed(packed, _) => {
            let dst = packed.grow(size(axes, width))?;
            gather(src, axes, width, dst);
            swap_bytes(dst, part.element.swap);
            Ok(())
        }
        Values::Shared(..) => Err(Error::bug("a second sample")),
        Values::Text(text) => {
            let mut units = vec![0; size(axes, width)];
            gather(src, axes, width, &mut units);
            swap_bytes(&mut units, part.element.swap);
            let elements = axes.iter().map(|axis| axis.len).product();
            push_text(&units, width, elements, text)
        }
    }
}
