//! Decodes a value of a field into a batch.

use super::lists::{elements, lengths, pieces, shape_in, unlike_others};
use super::normalize::{Axes, PixelTable};
use crate::Value;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray};
use packhorse_core::{
    Code, Codec, DataType, Error, Field, Kind, Limits, PackedValue, Result, Rows, Schema, bytes_of, element_width,
    json, number_bytes, value_bytes,
};
use packhorse_transform::image::{Draws, MaskDecoder, View, ViewDecoder, upright_size};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// How values of a field are decoded into a batch.
pub(crate) enum FieldDecoder {
    /// Unchanged bytes, ragged.
    Bytes,
    /// One number of `width` bytes.
    Number { data_type: DataType, width: usize, text: Text },
    /// Packed elements of `width` bytes, always of one shape.
    Dense { element: DataType, width: usize, shape: Vec<usize>, encoded: Option<Encoded> },
    /// Packed elements of one number of `width` bytes or of several, of any shape of `rank` dimensions.
    /// `fixed` is the shape of all of them, where the dataset says one.
    Ragged {
        element: DataType,
        width: usize,
        parts: Option<usize>,
        rank: usize,
        encoded: Option<Encoded>,
        fixed: Option<Vec<i32>>,
        /// The length that the inner lists of some sample have, which an empty list of lists does not tell.
        inner: Option<i32>,
    },
    /// Bytes in lists, one after another.
    Pieces,
    /// The lengths of the lists, or of the bytes, that lie `level` lists inside of a row.
    Lengths { level: usize },
    /// Pictures in a list, each of the size of `one`.
    Listed { one: Box<FieldDecoder> },
    /// Texts in a list, as the JSON of that list.
    Texts { encoded: Option<Encoded> },
    /// `count` Booleans.
    Bits { count: usize, encoded: Option<Encoded> },
    /// The key of the sample's random numbers.
    Draws,
    /// 1 for any value, or where JSON has one under the path.
    Present(Option<String>),
    /// A picture of one size.
    Picture { height: u32, width: u32 },
    /// A picture of its own size.
    Pictures,
    /// A mask of numbers of `width` bytes; `shape` is `None` if each keeps its own size.
    Mask { decoder: MaskDecoder, width: usize, shape: Option<(u32, u32)> },
    /// A picture of one size, as normalised pixels.
    Normalized { height: u32, width: u32, axes: Axes, table: Box<PixelTable> },
}

/// Decodes pictures of one field, on one thread.
pub(crate) struct PictureDecoder {
    view: ViewDecoder,
    /// Pixels on their way to a batch that holds them in another form.
    pixels: Vec<u8>,
}

impl PictureDecoder {
    pub(crate) fn new(view: View, limits: Limits) -> Result<Self> {
        Ok(Self { view: ViewDecoder::new(view, limits)?, pixels: Vec::new() })
    }

    /// Decodes a picture into `out`, normalised.
    fn normalized(&mut self, bytes: &[u8], draws: Draws, table: &PixelTable, out: &mut [u8]) -> Result<()> {
        // Stale pixels are overwritten: the decoder fills all of its output.
        self.pixels.resize(out.len() / 4, 0);
        self.view.decode_into(bytes, draws, &mut self.pixels)?;
        table.write(&self.pixels, out);
        Ok(())
    }
}

/// The text form of numbers in blobs.
pub(crate) enum Text {
    Plain,
    Json(String),
    /// The numbers of classes by their names, which are the texts, or in JSON the values under the path.
    Class(HashMap<String, i64>, Option<String>),
}

/// Blobs that hold an array.
pub(crate) struct Encoded {
    pub(crate) name: String,
    pub(crate) codec: Box<dyn Codec>,
    pub(crate) field: Field,
}

impl Encoded {
    /// The elements of a value and its shape, where they lie in its bytes.
    fn packed<'a>(&self, value: Value<'a>) -> Option<(&'a [u8], Vec<usize>)> {
        let bytes = raw(value).ok()?;
        let PackedValue { range, shape } = self.codec.packed(&self.name, bytes, &self.field)?;
        Some((bytes.get(range)?, shape))
    }

    /// The column of one row that `bytes` hold.
    fn decode(&self, bytes: &[u8]) -> Result<ArrayRef> {
        let blob: ArrayRef = Arc::new(BinaryViewArray::from(vec![bytes]));
        // Without a key: errors name the sample where its key is known.
        let fields = vec![Field::new(&self.name, DataType::BinaryView, false)];
        let rows = Rows::try_new(Arc::new(Schema::new(fields)), vec![blob]);
        let rows = rows.map_err(|error| Error::bug(error.to_string()))?;
        let decoded = self.codec.decode(&self.name, &rows, std::slice::from_ref(&self.field))?;
        decoded.into_iter().next().ok_or_else(|| Error::bug("a codec that decodes nothing"))
    }
}

