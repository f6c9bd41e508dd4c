//! A file made of ranges of others, copied by several threads at once.

use packhorse_core::{Context, Part, Result};
use rayon::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// So much is copied at once.
const PIECE: u64 = 4 << 20;

/// Writes `parts`, one after the other, to the new file `path`.
pub(crate) fn concat(path: &Path, parts: &[Part<'_>]) -> Result<()> {
    let named = |e: packhorse_core::Error| e.in_input(path.display());
    let file = File::options().write(true).create_new(true).open(path).doing("create").map_err(named)?;
    file.set_len(parts.iter().map(|part| part.len).sum()).doing("write").map_err(named)?;
    let mut pieces = Vec::new();
    let mut to = 0;
    for part in parts {
        let offsets = (0..part.len).step_by(PIECE as usize);
        pieces.extend(offsets.map(|at| (part, at, PIECE.min(part.len - at), to + at)));
        to += part.len;
    }
    pieces.into_par_iter().try_for_each_init(Vec::new, |buf, (part, at, len, to)| {
        buf.resize(usize::try_from(len).unwrap_or_default(), 0);
        part.input.read_at(part.offset + at, buf)?;
        file.write_all_at(buf, to).doing("write").map_err(named)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Input, MemoryInput};

    #[test]
    fn parts_follow_each_other() {
        let bytes: Vec<u8> = (0..PIECE * 2 + 77).map(|i| (i % 251) as u8).collect();
        let (a, b) = (MemoryInput::new("a", bytes.clone()), MemoryInput::new("b", vec![7; 10]));
        let part = |input, offset, len| Part { input, offset, len };
        let parts: [Part<'_>; 4] =
            [part(&b as &dyn Input, 2, 3), part(&a, 5, PIECE + 9), part(&b, 0, 0), part(&a, 0, 1)];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        concat(&path, &parts).unwrap();
        let wanted = [&[7, 7, 7], &bytes[5..5 + PIECE as usize + 9], &bytes[..1]].concat();
        assert!(std::fs::read(&path).unwrap() == wanted);
        assert!(concat(&path, &parts).is_err());
        let short = dir.path().join("y");
        assert!(concat(&short, &[part(&b, 5, 6)]).is_err());
    }
}
