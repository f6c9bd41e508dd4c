//! The image transform. Owns the decision what happens to each image; codecs and filters have their own modules.

use super::decode::{header, raster};
use super::format::ImageFormat;
use super::orientation::Orientation;
use super::raster::Raster;
use super::to_jpeg::to_jpeg;
use super::{Check, ImageOptions, Keep, column, jpeg, other, png, scale};
use crate::fields::{rows_of_one_name, schema_of_one_name};
use crate::{Counts, Transform};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, ListArray};
use arrow_buffer::OffsetBuffer;
use packhorse_core::{
    Code, ENCODING, Error, Field, FieldType, HUGGINGFACE, KEY, Kind, Limits, Result, Rows, SchemaRef, key_column,
    with_metadata,
};
use std::fmt::Write as _;
use std::sync::Arc;

/// Incremented whenever the output bytes change.
const REVISION: u32 = 4;

// Names of counts.
const UNCHANGED: &str = "pictures unchanged";
const WRITTEN: &str = "pictures rewritten";
const BAD: &str = "pictures found bad";
const FIRST_FRAMES: &str = "pictures cut to their first frame";
const OPAQUE: &str = "pictures that lost transparency";

/// Checks, orients and resizes images; the [module](super) documents the rules.
#[derive(Clone, Debug)]
pub struct Image {
    options: ImageOptions,
    limits: Limits,
}

impl Image {
    /// A `Config` error for invalid `options`. Images over `limits.pixels` are not decoded.
    pub fn new(options: ImageOptions, limits: Limits) -> Result<Self> {
        options.validate(&limits)?;
        Ok(Self { options, limits })
    }

    /// The rewritten image, or `None` if it is unchanged.
    fn transform(&self, name: &str, bytes: &[u8], counts: &mut Counts) -> Result<Option<Vec<u8>>> {
        ImageFormat::require_developed(name)?;
        let kind = ImageFormat::of(bytes)?;
        let (width, height, orientation) = header(kind, bytes, &self.limits)?;
        if kind == ImageFormat::Jpeg {
            jpeg::require_usual(bytes)?;
        }
        let (shown_width, shown_height) = orientation.swap((width, height));
        let size = self.options.resize.and_then(|resize| resize.target(shown_width, shown_height));
        let becomes_jpeg = kind != ImageFormat::Jpeg && self.is_converted(name);
        let stays = size.is_none() && (orientation.is_upright() || !self.options.orient) && !becomes_jpeg;
        if let Some(check) = self.options.check {
            checked(kind, bytes, check, stays, &self.limits)?;
        }
        if stays {
            count(counts, UNCHANGED);
            return Ok(None);
        }
        let nearest = self.options.nearest.iter().any(|field| field == name);
        let edit = Edit { size: size.map(|size| orientation.swap(size)), orientation, nearest };
        let (quality, keep) = (self.options.quality, self.options.keep);
        let new = match kind {
            _ if becomes_jpeg => {
                let made = to_jpeg(kind, bytes, &self.limits, (quality, keep), |raster| edit.apply(raster, false))?;
                let losses = [(made.had_more, FIRST_FRAMES), (made.was_transparent, OPAQUE)];
                losses.iter().filter(|(lost, _)| *lost).for_each(|(_, what)| count(counts, what));
                made.bytes
            }
            ImageFormat::Jpeg => {
                if jpeg::has_more(bytes) {
                    count(counts, FIRST_FRAMES);
                }
                jpeg::rewrite(bytes, quality, keep, |raster| edit.apply(raster, false))?
            }
            ImageFormat::Png => {
                let numbers = edit.nearest || edit.size.is_none();
                png::rewrite(bytes, keep, numbers, |raster, exact| edit.apply(raster, exact))?
            }
            _ => {
                if other::has_more(kind, bytes)? {
                    count(counts, FIRST_FRAMES);
                }
                let numbers = edit.nearest;
                other::rewrite(kind, bytes, &self.limits, (keep, numbers), |raster, exact| edit.apply(raster, exact))?
            }
        };
        count(counts, WRITTEN);
        Ok(Some(new))
    }

    fn is_converted(&self, field: &str) -> bool {
        self.options.jpeg.iter().any(|name| name == field)
    }

    /// The field of what a field's pictures become.
    fn field(&self, field: &Field) -> Field {
        if !self.is_converted(field.name()) {
            return field.clone();
        }
        let name = ImageFormat::name_of_jpegs(field.name());
        match field.metadata().contains_key(ENCODING) {
            true => with_metadata(field.clone(), ENCODING, "image/jpeg").with_name(name),
            false => field.clone().with_name(name),
        }
    }