impl FieldDecoder {
    /// The type of the numbers of a picture of one size, the bytes of each, and the shape of all.
    pub(crate) fn pixels(&self) -> (DataType, usize, Vec<usize>) {
        match self {
            FieldDecoder::Picture { height, width } => (DataType::UInt8, 1, vec![*height as usize, *width as usize, 3]),
            FieldDecoder::Normalized { height, width, axes, .. } => {
                let (height, width) = (*height as usize, *width as usize);
                let shape = if *axes == Axes::Chw { vec![3, height, width] } else { vec![height, width, 3] };
                (DataType::Float32, 4, shape)
            }
            _ => (DataType::UInt8, 1, Vec::new()),
        }
    }

    /// The size of a ragged value in the slab, in bytes.
    pub(crate) fn measure(&self, value: Value<'_>, decoder: Option<&mut PictureDecoder>) -> Result<usize> {
        Ok(match self {
            FieldDecoder::Bytes => raw(value)?.len(),
            FieldDecoder::Texts { encoded } => {
                with_array(value, encoded.as_ref(), |array, row| Ok(json_of(array, row)?.len()))?
            }
            FieldDecoder::Pieces => pieces(value)?.iter().flatten().map(<[u8]>::len).sum(),
            FieldDecoder::Lengths { level } => 8 * lengths(value, *level)?.len(),
            FieldDecoder::Listed { one } => {
                let (_, width, inner) = one.pixels();
                let (count, each) = (pieces(value)?.len(), width * inner.iter().product::<usize>());
                let few = count.checked_mul(each).filter(|bytes| i32::try_from(*bytes).is_ok());
                few.ok_or_else(|| {
                    let message = format!("has {count} pictures, which are over 2 GiB of pixels");
                    Error::new(Kind::Limit, message).hint("ask for smaller ones")
                })?
            }
            FieldDecoder::Pictures => {
                let decoder = decoder.ok_or_else(|| Error::bug("a picture without a decoder"))?;
                let (height, width) = decoder.view.size(raw(value)?)?;
                height as usize * width as usize * 3
            }
            FieldDecoder::Mask { decoder, width, .. } => {
                let (height, across) = decoder.size(raw(value)?)?;
                height as usize * across as usize * width
            }
            FieldDecoder::Ragged { width, parts, encoded, .. } => {
                if let Some((elements, _)) = encoded.as_ref().and_then(|encoded| encoded.packed(value)) {
                    return Ok(elements.len());
                }
                let bytes = width * parts.unwrap_or(1);
                with_array(value, encoded.as_ref(), |array, row| Ok(elements(array, row)?.len() * bytes))?
            }
            _ => 0,
        })
    }

