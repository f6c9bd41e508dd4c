//! Unigram: the segmentation with the highest sum of scores. A port of SentencePiece's `unigram_model.cc`
//! (`EncodeOptimized`), including its 32-bit sums.
//!
//! At a position that no piece spans, the best segmentation so far is final and is emitted. So memory grows with a
//! stretch of text, not with the document.

use super::model::PieceType;
use super::trie::Trie;
use super::{End, Pieces, width};

/// How much an unknown character scores below the worst piece.
const PENALTY: f32 = 10.0;

/// Segments text by Unigram.
pub(super) struct Unigram {
    trie: Trie,
    lowest: f32,
}

/// The best segmentation up to a position of the stretch: its score and its last piece.
#[derive(Clone, Copy)]
struct Best {
    score: f32,
    start: u32,
    id: u32,
}

const NOWHERE: u32 = u32::MAX;

/// Buffers of one thread.
#[derive(Default)]
pub(super) struct UnigramBuffers {
    best: Vec<Best>,
    cut: Vec<(u32, u32)>,
}

impl Unigram {
    pub(super) fn new(pieces: &Pieces) -> Self {
        let keys = pieces.normal.iter().map(|(text, id)| (&text[..], *id)).collect();
        let normal =
            pieces.model.pieces.iter().filter(|piece| piece.kind == PieceType::Normal).map(|piece| piece.score);
        Self { trie: Trie::new(keys), lowest: normal.fold(f32::MAX, f32::min) }
    }

    pub(super) fn encode(&self, pieces: &Pieces, text: &[u8], scratch: &mut UnigramBuffers, end: &mut End<'_>) {
        let nowhere = Best { score: 0.0, start: NOWHERE, id: 0 };
        let unknown = self.lowest - PENALTY;
        // The stretch starts at `origin`; its pieces reach at most to `reach`.
        let (mut origin, mut reach, mut at) = (0, 0, 0);
        scratch.best.clear();
        scratch.best.push(nowhere);
        while let Some(first) = text.get(at) {
            if at == reach && at > origin {
                let score = scratch.best.last().map_or(0.0, |best| best.score);
                settle(text.get(origin..at).unwrap_or_default(), scratch, end);
                origin = at;
                scratch.best.clear();
                scratch.best.push(Best { score, ..nowhere });
            }
            let from = at - origin;
            let here = scratch.rebased(from);
            let rest = text.get(at..).unwrap_or_default();
            let one = width(*first).min(rest.len());
            let mut whole = false;
            for (length, id) in self.trie.prefixes(rest) {
                let kind = pieces.kind(id);
                if kind == PieceType::Unused {
                    continue;
                }
                let score = match kind {
                    // A user-defined symbol wins over pieces of the same length.
                    PieceType::UserDefined => bonus(length) + here,
                    _ => pieces.score(id) + here,
                };
                scratch.offer(from, from + length, score, id);
                reach = reach.max(at + length);
                whole |= length == one;
            }
            if !whole {
                scratch.offer(from, from + one, unknown + here, pieces.unknown);
                reach = reach.max(at + one);
            }
            at += one;
        }
        settle(text.get(origin..).unwrap_or_default(), scratch, end);
    }
}

/// Larger sums are subtracted from all open sums, to keep 32-bit precision for small differences. A rule of the
/// reference that affects the result for long texts.
const REBASE: f32 = 100_000.0;

impl UnigramBuffers {
    /// The best sum at `from`, the first open position; rebases the sums if it is large.
    fn rebased(&mut self, from: usize) -> f32 {
        let here = self.best.get(from).map_or(0.0, |best| best.score);
        if here.abs() <= REBASE {
            return here;
        }
        let ahead = self.best.iter_mut().skip(from).enumerate();
        for (_, best) in ahead.filter(|(i, best)| *i == 0 || best.start != NOWHERE) {
            best.score -= here;
        }
        0.0
    }

    fn offer(&mut self, from: usize, to: usize, score: f32, id: u32) {
        if self.best.len() <= to {
            self.best.resize(to + 1, Best { score: 0.0, start: NOWHERE, id: 0 });
        }
        let Some(best) = self.best.get_mut(to) else { return };
        if best.start == NOWHERE || score > best.score {
            *best = Best { score, start: u32::try_from(from).unwrap_or(NOWHERE), id };
        }
    }
}

/// Emits the best segmentation of the stretch.
fn settle(stretch: &[u8], scratch: &mut UnigramBuffers, end: &mut End<'_>) {
    scratch.cut.clear();
    let mut at = stretch.len();
    while at > 0 {
        let Some(best) = scratch.best.get(at).filter(|best| best.start != NOWHERE) else { break };
        scratch.cut.push((best.start, best.id));
        at = usize::try_from(best.start).unwrap_or(0);
    }
    let mut cut = scratch.cut.iter().rev().peekable();
    while let Some((start, id)) = cut.next() {
        let start = usize::try_from(*start).unwrap_or(0);
        let stop = cut.peek().map_or(stretch.len(), |(start, _)| usize::try_from(*start).unwrap_or(0));
        end.push(stretch.get(start..stop).unwrap_or_default(), *id);
    }
}

/// The score of a user-defined symbol of `length` bytes, rounded to 32 bits as in the reference.
fn bonus(length: usize) -> f32 {
    (0.1 * (length as f64 - 1.0)) as f32
}
