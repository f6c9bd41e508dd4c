//! Copies a file by several concurrent large reads, written in order.

use packhorse_core::{Cancel, Context, Error, Input, Result};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes per read.
const PIECE: u64 = 8 << 20;

/// The cause of a failed copy.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The original, or its store.
    There(Error),
    /// The folder of copies.
    Here(Error),
}

impl Trouble {
    pub(super) fn into_error(self) -> Error {
        match self {
            Trouble::There(error) | Trouble::Here(error) => error,
        }
    }
}

/// A copy in progress.
struct Copy<'a> {
    input: &'a dyn Input,
    len: u64,
    claimed: AtomicU64,
    state: Mutex<State<'a>>,
    changed: Condvar,
    cancel: &'a Cancel,
    /// Called with the number of bytes just written.
    each: &'a (dyn Fn(u64) + Sync),
}

struct State<'a> {
    /// The next piece to write.
    next: u64,
    out: &'a mut (dyn Write + Send),
    failed: Option<Trouble>,
}

/// Writes the `len` bytes of `input` to `out`, with at most `reads` concurrent reads.
pub(super) fn copy(
    input: &dyn Input,
    len: u64,
    reads: usize,
    out: &mut (dyn Write + Send),
    cancel: &Cancel,
    each: &(dyn Fn(u64) + Sync),
) -> Result<(), Trouble> {
    if let Some(found) = input.len().filter(|&found| found != len) {
        let error = Error::content(format!("has {found} bytes instead of {len}"));
        return Err(Trouble::There(error.in_input(input.name())));
    }
    let state = Mutex::new(State { next: 0, out, failed: None });
    let copy = Copy { input, len, claimed: AtomicU64::new(0), state, changed: Condvar::new(), cancel, each };
    let threads = usize::try_from(len.div_ceil(PIECE)).map_or(reads, |pieces| pieces.min(reads));
    match threads {
        0 | 1 => copy.work(),
        _ => std::thread::scope(|scope| {
            // If a thread can't be started, the others do the work.
            (1..threads).all(|_| std::thread::Builder::new().spawn_scoped(scope, || copy.work()).is_ok());
            copy.work();
        }),
    }
    let state = copy.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match state.failed {
        Some(trouble) => Err(trouble),
        None if state.next == len.div_ceil(PIECE) => Ok(()),
        None => Err(Trouble::Here(Error::bug("a copy ended before its end"))),
    }
}

/// Lets the others end where a thread panics; they would wait for its piece without end.
struct Ending<'c, 'a>(&'c Copy<'a>);

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state().failed.get_or_insert(Trouble::Here(Error::bug("a thread of a copy panicked")));
            self.0.changed.notify_all();
        }
    }
}

impl<'a> Copy<'a> {
    fn work(&self) {
        let _ending = Ending(self);
        let mut buf = Vec::new();
        loop {
            let piece = self.claimed.fetch_add(1, Ordering::Relaxed);
            let from = piece.saturating_mul(PIECE);
            if from >= self.len || self.state().failed.is_some() {
                return;
            }
            buf.resize(usize::try_from(PIECE.min(self.len - from)).unwrap_or_default(), 0);
            let read = self.cancel.check().and_then(|()| self.input.read_at(from, &mut buf));
            let mut state = self.state();
            match read.map_err(Trouble::There) {
                Ok(()) => self.write(state, piece, &buf),
                Err(trouble) => {
                    state.failed.get_or_insert(trouble);
                }
            }
            self.changed.notify_all();
        }
    }

    /// Writes a piece when it is its turn.
    fn write(&self, mut state: MutexGuard<'_, State<'a>>, piece: u64, bytes: &[u8]) {
        while state.next != piece && state.failed.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed.is_some() {
            return;
        }
        match state.out.write_all(bytes).context("write") {
            Ok(()) => state.next += 1,
            Err(e) => state.failed = Some(Trouble::Here(e)),
        }
        drop(state);
        (self.each)(bytes.len() as u64);
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Kind, MemoryInput};

    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(buf.len()).ok_or(std::io::Error::from_raw_os_error(28))?;
            Ok(buf.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn bytes(len: u64) -> Vec<u8> {
        (0..len).map(|i| (i % 251 + i / 100_003) as u8).collect()
    }

    #[test]
    fn a_panic_ends_all_threads() {
        let input = MemoryInput::new("x", bytes(PIECE * 9));
        let each = |_| panic!("expected");
        let mut out = Vec::new();
        let copied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            copy(&input, PIECE * 9, 4, &mut out, &Cancel::default(), &each).is_ok()
        }));
        assert!(copied.is_err());
    }

    #[test]
    fn bytes_come_in_order() {
        for len in [0, 1, PIECE, PIECE * 3 + 5] {
            let input = MemoryInput::new("x", bytes(len));
            for reads in [0, 1, 2, 9] {
                let (mut out, counted) = (Vec::new(), AtomicU64::new(0));
                let each = |n| {
                    counted.fetch_add(n, Ordering::Relaxed);
                };
                copy(&input, len, reads, &mut out, &Cancel::default(), &each).unwrap();
                assert!(out == bytes(len) && counted.into_inner() == len);
            }
        }
    }

    #[test]
    fn trouble_has_a_place() {
        let input = MemoryInput::new("x", bytes(PIECE * 3));
        let of = |len, mut out: Full, cancel: &Cancel| copy(&input, len, 3, &mut out, cancel, &|_| {}).unwrap_err();
        let cancel = Cancel::default();
        assert!(matches!(of(PIECE * 3 - 1, Full(0), &cancel), Trouble::There(e) if e.kind() == Kind::Content));
        assert!(matches!(of(PIECE * 3, Full(PIECE as usize * 2), &cancel), Trouble::Here(e) if e.errno() == Some(28)));
        cancel.cancel();
        assert!(matches!(of(PIECE * 3, Full(1 << 30), &cancel), Trouble::There(e) if e.kind() == Kind::Cancelled));
    }
}
