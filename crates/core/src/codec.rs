//! What is inside the bytes of one field: how `.npy` and `.npz` become tensors, and tensors `.npy`.

use crate::{Field, Input, Result, Rows};
use arrow_array::{ArrayRef, BinaryViewArray};

/// Decodes one field's bytes into typed columns, and encodes a typed column as bytes. Pure.
pub trait Codec: Send + Sync {
    /// The columns that the bytes of the field `name` become, from their headers alone, in the order
    /// of their names. `name` decides what they are called: `npz` with arrays `x` and `y` gives `x`
    /// and `y`, `view.npz` gives `view.x` and `view.y`; `depth.npy` gives `depth`.
    fn probe(&self, name: &str, input: &dyn Input) -> Result<Vec<Field>>;

    /// Decodes the blob column `name` of `rows` into the columns `fields`, an array each. A value that
    /// does not fit its column is a `Content` error that names the sample and shows both types. What
    /// the bytes hold beyond `fields` is left out; what they lack is null where the field may be, and
    /// else an error.
    fn decode(&self, name: &str, rows: &Rows, fields: &[Field]) -> Result<Vec<ArrayRef>>;

    /// A field that is alone in a block is best read behind so many bytes, under 64, of memory that is
    /// aligned for any element, if it is like the last one that was decoded: then its values are aligned
    /// and need no copy. A hint that what comes out never depends on.
    fn lead(&self) -> usize {
        0
    }

    /// The name of the field that holds `field` encoded (`depth` → `depth.npy`), and whether it can
    /// be: `Unsupported`, naming field and type, if not.
    fn encoded(&self, field: &Field) -> Result<String>;

    /// Encodes a column, a value a sample; null stays null.
    fn encode(&self, field: &Field, column: &ArrayRef) -> Result<BinaryViewArray>;
}
