//! What becomes of the fields of samples in a batch.

mod collate;
mod field_decoder;
mod resolve;

pub use collate::OnError;
pub(crate) use collate::{Collate, Scratch};
pub(crate) use field_decoder::raw;
pub(crate) use resolve::{Known, all, resolve};

use crate::Column;
use packhorse_core::DataType;
use packhorse_transform::image::View;

/// A field of batches and what it is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldOptions {
    /// Its name in batches.
    pub name: String,
    /// The field of samples that it is made from, or several: the first one that a sample has.
    pub from: Column,
    /// What it becomes in batches.
    pub kind: FieldKind,
    /// Whether a sample that lacks it is an error; else its row is zeros, or no bytes.
    pub required: bool,
}

impl FieldOptions {
    /// A field under its own name, which each sample must have.
    pub fn new(name: impl Into<String>, kind: FieldKind) -> Self {
        let name = name.into();
        Self { from: Column::from(name.as_str()), name, kind, required: true }
    }

    /// The same made from these fields (`jpg;jpeg;png`).
    pub fn from(self, names: &str) -> Self {
        Self { from: Column::from(names), ..self }
    }
}

/// What a field becomes in batches. `batch` is the number of rows of a slab.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// What its type suggests: numbers as they are, arrays of one shape dense, others ragged, `cls` a number, `npy` an
    /// array, all other blobs and text bytes.
    Auto,
    /// Bytes as they are, undecoded: ragged `UInt8`.
    Bytes,
    /// A JPEG or PNG as pixels: `UInt8 [batch, height, width, 3]`; ragged with `NAME.shape` (`Int32 [batch, 3]`) if each keeps
    /// its own size.
    Picture(View),
    /// A number, written as text in blobs: `[batch]` of this type.
    Number(DataType),
    /// A number in a JSON blob, under this path (`size.width`, `boxes.0.label`): `[batch]` of this type.
    Json(String, DataType),
    /// Arrays of one shape, that of the schema or of the first sample: dense `[batch, …]`.
    Dense,
    /// Arrays of any lengths: ragged, with `NAME.shape` where they have several dimensions.
    Ragged,
    /// Nothing of the samples': the key of all that is drawn at random for a sample in its epoch, `UInt64 [batch]`, from which
    /// pictures are cropped and mirrored here, and may be on a GPU (`packhorse_order::draw` of seed, epoch, number, lane 0).
    Draws,
    /// Booleans of one shape, eight a byte, the first in the lowest bit: `UInt8 [batch, ⌈n / 8⌉]`.
    Bits,
}
