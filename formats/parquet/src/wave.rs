//! Blocks of rows from parts of a file that are decoded side by side, a wave of parts at a time.

use packhorse_core::{Limits, Result, Rows};
use std::collections::VecDeque;

/// About as many bytes as a block of rows has.
const BLOCK: u64 = 4 << 20;

/// The most rows of a block.
const BLOCK_ROWS: u64 = 8192;

/// About the most bytes that are decoded side by side.
const WAVE: u64 = 128 << 20;

/// How many of `rows` rows, of `bytes` bytes together, make a block.
pub(crate) fn block_rows(bytes: u64, rows: u64) -> usize {
    let each = (bytes / rows.max(1)).max(1);
    usize::try_from((BLOCK / each).clamp(1, BLOCK_ROWS)).unwrap_or(1)
}

/// Whether a wave of so many parts, of `bytes` bytes together, has room for one more.
pub(crate) fn has_room(parts: usize, bytes: u64, limits: &Limits) -> bool {
    parts < rayon::current_num_threads().saturating_mul(2) && bytes < WAVE.min(limits.ahead)
}

/// A file that is read wave by wave.
pub(crate) trait Waves {
    /// What the user calls it.
    fn name(&self) -> &str;

    /// The blocks of the next wave, in order; `None` at the end.
    fn wave(&mut self) -> Result<Option<Vec<Rows>>>;
}

/// Its blocks one by one. An error, which names the file, is the last of them.
pub(crate) struct Blocks<W> {
    waves: W,
    ready: VecDeque<Rows>,
    done: bool,
}

impl<W: Waves> Blocks<W> {
    pub(crate) fn new(waves: W) -> Self {
        Self { waves, ready: VecDeque::new(), done: false }
    }

    fn block(&mut self) -> Result<Option<Rows>> {
        while self.ready.is_empty() {
            let Some(blocks) = self.waves.wave()? else { return Ok(None) };
            self.ready.extend(blocks);
        }
        Ok(self.ready.pop_front())
    }
}

impl<W: Waves> Iterator for Blocks<W> {
    type Item = Result<Rows>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let block = self.block().map_err(|e| e.in_input(self.waves.name())).transpose();
        self.done = !matches!(block, Some(Ok(_)));
        block
    }
}
