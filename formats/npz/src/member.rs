//! The bytes of one member of an `.npz` file: located by its local header, inflated, checked by CRC-32.
//!
//! libdeflate inflates whole members, 1.7 to 3.4 times as fast as flate2 on zlib-rs. flate2 inflates rows and headers,
//! which need streaming.

use crate::bytes::Bytes;
use crate::npy_header::{NpyHeader, cut};
use crate::zip::{LOCAL, ZipMember, u16_at};
use flate2::{Decompress, FlushDecompress};
use libdeflater::Decompressor;
use packhorse_core::{Code, Error, Limits, Result};
use std::borrow::Cow;

/// The highest compression ratio of Deflate.
const RATIO: u64 = 1032;

/// Bytes of a member read first to find its `.npy` header.
const HEAD: usize = 4096;

impl ZipMember {
    /// The uncompressed size, which must be within the limit; the member must be [sound](Self::require_sound).
    pub(crate) fn check(&self, limits: &Limits) -> Result<usize> {
        self.require_sound()?;
        limits.blob(self.size)
    }

    /// Refuses encryption, other compression methods and impossible sizes.
    fn require_sound(&self) -> Result<()> {
        if self.flags & 0b0010_0000_0100_0001 != 0 {
            return Err(Error::unsupported("is encrypted; save it without a password"));
        }
        let possible = match self.method {
            0 => self.size == self.packed,
            8 => self.size <= self.packed.saturating_mul(RATIO),
            other => {
                let name = match other {
                    9 => " (Deflate64)",
                    12 => " (bzip2)",
                    14 => " (LZMA)",
                    93 | 20 => " (Zstandard)",
                    95 => " (XZ)",
                    _ => "",
                };
                return Err(Error::unsupported(format!(
                    "is compressed by zip's method {other}{name}; save it with numpy.savez or savez_compressed"
                )));
            }
        };
        match possible {
            true => Ok(()),
            false => Err(Error::content("has a damaged directory: its two sizes contradict each other")),
        }
    }

    /// The offset of the data in `local`, which starts with the local header.
    fn data_at(&self, local: &[u8]) -> Result<usize> {
        let name = local.get(LOCAL..).and_then(|rest| rest.get(..usize::from(u16_at(local, 26)?)));
        // The member's name is kept without its last four bytes.
        let same = name.and_then(|name| name.strip_suffix(b".npy")).is_some_and(|name| name == self.array.as_bytes());
        let (true, true, Some(extra)) = (local.starts_with(b"PK\x03\x04"), same, u16_at(local, 28)) else {
            return Err(Error::content("is not where the central directory says; the file is damaged, copy it again"));
        };
        Ok(LOCAL + self.array.len() + 4 + usize::from(extra))
    }

