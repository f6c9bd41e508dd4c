//! From the requested fields and a dataset's schema to decoders and a layout.

use super::elements::{Elements, holds_texts};
use super::field_decoder::{Encoded, FieldDecoder, Text, width_of};
use super::normalize::PixelTable;
use super::place::{LENGTHS, ResolvedField, is_a_part, lengths_in, place};
use super::{FieldKind, FieldOptions};
use crate::Layout;
use crate::dataset::{RAGGED, meaning, no_field, shown};
use packhorse_core::{
    Code, DataType, Error, Field, FieldType, KEY, Kind, Limits, MemoryInput, NUMPY, Options, Registry, Result, Schema,
    numpy_type, with_metadata,
};
use packhorse_transform::image::{MaskDecoder, View, ViewDecoder};
use std::collections::{HashMap, HashSet};

/// Fields that hold numbers as text by webdataset's convention.
const NUMBERS: [&str; 4] = ["cls", "cls2", "index", "inx"];

/// Values of encoded arrays that are looked at, unless two are of one type and shape.
const LOOKS: usize = 4;

const IN_LISTS: &str =
    "has lists of complex numbers or of bytes of a fixed length; ask for it as `Ragged`, or `stack` them";

const NO_JSON: &str = "does not hold bytes, so it can't be JSON";

/// See [`FieldContext::first`].
type FirstValues<'a> = dyn Fn(usize, &mut dyn FnMut(&[u8]) -> Result<bool>) -> Result<Option<Error>> + 'a;

/// The dataset's facts that fields are resolved by.
pub(crate) struct FieldContext<'a> {
    pub(crate) schema: &'a Schema,
    /// Shows the bytes of a requested column in samples that have it, until they are enough (`true`); the first error of a look.
    pub(crate) first: &'a FirstValues<'a>,
    /// The shape of a requested column of lists, or of arrays of so many dimensions, in some sample.
    pub(crate) shape: &'a dyn Fn(usize, usize) -> Result<Option<Vec<usize>>>,
    /// The length of the inner lists of a requested column of lists of lists, in some sample.
    pub(crate) inner: &'a dyn Fn(usize) -> Result<Option<usize>>,
    pub(crate) registry: &'a Registry,
    pub(crate) limits: Limits,
}

/// The field of arrays of the same elements and dimensions, each of its own shape.
fn with_any_shape(field: &Field) -> Result<Field> {
    Ok(match FieldType::of(field)? {
        FieldType::Tensor { element, shape } => {
            let any = FieldType::Ragged { element, rank: shape.len() }.field(field.name(), false);
            numpy_type(field).into_iter().fold(any, |any, name| with_metadata(any, NUMPY, name))
        }
        _ => field.clone(),
    })
}

/// All fields of a schema, each in the form that its type suggests. All are required: zeros would pass for values.
pub(crate) fn all(schema: &Schema) -> Vec<FieldOptions> {
    let names = schema.fields().iter().map(|field| field.name()).filter(|name| *name != KEY);
    names.map(|name| FieldOptions::new(name, FieldKind::Auto)).collect()
}

/// Finds the decoders of the requested fields; inspects the first sample if headers do not suffice.
pub(crate) fn resolve(
    asked: &[FieldOptions],
    known: &FieldContext<'_>,
    batch: usize,
) -> Result<(Vec<ResolvedField>, Layout)> {
    let mut layout = Layout::default();
    let mut settled = Vec::with_capacity(asked.len());
    let mut stored: HashMap<&str, &Field> = HashMap::with_capacity(known.schema.fields().len());
    for field in known.schema.fields() {
        stored.entry(field.name()).or_insert(field);
    }
    let mut names = HashSet::with_capacity(asked.len());
    for (column, field) in asked.iter().enumerate() {
        if !names.insert(field.name.as_str()) {
            return Err(Error::config(format!("two fields of batches are called {}", field.name)));
        }
        let look = Look { known, stored: &stored, column, field };
        let as_it_is = field.kind == FieldKind::Auto;
        let with_others = |e| if as_it_is { with_others(e, asked, (known, &stored)) } else { e };
        let (cell, view) = look.cell().map_err(with_others)?;
        if let Some(view) = view {
            // Refuses invalid settings early.
            ViewDecoder::new(view, known.limits)?;
        }
        let lengths = lengths_in(&cell, &look.stored_kind());
        let placed = place(field, cell, view, batch, &mut layout)?;
        settled.push(ResolvedField { column, images: images_of(asked, column), ..placed });
        let mut name = field.name.clone();
        for level in lengths {
            name.push_str(LENGTHS);
            if layout.field(&name).is_some() || asked.iter().any(|other| other.name == name) {
                return Err(is_a_part(&name, &field.name));
            }
            let (part, at) = (FieldOptions { name: name.clone(), ..field.clone() }, layout.fields().len());
            let placed = place(&part, FieldDecoder::Lengths { level }, None, batch, &mut layout)?;
            layout.mark_parts(at);
            settled.push(ResolvedField { column, ..placed });
        }
    }
    Ok((settled, layout))
}

