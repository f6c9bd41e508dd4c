//! Writes a chain of Zstandard frames with one compressor, since a new one for each frame costs more than a small frame.

use crate::plan_reader::FrameExtent;
use packhorse_core::{Context, Error, Result};
use serde::Serialize;
use std::io::{BufWriter, Write};
use zstd::stream::raw::{CParameter, Encoder, Operation, OutBuffer};

/// A fast level that compresses well enough: each task reads a plan once.
const LEVEL: i32 = 1;

/// What the compressor returns at a time.
const PIECE: usize = 128 << 10;

/// Frames on their way to `out`. Written bytes go to the open frame, which [`end`](Self::end) closes.
pub(crate) struct Frames<'a> {
    out: Box<dyn Write + Send + 'a>,
    zstd: Encoder<'static>,
    piece: Vec<u8>,
    /// Where the open frame starts.
    start: u64,
    at: u64,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(out: impl Write + Send + 'a) -> Result<Self> {
        let mut zstd = Encoder::new(LEVEL).context("start zstd")?;
        // Every frame ends with a checksum of its content, so that partial reads detect damage.
        zstd.set_parameter(CParameter::ChecksumFlag(true)).context("start zstd")?;
        Ok(Self { out: Box::new(out), zstd, piece: vec![0; PIECE], start: 0, at: 0 })
    }

    /// Writes a frame with this content.
    pub(crate) fn frame(&mut self, content: &[u8]) -> Result<FrameExtent> {
        self.write_all(content).context("write the plan")?;
        self.end()
    }

    /// Writes a frame of one line as it is encoded, without its text in memory.
    pub(crate) fn document(&mut self, value: &impl Serialize) -> Result<FrameExtent> {
        let mut text = BufWriter::new(&mut *self);
        serde_json::to_writer(&mut text, value).or_else(|e| match e.is_io() {
            true => Err(std::io::Error::from(e)).context("write the plan"),
            false => Err(bug(e)),
        })?;
        text.write_all(b"\n").and_then(|()| text.flush()).context("write the plan")?;
        drop(text);
        self.end()
    }

    /// Ends the open frame.
    pub(crate) fn end(&mut self) -> Result<FrameExtent> {
        loop {
            let mut piece = OutBuffer::around(&mut self.piece);
            let left = self.zstd.finish(&mut piece, true).context("write the plan")?;
            let ready = piece.as_slice();
            self.at += ready.len() as u64;
            self.out.write_all(ready).context("write the plan")?;
            if left == 0 {
                break;
            }
        }
        self.zstd.reinit().context("start zstd")?;
        let start = std::mem::replace(&mut self.start, self.at);
        Ok(FrameExtent { offset: start, len: self.at - start })
    }

    /// Writes a frame that another compressor made.
    pub(crate) fn encoded(&mut self, frame: &[u8]) -> Result<FrameExtent> {
        self.out.write_all(frame).context("write the plan")?;
        let start = self.start;
        self.at += frame.len() as u64;
        self.start = self.at;
        Ok(FrameExtent { offset: start, len: frame.len() as u64 })
    }

    /// Writes the file's last bytes, after all frames.
    pub(crate) fn close(mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).and_then(|()| self.out.flush()).context("write the plan")
    }
}

impl Write for Frames<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            let done = self.zstd.run_on_buffers(bytes, &mut self.piece)?;
            let ready = self.piece.get(..done.bytes_written).unwrap_or_default();
            self.at += ready.len() as u64;
            self.out.write_all(ready)?;
            if done.bytes_read > 0 || bytes.is_empty() {
                return Ok(done.bytes_read);
            }
        }
    }

    /// Does nothing: a frame is flushed when it ends.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn bug(error: serde_json::Error) -> Error {
    Error::bug(format!("can't encode the plan: {error}"))
}
