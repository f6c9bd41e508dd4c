//! Converts tiktoken vocabularies to an equivalent `tokenizer.json`.
//!
//! A `.tiktoken` file has one token per line: its bytes in base64, a space, its rank. It lacks the split pattern and
//! the special tokens; they are those of [tiktoken](https://github.com/openai/tiktoken)'s `openai_public.py`, or of
//! [Llama 3](https://github.com/meta-llama/llama3/blob/main/llama/tokenizer.py), chosen by name or vocabulary size. tiktoken merges the pair whose joint token has the lowest rank, whatever its halves,
//! so every pair that joins to a token becomes a merge.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use packhorse_core::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const CL100K: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const END: &str = "<|endoftext|>";
/// Longer than any token of a real vocabulary; bounds the number of merges.
const LONGEST: usize = 4096;

/// A tiktoken encoding.
struct Encoding {
    names: &'static [&'static str],
    /// Number of ordinary tokens.
    tokens: usize,
    pattern: &'static str,
    special: &'static [(&'static str, u32)],
}

const ENCODINGS: [Encoding; 5] = [
    Encoding { names: &["r50k_base", "gpt2", "r50k"], tokens: 50_256, pattern: GPT2, special: &[(END, 50_256)] },
    Encoding { names: &["p50k_base", "p50k"], tokens: 50_280, pattern: GPT2, special: &[(END, 50_256)] },
    Encoding {
        names: &["cl100k_base", "cl100k"],
        tokens: 100_256,
        pattern: CL100K,
        special: &[
            (END, 100_257),
            ("<|fim_prefix|>", 100_258),
            ("<|fim_middle|>", 100_259),
            ("<|fim_suffix|>", 100_260),
            ("<|endofprompt|>", 100_276),
        ],
    },
    // Its other special tokens, up to 128,255, are reserved.
    Encoding {
        names: &["llama3"],
        tokens: 128_000,
        pattern: CL100K,
        special: &[
            ("<|begin_of_text|>", 128_000),
            ("<|end_of_text|>", 128_001),
            ("<|start_header_id|>", 128_006),
            ("<|end_header_id|>", 128_007),
            ("<|eot_id|>", 128_009),
        ],
    },
    Encoding {
        names: &["o200k_base", "o200k"],
        tokens: 199_998,
        pattern: O200K,
        special: &[(END, 199_999), ("<|endofprompt|>", 200_018)],
    },
];

/// Whether `bytes` look like a tiktoken vocabulary: the first line is base64, a space and a number.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').next().is_some_and(|first| line(first).is_some())
}

/// The `tokenizer.json` (version 1.0) of a vocabulary, and the canonical name of its encoding.
pub(super) fn to_json(bytes: &[u8], pattern: Option<&str>) -> Result<(String, &'static str)> {
    let ranks = ranks(bytes)?;
    let encoding = encoding(&ranks, pattern)?;
    let mut vocabulary: Map<String, Value> =
        ranks.iter().map(|(token, rank)| (visible(token), Value::from(*rank))).collect();
    let mut added = Vec::new();
    for (token, number) in special(encoding, &ranks) {
        vocabulary.insert(token.to_owned(), number.into());
        added.push(json!({"id": number, "content": token, "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false}));
    }
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": encoding.pattern}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
        "post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
            "vocab": vocabulary, "merges": merges(&ranks)}});
    Ok((json.to_string(), encoding.names.first().copied().unwrap_or_default()))
}

fn line(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let (token, rank) = std::str::from_utf8(line).ok()?.trim_end().split_once(' ')?;
    let token = STANDARD.decode(token).ok()?;
    let rank: u32 = rank.parse().ok()?;
    (!token.is_empty() && token.len() <= LONGEST).then_some((token, rank))
}

fn ranks(bytes: &[u8]) -> Result<HashMap<Vec<u8>, u32>> {
    let mut ranks = HashMap::new();
    for (at, text) in bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, text)| !text.trim_ascii().is_empty()) {
        let (token, rank) = line(text).ok_or_else(|| {
            Error::config(format!("line {} of the tiktoken vocabulary is not base64, a space and a rank", at + 1))
        })?;
        if ranks.insert(token, rank).is_some() {
            return Err(Error::config(format!("line {} of the tiktoken vocabulary has a token again", at + 1)));
        }
    }
    match (0..=u8::MAX).find(|byte| !ranks.contains_key(&[*byte][..])) {
        None => Ok(ranks),
        Some(byte) => Err(Error::config(format!("the tiktoken vocabulary has no token for the byte {byte}"))),
    }
}

