//! BPE: repeatedly joins the adjacent pair with the best score, the leftmost of equals. A port of SentencePiece's
//! `bpe_model.cc`.
//!
//! If no piece contains a space sign after another character, text splits into independent words, and the results of
//! recent words are cached.

use super::model::PieceType;
use super::normalizer::user_defined;
use super::trie::Trie;
use super::{End, Pieces, width};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

const NONE: u32 = u32::MAX;
const SPACE: &[u8] = "▁".as_bytes();
/// Longer words are not cached: they are rare and seldom repeat.
const LONGEST_WORD: usize = 64;
/// The cache is cleared at this many words.
const WORDS: usize = 1 << 16;

/// Length and id of a piece.
type Cut = (u32, u32);

/// Segments text by BPE.
pub(super) struct Bpe {
    user_defined: Trie,
    has_user_defined: bool,
    /// Whether words are independent.
    by_word: bool,
}

/// Buffers of one thread.
#[derive(Default)]
pub(super) struct BpeBuffers {
    symbols: Vec<Symbol>,
    agenda: BinaryHeap<Pair>,
    /// Where to split unused pieces again.
    halves: HashMap<Vec<u8>, usize>,
    words: HashMap<Box<[u8]>, Box<[Cut]>>,
    cut: Vec<Cut>,
}

/// A span of the text; empty once merged into its predecessor.
struct Symbol {
    start: u32,
    length: u32,
    prev: u32,
    next: u32,
    frozen: bool,
}

/// Two adjacent symbols that can merge.
#[derive(PartialEq)]
struct Pair {
    score: f32,
    left: u32,
    right: u32,
    length: u32,
}

impl Eq for Pair {}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(Reverse(self.left).cmp(&Reverse(other.left)))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Bpe {
    pub(super) fn new(pieces: &Pieces) -> Self {
        let crosses = |text: &[u8]| boundary(text, 0) < text.len();
        Self {
            user_defined: user_defined(&pieces.model),
            has_user_defined: pieces.model.pieces.iter().any(|piece| piece.kind == PieceType::UserDefined),
            by_word: !pieces.normal.keys().any(|text| crosses(text)),
        }
    }

    pub(super) fn encode(&self, pieces: &Pieces, text: &[u8], scratch: &mut BpeBuffers, end: &mut End<'_>) {
        let mut start = 0;
        while start < text.len() {
            let stop = if self.by_word { boundary(text, start) } else { text.len() };
            let word = text.get(start..stop).unwrap_or_default();
            if let Some(cut) = scratch.words.get(word) {
                give(word, cut, end);
            } else {
                self.cut(pieces, word, scratch);
                give(word, &scratch.cut, end);
                if self.by_word && word.len() <= LONGEST_WORD {
                    if scratch.words.len() == WORDS {
                        scratch.words.clear();
                    }
                    scratch.words.insert(word.into(), scratch.cut[..].into());
                }
            }
            start = stop;
        }
    }

    /// Segments `word` into `scratch.cut`: lengths and ids of pieces.
    fn cut(&self, pieces: &Pieces, word: &[u8], scratch: &mut BpeBuffers) {
        self.characters(word, scratch);
        scratch.halves.clear();
        let count = u32::try_from(scratch.symbols.len()).unwrap_or(NONE);
        for right in 1..count {
            scratch.propose(pieces, word, right - 1, right);
        }
        while let Some(pair) = scratch.agenda.pop() {
            scratch.join(pieces, word, &pair);
        }
        scratch.cut.clear();
        let mut at = if scratch.symbols.is_empty() { NONE } else { 0 };
        while let Some(symbol) = scratch.symbols.get(index(at)) {
            at = symbol.next;
            let text = part(word, symbol.start, symbol.length);
            resegment(pieces, &scratch.halves, text, &mut scratch.cut);
        }
    }

