//! Buffers for bytes that can't be written to the file yet: in memory first, then in one unnamed file that
//! all spools of a shard share.

use super::main_file::MainFile;
use packhorse_core::{Result, ScratchFile};

/// The unnamed file that spools overflow into.
pub(crate) struct Spill {
    file: Box<dyn ScratchFile>,
    at: u64,
    /// Bytes that each spool may keep in memory.
    room: usize,
}

impl Spill {
    /// Divides 64 MiB of memory among `spools` spools.
    pub(crate) fn new(file: Box<dyn ScratchFile>, spools: usize) -> Self {
        Self { file, at: 0, room: ((64 << 20) / spools.max(1)).clamp(64 << 10, 1 << 20) }
    }

    /// Appends `bytes`; returns their position.
    fn write(&mut self, bytes: &[u8]) -> Result<u64> {
        self.file.append(bytes)?;
        let at = self.at;
        self.at += bytes.len() as u64;
        Ok(at)
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_at(at, bytes)
    }
}

/// One growing sequence of bytes.
#[derive(Default)]
pub(crate) struct Spool {
    memory: Vec<u8>,
    /// Start and length in the spill, in order.
    extents: Vec<(u64, u64)>,
    len: u64,
}

/// Bytes copied at a time; a multiple of every record's size.
const PIECE: u64 = 1 << 20;

impl Spool {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends whole records.
    pub(crate) fn append(&mut self, bytes: &[u8], spill: &mut Spill) -> Result<()> {
        self.len += bytes.len() as u64;
        if bytes.len() >= spill.room {
            self.flush(spill)?;
            return self.keep(spill.write(bytes)?, bytes.len() as u64);
        }
        self.memory.extend_from_slice(bytes);
        if self.memory.len() >= spill.room { self.flush(spill) } else { Ok(()) }
    }

    fn flush(&mut self, spill: &mut Spill) -> Result<()> {
        if self.memory.is_empty() {
            return Ok(());
        }
        let at = spill.write(&self.memory)?;
        let len = self.memory.len() as u64;
        self.memory.clear();
        self.keep(at, len)
    }

    fn keep(&mut self, at: u64, len: u64) -> Result<()> {
        match self.extents.last_mut() {
            Some((start, before)) if *start + *before == at => *before += len,
            _ => self.extents.push((at, len)),
        }
        Ok(())
    }

    /// Appends everything to `main`, after passing each piece through `change`; returns the address of the first byte.
    pub(crate) fn drain(self, spill: &mut Spill, main: &mut MainFile, change: impl Fn(&mut [u8])) -> Result<u64> {
        main.align()?;
        let address = main.at();
        let mut piece = Vec::new();
        for (mut at, mut left) in self.extents {
            while left > 0 {
                piece.resize(left.min(PIECE) as usize, 0);
                spill.read(at, &mut piece)?;
                change(&mut piece);
                main.append(&piece)?;
                (at, left) = (at + piece.len() as u64, left - piece.len() as u64);
            }
        }
        let mut memory = self.memory;
        change(&mut memory);
        main.append(&memory)?;
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Outlet;
    use std::fs::File;

    #[test]
    fn spools_keep_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(packhorse_testkit::memory::MemoryOutlet::new().scratch().unwrap(), 1 << 20);
        let mut spools = [Spool::default(), Spool::default()];
        let mut wanted = [Vec::new(), Vec::new()];
        for i in 0..9000u32 {
            let record = (i * 7).to_le_bytes().repeat(4);
            let which = (i % 3 % 2) as usize;
            spools[which].append(&record, &mut spill).unwrap();
            wanted[which].extend(record);
        }
        let large = vec![9; 3 << 20];
        spools[0].append(&large, &mut spill).unwrap();
        wanted[0].extend(large);
        let path = dir.path().join("file");
        let file = File::options().write(true).create_new(true).open(&path).unwrap();
        let mut main = MainFile::create(Box::new(file)).unwrap();
        let at = spools.map(|spool| spool.drain(&mut spill, &mut main, |_| {}).unwrap());
        main.finish(0).unwrap();
        let found = std::fs::read(path).unwrap();
        for (at, wanted) in at.into_iter().zip(wanted) {
            assert!(found[at as usize..].starts_with(&wanted));
        }
    }
}