    /// The pictures of a column, also in lists. `place` is the key of the sample of a value, and which of a list it is.
    fn column<'k>(
        &self,
        name: &str,
        column: &ArrayRef,
        place: &dyn Fn(usize) -> (&'k str, Option<usize>),
        counts: &mut Counts,
    ) -> Result<ArrayRef> {
        if let Some(blobs) = column.as_binary_view_opt() {
            return self.blobs(name, blobs, place, counts);
        }
        let Some(lists) = column.as_list_opt::<i32>() else {
            return match column.null_count() == column.len() {
                true => Ok(Arc::clone(column)),
                false => Err(too_long(name, (column.len() == 1).then(|| place(0).0))),
            };
        };
        let (item, offsets, values, nulls) = lists.clone().into_parts();
        let first = offsets.first();
        let offsets: Vec<i32> = offsets.iter().map(|end| end - first).collect();
        let end = offsets.last().map_or(0, |end| end.unsigned_abs() as usize);
        let values = values.slice(first.unsigned_abs() as usize, end);
        let in_list = |at: usize| {
            let row = offsets.partition_point(|end| end.unsigned_abs() as usize <= at).saturating_sub(1);
            let start = offsets.get(row).map_or(0, |start| start.unsigned_abs() as usize);
            (place(row).0, Some(at - start))
        };
        let values = self.column(name, &values, &in_list, counts)?;
        let lists = ListArray::try_new(item, OffsetBuffer::new(offsets.into()), values, nulls);
        Ok(Arc::new(lists.map_err(|error| Error::bug(error.to_string()))?))
    }

    fn blobs<'k>(
        &self,
        name: &str,
        blobs: &BinaryViewArray,
        place: &dyn Fn(usize) -> (&'k str, Option<usize>),
        counts: &mut Counts,
    ) -> Result<ArrayRef> {
        let mut changed = Vec::new();
        for (row, blob) in blobs.iter().enumerate() {
            let Some(bytes) = blob else { continue };
            let named = |error: Error| {
                let (key, at) = place(row);
                let subject = at.map_or(name.to_owned(), |at| format!("picture {at} of {name}"));
                error.subject(subject).in_field(name).in_sample(key)
            };
            let new = self.transform(name, bytes, counts).map_err(named)?;
            changed.extend(new.map(|new| (row, new)));
        }
        Ok(Arc::new(column::replace(blobs, changed)?))
    }
}

/// Checks an image; `decode` is false if a rewrite decodes it anyway.
fn checked(kind: ImageFormat, bytes: &[u8], check: Check, decode: bool, limits: &Limits) -> Result<()> {
    if decode {
        raster(kind, bytes, limits)?;
    }
    match kind {
        ImageFormat::Jpeg if check == Check::Strict => jpeg::verify(bytes),
        ImageFormat::WebP | ImageFormat::Gif if check == Check::Strict => other::check_frames(kind, bytes, limits),
        _ => Ok(()),
    }
}

fn count(counts: &mut Counts, what: &str) {
    match counts.get_mut(what) {
        Some(count) => *count += 1,
        None => drop(counts.insert(what.to_owned(), 1)),
    }
}

/// Whether a column holds images, also several a sample, in lists.
fn is_picture(field: &Field) -> bool {
    let bytes = FieldType::of(field).is_ok_and(|kind| kind.holds_blobs());
    let is_told = || field.metadata().get(HUGGINGFACE).is_some_and(|feature| feature.contains("\"Image\""));
    bytes && (ImageFormat::is_claimed(field.name()) || is_told())
}

/// The edits to one image: resize as stored, then orient.
struct Edit {
    size: Option<(u32, u32)>,
    orientation: Orientation,
    nearest: bool,
}

impl Edit {
    fn apply(&self, stored: Raster, exact: bool) -> Result<Raster> {
        let scaled = match self.size {
            None => stored,
            Some((width, height)) if exact || self.nearest => scale::nearest(&stored, width, height)?,
            Some((width, height)) => scale::smooth(stored, width, height)?,
        };
        Ok(self.orientation.apply(scaled))
    }
}

impl Transform for Image {
    fn describe(&self) -> String {
        let mut text = format!("image/{REVISION}");
        match self.options.check {
            Some(Check::Strict) => text.push_str(" check"),
            Some(Check::Lenient) => text.push_str(" check=lenient"),
            None => {}
        }
        if let Some(resize) = self.options.resize {
            // Writing to a String can't fail.
            let _ = write!(text, " resize={resize}");
        }
        if self.options.may_rewrite() {
            let _ = write!(text, " quality={}", self.options.quality);
        }
        if self.options.orient {
            text.push_str(" orient");
        }
        if self.options.may_rewrite() && self.options.keep != Keep::default() {
            let _ = write!(text, " keep={}", self.options.keep);
        }
        if !self.options.nearest.is_empty() {
            let _ = write!(text, " nearest={}", self.options.nearest.join(","));
        }
        if !self.options.jpeg.is_empty() {
            let _ = write!(text, " jpeg={}", self.options.jpeg.join(","));
        }
        if !self.options.leave.is_empty() {
            let _ = write!(text, " leave={}", self.options.leave.join(","));
        }
        text
    }

