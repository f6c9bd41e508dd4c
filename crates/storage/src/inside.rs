//! Random access to the content of a compressed file, without a copy on disk.
//!
//! A frame can only be decompressed from its start. So a decoder stays where the last read ended, and consecutive
//! ranges cost no more than the file.

use crate::Compression;
use crate::frames::Frame;
use packhorse_core::{Context, Error, FileStat, Input, Kind, Result};
use std::io::{BufReader, ErrorKind, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// The least history a decoder keeps: what a line reader reads past its range.
const TAIL: usize = 2 << 20;
/// The most history: reading past a range grows with its last line.
const MOST: usize = 16 << 20;
/// How far a reader that continues at an offset looks back.
const BACK: u64 = 64 << 10;
/// Bytes decompressed per step when skipping forward.
const STEP: usize = 256 << 10;

/// The content of a compressed file of known decompressed length. Made for one reader at a time that moves forward.
pub struct Inside {
    file: Arc<dyn Input>,
    compression: Compression,
    len: u64,
    decoders: Mutex<Decoders>,
}

struct Decoders {
    /// The current seek point.
    entry: Frame,
    /// Reads that end before this offset are not kept as history.
    forgets: u64,
    /// The decoder that moves forward.
    ahead: Option<Cursor>,
    /// A second decoder for reads further back, so that the first is not disturbed.
    aside: Option<Cursor>,
    damage: Option<Damage>,
}

/// A failed decompression.
struct Damage {
    /// Reads that end here or later fail,
    at: u64,
    /// if they start from this seek point,
    entry: Frame,
    /// with this error.
    error: Error,
}

impl Inside {
    /// The content of `file`, `len` bytes, decompressed from the seek point `entry` for offsets after it. A wrong
    /// `len` shows as damage when the end is read.
    pub fn new(file: Box<dyn Input>, compression: Compression, len: u64, entry: Frame) -> Self {
        let decoders = Mutex::new(Decoders { entry, forgets: 0, ahead: None, aside: None, damage: None });
        Self { file: file.into(), compression, len, decoders }
    }

    /// The next reader continues at `place`: no history is kept far before it.
    pub fn ends_at(&self, place: u64) {
        self.decoders.lock().unwrap_or_else(PoisonError::into_inner).forgets = place.saturating_sub(BACK);
    }

    /// Moves to the seek point `entry`. Returns whether the current decoder reaches `place` faster than a new one
    /// from there, or `place` is known to be damaged.
    pub fn goes_on(&mut self, place: u64, entry: Frame) -> bool {
        let decoders = self.decoders.get_mut().unwrap_or_else(PoisonError::into_inner);
        decoders.entry = entry;
        let leads = decoders.ahead.as_ref().is_some_and(|ahead| ahead.leads_to(place, entry));
        leads || decoders.damage(place).is_some()
    }
}

/// A decoder at some offset.
struct Cursor {
    reader: Box<dyn Read + Send>,
    /// The seek point where it started.
    entry: Frame,
    /// Decompressed offset of the next byte.
    at: u64,
    /// The bytes before it.
    tail: Vec<u8>,
}

impl Cursor {
    /// The earliest offset still in the history.
    fn first(&self) -> u64 {
        self.at - self.tail.len() as u64
    }

    fn leads_to(&self, place: u64, entry: Frame) -> bool {
        self.first() <= place && self.at >= entry.start
    }

    /// Fills `buf` with the next bytes and adds them to the history, unless they end before `forgets`. `len` is the
    /// decompressed length.
    fn read(&mut self, buf: &mut [u8], len: u64, forgets: u64) -> Result<()> {
        let mut filled = 0;
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.some(rest)? {
                0 => return Err(short(self.at + filled as u64, len)),
                n => filled += n,
            }
        }
        self.at += buf.len() as u64;
        if self.at <= forgets {
            self.tail.clear();
        } else {
            self.remember(buf);
        }
        // Read past the last byte to verify the checksum.
        match self.at == len && self.some(&mut [0])? > 0 {
            true => Err(Error::content(format!("can't be decompressed: holds more than {len} bytes"))),
            false => Ok(()),
        }
    }

    fn remember(&mut self, buf: &[u8]) {
        // A reader of long lines requests about this much again.
        let kept = buf.len().saturating_mul(2).clamp(TAIL, MOST);
        let new = buf.get(buf.len().saturating_sub(kept)..).unwrap_or(buf);
        if new.len() < buf.len() {
            // The history has no gaps.
            self.tail.clear();
        } else if self.tail.len().saturating_add(buf.len()) > 2 * kept {
            self.tail.drain(..self.tail.len().saturating_sub(kept.saturating_sub(buf.len())));
        }
        self.tail.extend_from_slice(new);
    }

    fn some(&mut self, buf: &mut [u8]) -> Result<usize> {
        loop {
            match self.reader.read(buf) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Errors of reading the file, which may be remote, come back whole.
                Err(e) if e.get_ref().is_none_or(|e| !e.is::<Error>()) => return Err(Error::decompress(e)),
                done => return done.context("decompress"),
            }
        }
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8], len: u64, forgets: u64) -> Result<()> {
        let mut step = Vec::new();
        while self.at < offset {
            step.resize(usize::try_from(offset - self.at).map_or(STEP, |left| left.min(STEP)), 0);
            self.read(&mut step, len, forgets)?;
        }
        let known = usize::try_from(self.at - offset).unwrap_or(usize::MAX);
        let before = self.tail.len().checked_sub(known).and_then(|from| self.tail.get(from..));
        let before = before.ok_or_else(|| Error::bug("a decoder is past the place that is read"))?;
        let n = before.len().min(buf.len());
        let (old, new) = buf.split_at_mut(n);
        old.copy_from_slice(before.get(..n).unwrap_or_default());
        if new.is_empty() { Ok(()) } else { self.read(new, len, forgets) }
    }
}

