//! The bytes of the tokens of a byte-level vocabulary. Owns mending words that the engine takes for a token.
//!
//! The engine confirms that a word is in the vocabulary by 32 bits of its hash, so one word in some four billion becomes a token
//! that it is not. The tokens of a byte-level vocabulary spell their text byte for byte. Sums over the bytes of text and tokens, which
//! differ for all but one in some hundred thousand wrong words, show where that is to be looked at.

use super::tiktoken::visible;
use serde::Deserialize;
use std::collections::HashMap;
use tokenizers::pipeline::{PipelineModel, PipelineTokenizer};
use tokenizers::utils::byte_level::char_to_byte;
use tokenizers::vocab::bucket_vocab_store::key_and_hash;

/// The most bytes of a word that is looked for.
const LONGEST: usize = 1 << 10;
/// More ids than any vocabulary has.
const MOST_IDS: u32 = 1 << 24;

/// The bytes of all tokens, by their ids.
pub(super) struct Spelling {
    bytes: Vec<u8>,
    /// Where each token ends in `bytes`; it begins where the one before it ends.
    ends: Vec<usize>,
    /// The [`sum`] of each token.
    sums: Vec<u32>,
}

impl Spelling {
    /// That of a tokenizer whose ids are below `vocabulary`; `None` if its vocabulary is not one of bytes.
    pub(super) fn new(tokenizer: &PipelineTokenizer, vocabulary: u32) -> Option<Self> {
        let model = tokenizer.get_model();
        if vocabulary > MOST_IDS || !matches!(model, PipelineModel::BPE(model) if model.is_byte_level()) {
            return None;
        }
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for id in 0..vocabulary {
            match added.get(&id) {
                Some(token) => bytes.extend_from_slice(token.content.as_bytes()),
                None => bytes.extend(model.id_to_token(id).unwrap_or_default().chars().filter_map(char_to_byte)),
            }
            ends.push(bytes.len());
        }
        Some(Self::of(bytes, ends))
    }

    fn of(bytes: Vec<u8>, ends: Vec<usize>) -> Self {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let sums = starts.zip(&ends).map(|(start, end)| sum(bytes.get(start..*end).unwrap_or_default()));
        Self { sums: sums.collect(), bytes, ends }
    }

    /// Whether the tokens `ids` have the sum of `text`.
    pub(super) fn may_spell(&self, ids: &[u32], text: &str) -> bool {
        let add = |all: u32, id: &u32| all.wrapping_add(self.sums.get(*id as usize).copied().unwrap_or_default());
        ids.iter().fold(0, add) == sum(text.as_bytes())
    }

    /// How many of the tokens `ids` spell the beginning of `text`, and how many of its bytes these are.
    pub(super) fn spelled(&self, ids: &[u32], text: &str) -> (usize, usize) {
        let mut at = 0;
        for (spelled, id) in ids.iter().enumerate() {
            let token = self.token(*id);
            match text.as_bytes().get(at..).is_some_and(|left| left.starts_with(token)) {
                true => at += token.len(),
                false => return (spelled, at),
            }
        }
        (ids.len(), at)
    }

    /// The tokens of a text of which the first `spelled` tokens spell `at` bytes, if the next one stands for a word that only shares its
    /// hash. `json` is the tokenizer.
    pub(super) fn mended(
        &self,
        ids: &[u32],
        text: &str,
        (spelled, at): (usize, usize),
        json: &str,
    ) -> Option<Vec<u32>> {
        let (before, [wrong, after @ ..]) = ids.split_at_checked(spelled)? else { return None };
        let left = text.as_bytes().get(at..)?;
        let hash = |word: &[u8]| key_and_hash(word).1 >> 32;
        let wanted = hash(self.token(*wrong));
        let mut words = (1..=left.len().min(LONGEST)).filter_map(|len| left.split_at_checked(len));
        let (word, rest) = words.find(|(word, _)| hash(word) == wanted)?;
        let rest = std::str::from_utf8(rest).ok()?;
        let after = match self.spelled(after, rest) {
            (_, at) if at == rest.len() => after.to_vec(),
            spelled => self.mended(after, rest, spelled, json)?,
        };
        Some([before, &merged(json, word)?, &after].concat())
    }

