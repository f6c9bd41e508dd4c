//! Encodes columns as `.npy` files, byte for byte as `numpy.save` does.

use crate::element::ScalarType;
use crate::npy_header::write_header;
use crate::text::append_units;
use arrow_array::builder::BinaryViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BinaryViewArray};
use arrow_buffer::Buffer;
use packhorse_core::{DataType, Error, Field, FieldType, Kind, Result, bytes_of, element_width, numpy_type};
use std::ops::Range;

/// A buffer of views is closed once it holds this many bytes.
const BLOCK: usize = 8 << 20;

/// The name of the encoded field; `Unsupported`, with field and type, if `field` can't be an `.npy` file.
pub(crate) fn encoded(field: &Field) -> Result<String> {
    let kind = FieldType::of(field)?;
    let refuse = |why: &str| {
        Err(Error::unsupported(format!("field {} of type {kind} can't be an .npy file: {why}", field.name())))
    };
    match &kind {
        FieldType::Blob | FieldType::Text => return refuse("bytes and text are written as they are"),
        _ => {}
    }
    Descr::of(field, &kind)?;
    Ok(match field.name().as_str() {
        // Programs that write WebDataset name arrays so.
        name if name == "npy" || name.ends_with(".npy") => name.to_owned(),
        name => format!("{name}.npy"),
    })
}

/// Encodes `column` as one file per sample; null stays null.
pub(crate) fn encode(field: &Field, column: &ArrayRef) -> Result<BinaryViewArray> {
    encoded(field)?;
    let kind = FieldType::of(field)?;
    let values = Values::of(field, &kind, column)?;
    let mut files =
        Files { builder: BinaryViewBuilder::with_capacity(column.len()), block: Vec::new(), ends: Vec::new() };
    for row in 0..column.len() {
        match column.is_null(row) {
            true => files.ends.push(None),
            false => {
                let (shape, range) = values.value(row)?;
                values.file(&shape, range, &mut files.block)?;
                files.ends.push(Some(files.block.len()));
            }
        }
        if files.block.len() >= BLOCK {
            files.flush()?;
        }
    }
    files.flush()?;
    Ok(files.builder.finish())
}

/// Files back to back in buffers, with a view of each.
struct Files {
    builder: BinaryViewBuilder,
    block: Vec<u8>,
    /// Where each file in `block` ends; `None` for null.
    ends: Vec<Option<usize>>,
}

impl Files {
    fn flush(&mut self) -> Result<()> {
        let large = || Error::new(Kind::Limit, "an .npy file of 2 GiB or more is too large for a sample");
        let block = self.builder.append_block(Buffer::from(std::mem::take(&mut self.block)));
        let mut start = 0;
        for end in self.ends.drain(..) {
            let Some(end) = end else {
                self.builder.append_null();
                continue;
            };
            let len = i32::try_from(end - start).map_err(|_| large())?;
            let offset = u32::try_from(start).map_err(|_| large())?;
            self.builder.try_append_view(block, offset, len.unsigned_abs()).map_err(|e| Error::bug(e.to_string()))?;
            start = end;
        }
        Ok(())
    }
}

/// NumPy's type of the elements.
enum Descr {
    Name(String),
    /// Text, padded to at least this many characters.
    Text(usize),
}

impl Descr {
    fn of(field: &Field, kind: &FieldType) -> Result<Self> {
        let other = || Error::unsupported(format!("field {} of type {kind} has no NumPy type", field.name()));
        let element = kind.element().ok_or_else(other)?;
        let named = numpy_type(field).map(ScalarType::parse).transpose();
        let named = named.map_err(|e| {
            e.with_kind(Kind::Unsupported).subject(format_args!("field {}", field.name())).in_field(field.name())
        })?;
        match (element, named) {
            (DataType::Utf8View | DataType::Utf8, named) => {
                Ok(Descr::Text(named.filter(ScalarType::is_text).map_or(1, |e| e.width / 4)))
            }
            (DataType::FixedSizeBinary(_), Some(named)) if named.data_type == *element => {
                named.numpy.map(Descr::Name).ok_or_else(other)
            }
            (DataType::FixedSizeBinary(_), Some(_)) => Err(other()),
            _ => ScalarType::name_of(element).map(Descr::Name).ok_or_else(other),
        }
    }
}

