//! Decompresses chunks, by filter number.

use super::message::FilterDescription;
use super::{bitshuffle, blosc, lz4, lzf, scaleoffset};
use crate::plugin;
use libdeflater::Decompressor;
use packhorse_core::{Context, Error, Result};

const DEFLATE: u16 = 1;
const SCALEOFFSET: u16 = 6;
const BZIP2: u16 = 307;
const LZF: u16 = 32000;
const BLOSC: u16 = 32001;
const LZ4: u16 = 32004;
const BITSHUFFLE: u16 = 32008;
const ZSTD: u16 = 32015;

/// The highest expansion ratio of a decompressing filter; `None` for other filters. For zstd, a block of 128 KiB in 4
/// bytes; for bzip2, 45 million zeros in 40 bytes.
pub(crate) fn ratio(id: u16) -> Option<u64> {
    match id {
        DEFLATE => Some(1040),
        BZIP2 => Some(1_200_000),
        LZF => Some(100),
        LZ4 => Some(256),
        BLOSC | BITSHUFFLE | ZSTD => Some(40_000),
        // Equal numbers need no bits.
        SCALEOFFSET => Some(u64::MAX),
        // Unknown expansion ratio.
        _ => plugin::find(id).map(|_| u64::MAX),
    }
}

/// Decompresses chunks, one at a time; reuses its memory.
pub(crate) struct Inflater {
    deflate: Decompressor,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    /// For formats that shuffle: the decompressed, still shuffled bytes.
    pub(crate) scratch: Vec<u8>,
    pub(crate) planes: Vec<u8>,
}

impl Inflater {
    pub(crate) fn new() -> Self {
        Self { deflate: Decompressor::new(), zstd: None, scratch: Vec::new(), planes: Vec::new() }
    }

    /// Decompresses `input` into the start of `out`; returns the number of bytes.
    pub(crate) fn inflate(&mut self, filter: &FilterDescription, input: &[u8], out: &mut [u8]) -> Result<usize> {
        match filter.id {
            DEFLATE => self.zlib(input, out),
            BZIP2 => bzip2(input, out),
            SCALEOFFSET => scaleoffset::decompress(&filter.parameters, input, out),
            LZF => lzf::decompress(input, out),
            LZ4 => lz4::decompress(input, out),
            BITSHUFFLE => bitshuffle::decompress(self, &filter.parameters, input, out),
            BLOSC if !blosc::is_snappy(input) => blosc::decompress(self, input, out),
            ZSTD => self.zstd(input, out),
            _ => match plugin::find(filter.id) {
                Some(plugin) => plugin.decode(&filter.parameters, input, out),
                None => blosc::decompress(self, input, out),
            },
        }
    }

    pub(crate) fn zlib(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        self.deflate.zlib_decompress(input, out).map_err(damaged)
    }

    pub(crate) fn zstd(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let made = match self.zstd.take() {
            Some(made) => made,
            None => zstd::bulk::Decompressor::new().context("start zstd")?,
        };
        self.zstd.insert(made).decompress_to_buffer(input, out).map_err(damaged)
    }
}

fn bzip2(input: &[u8], out: &mut [u8]) -> Result<usize> {
    let mut stream = bzip2::Decompress::new(false);
    let mut done = (0, 0);
    loop {
        let (rest, room) = (input.get(done.0..).unwrap_or_default(), out.get_mut(done.1..).unwrap_or_default());
        let status = stream.decompress(rest, room).map_err(damaged)?;
        let now = (stream.total_in() as usize, stream.total_out() as usize);
        if status == bzip2::Status::StreamEnd {
            return Ok(now.1);
        }
        if now == done {
            return Err(damaged("its bzip2 stream has no end"));
        }
        done = now;
    }
}

/// The error for a chunk that can't be decompressed.
pub(crate) fn damaged(what: impl std::fmt::Display) -> Error {
    Error::content(format!("a chunk is damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random bytes, mostly small, so that some are valid lengths.
    fn noise(state: &mut u64, len: usize) -> Vec<u8> {
        let mut next = || {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*state >> 33) as u32
        };
        (0..len).map(|_| if next() % 3 == 0 { next() as u8 } else { (next() % 3) as u8 }).collect()
    }

    #[test]
    fn any_bytes_are_an_error_or_fit() {
        let (mut inflater, mut state, mut out) = (Inflater::new(), 7, [0; 300]);
        for id in [DEFLATE, SCALEOFFSET, BZIP2, LZF, BLOSC, LZ4, BITSHUFFLE, ZSTD] {
            for round in 0..4000 {
                let input = noise(&mut state, round % 90);
                let parameters: Vec<u32> = noise(&mut state, round % 12).into_iter().map(u32::from).collect();
                // Every other time, valid parameters for scale-offset.
                let known = [0, 2, 30, (round % 3 == 0).into(), 4, 0, 0, (round % 5 == 0).into(), 9];
                let parameters = if round % 2 == 0 { parameters } else { known.to_vec() };
                let filter = FilterDescription { id, name: String::new(), parameters };
                let size = round % 301;
                if let Ok(len) = inflater.inflate(&filter, &input, &mut out[..size]) {
                    assert!(len <= size, "{id}");
                }
            }
        }
    }
}
