//! Zstandard files whose frames say how long they are decompressed: read at any place, without a copy on a disk.
//!
//! Frames are passed over by the sizes of their blocks
//! ([RFC 8878](https://www.rfc-editor.org/rfc/rfc8878), 3.1.1), so that their lengths are known without decompressing a
//! byte. Inside a frame there is only one way: from its start. So decoders are kept where the last reads ended, and ranges
//! that are read one after the other cost no more than the file.

use crate::compression::zstd_reader;
use packhorse_core::{Context, Error, FileStat, Input, Result};
use std::collections::VecDeque;
use std::io::{BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

const MAGIC: u32 = 0xFD2F_B528;
const SKIPPABLE: u32 = 0x184D_2A50;
/// The most bytes that a block becomes.
const BLOCK: u64 = 128 << 10;
/// Decoders that are kept.
const KEPT: usize = 4;
/// So many bytes before its place a decoder remembers: those that a reader of lines read past its range.
const TAIL: usize = 2 << 20;
/// Bytes decompressed at once on the way to a place.
const STEP: usize = 256 << 10;

/// `input`, a Zstandard file, as the bytes inside it, with their number and readable at any place; `None` where a frame
/// does not say how long it is, or the file is none.
pub fn framed(input: Box<dyn Input>) -> Result<Option<Box<dyn Input>>> {
    let Some(len) = input.len() else { return Ok(None) };
    let Some(frames) = walk(&*input, len)? else { return Ok(None) };
    let size = frames.last().map_or(0, |frame| frame.start + frame.size);
    Ok(Some(Box::new(Frames { input: input.into(), frames, len: size, kept: Mutex::default() })))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    /// Its place in the file.
    offset: u64,
    /// The place of its first byte among those inside.
    start: u64,
    /// How many bytes are inside.
    size: u64,
}

fn walk(input: &dyn Input, len: u64) -> Result<Option<Vec<Frame>>> {
    let (mut frames, mut at, mut start) = (Vec::new(), 0, 0u64);
    while at < len {
        let Some((size, next)) = frame(input, at, len)? else { return Ok(None) };
        if let Some(size) = size {
            frames.push(Frame { offset: at, start, size });
            let Some(end) = start.checked_add(size) else { return Ok(None) };
            start = end;
        }
        at = next;
    }
    Ok((at == len && !frames.is_empty()).then_some(frames))
}

/// Up to 18 bytes at `at`.
fn head(input: &dyn Input, at: u64, len: u64) -> Result<[u8; 18]> {
    let mut bytes = [0; 18];
    let there = usize::try_from(len.saturating_sub(at)).map_or(bytes.len(), |there| there.min(bytes.len()));
    input.read_at(at, bytes.get_mut(..there).unwrap_or_default())?;
    Ok(bytes)
}

/// The number in `count` bytes of `bytes` from `from` on.
fn number(bytes: &[u8], from: usize, count: usize) -> u64 {
    let bytes = bytes.get(from..from + count).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// How long the frame at `at` is decompressed (`None` of one that is to be skipped), and where the next one begins.
fn frame(input: &dyn Input, at: u64, len: u64) -> Result<Option<(Option<u64>, u64)>> {
    let bytes = head(input, at, len)?;
    let magic = number(&bytes, 0, 4) as u32;
    if magic & !0xF == SKIPPABLE {
        return Ok(Some((None, at + 8 + number(&bytes, 4, 4))));
    }
    let descriptor = number(&bytes, 4, 1);
    let single = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4].get((descriptor & 3) as usize).copied().unwrap_or_default();
    let from = 5 + usize::from(!single) + dictionary;
    let (width, more) = match (descriptor >> 6, single) {
        (0, false) => return Ok(None),
        (0, true) => (1, 0),
        (1, _) => (2, 256),
        (2, _) => (4, 0),
        _ => (8, 0),
    };
    if magic != MAGIC {
        return Ok(None);
    }
    let size = number(&bytes, from, width).saturating_add(more);
    let (mut next, mut blocks) = (at + (from + width) as u64, 0u64);
    loop {
        if next + 3 > len {
            return Ok(None);
        }
        let mut header = [0; 3];
        input.read_at(next, &mut header)?;
        let header = number(&header, 0, 3);
        blocks += 1;
        next += 3 + if header >> 1 & 3 == 1 { 1 } else { header >> 3 };
        if header & 1 == 1 {
            break;
        }
    }
    next += if descriptor & 4 != 0 { 4 } else { 0 };
    // A size that the blocks can't make is no size.
    Ok((size <= blocks.saturating_mul(BLOCK)).then_some((Some(size), next)))
}

struct Frames {
    input: Arc<dyn Input>,
    frames: Vec<Frame>,
    len: u64,
    kept: Mutex<VecDeque<Cursor>>,
}

/// A decoder somewhere in the file.
struct Cursor {
    reader: Box<dyn Read + Send>,
    /// The place of the next byte.
    at: u64,
    /// The bytes before it.
    tail: Vec<u8>,
}

impl Cursor {
    /// The first byte that can still be had.
    fn first(&self) -> u64 {
        self.at - self.tail.len() as u64
    }

    /// Fills `buf` from the next byte on, and remembers the last ones.
    fn read(&mut self, buf: &mut [u8]) -> Result<()> {
        self.reader.read_exact(buf).doing("decompress")?;
        self.at += buf.len() as u64;
        if self.tail.len() + buf.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len().saturating_sub(TAIL.saturating_sub(buf.len())));
        }
        self.tail.extend_from_slice(buf.get(buf.len().saturating_sub(TAIL)..).unwrap_or(buf));
        Ok(())
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut step = Vec::new();
        while self.at < offset {
            step.resize(usize::try_from(offset - self.at).map_or(STEP, |left| left.min(STEP)), 0);
            self.read(&mut step)?;
        }
        let known = usize::try_from(self.at - offset).unwrap_or(usize::MAX);
        let before = self.tail.len().checked_sub(known).and_then(|from| self.tail.get(from..));
        let before = before.ok_or_else(|| Error::bug("a decoder is past the place that is read"))?;
        let n = before.len().min(buf.len());
        let (old, new) = buf.split_at_mut(n);
        old.copy_from_slice(before.get(..n).unwrap_or_default());
        if new.is_empty() { Ok(()) } else { self.read(new) }
    }
}

