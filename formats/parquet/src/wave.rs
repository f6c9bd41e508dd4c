//! Blocks of rows from parts of a file that are decoded side by side, a wave of parts at a time.

use packhorse_core::{Blocks, Limits, Result, Rows};
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

/// The blocks of a file called `name` that is read wave by wave: `wave` gives the blocks of the next one, in order, and
/// `None` at the end.
pub(crate) fn blocks<'a>(name: &'a str, mut wave: impl FnMut() -> Result<Option<Vec<Rows>>> + Send + 'a) -> Blocks<'a> {
    let mut ready = VecDeque::new();
    packhorse_core::blocks(name, move || {
        while ready.is_empty() {
            let Some(blocks) = wave()? else { return Ok(None) };
            ready.extend(blocks);
        }
        Ok(ready.pop_front())
    })
}