    fn characters(&self, word: &[u8], scratch: &mut BpeBuffers) {
        scratch.symbols.clear();
        scratch.agenda.clear();
        let mut start = 0;
        while let Some(first) = word.get(start) {
            let rest = word.get(start..).unwrap_or_default();
            let found = self.has_user_defined.then(|| self.user_defined.prefixes(rest).last()).flatten();
            let length = found.map_or(width(*first).min(rest.len()), |(length, _)| length);
            let at = u32::try_from(scratch.symbols.len()).unwrap_or(NONE);
            scratch.symbols.push(Symbol {
                start: narrow(start),
                length: narrow(length),
                prev: at.checked_sub(1).unwrap_or(NONE),
                next: if length == rest.len() { NONE } else { at + 1 },
                frozen: found.is_some(),
            });
            start += length;
        }
    }
}

impl BpeBuffers {
    /// Queues the pair if it forms a piece.
    fn propose(&mut self, pieces: &Pieces, word: &[u8], left: u32, right: u32) {
        let (Some(l), Some(r)) = (self.symbols.get(index(left)), self.symbols.get(index(right))) else { return };
        if l.frozen || r.frozen {
            return;
        }
        let length = l.length + r.length;
        let text = part(word, l.start, length);
        let Some(id) = pieces.normal.get(text) else { return };
        self.agenda.push(Pair { score: pieces.score(*id), left, right, length });
        if pieces.kind(*id) == PieceType::Unused {
            self.halves.insert(text.to_vec(), index(l.length));
        }
    }

    fn join(&mut self, pieces: &Pieces, word: &[u8], pair: &Pair) {
        let (left, right) = (self.symbols.get(index(pair.left)), self.symbols.get(index(pair.right)));
        let (Some(l), Some(r)) = (left, right) else { return };
        // Stale: one of them has merged with another symbol since.
        if l.length == 0 || r.length == 0 || l.length + r.length != pair.length {
            return;
        }
        let (prev, next) = (l.prev, r.next);
        if let Some(symbol) = self.symbols.get_mut(index(pair.left)) {
            (symbol.length, symbol.next) = (pair.length, next);
        }
        if let Some(symbol) = self.symbols.get_mut(index(pair.right)) {
            symbol.length = 0;
        }
        if let Some(symbol) = self.symbols.get_mut(index(next)) {
            symbol.prev = pair.left;
        }
        self.propose(pieces, word, prev, pair.left);
        self.propose(pieces, word, pair.left, next);
    }
}

/// The end of the word that starts at `start`: before the next space sign that follows another character.
fn boundary(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while text.get(at..).is_some_and(|rest| rest.starts_with(SPACE)) {
        at += SPACE.len();
    }
    let rest = text.get(at..).unwrap_or_default();
    rest.windows(SPACE.len()).position(|bytes| bytes == SPACE).map_or(text.len(), |found| at + found)
}

/// Splits an unused piece until no part is unused.
fn resegment<'a>(pieces: &Pieces, halves: &HashMap<Vec<u8>, usize>, text: &'a [u8], cut: &mut Vec<Cut>) {
    let mut open: Vec<&'a [u8]> = vec![text];
    while let Some(text) = open.pop() {
        let id = pieces.find(text);
        match halves
            .get(text)
            .filter(|_| pieces.kind(id) == PieceType::Unused)
            .and_then(|at| text.split_at_checked(*at))
        {
            Some((left, right)) => open.extend([right, left]),
            None => cut.push((narrow(text.len()), id)),
        }
    }
}

fn give(word: &[u8], cut: &[Cut], end: &mut End<'_>) {
    let mut start = 0;
    for (length, id) in cut {
        end.push(part(word, start, *length), *id);
        start += length;
    }
}

fn part(word: &[u8], start: u32, length: u32) -> &[u8] {
    word.get(index(start)..index(start) + index(length)).unwrap_or_default()
}

fn index(at: u32) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

/// The engine refuses texts of 4 GiB and more.
fn narrow(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(NONE)
}