/// The elements of all samples, and the range of each sample.
struct Values<'a> {
    field: &'a Field,
    descr: Descr,
    flat: ArrayRef,
    /// The packed elements; empty for text.
    bytes: Buffer,
    width: usize,
    shape: Shape,
}

enum Shape {
    Same(Vec<usize>),
    /// Offsets in elements; and for ragged values the dimensions of all samples, and the rank.
    Own {
        offsets: Vec<usize>,
        shapes: Option<(Vec<i32>, usize)>,
    },
    /// The offsets of lists in lists, outermost first: those of one value must have equal lengths.
    Nested(Vec<Vec<usize>>),
}

impl<'a> Values<'a> {
    fn of(field: &'a Field, kind: &FieldType, column: &ArrayRef) -> Result<Self> {
        let bug = || Error::bug(format!("column {} is not {kind}", field.name()));
        let (flat, shape) = match kind {
            FieldType::Scalar(_) => (column.clone(), Shape::Same(Vec::new())),
            FieldType::Tensor { shape, .. } => (flattened(column), Shape::Same(shape.clone())),
            FieldType::Ragged { rank, .. } => {
                let parts = column.as_struct_opt().ok_or_else(bug)?;
                let (data, shapes) = parts.column_by_name("data").zip(parts.column_by_name("shape")).ok_or_else(bug)?;
                let dims = flattened(shapes);
                let dims = dims.as_primitive_opt::<Int32Type>().ok_or_else(bug)?.values().to_vec();
                let (flat, offsets) = lists(data).ok_or_else(bug)?;
                (flat, Shape::Own { offsets, shapes: Some((dims, *rank)) })
            }
            FieldType::List { depth: depth @ 2.., .. } => {
                let (mut flat, mut levels) = (column.clone(), Vec::with_capacity(*depth));
                for _ in 0..*depth {
                    let (values, offsets) = lists(&flat).ok_or_else(bug)?;
                    flat = values;
                    levels.push(offsets);
                }
                (flat, Shape::Nested(levels))
            }
            _ => {
                let (flat, offsets) = lists(column).ok_or_else(bug)?;
                (flat, Shape::Own { offsets, shapes: None })
            }
        };
        let descr = Descr::of(field, kind)?;
        let (bytes, width) = match &descr {
            Descr::Text(_) => (Buffer::default(), 0),
            Descr::Name(_) => (bytes_of(&flat)?, element_width(flat.data_type()).ok_or_else(bug)?),
        };
        let values = Self { field, descr, flat, bytes, width, shape };
        if !matches!(kind, FieldType::Scalar(_)) && values.flat.null_count() > 0 {
            values.refuse_null_elements(column)?;
        }
        Ok(values)
    }

    /// Refuses nulls inside of values; those of a null value mean nothing.
    fn refuse_null_elements(&self, column: &ArrayRef) -> Result<()> {
        for row in (0..column.len()).filter(|row| column.is_valid(*row)) {
            let (_, range) = self.value(row)?;
            if range.end <= self.flat.len() && self.flat.slice(range.start, range.len()).null_count() > 0 {
                return Err(Error::content(format!(
                    "field {} has null elements, which .npy files can't hold; replace or drop them",
                    self.field.name()
                )));
            }
        }
        Ok(())
    }