    /// Writes the value to `out`, which has exactly its size, and its shape, if any, to `shape`. `images`: what a mask may be of.
    pub(crate) fn write(
        &self,
        value: Value<'_>,
        mut decoder: Option<&mut PictureDecoder>,
        draws: Draws,
        images: &[Value<'_>],
        out: &mut [u8],
        shape: &mut [u8],
    ) -> Result<()> {
        match self {
            FieldDecoder::Bytes => fit(raw(value)?, out),
            FieldDecoder::Texts { encoded } => {
                with_array(value, encoded.as_ref(), |array, row| fit(json_of(array, row)?.as_bytes(), out))
            }
            FieldDecoder::Pieces => {
                let mut left = out;
                for piece in pieces(value)?.iter().flatten() {
                    let (to, rest) = left.split_at_mut_checked(piece.len()).unwrap_or_default();
                    fit(piece, to)?;
                    left = rest;
                }
                Ok(())
            }
            FieldDecoder::Lengths { level } => {
                let lengths = lengths(value, *level)?;
                out.as_chunks_mut().0.iter_mut().zip(lengths).for_each(|(out, len)| *out = len.to_le_bytes());
                Ok(())
            }
            FieldDecoder::Listed { one } => {
                let pieces = pieces(value)?;
                let each = out.len() / pieces.len().max(1);
                let numbered = pieces.iter().flatten().zip(out.chunks_exact_mut(each.max(1))).enumerate();
                for (at, (piece, out)) in numbered {
                    let written = one.write(Value::Bytes(piece), decoder.as_deref_mut(), draws, &[], out, &mut []);
                    written.map_err(|error| error.subject(format_args!("picture {at} of the list")))?;
                }
                Ok(())
            }
            FieldDecoder::Picture { .. } | FieldDecoder::Pictures => {
                let decoder = decoder.ok_or_else(|| Error::bug("a picture without a decoder"))?;
                let (height, width) = decoder.view.decode_into(raw(value)?, draws, out)?;
                numbers([height as i32, width as i32, 3].into_iter(), shape);
                Ok(())
            }
            FieldDecoder::Mask { decoder, .. } => {
                // An image that can't be read is an error of its own field.
                let size = |image: &Value<'_>| upright_size(raw(*image).ok()?, &decoder.limits()).ok();
                let images: Vec<_> = images.iter().filter_map(size).collect();
                let (height, width) = decoder.decode_into(raw(value)?, &images, draws, out)?;
                numbers([height as i32, width as i32].into_iter(), shape);
                Ok(())
            }
            FieldDecoder::Normalized { table, .. } => {
                let decoder = decoder.ok_or_else(|| Error::bug("a picture without a decoder"))?;
                decoder.normalized(raw(value)?, draws, table, out)
            }
            FieldDecoder::Number { data_type, text, .. } => match value {
                Value::Bytes(bytes) => text.number(bytes, data_type, out),
                Value::Row(array, row) if is_text(array.data_type()) => {
                    text.number(text_of(array, row)?, data_type, out)
                }
                Value::Row(array, row) => match number_bytes(array, row..row + 1) {
                    Some(bytes) => fit(bytes, out),
                    None => fit(&bytes_of(&array.slice(row, 1))?, out),
                },
            },
            FieldDecoder::Dense { encoded, shape: dimensions, .. } => {
                if let Some((elements, _)) = encoded.as_ref().and_then(|encoded| encoded.packed(value)) {
                    return fit(elements, out);
                }
                if let Some(elements) = fixed_row(value).filter(|_| encoded.is_none()) {
                    return fit(elements, out);
                }
                let fitted = with_array(value, encoded.as_ref(), |array, row| {
                    let (rank, own) = (dimensions.len(), array.data_type());
                    if rank > 1 && encoded.is_none() && !matches!(own, DataType::FixedSizeList(..)) {
                        let found = shape_in(array, row, rank)?;
                        if !found.iter().map(|len| *len as usize).eq(dimensions.iter().copied()) {
                            let message = format!("has the shape {found:?}, and others have {dimensions:?}");
                            return Err(Error::content(message).with_code(Code::ColumnsDiffer));
                        }
                    }
                    fit(&bytes_of(&*elements(array, row)?)?, out)
                });
                fitted.map_err(|error| match error.code() == Code::ColumnsDiffer {
                    true => error.hint("if only shapes differ, ask for the field as `Ragged`"),
                    false => error,
                })
            }
            FieldDecoder::Ragged { parts, rank, encoded, fixed, inner, .. } => {
                let shape = if *rank < 2 { &mut [] } else { shape };
                let parts = parts.map(|parts| parts as i32);
                if let Some((elements, dimensions)) = encoded.as_ref().and_then(|encoded| encoded.packed(value)) {
                    // The codec found them to fit, so each is below 2^31.
                    numbers(dimensions.into_iter().map(|len| len as i32).chain(parts), shape);
                    return fit(elements, out);
                }
                with_array(value, encoded.as_ref(), |array, row| {
                    match fixed {
                        Some(fixed) => numbers(fixed.iter().copied().chain(parts), shape),
                        None if shape.is_empty() => {}
                        None => {
                            let mut found = shape_in(array, row, *rank)?;
                            if let ([0, last], Some(inner)) = (found.as_mut_slice(), inner) {
                                *last = *inner;
                            }
                            numbers(found.into_iter().chain(parts), shape);
                        }
                    }
                    fit(&bytes_of(&*elements(array, row)?)?, out)
                })
            }
            FieldDecoder::Draws => Err(Error::bug("a key of draws is not a field of samples")),
            FieldDecoder::Present(path) => {
                let inside = path.as_ref().map(|path| in_json(raw(value)?, path)).transpose()?;
                fit(&[u8::from(inside.is_none_or(|inside| inside.is_some()))], out)
            }
            FieldDecoder::Bits { encoded, .. } => {
                with_array(value, encoded.as_ref(), |array, row| bits(&*elements(array, row)?, out))
            }
        }
    }
}

/// Calls `work` with the array and row of a value, decoding it first if necessary.
fn with_array<R>(
    value: Value<'_>,
    encoded: Option<&Encoded>,
    work: impl FnOnce(&ArrayRef, usize) -> Result<R>,
) -> Result<R> {
    match (value, encoded) {
        (Value::Row(array, row), None) => work(array, row),
        (value, Some(encoded)) => work(&encoded.decode(raw(value)?)?, 0),
        (Value::Bytes(_), None) => Err(unlike_others()),
    }
}

/// The value under a path in a JSON text; `None` where there is none, or null.
fn in_json(bytes: &[u8], path: &str) -> Result<Option<serde_json::Value>> {
    let value = json::parse_lossy(bytes).map_err(|error| Error::content(format!("is not JSON: {error}")))?;
    Ok(json_at(&value, path).filter(|value| !value.is_null()).cloned())
}

/// The error of JSON without a value under a path. A field that is not required is zeros there.
fn lacks(path: &str) -> Error {
    Error::content(format!("has no {path}")).with_code(Code::FieldMissing)
}

impl Text {
    /// Parses the number in `bytes`, to little-endian.
    fn number(&self, bytes: &[u8], data_type: &DataType, out: &mut [u8]) -> Result<()> {
        let invalid = |what: &str, text: &str| {
            let start: String = text.chars().take(40).collect();
            let error = Error::content(format!("{what}is not a valid {data_type}: {start}"));
            let is_float = data_type.is_integer() && text.parse::<f64>().is_ok();
            if is_float { error.hint("ask for it as float64 if it has fractions") } else { error }
        };
        match self {
            Text::Plain => {
                let text = std::str::from_utf8(bytes).ok().and_then(|text| parse(text.trim_ascii(), data_type, out));
                text.ok_or_else(|| {
                    let start = bytes.get(..bytes.len().min(40)).unwrap_or_default();
                    let error = invalid("", &start.escape_ascii().to_string());
                    let is_name = start.iter().any(u8::is_ascii_alphabetic) && data_type.is_integer();
                    if is_name { error.hint("if it names a class, ask for it as `Class`") } else { error }
                })
            }
            Text::Class(positions, path) => {
                let inside = |path: &String| in_json(bytes, path)?.ok_or_else(|| lacks(path));
                let inside = path.as_ref().map(inside).transpose()?;
                let name: Cow<'_, str> = match &inside {
                    Some(serde_json::Value::String(text)) => text.into(),
                    Some(other) => other.to_string().into(),
                    None => String::from_utf8_lossy(bytes.trim_ascii()),
                };
                let position = positions.get(&*name).ok_or_else(|| {
                    let start: String = name.chars().take(40).collect();
                    Error::content(format!("is {start:?}, which is not among the names of the classes"))
                        .with_code(Code::UnknownClass)
                })?;
                fit(&position.to_le_bytes(), out)
            }
            Text::Json(path) => {
                let text = match in_json(bytes, path)?.ok_or_else(|| lacks(path))? {
                    serde_json::Value::Bool(yes) => if yes { "1" } else { "0" }.to_owned(),
                    other => json::odd_number(&other).map_or_else(|| other.to_string(), |number| number.to_string()),
                };
                parse(&text, data_type, out).ok_or_else(|| invalid(&format!("{path} "), &text))
            }
        }
    }
}

