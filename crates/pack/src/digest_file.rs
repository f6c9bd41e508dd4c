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
    let mut buf = packhorse_core::aligned(usize::try_from(len).map_or(1 << 20, |len| len.min(1 << 20)));
    let mut at = 0;
    while at < len {
        let n = usize::try_from(len - at).map_or(buf.len(), |left| left.min(buf.len()));
        let part = buf.get_mut(..n).unwrap_or_default();
        input.read_at(at, part)?;
        hasher.update(part);
        at += n as u64;
        each(n as u64)?;
    }
    Ok((Digest::from(hasher.finalize()), len))
}
