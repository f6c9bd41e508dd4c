//! Reads in order, of which those over a network are begun ahead of their turn.

use packhorse_core::{BegunRead, Error, Input, Result};
use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::Range;

/// Reads that wait for a network at once.
const AT_ONCE: usize = 32;

/// Bytes from which no further read is begun.
const MOST: u64 = 64 << 20;

/// Reads of several inputs. Where each costs a round trip, those that follow wait for the network at the same time.
pub(crate) struct ReadsAhead<'a, I: Iterator> {
    reads: Peekable<I>,
    begun: VecDeque<(u64, BegunRead<'a>)>,
    bytes: u64,
}

impl<'a, I: Iterator<Item = (&'a dyn Input, Range<u64>)>> ReadsAhead<'a, I> {
    /// None of `reads` is begun yet.
    pub(crate) fn new(reads: I) -> Self {
        Self { reads: reads.peekable(), begun: VecDeque::new(), bytes: 0 }
    }

    /// Fills `buf`, as long as its range, with the next read.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> Result<()> {
        self.begin();
        if let Some((len, read)) = self.begun.pop_front() {
            self.bytes -= len;
            return read(buf);
        }
        let (input, range) = self.reads.next().ok_or_else(|| Error::bug("a read after the last"))?;
        input.read_at(range.start, buf)
    }

    /// Leaves the next read out.
    pub(crate) fn skip(&mut self) {
        match self.begun.pop_front() {
            Some((len, _)) => self.bytes -= len,
            None => drop(self.reads.next()),
        }
    }

    fn begin(&mut self) {
        while self.begun.len() < AT_ONCE && self.bytes < MOST {
            let Some((input, range)) = self.reads.peek().map(|(input, range)| (*input, range.clone())) else { return };
            let len = range.end - range.start;
            let Some(read) = input.begin_read(range) else { return };
            self.bytes += len;
            self.begun.push_back((len, read));
            self.reads.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Bytes that are their offset; reads of a far one are begun.
    struct Counted {
        far: bool,
        waiting: AtomicUsize,
        most: AtomicUsize,
    }

    impl Input for Counted {
        fn name(&self) -> &str {
            "counted"
        }

        fn len(&self) -> Option<u64> {
            Some(256)
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
            buf.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = at as u8);
            Ok(())
        }

        fn begin_read(&self, range: Range<u64>) -> Option<BegunRead<'_>> {
            self.far.then(|| -> BegunRead<'_> {
                let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
                self.most.fetch_max(waiting, Ordering::Relaxed);
                Box::new(move |buf| {
                    self.waiting.fetch_sub(1, Ordering::Relaxed);
                    self.read_at(range.start, buf)
                })
            })
        }

        fn stream(&self) -> Result<Box<dyn Read + Send + '_>> {
            Err(Error::bug("not read in order"))
        }
    }

    fn counted(far: bool) -> Counted {
        Counted { far, waiting: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    #[test]
    fn far_and_near_reads_come_in_order_and_many_wait_at_once() {
        let (far, near) = (counted(true), counted(false));
        let of = |number: u64| if (20..25).contains(&number) { &near } else { &far };
        let mut ahead = ReadsAhead::new((0..100).map(|number| (of(number) as &dyn Input, number..number + 3)));
        for number in 0..100u64 {
            let mut buf = [0; 3];
            if number % 7 == 3 {
                ahead.skip();
                continue;
            }
            ahead.read(&mut buf).unwrap();
            assert_eq!(buf, [number as u8, number as u8 + 1, number as u8 + 2]);
        }
        assert!(ahead.read(&mut [0; 3]).is_err());
        assert!(far.most.load(Ordering::Relaxed) >= AT_ONCE && near.most.load(Ordering::Relaxed) == 0);
    }

    #[test]
    fn few_large_reads_wait_at_once() {
        let far = counted(true);
        let mut ahead = ReadsAhead::new((0..10).map(|_| (&far as &dyn Input, 0..MOST / 2)));
        (0..10).for_each(|_| ahead.read(&mut []).unwrap());
        assert_eq!(far.most.load(Ordering::Relaxed), 2);
    }
}
