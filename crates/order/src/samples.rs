//! The sample index: the document and the offset at which each sample begins.
//!
//! Megatron walks over the documents one by one. The result has a closed form: sample `k` begins in the first document
//! that ends at or after token `k·length + extra` of all, at `k·length` less the tokens before that document. So pieces
//! of the document index are summed and then walked in parallel.

use rayon::prelude::*;

/// Documents per piece.
const PIECE: usize = 1 << 16;
/// Documents whose lengths are loaded together, so that cache misses overlap.
const AHEAD: usize = 512;

/// The inputs of the sample index, shared by all pieces.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    pub(crate) lengths: &'a [i32],
    pub(crate) documents: &'a [i32],
    /// Tokens per sample, without the extra one.
    pub(crate) length: u64,
    pub(crate) extra: u64,
}

/// A position in the document index and an offset in tokens.
pub(crate) type Row<T> = [T; 2];

impl Walk<'_> {
    /// Fills `rows`: one row per sample and one for the end.
    pub(crate) fn fill<T: Copy + Send + Sync>(&self, rows: &mut [Row<T>], number: impl Fn(i64) -> T + Sync) {
        let Some((first, rest)) = rows.split_first_mut() else { return };
        *first = [number(0), number(0)];
        let sums: Vec<u64> = self.documents.par_chunks(PIECE).map(|piece| self.sum(piece)).collect();
        let (mut tasks, mut rest, mut begin, mut done) = (Vec::with_capacity(sums.len()), rest, 0u64, 0u64);
        for (piece, sum) in sums.iter().enumerate() {
            let end = begin + sum;
            // The last sample that begins at or before the end of the piece.
            let last = end.saturating_sub(self.extra) / self.length;
            let count = last.saturating_sub(done).min(rest.len() as u64);
            let (rows, others) = std::mem::take(&mut rest).split_at_mut(count as usize);
            tasks.push((piece, begin, done + 1, rows));
            (rest, begin, done) = (others, end, done + count);
        }
        tasks.into_par_iter().for_each(|(piece, begin, sample, rows)| self.walk(piece, begin, sample, rows, &number));
        rest.fill(self.end().map(number));
    }

    fn sum(&self, piece: &[i32]) -> u64 {
        piece.iter().map(|&document| u64::from(self.of(document))).sum()
    }

    fn of(&self, document: i32) -> u32 {
        self.lengths.get(document as usize).map_or(0, |&length| length as u32)
    }

    /// Fills the rows that begin in a piece; `begin` is the number of tokens before it, `sample` that of its first row.
    fn walk<T>(&self, piece: usize, begin: u64, sample: u64, rows: &mut [Row<T>], number: &impl Fn(i64) -> T) {
        let mut start = begin;
        let mut target = sample * self.length;
        let mut rows = rows.iter_mut();
        let mut lengths = [0u32; AHEAD];
        let documents = self.documents.chunks(PIECE).nth(piece).unwrap_or_default();
        for (part, documents) in documents.chunks(AHEAD).enumerate() {
            for (length, &document) in lengths.iter_mut().zip(documents) {
                *length = self.of(document);
            }
            for (at, &length) in lengths.iter().take(documents.len()).enumerate() {
                let end = start + u64::from(length);
                while target + self.extra <= end {
                    let Some(row) = rows.next() else { return };
                    let place = piece * PIECE + part * AHEAD + at;
                    *row = [number(place as i64), number((target - start) as i64)];
                    target += self.length;
                }
                start = end;
            }
        }
    }

    /// The row of samples past the last token: the end of the last document, less the extra token.
    fn end(&self) -> Row<i64> {
        let last = self.documents.len().saturating_sub(1);
        let length = self.documents.last().map_or(0, |&document| self.of(document));
        [last as i64, i64::from(length) - self.extra as i64]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation of the rule.
    fn plainly(walk: &Walk<'_>, samples: usize) -> Vec<Row<i64>> {
        let (mut at, mut offset) = (0, 0i64);
        let mut rows = vec![[0, 0]];
        let extra = walk.extra as i64;
        for _ in 0..samples {
            let mut remaining = walk.length as i64 + extra;
            loop {
                let length = i64::from(walk.lengths[walk.documents[at] as usize]) - offset;
                remaining -= length;
                if remaining <= 0 {
                    offset += remaining + length - extra;
                    break;
                } else if at + 1 == walk.documents.len() {
                    offset = offset + length - extra;
                    break;
                }
                (at, offset) = (at + 1, 0);
            }
            rows.push([at as i64, offset]);
        }
        rows
    }

    #[test]
    fn the_closed_form_is_the_walk() {
        let mut random = crate::RandomState::new(5);
        for case in 0..60u64 {
            let count = [3, 40, 1000, PIECE + 900][case as usize % 4];
            let top = [0, 3, 30, 5000][case as usize / 4 % 4];
            let lengths: Vec<i32> = (0..count).map(|_| random.at_most(top) as i32).collect();
            let documents: Vec<i32> = (0..count).map(|_| random.at_most(count as u64 - 1) as i32).collect();
            let (length, extra) = (1 + random.at_most(50) + top / 10, case % 2);
            let walk = Walk { lengths: &lengths, documents: &documents, length, extra };
            let tokens: u64 = documents.iter().map(|&d| lengths[d as usize] as u64).sum();
            let samples = (tokens.saturating_sub(extra) / length + case % 3) as usize;
            let mut rows = vec![[7, 7]; samples + 1];
            walk.fill(&mut rows, |value| value);
            assert_eq!(rows, plainly(&walk, samples), "{case}");
        }
    }
}