fn short(at: u64, len: u64) -> Error {
    Error::content(format!("can't be decompressed: ends after {at} of {len} bytes"))
}

impl Decoders {
    /// The decoder with the shortest way to `offset`.
    fn to(&mut self, offset: u64, open: impl FnOnce(Frame) -> Result<Cursor>) -> Result<&mut Option<Cursor>> {
        let entry = if self.entry.start <= offset { self.entry } else { Frame::default() };
        let back = self.ahead.as_ref().is_some_and(|ahead| offset < ahead.first());
        let way = if back { &mut self.aside } else { &mut self.ahead };
        if !way.as_ref().is_some_and(|cursor| cursor.leads_to(offset, entry)) {
            *way = Some(open(entry)?);
        }
        Ok(way)
    }

    /// The error of an earlier failed read that covers `offset`.
    fn damage(&self, offset: u64) -> Option<Error> {
        let damage = self.damage.as_ref().filter(|damage| damage.at <= offset && damage.entry == self.entry)?;
        Some(damage.error.clone())
    }
}

impl Input for Inside {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn len(&self) -> Option<u64> {
        Some(self.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len) {
            return Err(Error::past_end(buf.len() as u64, offset, self.len).in_input(self.name()));
        }
        let open = |frame| cursor(&self.file, self.compression, frame);
        let mut decoders = self.decoders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(damage) = decoders.damage(offset) {
            return Err(damage.in_input(self.name()));
        }
        let forgets = decoders.forgets;
        let way = decoders.to(offset, open)?;
        let Some(cursor) = way else { return Err(Error::bug("no decoder")) };
        let done = cursor.read_at(offset, buf, self.len, forgets);
        if let Err(e) = &done {
            // The decoder's position is unknown after an error.
            let (entry, at) = (cursor.entry, offset + buf.len() as u64);
            *way = None;
            decoders.damage = (e.kind() == Kind::Content).then(|| Damage { at, entry, error: e.clone() });
        }
        done.map_err(|e| e.in_input(self.name()))
    }

    fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
        cursor(&self.file, self.compression, Frame::default()).map(|cursor| cursor.reader as Box<dyn Read + Send>)
    }

    fn stat(&self) -> Result<Option<FileStat>> {
        self.file.stat()
    }
}

/// A decoder at the start of `frame`.
fn cursor(file: &Arc<dyn Input>, compression: Compression, frame: Frame) -> Result<Cursor> {
    // Remote reads have a latency, so read far ahead.
    let ahead = if file.local_path().is_some() { 256 << 10 } else { 4 << 20 };
    let bytes = BufReader::with_capacity(ahead, Bytes { file: Arc::clone(file), at: frame.offset });
    Ok(Cursor { reader: compression.reader(Box::new(bytes))?, entry: frame, at: frame.start, tail: Vec::new() })
}

/// The compressed bytes from an offset on.
struct Bytes {
    file: Arc<dyn Input>,
    at: u64,
}

impl Read for Bytes {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let left = self.file.len().unwrap_or(0).saturating_sub(self.at);
        let n = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        self.file.read_at(self.at, buf.get_mut(..n).unwrap_or_default())?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frames;
    use crate::compression::tests::ALL;
    use crate::frames::tests::{bgzf, sized, text};
    use packhorse_core::MemoryInput;
    use packhorse_testkit::memory::CountedInput;
    use std::sync::atomic::Ordering;