/// The images among the fields that are cropped as the mask at `column` is.
fn images_of(asked: &[FieldOptions], column: usize) -> Vec<usize> {
    let Some(FieldKind::Mask(mask, _)) = asked.get(column).map(|field| &field.kind) else { return Vec::new() };
    let is_alike = |field: &FieldOptions| match &field.kind {
        FieldKind::Picture(view) | FieldKind::Normalized(view, _) => view.crops_like(mask),
        _ => false,
    };
    asked.iter().enumerate().filter(|(_, field)| is_alike(field)).map(|(at, _)| at).collect()
}

/// Adds to the error of an unsupported field the list of supported ones.
fn with_others(
    error: Error,
    asked: &[FieldOptions],
    (known, stored): (&FieldContext<'_>, &HashMap<&str, &Field>),
) -> Error {
    if error.kind() != Kind::Unsupported || asked.len() < 2 {
        return error;
    }
    let good = |(column, field): &(usize, &FieldOptions)| Look { known, stored, column: *column, field }.cell().is_ok();
    let names: Vec<&str> = asked.iter().enumerate().filter(good).map(|(_, field)| field.name.as_str()).collect();
    let others = match names.as_slice() {
        [] => "nor can they hold any other".to_owned(),
        names => format!("ask for others; they can hold {}", names.join(", ")),
    };
    error.hint(others)
}

/// Whether the values of a field are numbers as text, if nothing else is asked for: members by their names, and labels.
pub(crate) fn is_number_in_text(field: &Field) -> bool {
    let name = field.name().rsplit('.').next().unwrap_or_default();
    let is_member = || FieldType::of(field).is_ok_and(|held| held == FieldType::Blob);
    NUMBERS.contains(&name) && (name == "cls" || is_member())
}

struct Look<'a> {
    known: &'a FieldContext<'a>,
    /// The fields of the dataset by name.
    stored: &'a HashMap<&'a str, &'a Field>,
    column: usize,
    field: &'a FieldOptions,
}

