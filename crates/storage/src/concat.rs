//! Writes a file from ranges of other files, in parallel.

use crate::hash_tree::root;
use blake3::hazmat::HasherExt;
use blake3::{Hash, Hasher};
use packhorse_core::{Context, InputRange, Result};
use rayon::prelude::*;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes copied at once. A power of two, so that the hashes of the pieces combine to the file's.
const PIECE: u64 = 4 << 20;

/// Writes `parts` in order to the new file `path`; returns its hash and length.
pub(crate) fn concat(path: &Path, parts: &[InputRange<'_>]) -> Result<(Hash, u64)> {
    let named = |e: packhorse_core::Error| e.in_input(path.display());
    let len: u64 = parts.iter().map(|part| part.len).sum();
    let file = File::options().write(true).create_new(true).open(path).context("create").map_err(named)?;
    file.set_len(len).context("write").map_err(named)?;
    let mut starts = Vec::with_capacity(parts.len());
    parts.iter().fold(0, |at, part| {
        starts.push(at);
        at + part.len
    });
    let pieces: Vec<u64> = (0..len).step_by(PIECE as usize).collect();
    let values = pieces.into_par_iter().map_init(Vec::new, |buf, at| {
        buf.resize(usize::try_from(PIECE.min(len - at)).unwrap_or_default(), 0);
        read(parts, &starts, at, buf)?;
        file.write_all_at(buf, at).context("write").map_err(named)?;
        let mut hasher = Hasher::new();
        hasher.set_input_offset(at).update(buf);
        // The hash of a single piece is a root hash and can't be combined.
        Ok(if len > PIECE { (hasher.finalize_non_root(), None) } else { ([0; 32], Some(hasher.finalize())) })
    });
    let values: Vec<_> = values.collect::<Result<_>>()?;
    let hash = match &values[..] {
        [] => blake3::hash(b""),
        [(_, Some(hash))] => *hash,
        _ => root(&values.into_iter().map(|(value, _)| value).collect::<Vec<_>>()),
    };
    Ok((hash, len))
}

/// Fills `buf` with the content of `parts`, which start at `starts`, from offset `at` on.
fn read(parts: &[InputRange<'_>], starts: &[u64], at: u64, buf: &mut [u8]) -> Result<()> {
    let end = at + buf.len() as u64;
    let first = starts.partition_point(|start| *start <= at).saturating_sub(1);
    for (part, start) in parts.iter().zip(starts).skip(first).take_while(|(_, start)| **start < end) {
        let Range { start: from, end: to } = at.max(*start)..end.min(start + part.len);
        let place = usize::try_from(from - at).ok().zip(usize::try_from(to.saturating_sub(at)).ok());
        if let Some(piece) = place.and_then(|(from, to)| buf.get_mut(from..to)) {
            part.input.read_at(part.offset + (from - start), piece)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Input, MemoryInput};

    #[test]
    fn parts_follow_each_other() {
        let bytes: Vec<u8> = (0..PIECE * 2 + 77).map(|i| (i % 251) as u8).collect();
        let (a, b) = (MemoryInput::new("a", bytes.clone()), MemoryInput::new("b", vec![7; 10]));
        let part = |input, offset, len| InputRange { input, offset, len };
        let parts: [InputRange<'_>; 4] =
            [part(&b as &dyn Input, 2, 3), part(&a, 5, PIECE + 9), part(&b, 0, 0), part(&a, 0, 1)];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let hash = concat(&path, &parts).unwrap();
        let wanted = [&[7, 7, 7], &bytes[5..5 + PIECE as usize + 9], &bytes[..1]].concat();
        assert!(std::fs::read(&path).unwrap() == wanted);
        assert_eq!(hash, (blake3::hash(&wanted), wanted.len() as u64));
        assert!(concat(&path, &parts).is_err());
        let short = dir.path().join("y");
        assert!(concat(&short, &[part(&b, 5, 6)]).is_err());
    }

    #[test]
    fn the_hash_is_that_of_the_whole_file() {
        let bytes: Vec<u8> = (0..PIECE * 3 + 5).map(|i| (i * i / 7 % 251) as u8).collect();
        let input = MemoryInput::new("a", bytes.clone());
        let dir = tempfile::tempdir().unwrap();
        for (i, len) in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 5].into_iter().enumerate() {
            // Parts need not end at piece boundaries.
            let cuts = [0, len / 3, len / 3, len - len / 5, len];
            let parts: Vec<InputRange<'_>> =
                cuts.windows(2).map(|cut| InputRange { input: &input, offset: cut[0], len: cut[1] - cut[0] }).collect();
            let found = concat(&dir.path().join(i.to_string()), &parts).unwrap();
            assert_eq!(found, (blake3::hash(&bytes[..len as usize]), len));
        }
    }
}
