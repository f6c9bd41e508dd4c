//! Converts fields of samples to fields of batches.

mod asked;
mod collate;
mod elements;
mod field_decoder;
mod lists;
mod normalize;
mod place;
mod resolve;

pub(crate) use asked::{AskedFields, chosen, columns};
pub(crate) use collate::{Collate, CollateScratch};
pub(crate) use field_decoder::{FieldDecoder, json_at, raw};
pub(crate) use lists::shape_of;
pub use normalize::{Axes, Normalize};
pub(crate) use resolve::{FieldContext, all, is_number_in_text, resolve};

use crate::Column;
use packhorse_core::DataType;
use packhorse_transform::image::View;
use std::sync::Arc;

/// A field of batches, and the fields of samples that it is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldOptions {
    /// Its name in batches.
    pub name: String,
    /// The field of samples that it is made from; of several, the first one that a sample has.
    pub from: Column,
    /// Its form in batches.
    pub kind: FieldKind,
    /// Whether a sample that lacks it is an error; else its row is zeros or empty.
    pub required: bool,
}

impl FieldOptions {
    /// A required field under its own name.
    pub fn new(name: impl Into<String>, kind: FieldKind) -> Self {
        let name = name.into();
        Self { from: Column::from(name.as_str()), name, kind, required: true }
    }

    /// The same made from these fields (`jpg;jpeg;png`).
    pub fn from(self, names: &str) -> Self {
        Self { from: Column::from(names), ..self }
    }
}

/// The form of a field in batches. `batch` is the number of rows of a slab.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// By its type: numbers unchanged, arrays of one shape dense, others ragged, `cls` as a number, `npy` as an array,
    /// all other blobs and text as bytes, texts in a list as the JSON of that list. Of lists in lists the values are ragged, and so are the
    /// lengths of the innermost lists, `NAME.lengths` (`Int64`); of lists in these the lengths are `NAME.lengths.lengths`. Several blobs a
    /// sample are their bytes, and the lengths of each.
    Auto,
    /// Bytes as they are, undecoded: ragged `UInt8`. Texts in a list are the JSON of that list.
    Bytes,
    /// A JPEG or PNG as pixels: `UInt8 [batch, height, width, 3]`; ragged with `NAME.shape` (`Int32 [batch, 3]`) if each keeps
    /// its own size. Of several pictures a sample, in a list: ragged `[pictures, height, width, 3]`, all cropped and flipped alike.
    Picture(View),
    /// The same as normalised pixels: `Float32 [batch, 3, height, width]`, or `[batch, height, width, 3]` ([`Axes`]). For
    /// views of one size only. Of several pictures a sample: ragged.
    Normalized(View, Normalize),
    /// A mask, an image whose pixels are numbers: `UInt8 [batch, height, width]`, or `UInt16`; ragged with `NAME.shape`
    /// (`Int32 [batch, 2]`) if each keeps its own size. It is cropped and flipped as the [`Picture`](Self::Picture) of its size
    /// with the same view, or else the first one of its proportions; its numbers are not mixed
    /// ([`MaskDecoder`](packhorse_transform::image::MaskDecoder)).
    Mask(View, DataType),
    /// A number (as text in blobs): `[batch]` of this type.
    Number(DataType),
    /// A number in a JSON blob, under this path (`size.width`, `boxes.0.label`): `[batch]` of this type. Names may have dots of their own:
    /// `a.b` is the member `a.b` if there is one, else `b` of the member `a`.
    Json(String, DataType),
    /// The position in this list of the name that a text is, or in a JSON blob the text, number or Boolean under the path: `Int64
    /// [batch]`. A name that is not in the list is an error of the sample.
    Class(Arc<[String]>, Option<String>),
    /// Arrays of one shape, that of the schema or of the first sample: dense `[batch, …]`.
    Dense,
    /// Arrays of any lengths: ragged, with `NAME.shape` where they have several dimensions.
    Ragged,
    /// The key of all random numbers of a sample in its epoch, `UInt64 [batch]`: for random crops and flips, here or on
    /// a GPU (`packhorse_order::draw` of seed, epoch, number, lane 0). Reads no field.
    Draws,
    /// Whether a sample has the field, or a value under this path in a JSON blob, `UInt8 [batch]`: 1 where it does, 0 where it lacks it
    /// or the value is null.
    Present(Option<String>),
    /// Booleans of one shape, eight per byte, the first in the lowest bit: `UInt8 [batch, ⌈n / 8⌉]`.
    Bits,
}

impl FieldKind {
    /// Whether a sample has another value in each epoch: pictures that are cut or mirrored at random, and the keys of random
    /// numbers.
    pub fn is_random(&self) -> bool {
        match self {
            Self::Picture(view) | Self::Normalized(view, _) | Self::Mask(view, _) => view.is_random(),
            other => *other == Self::Draws,
        }
    }
}
