//! The file of tokens.

use crate::dtype::Dtype;
use crate::read::flat::{LLMC, LLMC_HEADER};
use packhorse_core::{Context, Error, Kind, Outlet, PatchableWriter, Result};
use std::io::Write;

/// Bytes of one write: few enough to stay in the cache between the hash and the write.
const PIECE: usize = 256 << 10;
/// A larger slice is written directly, without a copy into the buffer.
const MANY: usize = 32 << 10;

pub(super) struct Data {
    out: Out,
    buf: Vec<u8>,
    bytes: u64,
}

enum Out {
    Stream(Box<dyn Write + Send>),
    /// The header contains the number of tokens, so it is written last.
    Llmc(Box<dyn PatchableWriter>, Dtype),
}

impl Data {
    pub(super) fn stream(out: Box<dyn Write + Send>) -> Self {
        Self { out: Out::Stream(out), buf: Vec::new(), bytes: 0 }
    }

    pub(super) fn llmc(dtype: Dtype, out: &mut dyn Outlet) -> Result<Self> {
        let mut file = out.patchable(".bin")?;
        file.write_all(&[0; LLMC_HEADER as usize]).context("write")?;
        Ok(Self { out: Out::Llmc(file, dtype), buf: Vec::new(), bytes: LLMC_HEADER })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        if bytes.len() < MANY {
            if self.buf.len() + bytes.len() > PIECE {
                self.hand_on()?;
            }
            self.buf.extend_from_slice(bytes);
            return Ok(());
        }
        self.hand_on()?;
        bytes.chunks(PIECE).try_for_each(|piece| self.out.write(piece))
    }

    fn hand_on(&mut self) -> Result<()> {
        if !self.buf.is_empty() {
            self.out.write(&self.buf)?;
            self.buf.clear();
        }
        Ok(())
    }

    /// Writes the buffer and the header; returns the length of the file.
    pub(super) fn finish(mut self, tokens: u64) -> Result<u64> {
        self.hand_on()?;
        match self.out {
            Out::Stream(mut out) => out.flush().context("write")?,
            Out::Llmc(file, dtype) => file.finish(&header(dtype, tokens)?)?,
        }
        Ok(self.bytes)
    }
}

impl Out {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Out::Stream(out) => out.write_all(bytes),
            Out::Llmc(file, _) => file.write_all(bytes),
        }
        .context("write")
    }
}

/// The first three numbers of llm.c's header.
fn header(dtype: Dtype, tokens: u64) -> Result<Vec<u8>> {
    let known = LLMC.iter().find(|(of, ..)| *of == dtype);
    let (_, magic, version) = known.ok_or_else(|| Error::bug("a type that llm.c doesn't have"))?;
    let tokens = i32::try_from(tokens).map_err(|_| {
        let message = format!("{tokens} tokens do not fit llm.c's header; make shards smaller with `shard-size`");
        Error::new(Kind::Limit, message)
    })?;
    Ok([*magic, *version, tokens].iter().flat_map(|n| n.to_le_bytes()).collect())
}
