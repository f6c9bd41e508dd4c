//! Decoding and encoding of one field's bytes: `.npy` and `.npz` to tensors, and tensors to `.npy`.

use crate::{Field, Input, Result, Rows};
use arrow_array::{ArrayRef, BinaryViewArray};
use std::ops::Range;

/// A value that lies in the bytes of its field: packed elements, little-endian and in C order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedValue {
    /// The bytes of its elements.
    pub range: Range<usize>,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
}

/// Decodes one field's bytes into typed columns, and encodes a typed column as bytes. Pure.
pub trait Codec: Send + Sync {
    /// The columns that the bytes of the field `name` decode to, sorted by name; reads headers only. `name` decides the
    /// columns' names: `npz` with arrays `x` and `y` gives `x` and `y`, `view.npz` gives `view.x` and `view.y`;
    /// `depth.npy` gives `depth`.
    fn probe(&self, name: &str, input: &dyn Input) -> Result<Vec<Field>>;

    /// As [`probe`](Self::probe), but columns that `drops` names and that can't be decoded are nullable blobs, which the caller
    /// leaves out, instead of an error.
    fn probe_without(&self, name: &str, input: &dyn Input, drops: &dyn Fn(&str) -> bool) -> Result<Vec<Field>> {
        let _ = drops;
        self.probe(name, input)
    }

    /// Whether a field of this name is an archive of several values (`npz`), which no other name could hold.
    fn is_archive(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Decodes the blob column `name` of `rows` into one array for each of `fields`. A value that does not fit its
    /// column is a `Content` error that names the sample and shows both types. Arrays in the bytes that are not in
    /// `fields` are ignored. A missing array is null where the field is nullable, and an error elsewhere.
    fn decode(&self, name: &str, rows: &Rows, fields: &[Field]) -> Result<Vec<ArrayRef>>;

    /// Where the value of `field` lies in `bytes`, of the field `name`, if it lies there as batches hold it; then it need
    /// not be decoded. `None` where it does not, and where [`decode`](Self::decode) would fail, which says why.
    fn packed(&self, name: &str, bytes: &[u8], field: &Field) -> Option<PackedValue> {
        let _ = (name, bytes, field);
        None
    }

    /// How many bytes of padding (under 64) to leave before a field that is read alone into aligned memory, so that its
    /// values are aligned and decoding needs no copy. A guess from the last field decoded: results never depend on it.
    fn alignment_padding(&self) -> usize {
        0
    }

    /// The name of the field that holds `field` encoded (`depth` → `depth.npy`). `Unsupported`, naming field and type,
    /// where the type can't be encoded.
    fn encoded(&self, field: &Field) -> Result<String>;

    /// The same for a column that no file held before: another name where readers take files of that one for values of
    /// another type.
    fn encoded_column(&self, field: &Field) -> Result<String> {
        self.encoded(field)
    }

    /// Encodes a column, one value for each sample; null stays null.
    fn encode(&self, field: &Field, column: &ArrayRef) -> Result<BinaryViewArray>;
}