    /// Fields whose pictures become JPEGs may have another name. Rows without an image field are a `Config` error.
    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        let pictures = || input.fields().iter().filter(|field| is_picture(field)).map(|field| field.name().as_str());
        if pictures().next().is_none() {
            return Err(without_pictures(input));
        }
        // New samples of a dataset may be JPEGs already.
        let is_jpeg =
            |name: &str| self.is_converted(name) && pictures().any(|field| field == ImageFormat::name_of_jpegs(name));
        let unknown = |name: &&String| !pictures().any(|field| field == name.as_str()) && !is_jpeg(name);
        let named = |(option, names): (&'static str, &'_ [String])| Some((option, names.iter().find(unknown)?.clone()));
        let unknown =
            [("nearest", &self.options.nearest[..]), ("jpeg", &self.options.jpeg), ("leave", &self.options.leave)]
                .into_iter()
                .find_map(named);
        if let Some((option, name)) = unknown {
            let fields = pictures().collect::<Vec<_>>().join(", ");
            let message = format!("`image={option}={name}`: no sample has a picture in the field {name}");
            return Err(Error::config(message).with_code(Code::NoSuchField).hint(format!("pictures are in: {fields}")));
        }
        match self.options.jpeg.is_empty() {
            true => Ok(Arc::clone(input)),
            false => schema_of_one_name(input.fields().iter().map(|field| self.field(field)).collect()),
        }
    }

    fn remark(&self, input: &SchemaRef) -> Option<String> {
        let name = self.options.jpeg.iter().find(|name| input.column_with_name(name).is_none())?;
        Some(format!("`image=jpeg={name}`: no sample has a picture in the field {name}"))
    }

    fn name_of(&self, field: &str) -> Option<String> {
        Some(match self.is_converted(field) {
            true => ImageFormat::name_of_jpegs(field),
            false => field.to_owned(),
        })
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        self.apply_counted(rows, &mut Counts::new())
    }

    fn count_of_bad(&self) -> Option<&'static str> {
        Some(BAD)
    }

    fn apply_counted(&self, rows: Rows, counts: &mut Counts) -> Result<Rows> {
        let schema = rows.schema();
        let mut columns = rows.columns().to_vec();
        let taken = |field: &Field| is_picture(field) && !self.options.leave.contains(field.name());
        let keys = key_column(&rows)?;
        for (field, column) in schema.fields().iter().zip(&mut columns).filter(|(field, _)| taken(field)) {
            *column = self.column(field.name(), column, &|row| (keys.value(row), None), counts)?;
        }
        if schema.fields().iter().any(|field| self.is_converted(field.name())) {
            let fields = schema.fields().iter().zip(&columns);
            // A column with a blob over 2 GiB is LargeBinary, whatever the schema says.
            let named = fields.map(|(field, column)| {
                (self.field(field).with_data_type(column.data_type().clone()), Arc::clone(column))
            });
            return rows_of_one_name(&rows, named.collect()).map_err(|error| error.hint(TWO_JPEGS));
        }
        Rows::try_new(schema, columns).map_err(|error| Error::bug(format!("rows that don't fit together: {error}")))
    }

    /// 1 unless images are resized or become JPEGs. Headers are not read ahead, so a resize counts the pixels of a typical
    /// photograph, 500 × 375; at most 1. As a JPEG a photograph has about a fifth of its bytes in a PNG.
    fn factor(&self) -> f64 {
        let share = self.options.resize.map_or(1.0, |resize| resize.typical_share().min(1.0));
        if self.options.jpeg.is_empty() { share } else { share / 5.0 }
    }
}

/// What to do about a sample with two pictures that would have one name.
const TWO_JPEGS: &str = "leave one of them out of `image=jpeg`, or pack with `field=png=second.png` first";

fn without_pictures(input: &SchemaRef) -> Error {
    let names: Vec<&str> = input.fields().iter().map(|field| &**field.name()).filter(|name| *name != KEY).collect();
    let names = names.get(..names.len().min(9)).unwrap_or_default().join(", ");
    Error::config(format!(
        "no field has an image extension (jpg, png, left.webp), so there is nothing to check or resize; fields are: {names}"
    ))
    .hint("pack with `field=NAME=jpg` first (arrays of bytes also with `cast=NAME=bytes`), and then again with `image`")
}

fn too_long(field: &str, key: Option<&str>) -> Error {
    let text = format!("{field} is over 2 GiB, more than an image may have; leave it out");
    key.into_iter().fold(Error::new(Kind::Limit, text).in_field(field), Error::in_sample)
}

#[cfg(test)]
mod tests;