/// The part of a JSON value at `path`: names, and positions in lists, with dots between them. Names may have dots of their own: of
/// several readings the one with the longest names counts.
pub(crate) fn json_at<'v>(value: &'v serde_json::Value, path: &str) -> Option<&'v serde_json::Value> {
    let inside = |name: &str| match value {
        serde_json::Value::Array(list) => list.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    };
    let in_part = |(at, _)| json_at(inside(path.get(..at)?)?, path.get(at + 1..)?);
    inside(path).or_else(|| path.rmatch_indices('.').find_map(in_part))
}

/// Writes the number in `text`; `None` if it is not a number of this type.
fn parse(text: &str, data_type: &DataType, out: &mut [u8]) -> Option<()> {
    macro_rules! as_type {
        ($type:ty) => {
            fit(&text.parse::<$type>().ok()?.to_le_bytes(), out).ok()
        };
    }
    match data_type {
        DataType::Int8 => as_type!(i8),
        DataType::Int16 => as_type!(i16),
        DataType::Int32 => as_type!(i32),
        DataType::Int64 => as_type!(i64),
        DataType::UInt8 => as_type!(u8),
        DataType::UInt16 => as_type!(u16),
        DataType::UInt32 => as_type!(u32),
        DataType::UInt64 => as_type!(u64),
        // Digits that are not infinite, and would be so.
        DataType::Float32 if text.parse().is_ok_and(f32::is_infinite) && has_digits(text) => None,
        DataType::Float64 if text.parse().is_ok_and(f64::is_infinite) && has_digits(text) => None,
        DataType::Float32 => as_type!(f32),
        DataType::Float64 => as_type!(f64),
        _ => None,
    }
}

