//! Replaces some blobs of a column. Owns the Arrow views; looks into no blob.

use arrow_array::BinaryViewArray;
use arrow_array::builder::make_view;
use arrow_buffer::{Buffer, ScalarBuffer};
use packhorse_core::{Error, Kind, Result};

/// Replaces the rows in `changed`. The other rows are not copied: their views still point into the original buffers.
pub(super) fn replace(blobs: &BinaryViewArray, changed: Vec<(usize, Vec<u8>)>) -> Result<BinaryViewArray> {
    let (views, buffers, nulls) = blobs.clone().into_parts();
    let mut views = views.to_vec();
    let mut buffers = buffers.to_vec();
    for (row, bytes) in changed {
        let number = u32::try_from(buffers.len()).map_err(|_| too_large())?;
        // A view's length is an i32.
        i32::try_from(bytes.len()).map_err(|_| too_large())?;
        if let Some(view) = views.get_mut(row) {
            *view = make_view(&bytes, number, 0);
            buffers.push(Buffer::from_vec(bytes));
        }
    }
    BinaryViewArray::try_new(ScalarBuffer::from(views), buffers, nulls)
        .map_err(|error| Error::bug(format!("views that don't fit their buffers: {error}")))
}

fn too_large() -> Error {
    Error::new(Kind::Limit, "the pictures of one block are over 2 GiB; give smaller blocks")
}
