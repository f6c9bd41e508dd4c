//! Sentences and paragraphs as JSON string content. Owns punctuation and length.

use super::vocabulary::Vocabulary;
use crate::rng::{Rng, exp2};

/// Generates prose.
pub(super) struct Prose {
    vocabulary: Vocabulary,
}

impl Prose {
    pub(super) fn new(seed: u64) -> Self {
        Self { vocabulary: Vocabulary::new(seed) }
    }

    /// Appends a document of log-normal length around `median` words (σ = 0.9, at most 100 times the median).
    pub(super) fn document(&self, rng: &mut Rng, median: u32, out: &mut Vec<u8>) {
        const SIGMA_BITS: f64 = 0.9 * std::f64::consts::LOG2_E;
        let median = f64::from(median);
        let mut left = (median * exp2(rng.normal() * SIGMA_BITS)).clamp(1.0, median * 100.0) as u32;
        loop {
            let sentence = rng.within(4, 24).min(left);
            self.sentence(rng, sentence, out);
            left -= sentence;
            if left == 0 {
                return;
            }
            out.extend_from_slice(if rng.below(6) == 0 { b"\\n\\n" } else { b" " });
        }
    }

    fn sentence(&self, rng: &mut Rng, words: u32, out: &mut Vec<u8>) {
        let quoted = if rng.below(20) == 0 { rng.below(words) } else { words };
        for i in 0..words {
            let start = out.len();
            let word = self.vocabulary.draw(rng);
            if i == quoted {
                out.extend([b"\\\"", word.as_bytes(), b"\\\""].concat());
            } else {
                out.extend_from_slice(word.as_bytes());
            }
            if i == 0
                && let Some(first) = out.get_mut(start)
            {
                first.make_ascii_uppercase();
            }
            let end: &[u8] = match rng.below(12) {
                0 if i + 1 < words => b", ",
                _ if i + 1 < words => b" ",
                0 => b"?",
                _ => b".",
            };
            out.extend_from_slice(end);
        }
    }
}
