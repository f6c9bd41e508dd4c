//! The transform itself. Owns what is done to which picture; codecs and filters have their own modules.

use super::decode::{header, raster};
use super::kind::Kind;
use super::orientation::Orientation;
use super::raster::Raster;
use super::{ImageOptions, column, jpeg, png, scale};
use crate::Transform;
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryViewArray};
use packhorse_core::{DataType, Error, Limits, Result, Rows, SchemaRef, key_column};
use std::fmt::Write as _;
use std::sync::Arc;

/// Raised whenever bytes that come out change.
const REVISION: u32 = 1;

/// Checks, turns upright and resizes pictures; see the [module](super) for the rules.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    options: ImageOptions,
    limits: Limits,
}

impl Image {
    /// A `Config` error if `options` make no sense. No picture over `limits.pixels` is decoded.
    pub fn new(options: ImageOptions, limits: Limits) -> Result<Self> {
        options.validate(&limits)?;
        Ok(Self { options, limits })
    }

    /// The bytes of one picture written anew, or `None` if it stays as it is.
    fn transform(&self, kind: Kind, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        kind.expect(bytes)?;
        let (width, height, orientation) = header(kind, bytes, &self.limits)?;
        let (shown_width, shown_height) = orientation.swap((width, height));
        let size = self.options.resize.and_then(|resize| resize.target(shown_width, shown_height));
        if size.is_none() && (orientation.is_upright() || !self.options.orient) {
            return if self.options.check { raster(kind, bytes).map(|_| None) } else { Ok(None) };
        }
        let edit = Edit { size: size.map(|size| orientation.swap(size)), orientation };
        let new = match kind {
            Kind::Jpeg => jpeg::rewrite(bytes, self.options.quality, |raster| edit.apply(raster, false))?,
            Kind::Png => png::rewrite(bytes, |raster, exact| edit.apply(raster, exact))?,
        };
        Ok(Some(new))
    }

    fn column(&self, kind: Kind, name: &str, blobs: &BinaryViewArray, rows: &Rows) -> Result<ArrayRef> {
        let keys = key_column(rows)?;
        let mut changed = Vec::new();
        for (row, blob) in blobs.iter().enumerate() {
            let Some(bytes) = blob else { continue };
            let new = self.transform(kind, bytes).map_err(|error| concerns(&error, name).in_sample(keys.value(row)))?;
            changed.extend(new.map(|new| (row, new)));
        }
        Ok(Arc::new(column::replace(blobs, changed)?))
    }
}

/// The same error with the field in front.
fn concerns(error: &Error, field: &str) -> Error {
    Error::new(error.kind(), format!("{field} {}", error.message()))
}

/// What is done to the pixels of one picture: first the size, as stored, then the orientation.
struct Edit {
    size: Option<(u32, u32)>,
    orientation: Orientation,
}

impl Edit {
    fn apply(&self, stored: Raster, exact: bool) -> Result<Raster> {
        let scaled = match self.size {
            None => stored,
            Some((width, height)) if exact => scale::nearest(&stored, width, height)?,
            Some((width, height)) => scale::smooth(stored, width, height)?,
        };
        Ok(self.orientation.apply(scaled))
    }
}

impl Transform for Image {
    fn describe(&self) -> String {
        let mut text = format!("image/{REVISION}");
        if self.options.check {
            text.push_str(" check");
        }
        if let Some(resize) = self.options.resize {
            // Writing to a String can't fail.
            let _ = write!(text, " resize={resize}");
        }
        if self.options.may_encode() {
            let _ = write!(text, " quality={}", self.options.quality);
        }
        if self.options.orient {
            text.push_str(" orient");
        }
        text
    }

    /// Pictures stay blobs: the schema is the same.
    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef> {
        Ok(Arc::clone(input))
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let schema = rows.schema();
        let mut columns = rows.columns().to_vec();
        for (field, column) in schema.fields().iter().zip(&mut columns) {
            let Some(kind) = Kind::of_field(field.name()) else { continue };
            if *field.data_type() == DataType::BinaryView {
                *column = self.column(kind, field.name(), column.as_binary_view(), &rows)?;
            }
        }
        Rows::try_new(schema, columns).map_err(|error| Error::bug(format!("rows that don't fit together: {error}")))
    }

    /// 1 where sizes stay. Headers are not read ahead of time, so for a resize the factor is that of
    /// the pixels of a typical photograph, 500 × 375; it is at most 1.
    fn factor(&self) -> f64 {
        self.options.resize.map_or(1.0, |resize| resize.typical_share().min(1.0))
    }
}

#[cfg(test)]
mod tests;
