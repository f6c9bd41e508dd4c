//! Decodes parts of a file in parallel, a wave of parts at a time, into blocks of rows.

use packhorse_core::{Blocks, Limits, Result, Rows};
use std::collections::VecDeque;

/// The approximate size of a block in bytes.
const BLOCK: u64 = 4 << 20;

/// The most rows in a block.
const BLOCK_ROWS: u64 = 8192;

/// The most bytes that are decoded in parallel without limits, about.
const WAVE: u64 = 128 << 20;

/// The rows of a block, for `rows` rows of `bytes` bytes in total.
pub(crate) fn block_rows(bytes: u64, rows: u64) -> usize {
    let each = (bytes / rows.max(1)).max(1);
    usize::try_from((BLOCK / each).clamp(1, BLOCK_ROWS)).unwrap_or(1)
}

/// Whether a wave of `parts` parts with `bytes` bytes in total has room for another.
pub(crate) fn has_room(parts: usize, bytes: u64, limits: &Limits) -> bool {
    parts == 0 || parts < rayon::current_num_threads().saturating_mul(2) && bytes < most_bytes(limits)
}

/// About the most bytes that are decoded in parallel.
pub(crate) fn most_bytes(limits: &Limits) -> u64 {
    WAVE.min(limits.ahead)
}

/// The blocks of the input `name`, read wave by wave: `wave` returns the blocks of the next wave in order, and `None` at
/// the end.
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
