//! Decoding JPEGs, by the decoder of loaders.

use crate::Quantity;
use crate::probe::Probe;
use crate::reads::counts;
use crate::test_folder::TestFolder;
use packhorse_core::{Context, Error, Limits, Result};
use packhorse_synth::{ImagesSpec, Run, images};
use packhorse_transform::image::{Draws, View, ViewDecoder};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// JPEGs of a size. A decoder that sees the same one again gains nothing by it.
const COUNT: u64 = 8;

/// JPEGs like photographs, of the size that a quantity names, and a decoder for each thread.
pub(crate) struct Pictures {
    quantity: Quantity,
    jpegs: Vec<Vec<u8>>,
    decoders: Vec<Mutex<(ViewDecoder, Vec<u8>)>>,
}

impl Pictures {
    /// For `threads` threads; they are made in `folder`.
    pub(crate) fn new(quantity: Quantity, folder: &TestFolder, threads: usize, run: &Run<'_>) -> Result<Self> {
        let side = quantity.side().ok_or_else(|| Error::bug("a limit without pictures"))?;
        let spec = ImagesSpec { count: COUNT, sides: side..=side, ..ImagesSpec::default() };
        let dir = folder.path().join(quantity.name());
        images(&dir, &spec, run)?;
        let decoder = |_| {
            let decoder = ViewDecoder::new(View::default(), Limits::default())?;
            Ok(Mutex::new((decoder, vec![0; side as usize * side as usize * 3])))
        };
        Ok(Self { quantity, jpegs: contents(&dir)?, decoders: (0..threads).map(decoder).collect::<Result<_>>()? })
    }

    /// With one and with `threads` threads.
    pub(crate) fn probes(&self, threads: usize) -> Vec<Probe<'_>> {
        let bytes = self.jpegs.iter().map(Vec::len).sum::<usize>() as f64 / self.jpegs.len().max(1) as f64;
        let with =
            |threads| Probe::new(self.quantity, threads, bytes, Box::new(|thread, step| self.step(thread, step)));
        counts(threads).map(with).collect()
    }

    fn step(&self, thread: usize, step: u64) -> Result<u64> {
        let jpeg = self.jpegs.get(step as usize % self.jpegs.len().max(1));
        let (jpeg, own) = jpeg.zip(self.decoders.get(thread)).ok_or_else(|| Error::bug("nothing to decode"))?;
        let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
        let (decoder, pixels) = &mut *own;
        decoder.decode_into(jpeg, Draws::new(step), pixels)?;
        Ok(1)
    }
}

/// The contents of all files below `dir`, in the order of their names.
pub(crate) fn contents(dir: &Path) -> Result<Vec<Vec<u8>>> {
    let entries = std::fs::read_dir(dir).context("list the test files")?;
    let mut paths =
        entries.map(|entry| Ok(entry.context("list the test files")?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => found.extend(contents(&path)?),
            false => found.push(std::fs::read(&path).context("read a test file")?),
        }
    }
    Ok(found)
}