fn has_digits(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// The bytes of a blob or text.
pub(crate) fn raw(value: Value<'_>) -> Result<&[u8]> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        Value::Row(array, row) => text_of(array, row),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8View | DataType::Utf8 | DataType::BinaryView | DataType::Binary)
}

fn text_of(array: &ArrayRef, row: usize) -> Result<&[u8]> {
    match value_bytes(array, row) {
        Some(bytes) => Ok(bytes),
        None if array.is_null(row) => Ok(&[]),
        None => Err(Error::content(format!("is of type {}, not bytes", array.data_type()))),
    }
}

/// The texts in row `row`, which may be in lists in lists, as JSON.
fn json_of(array: &ArrayRef, row: usize) -> Result<String> {
    fn value(array: &ArrayRef, row: usize) -> Result<serde_json::Value> {
        let all = |inner: ArrayRef| (0..inner.len()).map(|at| value(&inner, at)).collect::<Result<_>>();
        Ok(match array.data_type() {
            _ if array.is_null(row) => serde_json::Value::Null,
            DataType::Utf8View => array.as_string_view().value(row).into(),
            DataType::List(_) => serde_json::Value::Array(all(array.as_list::<i32>().value(row))?),
            DataType::LargeList(_) => serde_json::Value::Array(all(array.as_list::<i64>().value(row))?),
            DataType::FixedSizeList(..) => serde_json::Value::Array(all(array.as_fixed_size_list().value(row))?),
            // Of one dimension: its values, and their number.
            DataType::Struct(_) => match array.as_struct().columns().first() {
                Some(values) => value(values, row)?,
                None => serde_json::Value::Null,
            },
            other => return Err(Error::content(format!("is of type {other}, not a list of text"))),
        })
    }
    Ok(value(array, row)?.to_string())
}

/// The bytes of a row of numbers of one shape, where they lie.
fn fixed_row(value: Value<'_>) -> Option<&[u8]> {
    let Value::Row(array, row) = value else { return None };
    let list = array.as_fixed_size_list_opt()?;
    let from = list.value_offset_at(row);
    number_bytes(list.values(), from..from + usize::try_from(list.value_length()).ok()?)
}

fn numbers(values: impl Iterator<Item = i32>, out: &mut [u8]) {
    out.as_chunks_mut().0.iter_mut().zip(values).for_each(|(out, value)| *out = value.to_le_bytes());
}

fn bits(array: &dyn Array, out: &mut [u8]) -> Result<()> {
    let array = array.as_boolean_opt().ok_or_else(|| Error::content("is not an array of Booleans"))?;
    out.fill(0);
    for (at, value) in array.values().iter().enumerate() {
        if let Some(byte) = out.get_mut(at / 8).filter(|_| value) {
            *byte |= 1 << (at % 8);
        }
    }
    Ok(())
}

/// Copies bytes that must have exactly the size of `out`.
fn fit(from: &[u8], out: &mut [u8]) -> Result<()> {
    if from.len() != out.len() {
        let message = format!("has {} bytes of values, and others have {}: make it ragged", from.len(), out.len());
        return Err(Error::content(message));
    }
    out.copy_from_slice(from);
    Ok(())
}

/// The size of a packed element, in bytes.
pub(crate) fn width_of(data_type: &DataType, name: &str) -> Result<usize> {
    let message = || format!("field {name} has elements of type {data_type}, which batches can't hold");
    element_width(data_type).ok_or_else(|| Error::unsupported(message()))
}
