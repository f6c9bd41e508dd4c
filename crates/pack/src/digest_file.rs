//! The digest of a file.

use packhorse_core::{Result, Store};
use packhorse_dataset::Digest;
use std::path::Path;

/// Digest and length of the file `path`; `each` gets the length of each read.
pub(crate) fn digest_file(
    store: &dyn Store,
    path: &Path,
    each: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<(Digest, u64)> {
    let input = store.open(path)?;
    let len = input.len().unwrap_or(0);
    let mut hasher = blake3::Hasher::new();
    input.each_piece(0..len, &mut |piece| {
        hasher.update(piece);
        each(piece.len() as u64)
    })?;
    Ok((Digest::from(hasher.finalize()), len))
}