    fn open(bytes: &[u8], compression: Compression, frames: &Frames, place: u64) -> Inside {
        let input = Box::new(MemoryInput::new("a", bytes.to_vec()));
        Inside::new(input, compression, frames.inside(), frames.at(place))
    }

    /// Files of every compression with the content `plain`, in one frame and in several.
    fn files(plain: &[u8]) -> Vec<(Compression, Vec<u8>)> {
        let skippable = [&0x184D_2A53u32.to_le_bytes()[..], &5u32.to_le_bytes(), b"hello"].concat();
        let cuts = [0, 100, 100, 300, plain.len() / 2, plain.len()];
        let several = |encode: &dyn Fn(&[u8]) -> Vec<u8>| -> Vec<u8> {
            cuts.windows(2).flat_map(|cut| encode(&plain[cut[0]..cut[1]])).collect()
        };
        let frames = several(&sized);
        let mut files = vec![
            (Compression::Zstd, sized(plain)),
            (Compression::Zstd, frames.clone()),
            (Compression::Zstd, [&skippable[..], &frames, &skippable].concat()),
            (Compression::Gzip, bgzf(plain, b"")),
        ];
        for (name, encode) in ALL {
            let (compression, _) = Compression::of(name.as_bytes()).unwrap();
            files.extend([(compression, encode(plain)), (compression, several(&encode))]);
        }
        files
    }

