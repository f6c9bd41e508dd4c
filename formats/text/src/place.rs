//! Where in the file something went wrong: lines are counted only then.

use packhorse_core::{Input, Result};

/// How much is read at once to count lines.
const READ: u64 = 1 << 20;

/// Counts lines from the start of a range on; those before it when somebody asks.
pub(crate) struct Place<'a> {
    input: &'a dyn Input,
    /// Where the counting started, always at the start of a line.
    start: u64,
    /// The lines before `start`, once they were counted.
    before: Option<u64>,
    /// The lines that ended since.
    pub(crate) ended: u64,
}

impl<'a> Place<'a> {
    /// Counting starts at byte `start` of `input`, the start of a line.
    pub(crate) fn new(input: &'a dyn Input, start: u64) -> Self {
        Self { input, start, before: None, ended: 0 }
    }

    /// The number, from 1 on, of the line `back` lines before the one that would come next.
    pub(crate) fn line(&mut self, back: u64) -> Result<u64> {
        let before = match self.before {
            Some(before) => before,
            None => self.count()?,
        };
        self.before = Some(before);
        Ok(before + (self.ended + 1).saturating_sub(back))
    }

    fn count(&self) -> Result<u64> {
        let mut buf = Vec::new();
        let (mut at, mut lines) = (0, 0);
        while at < self.start {
            let n = READ.min(self.start - at);
            buf.resize(usize::try_from(n).unwrap_or_default(), 0);
            self.input.read_at(at, &mut buf)?;
            lines += memchr::memchr_iter(b'\n', &buf).count() as u64;
            at += n;
        }
        Ok(lines)
    }
}

/// Whether the line that ends with the line feed right before byte `at` of `input` is blank. A byte order
/// mark at the start of the file does not show.
pub(crate) fn blank_before(input: &dyn Input, at: u64) -> Result<bool> {
    let mut buf = [0; 4 << 10];
    let mut end = at.saturating_sub(1);
    while end > 0 {
        let from = end.saturating_sub(buf.len() as u64);
        let piece = buf.get_mut(..usize::try_from(end - from).unwrap_or_default()).unwrap_or_default();
        input.read_at(from, piece)?;
        if let Some(n) = piece.iter().rposition(|byte| *byte == b'\n' || !crate::window::is_blank(&[*byte])) {
            let mark = from == 0 && n == 2 && piece.starts_with(crate::window::MARK);
            return Ok(mark || piece.get(n) == Some(&b'\n'));
        }
        end = from;
    }
    Ok(true)
}
