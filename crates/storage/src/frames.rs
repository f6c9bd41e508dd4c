//! Seek points of compressed files: frames that decompress independently.
//!
//! Two kinds of files declare the decompressed size of each part in headers, so that nothing must be decompressed to
//! find them: Zstandard files whose frames have content sizes ([RFC 8878](https://www.rfc-editor.org/rfc/rfc8878),
//! 3.1.1), and BGZF, a chain of gzip members with block sizes ([SAM
//! specification](https://samtools.github.io/hts-specs/SAMv1.pdf), 4.1).

use crate::Compression;
use packhorse_core::{Input, Result};

const MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE: u32 = 0x184D_2A50;
/// The most decompressed bytes of a Zstandard block.
const BLOCK: u64 = 128 << 10;
/// The most decompressed bytes of a BGZF member.
const MEMBER: u64 = 64 << 10;
/// Frames are merged up to this decompressed size, so that even a large file has few seek points.
const TOGETHER: u64 = 1 << 20;

/// A point where decompression can start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Offset in the compressed file.
    pub offset: u64,
    /// Decompressed offset of its first byte.
    pub start: u64,
}

/// The seek points of a file: at least 1 MiB apart, or one if headers don't delimit frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    frames: Vec<Frame>,
    /// Decompressed length of the file.
    len: u64,
}

impl Frames {
    /// Finds the seek points of `input` from headers; `None` if not all frames declare their size.
    pub fn of(input: &dyn Input, compression: Compression) -> Result<Option<Self>> {
        let Some(len) = input.len() else { return Ok(None) };
        let next = match compression {
            Compression::Zstd => zstd_frame,
            Compression::Gzip => bgzf_member,
            Compression::Bzip2 | Compression::Xz => return Ok(None),
        };
        let mut heads = Heads { input, len, at: 0, bytes: Vec::new() };
        let (mut frames, mut at, mut inside) = (Vec::<Frame>::new(), 0, 0u64);
        while at < len {
            let Some((size, end)) = next(&mut heads, at)? else { return Ok(None) };
            if let Some(size) = size {
                if frames.last().is_none_or(|last| inside - last.start >= TOGETHER) {
                    frames.push(Frame { offset: at, start: inside });
                }
                let Some(sum) = inside.checked_add(size) else { return Ok(None) };
                inside = sum;
            }
            at = end;
        }
        Ok((at == len && !frames.is_empty()).then_some(Self { frames, len: inside }))
    }

    /// An upper bound of the decompressed length of `input` from headers; `None` if they give none.
    pub fn most(input: &dyn Input, compression: Compression) -> Result<Option<u64>> {
        let (Some(len), Compression::Zstd) = (input.len(), compression) else { return Ok(None) };
        let mut heads = Heads { input, len, at: 0, bytes: Vec::new() };
        let (mut at, mut most) = (0, 0u64);
        while at < len {
            let Some(frame) = blocks(&mut heads, at)? else { return Ok(None) };
            most = most.saturating_add(frame.blocks.saturating_mul(BLOCK));
            at = frame.end;
        }
        Ok(Some(most))
    }

    /// A single seek point at the start of a file with decompressed length `len`.
    pub fn whole(len: u64) -> Self {
        Self { frames: vec![Frame::default()], len }
    }

    /// Seek points that were found before, ascending, of a file with decompressed length `len`.
    pub fn known(frames: Vec<Frame>, len: u64) -> Self {
        Self { frames, len }
    }

    /// The seek points.
    pub fn points(&self) -> &[Frame] {
        &self.frames
    }

    /// Decompressed length of the file.
    pub fn inside(&self) -> u64 {
        self.len
    }

    /// The last seek point at or before the decompressed offset `place`.
    pub fn at(&self, place: u64) -> Frame {
        let frame = self.frames.partition_point(|frame| frame.start <= place).saturating_sub(1);
        self.frames.get(frame).copied().unwrap_or_default()
    }

    /// The largest decompressed distance between seek points.
    pub fn longest(&self) -> u64 {
        let starts = || self.frames.iter().map(|frame| frame.start);
        starts().zip(starts().skip(1).chain([self.len])).map(|(from, to)| to - from).max().unwrap_or(0)
    }
}

/// Reads small headers in file order, buffered.
struct Heads<'a> {
    input: &'a dyn Input,
    len: u64,
    /// File offset of `bytes`.
    at: u64,
    bytes: Vec<u8>,
}

