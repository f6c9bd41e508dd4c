//! A corpus of any size from a small one: copies whose rarer words are other words.
//!
//! Copying text as it is would flatter every tokenizer that remembers words. Here each copy keeps the
//! words that are frequent in any English text or source, and replaces the letters of the others.

use std::collections::{HashMap, HashSet};
use std::io::{BufWriter, Write};
use std::path::Path;

/// So many words stay as they are.
const FREQUENT: usize = 2000;

const VOWELS: &[u8] = b"aeiou";
const CONSONANTS: &[u8] = b"bcdfghjklmnpqrstvwxyz";

/// Writes `copies` of the JSON lines `text` to `path`; the first is `text` itself.
pub(crate) fn write(text: &str, copies: u64, path: &Path) {
    let frequent = frequent(text);
    let mut out = BufWriter::with_capacity(1 << 20, std::fs::File::create(path).expect("the corpus can be written"));
    for copy in 0..copies {
        let letters = letters(copy);
        for line in text.lines() {
            let line = if copy == 0 { line.to_owned() } else { renamed(line, &frequent, &letters) };
            out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).expect("there is room for the corpus");
        }
    }
    out.flush().expect("there is room for the corpus");
}

fn frequent(text: &str) -> HashSet<&str> {
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for (from, to) in words(text.as_bytes()) {
        *counts.entry(&text[from..to]).or_default() += 1;
    }
    let mut words: Vec<(&str, u32)> = counts.into_iter().collect();
    words.sort_by_key(|(word, count)| (std::cmp::Reverse(*count), *word));
    words.into_iter().take(FREQUENT).map(|(word, _)| word).collect()
}

/// Where words of four letters and more lie, outside the escapes of JSON.
fn words(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            match bytes[at] {
                b'\\' if bytes.get(at + 1) == Some(&b'u') => at += 6,
                b'\\' => at += 2,
                letter if letter.is_ascii_alphabetic() => {
                    let from = at;
                    at += bytes[at..].iter().take_while(|b| b.is_ascii_alphabetic()).count();
                    if at - from >= 4 {
                        return Some((from, at));
                    }
                }
                _ => at += 1,
            }
        }
        None
    })
}

/// Vowels become other vowels, consonants other consonants, by a permutation that the copy decides.
fn letters(copy: u64) -> [u8; 256] {
    let mut table = std::array::from_fn(|i| i as u8);
    let mut state = copy.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for class in [VOWELS, CONSONANTS] {
        let mut order = class.to_vec();
        for i in (1..order.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(i, (state >> 33) as usize % (i + 1));
        }
        for (from, to) in class.iter().zip(order) {
            table[usize::from(*from)] = to;
            table[usize::from(from.to_ascii_uppercase())] = to.to_ascii_uppercase();
        }
    }
    table
}

fn renamed(line: &str, frequent: &HashSet<&str>, letters: &[u8; 256]) -> String {
    // The name of the field stays.
    let start = line.find(':').map_or(0, |colon| colon + 1);
    let mut bytes = line.as_bytes().to_vec();
    for (from, to) in words(&line.as_bytes()[start..]) {
        let (from, to) = (start + from, start + to);
        if !frequent.contains(&line[from..to]) {
            bytes[from..to].iter_mut().for_each(|b| *b = letters[usize::from(*b)]);
        }
    }
    String::from_utf8(bytes).expect("letters became letters")
}
