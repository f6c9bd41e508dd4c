//! Remote inputs, read ahead: small reads that follow each other become one request.
//!
//! A thread that reads members of an archive one after the other would otherwise wait for a server each time. Each
//! thread has one window, which grows while its reads go forward, so memory is bounded by the number of threads.

use packhorse_core::{Input, Result};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A read that starts at most so many bytes behind the window follows it.
const NEAR: u64 = 64 << 10;

/// The bytes of the first window of reads that follow each other, and of the longest one.
const FIRST: usize = 128 << 10;
const LONGEST: usize = 1 << 20;

/// The bytes that a thread read last.
#[derive(Default)]
struct Window {
    /// The number of the input; 0 for none.
    input: u64,
    start: u64,
    bytes: Vec<u8>,
}

thread_local! {
    static WINDOW: Cell<Window> = Cell::default();
}

/// `input`, read through windows if it is [`pinned`](Input::pinned): a remote one.
pub fn windowed(input: Box<dyn Input>) -> Box<dyn Input> {
    if input.pinned() { Box::new(ReadWindows::new(input)) } else { input }
}

/// An input whose bytes do not change while it is open, read through windows.
struct ReadWindows {
    input: Box<dyn Input>,
    number: u64,
}

impl ReadWindows {
    /// `input` must be [`pinned`](Input::pinned).
    fn new(input: Box<dyn Input>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self { input, number: NUMBERS.fetch_add(1, Ordering::Relaxed) }
    }

    /// Fills `buf` from `window`, or from the input by way of the next window.
    fn read(&self, offset: u64, buf: &mut [u8], window: &mut Window) -> Result<()> {
        let behind = offset.checked_sub(window.start).filter(|_| window.input == self.number);
        let kept = behind.and_then(|from| window.bytes.get(usize::try_from(from).ok()?..)?.get(..buf.len()));
        if let Some(kept) = kept {
            buf.copy_from_slice(kept);
            return Ok(());
        }
        let follows = behind.is_some_and(|behind| behind <= window.bytes.len() as u64 + NEAR);
        let wanted = if follows { (2 * window.bytes.len()).clamp(FIRST, LONGEST) } else { buf.len() };
        let rest = self.input.len().map_or(0, |len| len.saturating_sub(offset));
        let wanted = wanted.min(usize::try_from(rest).unwrap_or(usize::MAX)).max(buf.len());
        // After an error there is no window.
        window.input = 0;
        window.bytes.resize(wanted, 0);
        self.input.read_at(offset, &mut window.bytes)?;
        buf.copy_from_slice(window.bytes.get(..buf.len()).unwrap_or_default());
        (window.input, window.start) = (self.number, offset);
        Ok(())
    }
}

impl Input for ReadWindows {
    packhorse_core::forward_input!(input: name len stream stat pinned local_path);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if buf.len() >= LONGEST {
            return self.input.read_at(offset, buf);
        }
        let mut window = WINDOW.take();
        let read = self.read(offset, buf, &mut window);
        WINDOW.set(window);
        read
    }

    fn sibling(&self, name: &str) -> Result<Option<Box<dyn Input>>> {
        Ok(self.input.sibling(name)?.map(|input| Box::new(Self::new(input)) as Box<dyn Input>))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Kind, MemoryInput};
    use std::sync::Arc;

    /// Counts requests and bytes.
    struct Counted(MemoryInput, Arc<(AtomicU64, AtomicU64)>);

    impl Input for Counted {
        packhorse_core::forward_input!(0: name len stream);

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            self.1.0.fetch_add(1, Ordering::Relaxed);
            self.1.1.fetch_add(buf.len() as u64, Ordering::Relaxed);
            self.0.read_at(offset, buf)
        }
    }

    const LEN: usize = 8_000_003;

    fn counted() -> (Vec<u8>, ReadWindows, Arc<(AtomicU64, AtomicU64)>) {
        let bytes: Vec<u8> = (0..LEN as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 21) as u8).collect();
        let counts = Arc::default();
        let input = Counted(MemoryInput::new("x.tar", bytes.clone()), Arc::clone(&counts));
        (bytes, ReadWindows::new(Box::new(input)), counts)
    }

    #[test]
    fn reads_that_follow_each_other_share_requests() {
        let (bytes, input, counts) = counted();
        let mut at = 0;
        while at + 15_000 <= LEN {
            let mut buf = vec![0; 15_000];
            input.read_at(at as u64, &mut buf).unwrap();
            assert!(buf == bytes[at..at + 15_000]);
            // Headers and padding between members.
            at += 15_872;
        }
        assert!(counts.0.load(Ordering::Relaxed) < 16, "{counts:?}");
        assert!(counts.1.load(Ordering::Relaxed) < LEN as u64 + LEN as u64 / 10, "{counts:?}");
    }

    #[test]
    fn scattered_reads_are_read_alone() {
        let (bytes, input, counts) = counted();
        let (_, other, _) = counted();
        for n in 0..200u64 {
            let at = (n * 0x9e37_79b9 % (LEN as u64 - 20_000)) as usize;
            let mut buf = vec![0; 15_000];
            input.read_at(at as u64, &mut buf).unwrap();
            assert!(buf == bytes[at..at + 15_000]);
            other.read_at(at as u64 + 1, &mut buf).unwrap();
            assert!(buf == bytes[at + 1..at + 15_001], "the window of another input");
        }
        assert_eq!(counts.1.load(Ordering::Relaxed), 200 * 15_000);
    }

    #[test]
    fn the_end_is_the_end() {
        let (bytes, input, _) = counted();
        let mut buf = vec![0; 100];
        for at in [LEN - 300, LEN - 200, LEN - 100] {
            input.read_at(at as u64, &mut buf).unwrap();
            assert!(buf == bytes[at..at + 100]);
        }
        assert_eq!(input.read_at(LEN as u64 - 99, &mut buf).unwrap_err().kind(), Kind::Content);
        input.read_at(LEN as u64 - 150, &mut buf).unwrap();
        assert!(buf == bytes[LEN - 150..LEN - 50]);
        input.read_at(5, &mut []).unwrap();
    }
}