impl Heads<'_> {
    /// `N` bytes at `at`; zeros past the end of the file.
    fn bytes<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        let mut found = [0; N];
        let n = usize::try_from(self.len.saturating_sub(at)).map_or(N, |left| left.min(N));
        if n > 0 && (at < self.at || at + n as u64 > self.at + self.bytes.len() as u64) {
            // Remote reads have a latency, so read far ahead.
            let ahead: u64 = if self.input.local_path().is_some() { 64 } else { 8 << 20 };
            let most = ahead.max(n as u64).min(self.len.saturating_sub(at));
            self.bytes.resize(usize::try_from(most).unwrap_or(n), 0);
            self.at = at;
            self.input.read_at(at, &mut self.bytes)?;
        }
        let from = usize::try_from(at.saturating_sub(self.at)).unwrap_or(usize::MAX);
        found.iter_mut().take(n).zip(self.bytes.get(from..).unwrap_or_default()).for_each(|(to, byte)| *to = *byte);
        Ok(found)
    }
}

/// A little-endian number of `count` bytes at `from`.
fn number(bytes: &[u8], from: usize, count: usize) -> u64 {
    let bytes = bytes.get(from..from + count).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A frame's decompressed size (`None` for a skippable frame) and the offset of the next one.
type Part = (Option<u64>, u64);

/// Reads the Zstandard frame at `at`.
fn zstd_frame(heads: &mut Heads<'_>, at: u64) -> Result<Option<Part>> {
    Ok(match blocks(heads, at)? {
        Some(Blocks { blocks: 0, end, .. }) => Some((None, end)),
        // Ignore a declared size larger than the blocks can hold.
        Some(Blocks { size: Some(size), blocks, end }) if size <= blocks.saturating_mul(BLOCK) => {
            Some((Some(size), end))
        }
        _ => None,
    })
}

/// A Zstandard frame from its headers.
struct Blocks {
    /// The declared content size.
    size: Option<u64>,
    /// Number of blocks; 0 for a skippable frame.
    blocks: u64,
    /// Offset of the next frame.
    end: u64,
}

/// Reads the headers of the Zstandard frame at `at`; `None` if it is incomplete.
fn blocks(heads: &mut Heads<'_>, at: u64) -> Result<Option<Blocks>> {
    let bytes = heads.bytes::<18>(at)?;
    let magic = number(&bytes, 0, 4) as u32;
    if magic & !0xF == SKIPPABLE {
        return Ok(Some(Blocks { size: None, blocks: 0, end: at + 8 + number(&bytes, 4, 4) }));
    }
    let descriptor = number(&bytes, 4, 1);
    let single = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4].get((descriptor & 3) as usize).copied().unwrap_or_default();
    let from = 5 + usize::from(!single) + dictionary;
    let (width, more) = match (descriptor >> 6, single) {
        (0, single) => (usize::from(single), 0),
        (1, _) => (2, 256),
        (2, _) => (4, 0),
        _ => (8, 0),
    };
    if magic != MAGIC {
        return Ok(None);
    }
    let size = (width > 0).then(|| number(&bytes, from, width).saturating_add(more));
    let (mut next, mut blocks) = (at + (from + width) as u64, 0u64);
    loop {
        if next + 3 > heads.len {
            return Ok(None);
        }
        let header = number(&heads.bytes::<3>(next)?, 0, 3);
        blocks += 1;
        next += 3 + if header >> 1 & 3 == 1 { 1 } else { header >> 3 };
        if header & 1 == 1 {
            break;
        }
    }
    next += if descriptor & 4 != 0 { 4 } else { 0 };
    Ok(Some(Blocks { size, blocks, end: next }))
}