    /// The shape of a sample's value, and the range of its elements.
    fn value(&self, row: usize) -> Result<(Vec<usize>, Range<usize>)> {
        match &self.shape {
            Shape::Same(shape) => {
                let n: usize = shape.iter().product();
                Ok((shape.clone(), row * n..(row + 1) * n))
            }
            Shape::Nested(levels) => {
                let bug = || Error::bug(format!("column {} has too few offsets", self.field.name()));
                let (mut shape, mut range) = (Vec::with_capacity(levels.len()), row..row + 1);
                for offsets in levels {
                    let ends = offsets.get(range.start..=range.end).ok_or_else(bug)?;
                    let mut lens =
                        ends.windows(2).map(|pair| pair.iter().rev().copied().reduce(|end, start| end - start));
                    let first = lens.next().flatten().unwrap_or(0);
                    if let Some(other) = lens.flatten().find(|len| *len != first) {
                        return Err(Error::content(format!(
                            "field {} has lists of {first} and of {other} values in one sample, which an array can't hold",
                            self.field.name()
                        ))
                        .hint("pack to another format, or leave the field out"));
                    }
                    shape.push(first);
                    range = ends.first().zip(ends.last()).map(|(start, end)| *start..*end).ok_or_else(bug)?;
                }
                Ok((shape, range))
            }
            Shape::Own { offsets, shapes } => {
                let bug = || Error::bug(format!("column {} has too few offsets", self.field.name()));
                let range = offsets.get(row).zip(offsets.get(row + 1)).map(|(a, b)| *a..*b).ok_or_else(bug)?;
                let Some((dims, rank)) = shapes else { return Ok((vec![range.len()], range)) };
                let dims = dims.get(row * rank..(row + 1) * rank).ok_or_else(bug)?;
                let shape: Vec<usize> = dims.iter().filter_map(|d| usize::try_from(*d).ok()).collect();
                let product = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
                match shape.len() == *rank && product == Some(range.len()) {
                    true => Ok((shape, range)),
                    false => Err(Error::content(format!(
                        "field {} has a value of shape {dims:?} with {} elements",
                        self.field.name(),
                        range.len()
                    ))),
                }
            }
        }
    }

    /// Appends one sample's file.
    fn file(&self, shape: &[usize], range: Range<usize>, out: &mut Vec<u8>) -> Result<()> {
        match &self.descr {
            Descr::Name(name) => {
                write_header(name, shape, out)?;
                let bytes = self.bytes.as_slice().get(range.start * self.width..range.end * self.width);
                out.extend_from_slice(bytes.ok_or_else(|| Error::bug("a column shorter than it says"))?);
            }
            Descr::Text(least) => {
                let texts = texts(&self.flat, range)?;
                if texts.iter().any(|text| text.ends_with('\0')) {
                    let message = format!(
                        "field {} has a text that ends with a zero byte, where NumPy ends it",
                        self.field.name()
                    );
                    return Err(Error::content(message).hint("pack to another format, or leave the field out"));
                }
                let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(*least);
                // NumPy gives each text the room of the longest, with four bytes for a character.
                let (padded, held) =
                    (texts.len().saturating_mul(longest).saturating_mul(4), texts.iter().map(|text| text.len()));
                if padded > PADDED && padded / TIMES > held.sum() {
                    let message = format!(
                        "field {} has texts of very different lengths, which would take {padded} bytes as an array of <U{longest}",
                        self.field.name()
                    );
                    return Err(Error::content(message).hint("pack to another format, or leave the field out"));
                }
                write_header(&format!("<U{longest}"), shape, out)?;
                texts.iter().for_each(|text| append_units(text, longest, out));
            }
        }
        Ok(())
    }
}

/// Arrays of text of at most these bytes may consist of padding, larger ones of so many times the bytes of their texts.
const PADDED: usize = 32 << 20;
const TIMES: usize = 64;

fn texts(flat: &ArrayRef, range: Range<usize>) -> Result<Vec<&str>> {
    match (flat.as_string_view_opt(), flat.as_string_opt::<i32>()) {
        (Some(texts), _) => Ok(range.map(|i| texts.value(i)).collect()),
        (_, Some(texts)) => Ok(range.map(|i| texts.value(i)).collect()),
        _ => Err(Error::bug(format!("{} is not text", flat.data_type()))),
    }
}

/// The elements of (nested) fixed-size lists.
fn flattened(column: &ArrayRef) -> ArrayRef {
    match column.as_fixed_size_list_opt() {
        None => column.clone(),
        Some(lists) => {
            let size = usize::try_from(lists.value_length()).unwrap_or(0);
            let start = lists.value_offset_at(0);
            flattened(&lists.values().slice(start, lists.len() * size))
        }
    }
}

/// The elements of lists, and their offsets.
fn lists(column: &ArrayRef) -> Option<(ArrayRef, Vec<usize>)> {
    if let Some(lists) = column.as_list_opt::<i32>() {
        return Some((lists.values().clone(), lists.offsets().iter().map(|o| *o as usize).collect()));
    }
    let lists = column.as_list_opt::<i64>()?;
    Some((lists.values().clone(), lists.offsets().iter().map(|o| *o as usize).collect()))
}
