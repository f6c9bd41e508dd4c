//! What happens to a chunk on its way to the file.

use super::object::FilterEntry;
use crate::options::Filter;
use crate::shuffle::shuffle;
use arrow_buffer::Buffer;
use libdeflater::{CompressionLvl, Compressor};
use packhorse_core::{Context, Error, Pool, Result};

/// The registered number of Zstandard.
pub(crate) const ZSTD: u16 = 32015;

/// The filters of one dataset, in the order in which they are applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pipeline {
    pub(crate) filter: Filter,
    pub(crate) shuffle: bool,
    /// Bytes of an element.
    pub(crate) width: usize,
}

impl Pipeline {
    pub(crate) fn entries(&self) -> Vec<FilterEntry> {
        let mut entries = Vec::new();
        if self.shuffle {
            entries.push(FilterEntry { id: 2, parameter: self.width as u32 });
        }
        match self.filter {
            Filter::None => {}
            Filter::Gzip(level) => entries.push(FilterEntry { id: 1, parameter: level as u32 }),
            Filter::Zstd(level) => entries.push(FilterEntry { id: ZSTD, parameter: level as u32 }),
        }
        entries
    }
}

/// Compresses chunks, one at a time.
pub(crate) struct Coder {
    deflate: Option<(i32, Compressor)>,
    zstd: Option<(i32, zstd::bulk::Compressor<'static>)>,
    shuffled: Vec<u8>,
}

/// A chunk as it goes to the file, with the filters that were left out.
pub(crate) struct Packed {
    pub(crate) bytes: Buffer,
    pub(crate) mask: u32,
}

impl Coder {
    pub(crate) fn new() -> Self {
        Self { deflate: None, zstd: None, shuffled: Vec::new() }
    }

    /// The chunk `raw` after `pipeline`, in memory from `memory`; as it is where that makes it no smaller.
    pub(crate) fn pack(&mut self, pipeline: &Pipeline, raw: Buffer, memory: &Pool) -> Result<Packed> {
        let mut shuffled = std::mem::take(&mut self.shuffled);
        let input = if pipeline.shuffle {
            shuffle(&raw, pipeline.width, &mut shuffled);
            &shuffled
        } else {
            raw.as_slice()
        };
        let compressed = self.compress(pipeline.filter, input, memory)?;
        self.shuffled = shuffled;
        Ok(match compressed {
            Some(bytes) if bytes.len() < raw.len() => Packed { bytes, mask: 0 },
            _ => Packed { bytes: raw, mask: (1 << pipeline.entries().len()) - 1 },
        })
    }

    /// `None` where it does not fit into as many bytes.
    fn compress(&mut self, filter: Filter, input: &[u8], memory: &Pool) -> Result<Option<Buffer>> {
        if filter == Filter::None {
            return Ok(None);
        }
        let mut out = memory.take(input.len())?;
        let len = match filter {
            Filter::None => None,
            Filter::Gzip(level) => self.deflate(level)?.zlib_compress(input, &mut out).ok(),
            Filter::Zstd(level) => self.zstd(level)?.compress_to_buffer(input, &mut out[..]).ok(),
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
            self.zstd = Some((level, zstd::bulk::Compressor::new(level).doing("start zstd")?));
        }
        self.zstd.as_mut().map(|(_, coder)| coder).ok_or_else(|| Error::bug("no coder"))
    }
}