/// Reads the gzip member at `at`; `None` without the extra field `BC` that declares its size.
fn bgzf_member(heads: &mut Heads<'_>, at: u64) -> Result<Option<Part>> {
    const HEADER: u64 = 12;
    const TRAILER: u64 = 8;
    let bytes = heads.bytes::<12>(at)?;
    if bytes.get(..3) != Some(&[0x1f, 0x8b, 8]) || number(&bytes, 3, 1) & 4 == 0 {
        return Ok(None);
    }
    let extra = at + HEADER + number(&bytes, 10, 2);
    let mut field = at + HEADER;
    let size = loop {
        if field + 6 > extra {
            return Ok(None);
        }
        let bytes = heads.bytes::<6>(field)?;
        match (bytes.starts_with(b"BC"), number(&bytes, 2, 2)) {
            (true, 2) => break number(&bytes, 4, 2) + 1,
            (_, len) => field += 4 + len,
        }
    };
    let end = at + size;
    if end > heads.len || end < extra + TRAILER {
        return Ok(None);
    }
    let inside = number(&heads.bytes::<4>(end - 4)?, 0, 4);
    Ok((inside <= MEMBER).then_some((Some(inside), end)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use packhorse_core::MemoryInput;
    use std::io::Write;

    /// Text that hardly compresses.
    pub(crate) fn text(len: usize) -> Vec<u8> {
        let mut seed = 7u64;
        let next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8 % 61 + 32
        };
        std::iter::repeat_with(next).take(len).collect()
    }

    /// A Zstandard frame with a content size.
    pub(crate) fn sized(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.set_pledged_src_size(Some(bytes.len() as u64)).unwrap();
        encoder.include_contentsize(true).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// A BGZF file as written by htslib's `bgzip`, with the empty member at its end; `extra` is a field before `BC`.
    pub(crate) fn bgzf(bytes: &[u8], extra: &[u8]) -> Vec<u8> {
        bytes.chunks(0xff00).chain([&[][..]]).flat_map(|part| member(part, extra)).collect()
    }

    fn member(bytes: &[u8], extra: &[u8]) -> Vec<u8> {
        let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        deflate.write_all(bytes).unwrap();
        let deflated = deflate.finish().unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let size = 12 + extra.len() + 6 + deflated.len() + 8;
        let mut member = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff];
        member.extend((extra.len() as u16 + 6).to_le_bytes());
        member.extend(extra);
        member.extend(b"BC\x02\0");
        member.extend((size as u16 - 1).to_le_bytes());
        member.extend(deflated);
        member.extend(crc.sum().to_le_bytes());
        member.extend((bytes.len() as u32).to_le_bytes());
        member
    }

    fn of(bytes: Vec<u8>, compression: Compression) -> Option<Frames> {
        Frames::of(&MemoryInput::new("a", bytes), compression).unwrap()
    }

    #[test]
    fn frames_are_found_by_headers_and_small_ones_merged() {
        let plain = text(5 << 20);
        let parts: Vec<Vec<u8>> = plain.chunks(700_000).map(sized).collect();
        let frames = of(parts.concat(), Compression::Zstd).unwrap();
        assert_eq!((frames.inside(), frames.longest()), (5 << 20, 1_400_000));
        assert_eq!(frames.at(0), Frame::default());
        let second = Frame { offset: (parts[0].len() + parts[1].len()) as u64, start: 1_400_000 };
        assert_eq!(
            (frames.at(1_399_999), frames.at(1_400_000), frames.at(2_799_999)),
            (Frame::default(), second, second)
        );
        let frames = of(bgzf(&plain, b""), Compression::Gzip).unwrap();
        assert_eq!((frames.inside(), frames.longest()), (5 << 20, 17 * 0xff00));
        assert_eq!(of(bgzf(&plain, b"XY\x03\0abc"), Compression::Gzip).map(|frames| frames.inside()), Some(5 << 20));
        assert_eq!(Frames::whole(7).at(5), Frame::default());
    }

    #[test]
    fn blocks_bound_the_decompressed_length() {
        let plain = text(1_000_000);
        let packed = zstd::encode_all(&plain[..], 1).unwrap();
        let most = |bytes: Vec<u8>, compression| Frames::most(&MemoryInput::new("a", bytes), compression).unwrap();
        assert_eq!(most(packed.clone(), Compression::Zstd), Some(8 * BLOCK));
        assert_eq!(most([packed.clone(), sized(b"x")].concat(), Compression::Zstd), Some(9 * BLOCK));
        assert_eq!(most(packed[..5000].to_vec(), Compression::Zstd), None);
        assert_eq!(most(bgzf(&plain, b""), Compression::Gzip), None);
    }

    #[test]
    fn undeclared_or_impossible_sizes_give_no_seek_points() {
        let good = sized(&text(400_000));
        let unsized_frame = zstd::encode_all(&text(1000)[..], 1).unwrap();
        assert_eq!(of(unsized_frame.clone(), Compression::Zstd), None);
        assert_eq!(of([good.clone(), unsized_frame].concat(), Compression::Zstd), None);
        assert_eq!((of(Vec::new(), Compression::Zstd), of(b"plain text".to_vec(), Compression::Zstd)), (None, None));
        for cut in (0..64).chain((64..good.len()).step_by(1999)) {
            assert_eq!(of(good[..cut].to_vec(), Compression::Zstd), None, "cut at {cut}");
        }
        // The declared size exceeds what the blocks can hold: a few bytes must not promise terabytes.
        let mut lies = good.clone();
        let at = if good[4] & 0x20 == 0 { 6 } else { 5 };
        lies[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(of(lies, Compression::Zstd), None);
        let blocks = bgzf(&text(200_000), b"");
        for cut in (1..64).chain((64..blocks.len() - 28).step_by(499)) {
            let found = of(blocks[..cut].to_vec(), Compression::Gzip);
            assert!(found.is_none_or(|frames| frames.inside() % 0xff00 == 0), "cut at {cut}");
        }
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"hello").unwrap();
        assert_eq!(of([blocks.clone(), gzip.finish().unwrap()].concat(), Compression::Gzip), None);
        let mut longer = blocks.clone();
        longer[16..18].copy_from_slice(&[9, 0]);
        assert_eq!(of(longer, Compression::Gzip), None);
        let mut fuller = blocks;
        let end = usize::from(u16::from_le_bytes([fuller[16], fuller[17]])) + 1;
        fuller[end - 4..end].copy_from_slice(&0x7fff_ffff_u32.to_le_bytes());
        assert_eq!(of(fuller, Compression::Gzip), None);
    }
}
