//! Line numbers for errors. Lines before a range are counted only when an error needs them.

use packhorse_core::{Input, Result};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A cache of line numbers at some offsets of files, so that a range need not count from the start of its file.
#[derive(Default)]
pub(crate) struct LineNumbers(Mutex<BTreeMap<(String, u64), u64>>);

impl LineNumbers {
    /// The most entries.
    const MOST: usize = 4096;

    /// The last cached offset of `input` at or before `at`, and the number of lines before it.
    fn before(&self, input: &dyn Input, at: u64) -> (u64, u64) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = known.range(..=(input.name().to_owned(), at)).next_back();
        last.filter(|((name, _), _)| name == input.name()).map_or((0, 0), |((_, place), lines)| (*place, *lines))
    }

    fn add(&self, input: &dyn Input, at: u64, lines: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert((input.name().to_owned(), at), lines);
    }
}

/// Counts the lines of a range, and on demand those before it.
pub(crate) struct LineCounter<'a> {
    input: &'a dyn Input,
    counted: &'a LineNumbers,
    /// Where the counting started, always at the start of a line.
    start: u64,
    /// The lines before `start`, once counted.
    before: Option<u64>,
    /// The lines read since `start`.
    pub(crate) ended: u64,
}

impl<'a> LineCounter<'a> {
    /// Starts to count at byte `start` of `input`, the start of a line.
    pub(crate) fn new(input: &'a dyn Input, counted: &'a LineNumbers, start: u64) -> Self {
        Self { input, counted, start, before: None, ended: 0 }
    }

    /// Caches the line number at the end of the range, `end`, the start of a line.
    pub(crate) fn ends(&mut self, end: u64) {
        // A file that is one document has no next range.
        if end <= self.start || self.input.len().is_none_or(|len| end >= len) {
            return;
        }
        let (place, lines) = self.counted.before(self.input, self.start);
        let known = self.before.or_else(|| (place == self.start).then_some(lines));
        if let Some(before) = known {
            self.counted.add(self.input, end, before + self.ended);
        }
    }

    /// The number, from 1, of the line that is `back` lines before the next one.
    pub(crate) fn line(&mut self, back: u64) -> Result<u64> {
        let before = match self.before {
            Some(before) => before,
            None => self.count()?,
        };
        self.before = Some(before);
        Ok(before + (self.ended + 1).saturating_sub(back))
    }

    fn count(&self) -> Result<u64> {
        let (from, mut lines) = self.counted.before(self.input, self.start);
        self.input.each_piece(from..self.start, &mut |piece| {
            lines += memchr::memchr_iter(b'\n', piece).count() as u64;
            Ok(())
        })?;
        self.counted.add(self.input, self.start, lines);
        Ok(lines)
    }
}

/// Whether the line that ends right before byte `at` of `input` is blank. A byte order mark at the start of the file
/// is ignored.
pub(crate) fn blank_before(input: &dyn Input, at: u64) -> Result<bool> {
    let mut buf = [0; 4 << 10];
    let mut end = at.saturating_sub(1);
    while end > 0 {
        let from = end.saturating_sub(buf.len() as u64);
        let piece = buf.get_mut(..usize::try_from(end - from).unwrap_or_default()).unwrap_or_default();
        input.read_at(from, piece)?;
        if let Some(n) = piece.iter().rposition(|byte| *byte == b'\n' || !crate::line_reader::is_blank(&[*byte])) {
            let mark = from == 0 && n == 2 && piece.starts_with(crate::line_reader::MARK);
            return Ok(mark || piece.get(n) == Some(&b'\n'));
        }
        end = from;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::options::Settings;
    use crate::source::TextSource;
    use packhorse_core::{Limits, Options, Source};
    use packhorse_testkit::memory::CountedInput;
    use std::sync::Arc;

    /// The lines of the errors in each range of `input`, in reading order.
    fn faults(input: &CountedInput, ranges: impl Iterator<Item = u64>, size: u64) -> Vec<u64> {
        let source = TextSource::new(Settings::parse(&Options::new()).unwrap(), Limits::default());
        let table = source.open(Arc::new(input)).unwrap();
        let faults = |from: u64| -> Vec<u64> {
            let rows = table.rows(from..from + size).unwrap();
            let faults = rows.filter_map(Result::err).map(|e| e.text().into_owned());
            faults.map(|m| m["line ".len()..m.find(',').unwrap()].parse().unwrap()).collect()
        };
        ranges.flat_map(faults).collect()
    }

    #[test]
    fn errors_in_every_range_do_not_count_lines_from_the_start_each_time() {
        let good = format!("{{\"text\": \"{}\"}}\n", "x".repeat(1000));
        let text: String = (0..20_000).map(|i| if i % 100 == 7 { "no json\n" } else { &good }).collect();
        let (len, size) = (text.len() as u64, 400_000);
        let input = CountedInput::new("a.jsonl", text.into_bytes());
        let starts = || (0..len.div_ceil(size) as usize).map(|i| i as u64 * size);
        let wanted: Vec<u64> = (0..20_000).filter(|i| i % 100 == 7).map(|i| i + 1).collect();
        assert_eq!(faults(&input, starts(), size), wanted);
        let read = input.take_read();
        assert!(read < len * 3 / 2, "{read} of {len}");
        // In reverse order, each range counts on its own.
        let mut found = faults(&input, starts().rev(), size);
        found.sort_unstable();
        assert_eq!(found, wanted);
    }
}