impl Look<'_> {
    fn cell(&self) -> Result<(FieldDecoder, Option<View>)> {
        if self.field.kind == FieldKind::Draws {
            return Ok((FieldDecoder::Draws, None));
        }
        let stored = self.stored()?;
        if self.field.kind == FieldKind::Present(None) {
            return Ok((FieldDecoder::Present(None), None));
        }
        let held = FieldType::of(&stored)?;
        let blob = matches!(held, FieldType::Blob | FieldType::Text);
        let in_lists = held.holds_blobs() && !blob;
        let cell = match &self.field.kind {
            FieldKind::Picture(view) if in_lists => {
                let (height, width) = self.listed(view)?;
                let one = FieldDecoder::Picture { height, width };
                return Ok((FieldDecoder::Listed { one: Box::new(one) }, Some(*view)));
            }
            FieldKind::Normalized(view, normalize) if in_lists => {
                let (height, width) = self.listed(view)?;
                let table = PixelTable::new(normalize).map_err(|error| error.in_field(&self.field.name))?;
                let one = FieldDecoder::Normalized { height, width, axes: normalize.axes, table: Box::new(table) };
                return Ok((FieldDecoder::Listed { one: Box::new(one) }, Some(*view)));
            }
            FieldKind::Auto | FieldKind::Bytes | FieldKind::Ragged if in_lists => FieldDecoder::Pieces,
            FieldKind::Mask(..) if in_lists => {
                return Err(Error::config(format!(
                    "field {} has several values a sample, so it can't be a mask",
                    self.field.name
                )));
            }
            FieldKind::Picture(view) => {
                self.must(blob, "does not hold bytes, so it can't be a picture")?;
                let cell = match view.shape() {
                    Some((height, width)) => FieldDecoder::Picture { height, width },
                    None => FieldDecoder::Pictures,
                };
                return Ok((cell, Some(*view)));
            }
            FieldKind::Mask(view, data_type) => {
                self.must(blob, "does not hold bytes, so it can't be a mask")?;
                let wide = *data_type == DataType::UInt16;
                self.must(wide || *data_type == DataType::UInt8, "is a mask, of bytes (uint8) or of 16 bits (uint16)")?;
                let decoder = MaskDecoder::new(*view, wide, self.known.limits)?;
                FieldDecoder::Mask { decoder, width: if wide { 2 } else { 1 }, shape: view.shape() }
            }
            FieldKind::Normalized(view, normalize) => {
                self.must(blob, "does not hold bytes, so it can't be a picture")?;
                self.must(
                    view.shape().is_some(),
                    "can't be normalised where pictures keep their own sizes: give a view of one size",
                )?;
                let (height, width) = view.shape().unwrap_or_default();
                let table = PixelTable::new(normalize).map_err(|error| error.in_field(&self.field.name))?;
                let axes = normalize.axes;
                let cell = FieldDecoder::Normalized { height, width, axes, table: Box::new(table) };
                return Ok((cell, Some(*view)));
            }
            FieldKind::Bytes if !blob && holds_texts(&stored)? => FieldDecoder::Texts { encoded: None },
            FieldKind::Bytes => {
                self.must(blob, "does not hold bytes; ask for an array or a number")?;
                FieldDecoder::Bytes
            }
            FieldKind::Number(data_type) => self.number(&stored, blob, data_type, Text::Plain)?,
            FieldKind::Present(path) => {
                self.must(blob, NO_JSON)?;
                FieldDecoder::Present(path.clone())
            }
            FieldKind::Json(path, data_type) => {
                self.must(blob, NO_JSON)?;
                self.number(&stored, blob, data_type, Text::Json(path.clone()))?
            }
            FieldKind::Class(names, path) => {
                self.must(blob, "does not hold text; numbers are read as they are")?;
                let positions: HashMap<String, i64> = names.iter().cloned().zip(0..).collect();
                self.must(positions.len() == names.len(), "has names of classes that are equal")?;
                self.number(&stored, blob, &DataType::Int64, Text::Class(positions, path.clone()))?
            }
            FieldKind::Auto if blob => self.suggested(&stored)?,
            kind => {
                let (field, encoded) = if blob { self.encoded(&stored, kind)? } else { (stored, None) };
                self.array(kind, &field, encoded)?
            }
        };
        Ok((cell, None))
    }

    /// The size of pictures in lists.
    ///
    /// Errors (kind `Config`): a view that keeps the size of each.
    fn listed(&self, view: &View) -> Result<(u32, u32)> {
        let name = &self.field.name;
        let message =
            || format!("field {name} has several pictures a sample, which need one size: give a view of one size");
        view.shape().ok_or_else(|| Error::config(message()).in_field(name))
    }

    /// What the dataset holds there; bytes where nothing tells.
    fn stored_kind(&self) -> FieldType {
        self.stored().and_then(|stored| FieldType::of(&stored)).unwrap_or(FieldType::Blob)
    }

    fn must(&self, holds: bool, what: &str) -> Result<()> {
        if holds { Ok(()) } else { Err(Error::config(format!("field {} {what}", self.field.name))) }
    }

    /// The requested field of the dataset: the first of its names that exists.
    ///
    /// Errors: no such field; fields of several types (kind `Config`), of which a sample's would depend on what it has.
    fn stored(&self) -> Result<Field> {
        let mut found = self.field.from.0.iter().filter_map(|name| self.stored.get(name.as_str()).copied());
        let unknown = || no_field(&self.field.from.0.join(" or "), self.known.schema);
        let first = found.next().ok_or_else(unknown)?;
        let differs = |other: &&Field| other.data_type() != first.data_type() || meaning(other) != meaning(first);
        if let Some(other) = found.find(differs) {
            let message = format!("{} is {}, and {} is {}", first.name(), shown(first), other.name(), shown(other));
            return Err(Error::config(message).hint("ask for each of them as a field of its own"));
        }
        Ok(first.clone())
    }

    fn suggested(&self, stored: &Field) -> Result<FieldDecoder> {
        let extension = stored.name().rsplit('.').next().unwrap_or_default();
        if is_number_in_text(stored) {
            return self.number(stored, true, &DataType::Int64, Text::Plain);
        }
        if self.known.registry.by_field(stored.name()).is_some_and(|_| extension == "npy") {
            // Its dataset says more than the first samples.
            let kind = if stored.metadata().contains_key(RAGGED) { FieldKind::Ragged } else { FieldKind::Auto };
            let (field, encoded) = self.encoded(stored, &kind)?;
            return self.array(&kind, &field, encoded);
        }
        Ok(FieldDecoder::Bytes)
    }

    fn number(&self, stored: &Field, blob: bool, data_type: &DataType, text: Text) -> Result<FieldDecoder> {
        let held = Elements::of(stored, stored.data_type());
        if !blob && (held.data_type != *data_type || held.parts.is_some()) {
            let message = format!("field {} is of type {}, not {data_type}", self.field.name, stored.data_type());
            return Err(Error::config(message).hint("ask for the field without a type: it is that of the column"));
        }
        let known = data_type.is_integer() || matches!(data_type, DataType::Float32 | DataType::Float64);
        self.must(known || !blob, "can't be read from text as that type")?;
        Ok(FieldDecoder::Number { data_type: data_type.clone(), width: width_of(data_type, &self.field.name)?, text })
    }

    /// The arrays encoded in the blobs of a field, judged by its first values: one bad sample does not decide.
    fn encoded(&self, stored: &Field, kind: &FieldKind) -> Result<(Field, Option<Encoded>)> {
        let name = stored.name();
        let format = self.known.registry.by_field(name);
        let format = format
            .ok_or_else(|| Error::unsupported(format!("field {name} holds no arrays that this build decodes")))?;
        let codec = format.codec(&Options::new(), self.known.limits)?;
        let of_any_shape = *kind == FieldKind::Ragged;
        let mut found: Vec<(Field, Field, usize)> = Vec::new();
        let mut look = |bytes: &[u8]| {
            let mut fields = codec.probe(name, &MemoryInput::new(name.as_str(), bytes.to_vec()))?;
            let (Some(field), true) = (fields.pop(), fields.is_empty()) else {
                let message = format!("field {name} holds several arrays; pack it with `decode=auto`");
                return Err(Error::unsupported(message));
            };
            let compared = if of_any_shape { with_any_shape(&field)? } else { field.clone() };
            match found.iter_mut().find(|(known, ..)| *known == compared) {
                Some((.., count)) => *count += 1,
                None => found.push((compared, field, 1)),
            }
            let looks: usize = found.iter().map(|(.., count)| count).sum();
            Ok(looks >= LOOKS || found.iter().any(|(.., count)| *count > 1))
        };
        let failed = (self.known.first)(self.column, &mut look)?;
        let usual = found.into_iter().rev().max_by_key(|(.., count)| *count);
        let Some((_, field, _)) = usual else {
            let none = || {
                let message =
                    format!("none of the first samples has the field {name}, and only its values tell its type");
                Error::config(message).with_code(Code::NoSuchField).in_field(&self.field.name)
            };
            return Err(failed.unwrap_or_else(none));
        };
        let encoded = Encoded { name: name.clone(), codec, field: field.clone() };
        Ok((field, Some(encoded)))
    }

    fn array(&self, kind: &FieldKind, field: &Field, encoded: Option<Encoded>) -> Result<FieldDecoder> {
        let name = &self.field.name;
        let held = FieldType::of(field)?;
        let width = |element: &DataType| width_of(element, name);
        let dense = |element: &DataType, shape: &[usize], encoded| -> Result<FieldDecoder> {
            let Elements { data_type: element, parts } = Elements::of(field, element);
            let shape = if let Some(parts) = parts { [shape, &[parts]].concat() } else { shape.to_vec() };
            Ok(FieldDecoder::Dense { width: width(&element)?, element, shape, encoded })
        };
        let ragged = |element: &DataType, rank, encoded, fixed| -> Result<FieldDecoder> {
            let Elements { data_type: element, parts } = Elements::of(field, element);
            Ok(FieldDecoder::Ragged { width: width(&element)?, element, parts, rank, encoded, fixed, inner: None })
        };
        match (kind, &held) {
            (FieldKind::Auto, FieldType::Tensor { element: DataType::Utf8View, .. }) if encoded.is_some() => {
                let any = with_any_shape(field)?;
                self.array(kind, &any, encoded.map(|encoded| Encoded { field: any.clone(), ..encoded }))
            }
            (FieldKind::Auto, _) if holds_texts(field)? => Ok(FieldDecoder::Texts { encoded }),
            (FieldKind::Auto, FieldType::Scalar(element)) if encoded.is_none() => match Elements::of(field, element) {
                Elements { parts: Some(_), .. } => dense(element, &[], None),
                Elements { data_type, .. } => {
                    Ok(FieldDecoder::Number { width: width(&data_type)?, data_type, text: Text::Plain })
                }
            },
            (FieldKind::Auto | FieldKind::Dense, FieldType::Scalar(element)) => dense(element, &[], encoded),
            (FieldKind::Auto | FieldKind::Dense, FieldType::Tensor { element, shape }) => {
                dense(element, shape, encoded)
            }
            (FieldKind::Auto | FieldKind::Ragged, FieldType::Ragged { element, rank }) => {
                ragged(element, *rank, encoded, None)
            }
            // Of lists in lists the lengths are fields of their own.
            (FieldKind::Auto, FieldType::List { element, .. }) => ragged(element, 1, encoded, None),
            (FieldKind::Ragged, FieldType::List { element, depth: 2 }) if encoded.is_none() => {
                let length = (self.known.inner)(self.column)?;
                let mut decoder = ragged(element, 2, None, None)?;
                if let FieldDecoder::Ragged { inner, .. } = &mut decoder {
                    *inner = length.and_then(|length| i32::try_from(length).ok());
                }
                Ok(decoder)
            }
            (FieldKind::Ragged, FieldType::List { element, depth }) => ragged(element, *depth, encoded, None),
            // The arrays of other samples may have other shapes.
            (FieldKind::Ragged, FieldType::Tensor { element, shape }) if encoded.is_some() => {
                let any = with_any_shape(field)?;
                ragged(element, shape.len(), encoded.map(|encoded| Encoded { field: any, ..encoded }), None)
            }
            (FieldKind::Ragged, FieldType::Tensor { element, shape }) => {
                let sizes = shape.iter().map(|size| i32::try_from(*size).unwrap_or(i32::MAX)).collect();
                ragged(element, shape.len(), None, Some(sizes))
            }
            // Lists that all have one length, or arrays of one shape: that of most of the first ones.
            (FieldKind::Dense, FieldType::List { element, depth: rank } | FieldType::Ragged { element, rank })
                if encoded.is_none() && *element != DataType::Utf8View =>
            {
                self.must(Elements::of(field, element).parts.is_none(), IN_LISTS)?;
                let none = || {
                    let message = format!("no sample tells the shape that the lists of the field {name} all have");
                    Error::config(message).hint("ask for it as `Ragged`")
                };
                let shape = (self.known.shape)(self.column, *rank)?.ok_or_else(none)?;
                dense(element, &shape, None)
            }
            (FieldKind::Bits, FieldType::Scalar(DataType::Boolean)) => Ok(FieldDecoder::Bits { count: 1, encoded }),
            (FieldKind::Bits, FieldType::Tensor { element: DataType::Boolean, shape }) => {
                Ok(FieldDecoder::Bits { count: shape.iter().product(), encoded })
            }
            _ => {
                let message = match kind {
                    FieldKind::Auto => format!("field {name} ({held}) is of a kind that batches can't hold"),
                    kind => {
                        format!("field {name} ({held}) can't be read as `{kind:?}`; without that it is read as it is")
                    }
                };
                Err(Error::unsupported(message))
            }
        }
    }
}
