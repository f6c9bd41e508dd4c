//! Many very small files, for tests with a million files. Owns their names and content.

use crate::file_generator::FileGenerator;
use crate::rng::Rng;
use crate::{Run, Written, write};
use packhorse_core::{Error, Result};
use std::path::Path;

/// Files per folder.
const PER_FOLDER: u64 = 1000;

/// A corpus of `.txt` files of equal size, `00000/0000001.txt`, a thousand per folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TinySpec {
    /// Number of files.
    pub count: u64,
    /// Bytes per file; from 20 on all files differ.
    pub bytes: usize,
    /// Determines every byte.
    pub seed: u64,
}

impl Default for TinySpec {
    /// 1,000 files of 1,024 bytes.
    fn default() -> Self {
        Self { count: 1000, bytes: 1024, seed: 0 }
    }
}

/// Writes the corpus of `spec` into `dir`. A `Config` error if the folder holds other files.
pub fn tiny(dir: &Path, spec: &TinySpec, run: &Run<'_>) -> Result<Written> {
    if spec.bytes > 1 << 20 {
        return Err(Error::config(format!("{} bytes are not tiny; give at most 1048576", spec.bytes)));
    }
    write::write(dir, spec, run)
}

impl FileGenerator for TinySpec {
    fn files(&self) -> u64 {
        self.count
    }

    fn name(&self, index: u64) -> String {
        format!("{:05}/{:07}.txt", index / PER_FOLDER, index + 1)
    }

    fn fill(&self, index: u64, out: &mut Vec<u8>) -> Result<()> {
        let mut rng = Rng::new(self.seed, 4, index);
        out.extend_from_slice((index + 1).to_string().as_bytes());
        while out.len() < self.bytes {
            out.extend(rng.next().to_le_bytes().map(letter));
        }
        out.truncate(self.bytes);
        Ok(())
    }
}

/// A letter, or sometimes a space.
fn letter(byte: u8) -> u8 {
    match byte % 32 {
        l @ 0..26 => b'a' + l,
        _ => b' ',
    }
}