    /// Its bytes in `file`, inflated and checked; borrowed if stored.
    pub(crate) fn data<'a>(&self, file: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>> {
        let range = usize::try_from(self.start).ok().zip(usize::try_from(self.end).ok());
        self.unpack(range.and_then(|(from, to)| file.get(from..to)).ok_or_else(cut)?, limits)
    }

    /// Its bytes, inflated and checked, from `local`, which spans its local header to the next member.
    pub(crate) fn unpack<'a>(&self, local: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>> {
        let size = self.check(limits)?;
        let packed = usize::try_from(self.packed).ok();
        let packed =
            local.get(self.data_at(local)?..).zip(packed).and_then(|(rest, n)| rest.get(..n)).ok_or_else(cut)?;
        let data = match self.method {
            0 => Cow::Borrowed(packed),
            _ => {
                let mut data = vec![0; size];
                inflate(packed, &mut data)?;
                Cow::Owned(data)
            }
        };
        self.verify(crc32(&data))?;
        Ok(data)
    }

    /// The offset of its data in the file.
    pub(crate) fn find(&self, bytes: Bytes<'_>) -> Result<u64> {
        let window = LOCAL.saturating_add(self.array.len()).saturating_add(4);
        let at = self.start.saturating_add(self.data_at(&bytes.read(self.start, window)?)? as u64);
        match at.checked_add(self.packed).is_some_and(|end| end <= self.end) {
            true => Ok(at),
            false => Err(cut()),
        }
    }

    /// Compares `crc` with the recorded CRC-32.
    pub(crate) fn verify(&self, crc: u32) -> Result<()> {
        match crc == self.crc {
            true => Ok(()),
            false => Err(Error::content("is damaged: its CRC-32 does not match; copy the file again")
                .with_code(Code::ChecksumDiffers)),
        }
    }

    /// Its bytes up to the end of the `.npy` header or beyond. Their CRC-32 is not checked.
    pub(crate) fn head<'a>(&self, bytes: Bytes<'a>, limits: &Limits) -> Result<Cow<'a, [u8]>> {
        self.require_sound()?;
        let mut window = HEAD.saturating_add(LOCAL).saturating_add(self.array.len()).saturating_add(4);
        loop {
            let span = usize::try_from(self.end - self.start).unwrap_or(usize::MAX);
            let local = bytes.read(self.start, window.min(span))?;
            let at = self.data_at(&local)?;
            let to = at.saturating_add(usize::try_from(self.packed).unwrap_or(usize::MAX)).min(local.len());
            let head = match local {
                _ if self.method != 0 => Cow::Owned(inflate_some(local.get(at..to).unwrap_or_default(), window)?),
                Cow::Borrowed(local) => Cow::Borrowed(local.get(at..to).unwrap_or_default()),
                Cow::Owned(local) => Cow::Owned(local.get(at..to).unwrap_or_default().to_vec()),
            };
            let whole = head.len() >= 12 && head.len() >= NpyHeader::size(&head, limits)?;
            // Where the window was filled, more may have been inflated.
            if whole || window >= span && head.len() < window {
                return Ok(head);
            }
            if window as u64 / 8 > limits.header {
                return Err(Error::content("has a damaged header: it is longer than the limit for headers"));
            }
            window = window.saturating_mul(4);
        }
    }
}

/// Zip's CRC-32. libdeflate folds 32 bytes at once, twice as many as crc-fast does without AVX-512.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    libdeflater::crc32(bytes)
}

/// Combines the CRC-32 of two pieces: a factor of x to the power of the second piece's bits, modulo the CRC's
/// polynomial. Computing the factor costs more than applying it, so reuse it.
#[derive(Clone, Copy)]
pub(crate) struct CrcShift(u32);

impl CrcShift {
    /// The factor for a second piece of `len` bytes.
    pub(crate) fn by(len: u64) -> Self {
        // Bits are coefficients; the highest is that of x⁰. These are 1 and x⁸.
        let (mut power, mut square, mut rest) = (1 << 31, 1 << 23, len);
        while rest > 0 {
            if rest & 1 == 1 {
                power = product(power, square);
            }
            square = product(square, square);
            rest >>= 1;
        }
        Self(power)
    }

    /// The CRC-32 of two consecutive pieces from that of each.
    pub(crate) fn join(self, first: u32, second: u32) -> u32 {
        product(self.0, first) ^ second
    }
}

/// The product of two polynomials modulo that of CRC-32.
fn product(a: u32, mut b: u32) -> u32 {
    let mut sum = 0;
    for bit in (0..32).rev() {
        sum ^= if a >> bit & 1 == 1 { b } else { 0 };
        b = b >> 1 ^ if b & 1 == 1 { 0xedb8_8320 } else { 0 };
    }
    sum
}

fn no_deflate() -> Error {
    Error::content("is damaged: its deflated data is invalid; copy the file again")
}

/// Inflates the start of `packed`, which must fill `out` exactly.
pub(crate) fn inflate(packed: &[u8], out: &mut [u8]) -> Result<()> {
    match Decompressor::new().deflate_decompress(packed, out) {
        Ok(len) if len == out.len() => Ok(()),
        _ => Err(no_deflate()),
    }
}

/// The first bytes of a deflated stream, at most `most`.
fn inflate_some(packed: &[u8], most: usize) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(most);
    Decompress::new(false).decompress_vec(packed, &mut out, FlushDecompress::None).map_err(|_| no_deflate())?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_pieces_join() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        for at in [0, 1, 7, 4096, 65_537, 99_999, 100_000] {
            let (first, second) = bytes.split_at(at);
            let joined = CrcShift::by(second.len() as u64).join(crc32(first), crc32(second));
            assert_eq!(joined, crc32(&bytes), "{at}");
        }
    }
}
