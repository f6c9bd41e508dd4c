//! Applies filters to chunks.

use super::lz4;
use super::lzf::Lzf;
use super::object::FilterEntry;
use crate::options::{Blosc2, Compression};
use crate::plugin;
use crate::registry::BLOSC2;
use crate::shuffle::shuffle;
use arrow_buffer::Buffer;
use libdeflater::{CompressionLvl, Compressor};
use packhorse_core::{Context, Error, Pool, Result};

/// The registered number of Zstandard.
pub(crate) const ZSTD: u16 = 32015;
const LZF: u16 = 32000;
const LZ4: u16 = 32004;

/// The filters of one dataset, in order of application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipeline {
    pub(crate) filter: Compression,
    pub(crate) shuffle: bool,
    /// Bytes per element.
    pub(crate) width: usize,
}

impl Pipeline {
    /// The filter entries for chunks of `bytes` bytes.
    pub(crate) fn entries(&self, bytes: u64) -> Vec<FilterEntry> {
        let entry = |id: u16, parameters: &[u32]| FilterEntry { id, parameters: parameters.to_vec() };
        let shuffle = self.shuffles_apart().then(|| entry(2, &[self.width as u32]));
        let compress = match self.filter {
            Compression::None => None,
            Compression::Gzip(level) => Some(entry(1, &[level as u32])),
            Compression::Zstd(level) => Some(entry(ZSTD, &[level as u32])),
            // As h5py writes them: its revision, LZF's version, bytes of a chunk.
            Compression::Lzf => Some(entry(LZF, &[4, 0x0105, bytes as u32])),
            Compression::Lz4 => Some(entry(LZ4, &[0])),
            Compression::Blosc2(coder, level) => Some(entry(BLOSC2, &self.blosc2(coder, level, bytes))),
        };
        shuffle.into_iter().chain(compress).collect()
    }

    /// The parameters that its `set_local` would make for chunks of one dimension: revision, bytes of a block (0: its
    /// choice), of an element and of a chunk, level, shuffle, codec.
    fn blosc2(&self, coder: Blosc2, level: i32, bytes: u64) -> [u32; 7] {
        [1, 0, self.width as u32, bytes as u32, level as u32, u32::from(self.shuffle), coder as u32]
    }

    /// Blosc2 shuffles its own blocks.
    fn shuffles_apart(&self) -> bool {
        self.shuffle && !matches!(self.filter, Compression::Blosc2(..))
    }

    /// The filter mask that skips all filters.
    fn none(&self) -> u32 {
        (1 << (u32::from(self.shuffles_apart()) + u32::from(self.filter != Compression::None))) - 1
    }
}

/// Compresses chunks, one at a time.
pub(crate) struct Coder {
    deflate: Option<(i32, Compressor)>,
    zstd: Option<(i32, zstd::bulk::Compressor<'static>)>,
    lzf: Lzf,
    scratch: Vec<u8>,
    shuffled: Vec<u8>,
}

/// A chunk as written to the file, with the mask of skipped filters.
pub(crate) struct Packed {
    pub(crate) bytes: Buffer,
    pub(crate) mask: u32,
}

impl Coder {
    pub(crate) fn new() -> Self {
        Self { deflate: None, zstd: None, lzf: Lzf::new(), scratch: Vec::new(), shuffled: Vec::new() }
    }

    /// Applies `pipeline` to the chunk `raw`, with memory from `memory`; unchanged if the result is not smaller.
    pub(crate) fn pack(&mut self, pipeline: &Pipeline, raw: Buffer, memory: &Pool) -> Result<Packed> {
        let mut shuffled = std::mem::take(&mut self.shuffled);
        let input = if pipeline.shuffles_apart() {
            shuffle(&raw, pipeline.width, &mut shuffled);
            &shuffled
        } else {
            raw.as_slice()
        };
        let compressed = self.compress(pipeline, input, memory)?;
        self.shuffled = shuffled;
        Ok(match compressed {
            Some(bytes) if bytes.len() < raw.len() => Packed { bytes, mask: 0 },
            _ => Packed { bytes: raw, mask: pipeline.none() },
        })
    }

    /// `None` if the result is not smaller than `input`.
    fn compress(&mut self, pipeline: &Pipeline, input: &[u8], memory: &Pool) -> Result<Option<Buffer>> {
        if pipeline.filter == Compression::None {
            return Ok(None);
        }
        let mut out = memory.take(input.len())?;
        let len = match pipeline.filter {
            Compression::None => None,
            Compression::Gzip(level) => self.deflate(level)?.zlib_compress(input, &mut out).ok(),
            Compression::Zstd(level) => self.zstd(level)?.compress_to_buffer(input, &mut out[..]).ok(),
            Compression::Lzf => self.lzf.compress(input, &mut out),
            Compression::Lz4 => lz4::compress(input, &mut self.scratch, &mut out),
            Compression::Blosc2(coder, level) => {
                let plugin = plugin::find(BLOSC2).ok_or_else(|| Error::bug("blosc2 without its plugin"))?;
                let parameters = pipeline.blosc2(coder, level, input.len() as u64);
                Some(plugin.encode(&parameters, input, &mut out)?).filter(|len| *len <= out.len())
            }
        };
        Ok(len.map(|len| {
            out.truncate(len);
            out.into()
        }))
    }

    fn deflate(&mut self, level: i32) -> Result<&mut Compressor> {
        if self.deflate.as_ref().is_none_or(|(made, _)| *made != level) {
            let level_of = CompressionLvl::new(level).map_err(|_| Error::bug("a level that deflate does not have"))?;
            self.deflate = Some((level, Compressor::new(level_of)));
        }
        self.deflate.as_mut().map(|(_, coder)| coder).ok_or_else(|| Error::bug("no coder"))
    }

    fn zstd(&mut self, level: i32) -> Result<&mut zstd::bulk::Compressor<'static>> {
        if self.zstd.as_ref().is_none_or(|(made, _)| *made != level) {
            self.zstd = Some((level, zstd::bulk::Compressor::new(level).context("start zstd")?));
        }
        self.zstd.as_mut().map(|(_, coder)| coder).ok_or_else(|| Error::bug("no coder"))
    }
}