    fn token(&self, id: u32) -> &[u8] {
        let end = |id: usize| self.ends.get(id).copied();
        let start = (id as usize).checked_sub(1).map_or(Some(0), end);
        start.zip(end(id as usize)).and_then(|(start, end)| self.bytes.get(start..end)).unwrap_or_default()
    }
}

/// A number of these bytes, whatever their order: the sum of those of its parts.
fn sum(bytes: &[u8]) -> u32 {
    let of = |byte: &u8| u32::from(*byte) * u32::from(*byte) * 31 + u32::from(*byte) + 1;
    bytes.iter().map(of).fold(0, u32::wrapping_add)
}

#[derive(Deserialize)]
struct File {
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    vocab: HashMap<String, u32>,
    merges: Vec<Merge>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    Text(String),
}

impl Merge {
    fn pair(&self) -> Option<(&str, &str)> {
        match self {
            Self::Pair(left, right) => Some((left, right)),
            Self::Text(text) => text.split_once(' '),
        }
    }
}

/// The tokens of a word that is not in the vocabulary of a byte-level BPE: the pair whose merge is listed first is merged first, and
/// the leftmost of equal ones.
fn merged(json: &str, word: &[u8]) -> Option<Vec<u32>> {
    let Model { vocab, merges } = serde_json::from_str::<File>(json).ok()?.model;
    let ranks: HashMap<_, _> =
        merges.iter().enumerate().filter_map(|(rank, merge)| Some((merge.pair()?, rank))).collect();
    let mut parts: Vec<String> = word.iter().map(|byte| visible(&[*byte])).collect();
    let rank = |pair: &[String]| match pair {
        [left, right] => ranks.get(&(left.as_str(), right.as_str())).copied(),
        _ => None,
    };
    while let Some((_, at)) = parts.windows(2).enumerate().filter_map(|(at, pair)| Some((rank(pair)?, at))).min() {
        let right = parts.remove(at + 1);
        parts.get_mut(at)?.push_str(&right);
    }
    parts.iter().map(|part| vocab.get(part).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_spell_their_text() {
        let tokens = ["a", " b", "<m>"].map(str::as_bytes);
        let spelling = Spelling::of(tokens.concat(), vec![1, 3, 6]);
        assert!(spelling.may_spell(&[0, 1, 2], "a b<m>") && spelling.may_spell(&[], ""));
        assert!(!spelling.may_spell(&[0, 1], "a b<m>") && !spelling.may_spell(&[0, 0], "ab"));
        for (ids, text, spelled) in [
            (&[0, 1, 2][..], "a b<m>", (3, 6)),
            (&[], "", (0, 0)),
            (&[0, 0], "ab", (1, 1)),
            (&[0, 1], "a", (1, 1)),
            (&[0], "a b", (1, 1)),
        ] {
            assert_eq!(spelling.spelled(ids, text), spelled, "{ids:?} {text:?}");
        }
    }

    #[test]
    fn words_are_merged_by_rank_from_the_left() {
        for merges in [r#"["b a","a b","ab a"]"#, r#"[["b","a"],["a","b"],["ab","a"]]"#] {
            let json = format!(r#"{{"model":{{"vocab":{{"a":0,"b":1,"ba":2,"ab":3,"aba":4}},"merges":{merges}}}}}"#);
            for (word, ids) in [("ab", &[3][..]), ("aba", &[0, 2]), ("abab", &[0, 2, 1]), ("aab", &[0, 3])] {
                assert_eq!(merged(&json, word.as_bytes()).unwrap(), ids, "{word}");
            }
            assert_eq!(merged(&json, b"c"), None);
        }
    }
}