    #[test]
    fn any_range_of_any_file_is_read() {
        let plain = text(3 << 20);
        for (compression, file) in files(&plain) {
            let input = MemoryInput::new("a", file.clone());
            let frames = Frames::of(&input, compression).unwrap().unwrap_or(Frames::whole(plain.len() as u64));
            assert_eq!(frames.inside(), plain.len() as u64);
            let mut seed = 7u64;
            let mut places: Vec<(usize, usize)> = vec![(0, plain.len()), (plain.len() - 1, 1), (0, 1), (299, 3)];
            for i in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let from = (seed >> 33) as usize % plain.len();
                places.push((from, (1 << (i * 5 % 22)).min(plain.len() - from)));
            }
            let mut kept = open(&file, compression, &frames, 0);
            for (from, len) in places {
                let wanted = &plain[from..from + len];
                let mut found = vec![0; len];
                open(&file, compression, &frames, from as u64).read_at(from as u64, &mut found).unwrap();
                assert!(found == wanted, "{compression:?}: {len} bytes at {from}");
                kept.goes_on(from as u64, frames.at(from as u64));
                found.fill(0);
                kept.read_at(from as u64, &mut found).unwrap();
                assert!(found == wanted, "{compression:?}: {len} bytes at {from}, by one who was elsewhere");
            }
            let error = kept.read_at(plain.len() as u64 - 1, &mut [0; 2]).unwrap_err();
            assert_eq!(error.kind(), Kind::Content);
        }
    }

    #[test]
    fn going_on_costs_no_more_than_the_file_and_a_look_back_does_not_disturb_it() {
        let plain = text(16 << 20);
        let file = zstd::encode_all(&plain[..], 1).unwrap();
        let input = Box::new(CountedInput::local("a", file.clone()));
        let read = input.counter();
        let mut inside = Inside::new(input, Compression::Zstd, plain.len() as u64, Frame::default());
        let mut found = vec![0; 1 << 20];
        for from in (0..plain.len()).step_by(1 << 20) {
            // Like ranges that begin a little before the end of the previous read.
            let start = from.saturating_sub(64 << 10);
            assert_eq!(inside.goes_on(start as u64, Frame::default()), from > 0);
            inside.read_at(start as u64, &mut found).unwrap();
            assert!(found == plain[start..start + (1 << 20)]);
            if from == 8 << 20 {
                inside.read_at(0, &mut found).unwrap();
                assert!(found == plain[..1 << 20]);
            }
        }
        assert!(read.load(Ordering::Relaxed) < file.len() as u64 * 3 / 2, "{read:?} of {}", file.len());
    }

    /// Like a line reader that meets a long line, and then continues behind its start.
    #[test]
    fn a_look_back_over_long_reads_gives_the_bytes_that_are_there() {
        let plain = text(36 << 20);
        let input = Box::new(MemoryInput::new("a", zstd::encode_all(&plain[..], 1).unwrap()));
        let inside = Inside::new(input, Compression::Zstd, plain.len() as u64, Frame::default());
        inside.ends_at(10 << 20);
        let mut at = 0;
        for len in [1, 1, 2, 4, 8, 17] {
            let mut found = vec![0; len << 20];
            inside.read_at(at as u64, &mut found).unwrap();
            assert!(found == plain[at..at + found.len()], "{len} MiB at {at}");
            at += found.len();
        }
        for from in [10, 12, 15, 20, 26] {
            let mut found = vec![0; 3 << 20];
            inside.read_at(from << 20, &mut found).unwrap();
            let from = (from as usize) << 20;
            assert!(found == plain[from..from + found.len()], "back at {from}");
        }
    }

    #[test]
    fn a_frame_is_entered_without_what_is_before_it() {
        let plain = text(8 << 20);
        let file: Vec<u8> = plain.chunks(1 << 20).flat_map(sized).collect();
        let input = Box::new(CountedInput::local("a", file.clone()));
        let read = input.counter();
        let frames = Frames::of(&*input, Compression::Zstd).unwrap().unwrap();
        read.store(0, Ordering::Relaxed);
        let place = 7 << 20;
        let mut found = vec![0; 1 << 20];
        Inside::new(input, Compression::Zstd, frames.inside(), frames.at(place)).read_at(place, &mut found).unwrap();
        assert!(found == plain[7 << 20..]);
        assert!(read.load(Ordering::Relaxed) <= file.len() as u64 / 7, "{read:?} of {}", file.len());
    }

    #[test]
    fn damage_is_found_once() {
        let plain = text(8 << 20);
        let mut file = bgzf(&plain, b"");
        let middle = file.len() / 2;
        file[middle..middle + 64].fill(0x55);
        let input = Box::new(CountedInput::local("a", file.clone()));
        let read = input.counter();
        let mut inside = Inside::new(input, Compression::Gzip, plain.len() as u64, Frame::default());
        let mut found = vec![0; 1 << 20];
        for from in (0..8u64).map(|i| i << 20) {
            assert!(inside.goes_on(from, Frame::default()) || from == 0 || from == 5 << 20, "{from}");
            let done = inside.read_at(from, &mut found).map_err(|e| (e.kind(), e.input().map(str::to_owned)));
            assert_eq!(done.is_err(), from >= 4 << 20, "{from}: {done:?}");
            assert_eq!(
                done.err().unwrap_or((Kind::Content, Some("a".to_owned()))),
                (Kind::Content, Some("a".to_owned()))
            );
        }
        assert!(read.load(Ordering::Relaxed) < file.len() as u64, "{read:?} of {}", file.len());
        // Offsets before the damage are still readable.
        inside.read_at(1 << 20, &mut found).unwrap();
        assert!(found == plain[1 << 20..2 << 20]);
    }

    #[test]
    fn other_lengths_and_damage_up_to_the_last_byte_are_bad_content() {
        let plain = text(300_000);
        for (compression, file) in files(&plain) {
            let read = |file: &[u8], len: usize| {
                let frames = Frames::whole(len as u64);
                open(file, compression, &frames, 0).read_at(0, &mut vec![0; len])
            };
            read(&file, plain.len()).unwrap();
            for len in [plain.len() - 1, plain.len() + 1] {
                let error = read(&file, len).unwrap_err();
                assert_eq!((error.kind(), error.input()), (Kind::Content, Some("a")), "{compression:?}: {error}");
            }
            for cut in [1, file.len() / 2, file.len() - 1] {
                let error = read(&file[..cut], plain.len()).unwrap_err();
                assert_eq!((error.kind(), error.input()), (Kind::Content, Some("a")), "{compression:?} cut at {cut}");
            }
        }
        // Only the checksum shows the damage; it comes after the last requested byte.
        let mut flipped = sized(&plain);
        let last = flipped.len() - 1;
        flipped[last] ^= 1;
        let error =
            open(&flipped, Compression::Zstd, &Frames::whole(300_000), 0).read_at(299_999, &mut [0]).unwrap_err();
        assert_eq!(error.kind(), Kind::Content);
    }

    /// A file on a server that stops answering behind its first bytes.
    struct Interrupted(MemoryInput, u64);

    impl Input for Interrupted {
        packhorse_core::forward_input!(0: name len stream stat);

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            if offset + buf.len() as u64 > self.1 {
                return Err(Error::new(Kind::Environment, "the server answered 503"));
            }
            self.0.read_at(offset, buf)
        }
    }

    #[test]
    fn a_failure_of_the_network_is_not_damage() {
        let plain = text(300 << 10);
        for (compression, bytes) in files(&plain) {
            let most = bytes.len() as u64 - 1;
            let file = Box::new(Interrupted(MemoryInput::new("a", bytes), most));
            let inside = Inside::new(file, compression, plain.len() as u64, Frame::default());
            let error = inside.read_at(0, &mut vec![0; plain.len()]).unwrap_err();
            assert_eq!(error.kind(), Kind::Environment, "{compression:?}: {error}");
            assert!(error.message().contains("the server answered 503"), "{compression:?}: {error}");
        }
    }
}
