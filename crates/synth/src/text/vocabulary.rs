//! Words and their frequencies. Owns Zipf's law; knows no sentences.

use crate::rng::Rng;
use std::collections::HashSet;

/// The most frequent words, in order.
const LITTLE: [&str; 40] = [
    "the", "of", "and", "to", "a", "in", "is", "that", "was", "for", "it", "with", "as", "on", "be", "by", "at",
    "this", "from", "are", "an", "which", "or", "but", "not", "have", "has", "had", "they", "were", "one", "all", "we",
    "when", "there", "can", "more", "if", "no", "out",
];

const ONSETS: [&str; 24] = [
    "b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr", "pl", "gr", "ch", "sh", "br",
    "cl", "w", "",
];
const VOWELS: [&str; 16] = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ea", "ou", "ie", "ai", "oo", "é", "ö"];
const CODAS: [&str; 16] = ["", "", "", "", "n", "r", "s", "l", "t", "nd", "ng", "ck", "m", "st", "rt", "x"];

/// Number of invented words.
const MADE_UP: usize = 20_000;

/// Words by rank, and cumulative weights.
pub(super) struct Vocabulary {
    words: Vec<String>,
    sums: Vec<u64>,
}

impl Vocabulary {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 20, 0);
        let mut words: Vec<String> = LITTLE.map(str::to_owned).to_vec();
        let mut seen: HashSet<String> = words.iter().cloned().collect();
        while words.len() < LITTLE.len() + MADE_UP {
            let word = word(&mut rng, words.len());
            if seen.insert(word.clone()) {
                words.push(word);
            }
        }
        // Mandelbrot's form: the weight of rank r is 1 / (r + 2.7).
        let weights = (1..=words.len() as u64).map(|rank| 10_000_000_000 / (10 * rank + 27));
        let sums = weights.scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Self { sums: sums.collect(), words }
    }

    /// A random word by frequency.
    pub(super) fn draw(&self, rng: &mut Rng) -> &str {
        let total = self.sums.last().copied().unwrap_or(1);
        let at = rng.next() % total;
        let rank = self.sums.partition_point(|sum| *sum <= at);
        self.words.get(rank).map_or("the", String::as_str)
    }
}

/// An invented word; rare words are longer.
fn word(rng: &mut Rng, rank: usize) -> String {
    let longest = match rank {
        0..300 => 2,
        300..3000 => 3,
        _ => 4,
    };
    let shortest = if rank < 300 { 1 } else { 2 };
    (0..rng.within(shortest, longest))
        .flat_map(|_| [pick(rng, &ONSETS), pick(rng, &VOWELS), pick(rng, &CODAS)])
        .collect()
}

fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from.get(rng.below(from.len() as u32) as usize).copied().unwrap_or_default()
}