impl Frames {
    /// The decoder that is the shortest way from `offset`: one that is kept, or one at the start of a frame.
    fn cursor(&self, offset: u64) -> Result<Cursor> {
        let frame = self.frames.partition_point(|frame| frame.start <= offset).saturating_sub(1);
        let frame = *self.frames.get(frame).ok_or_else(|| Error::bug("a file without frames"))?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.iter().enumerate().filter(|(_, c)| c.first() <= offset && c.at >= frame.start);
        let nearest = before.max_by_key(|(_, cursor)| cursor.at.min(offset)).map(|(i, _)| i);
        if let Some(cursor) = nearest.and_then(|i| kept.remove(i)) {
            return Ok(cursor);
        }
        drop(kept);
        let file = File { input: Arc::clone(&self.input), at: frame.offset };
        Ok(Cursor {
            reader: zstd_reader(Box::new(BufReader::with_capacity(256 << 10, file)))?,
            at: frame.start,
            tail: Vec::new(),
        })
    }
}

impl Input for Frames {
    fn name(&self) -> &str {
        self.input.name()
    }

    fn len(&self) -> Option<u64> {
        Some(self.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len) {
            let message = format!("is cut short: {} bytes wanted at offset {offset} of {}", buf.len(), self.len);
            return Err(Error::content(message).in_input(self.name()));
        }
        let mut cursor = self.cursor(offset)?;
        cursor.read_at(offset, buf).map_err(|e| blamed(e, self.name()))?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(cursor);
        if kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(())
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        let file = File { input: Arc::clone(&self.input), at: 0 };
        zstd_reader(Box::new(BufReader::with_capacity(256 << 10, file)))
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        self.input.stat()
    }
}