fn encoding(ranks: &HashMap<Vec<u8>, u32>, pattern: Option<&str>) -> Result<&'static Encoding> {
    let sized = ENCODINGS.iter().find(|encoding| encoding.tokens == ranks.len());
    let found = match pattern {
        Some(name) => ENCODINGS.iter().find(|encoding| encoding.names.contains(&name)),
        None => sized,
    };
    // Several have the same pattern, and special tokens of their own.
    let found = found.map(|found| sized.filter(|sized| sized.pattern == found.pattern).unwrap_or(found));
    found.ok_or_else(|| {
        Error::config(match pattern {
            Some(name) => {
                format!("pattern {name} is not known; known are: gpt2, r50k_base, p50k_base, cl100k_base, o200k_base, llama3")
            }
            None => format!(
                "a tiktoken vocabulary of {} tokens is none of OpenAI's or Llama 3's; say the pattern: gpt2, r50k_base, p50k_base, cl100k_base, o200k_base or llama3",
                ranks.len()
            ),
        })
    })
}

/// The special tokens. A vocabulary of the encoding's size has OpenAI's ids; any other gets only an end of text,
/// after its last token.
fn special(encoding: &'static Encoding, ranks: &HashMap<Vec<u8>, u32>) -> Vec<(&'static str, u32)> {
    if ranks.len() == encoding.tokens {
        return encoding.special.to_vec();
    }
    let next = ranks.values().max().map_or(0, |rank| rank.saturating_add(1));
    vec![(END, next)]
}

/// Every pair that joins to a token, ordered by the joint token's rank, then by the ranks of the halves.
fn merges(ranks: &HashMap<Vec<u8>, u32>) -> Vec<Value> {
    let mut pairs = Vec::new();
    for (token, rank) in ranks {
        for at in 1..token.len() {
            let (left, right) = token.split_at(at);
            if let (Some(l), Some(r)) = (ranks.get(left), ranks.get(right)) {
                pairs.push(((*rank, *l, *r), left, right));
            }
        }
    }
    pairs.sort_unstable_by_key(|(order, _, _)| *order);
    pairs.into_iter().map(|(_, left, right)| json!([visible(left), visible(right)])).collect()
}

/// Spells bytes as in `tokenizer.json` (GPT-2's byte-level alphabet): printable Latin-1 as itself, the rest from
/// U+0100 on.
pub(super) fn visible(bytes: &[u8]) -> String {
    let plain = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let shifted = |byte: u8| 0x100 + (0..byte).filter(|b| !plain(*b)).count();
    let char_of = |byte: &u8| match plain(*byte) {
        true => char::from(*byte),
        false => u32::try_from(shifted(*byte)).ok().and_then(char::from_u32).unwrap_or_default(),
    };
    bytes.iter().map(char_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> String {
        let bytes = (0..=255u8).map(|b| (vec![b], u32::from(b)));
        let words = [(b"ab".to_vec(), 256), (b"abc".to_vec(), 257), (b"bc".to_vec(), 258)];
        bytes.chain(words).map(|(token, rank)| format!("{} {rank}\n", STANDARD.encode(token))).collect()
    }

    #[test]
    fn every_pair_that_joins_is_a_merge() {
        let (json, name) = to_json(small().as_bytes(), Some("cl100k")).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["model"]["merges"], json!([["a", "b"], ["a", "bc"], ["ab", "c"], ["b", "c"]]));
        assert_eq!((name, &json["model"]["vocab"][END]), ("cl100k_base", &json!(259)));
        assert_eq!(visible(b" \n\xff\xad"), "ĠĊÿŃ");
    }

    #[test]
    fn llama_3_has_its_own_special_tokens() {
        let bytes = (0..=255u8).map(|byte| vec![byte]);
        let more = (0..127_744u32).map(|number| [b"x", &number.to_be_bytes()[..]].concat());
        let lines = bytes.chain(more).zip(0u32..).map(|(token, rank)| format!("{} {rank}\n", STANDARD.encode(token)));
        let text: String = lines.collect();
        for pattern in [None, Some("cl100k_base"), Some("llama3")] {
            let (json, name) = to_json(text.as_bytes(), pattern).unwrap();
            let json: Value = serde_json::from_str(&json).unwrap();
            assert_eq!((name, &json["model"]["vocab"]["<|end_of_text|>"]), ("llama3", &json!(128_001)));
            assert!(json["model"]["vocab"].get(END).is_none());
        }
    }

    #[test]
    fn an_unknown_vocabulary_needs_a_pattern() {
        assert!(is_one(small().as_bytes()) && !is_one(b"{}"));
        let error = to_json(small().as_bytes(), None).err().unwrap();
        assert!(error.to_string().contains("say the pattern"), "{error}");
        assert!(to_json(small().as_bytes(), Some("x")).err().unwrap().to_string().contains("o200k_base"));
        assert!(to_json(b"YQ== 0\n", Some("gpt2")).is_err());
        assert!(to_json(b"YQ== 0\nYQ==\n", Some("gpt2")).err().unwrap().to_string().contains("line 2"));
    }
}