/// What a decoder reports and no system call failed for is bad content.
fn blamed(error: Error, name: &str) -> Error {
    match error.kind() == packhorse_core::Kind::Environment && error.errno().is_none() {
        true => Error::content(format!("can't be decompressed: {}", error.message())).in_input(name),
        false => error.in_input(name),
    }
}

/// The compressed bytes from some place on.
struct File {
    input: Arc<dyn Input>,
    at: u64,
}

impl Read for File {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = self.input.len().unwrap_or(0).saturating_sub(self.at);
        let n = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        self.input.read_at(self.at, buf.get_mut(..n).unwrap_or_default())?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Kind, MemoryInput};

    fn text(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| (i * i / 7 % 61 + 32) as u8).collect()
    }

    fn sized(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.set_pledged_src_size(Some(bytes.len() as u64)).unwrap();
        encoder.include_contentsize(true).unwrap();
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn open(bytes: Vec<u8>) -> Option<Box<dyn Input>> {
        framed(Box::new(MemoryInput::new("a.zst", bytes))).unwrap()
    }

    #[test]
    fn any_range_of_any_frames_is_read() {
        let plain = text(9 << 20);
        let skippable = [&0x184D_2A53u32.to_le_bytes()[..], &5u32.to_le_bytes(), b"hello"].concat();
        let cuts = [0, 100, 100, 300, 5 << 20, plain.len()];
        let frames: Vec<Vec<u8>> = cuts.windows(2).map(|cut| sized(&plain[cut[0]..cut[1]])).collect();
        for file in [sized(&plain), frames.concat(), [&skippable[..], &frames.concat(), &skippable].concat()] {
            let input = open(file).unwrap();
            assert_eq!(input.len(), Some(plain.len() as u64));
            let mut seed = 7u64;
            let mut places: Vec<(usize, usize)> = vec![(0, plain.len()), (plain.len() - 1, 1), (0, 1), (299, 3)];
            for i in 0..40 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let from = (seed >> 33) as usize % plain.len();
                places.push((from, (1 << (i % 22)).min(plain.len() - from)));
            }
            for (from, len) in places {
                let mut found = vec![0; len];
                input.read_at(from as u64, &mut found).unwrap();
                assert!(found == plain[from..from + len], "{len} bytes at {from}");
            }
            let error = input.read_at(plain.len() as u64 - 1, &mut [0; 2]).unwrap_err();
            assert_eq!(error.kind(), Kind::Content);
        }
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        std::io::Write::write_all(&mut encoder, &text(1000)).unwrap();
        let unsized_frame = encoder.finish().unwrap();
        let good = sized(&text(400_000));
        assert!(open(unsized_frame.clone()).is_none());
        assert!(open([good.clone(), unsized_frame].concat()).is_none());
        assert!(open(Vec::new()).is_none() && open(b"plain text, and not short".to_vec()).is_none());
        for cut in 0..good.len() {
            assert!(open(good[..cut].to_vec()).is_none(), "cut at {cut}");
        }
        // A size that no blocks back: a few bytes must not promise more than a disk holds.
        let mut lies = good.clone();
        let width = good[4] >> 6;
        assert_eq!(width, 2);
        let at = if good[4] & 0x20 == 0 { 6 } else { 5 };
        lies[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(open(lies).is_none());
        // One that the blocks could make, and do not.
        let mut wrong = good.clone();
        wrong[at] ^= 1;
        let len = open(wrong.clone()).unwrap().len().unwrap();
        let error = open(wrong).unwrap().read_at(0, &mut vec![0; len as usize]).unwrap_err();
        assert_eq!((error.kind(), error.input()), (Kind::Content, Some("a.zst")));
    }
}
