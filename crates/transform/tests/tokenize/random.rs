//! Random texts with difficult characters, and the known differences.

/// Characters and ranges that tokenizers treat specially.
const KINDS: &[&[(u32, u32)]] = &[
    &[(0x20, 0x7e)],
    &[(0x61, 0x7a)],
    &[(0x61, 0x7a)],
    &[(0x30, 0x39)],
    &[
        (0x20, 0x20),
        (0x9, 0xd),
        (0x85, 0x85),
        (0xa0, 0xa0),
        (0x1680, 0x1680),
        (0x2000, 0x200b),
        (0x2028, 0x2029),
        (0x202f, 0x202f),
        (0x205f, 0x2060),
        (0x3000, 0x3000),
        (0xfeff, 0xfeff),
    ],
    &[(0x0, 0x1f), (0x7f, 0x9f)],
    &[(0xa1, 0x17f)],
    &[(0x300, 0x36f), (0x483, 0x489), (0x591, 0x5bd), (0x1ab0, 0x1aff), (0x20d0, 0x20f0), (0xfe20, 0xfe2f)],
    &[(0x370, 0x52f)],
    &[(0x590, 0x7ff)],
    &[(0x900, 0xdff)],
    &[(0xe00, 0x10ff)],
    &[(0x1100, 0x11ff), (0xac00, 0xd7a3)],
    &[(0x1e00, 0x1fff)],
    &[(0x2010, 0x2bff)],
    &[(0x3000, 0x30ff), (0x4e00, 0x9fff)],
    &[(0xd7fb, 0xd7ff), (0xe000, 0xe010), (0xfff0, 0xffff)],
    &[(0xf900, 0xfdff), (0xfe30, 0xffef)],
    &[(0x1f300, 0x1faff), (0x200d, 0x200d), (0xfe0f, 0xfe0f), (0x1f1e6, 0x1f1ff), (0x1f3fb, 0x1f3ff)],
    &[(0x10000, 0x1ffff)],
    &[(0x20000, 0x3ffff), (0xe0000, 0xe01ef), (0x10fff0, 0x10ffff)],
    &[(0x1, 0x10ffff)],
];

/// Strings that tokenizers treat as units.
const WORDS: &[&str] = &[
    "'s",
    "'S",
    "'ll",
    "'LL",
    "'ve",
    "'re",
    "'ſ",
    "’s",
    " don't",
    "ing",
    "\r\n",
    "\n\n",
    "  ",
    "\t\t",
    "   \n",
    "=====",
    "0000",
    "1234567",
    "ß",
    "ﬁ",
    "İ",
    "ı",
    "ς",
    "Å",
    "e\u{301}",
    "한국어",
    "สวัสดี",
    "中文",
    "日本語",
    "👩‍👩‍👧",
    "🇩🇪",
    "<sep>",
    "<mask>",
    "<s>",
    "</s>",
    "<unk>",
    "[CLS]",
    "[MASK]",
    "<|endoftext|>",
    "<0x41>",
    "▁",
    "▁▁",
    "##ing",
    "the",
    " the",
    "\u{3c}|",
    "aaaaaaaaa",
    "          ",
    "...",
    "http://",
    "café",
    "½",
    "Ⅷ",
    "①",
    "٣",
    "\u{0}",
];

/// `count` texts, determined by the seed.
pub(crate) fn texts(count: usize, seed: u64) -> Vec<String> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move |below: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u32::try_from((state >> 33) % u64::from(below)).unwrap()
    };
    (0..count).map(|_| text(&mut next)).collect()
}

fn text(next: &mut impl FnMut(u32) -> u32) -> String {
    let size = |list: usize| u32::try_from(list).unwrap();
    let index = |at: u32| usize::try_from(at).unwrap();
    let mut text = String::new();
    for _ in 0..=next(12) {
        if next(4) == 0 {
            text.push_str(WORDS[index(next(size(WORDS.len())))]);
            continue;
        }
        let kind = KINDS[index(next(size(KINDS.len())))];
        for _ in 0..=next(6) {
            let (low, high) = kind[index(next(size(kind.len())))];
            text.extend(char::from_u32(low + next(high - low + 1)));
        }
    }
    text
}

/// Letters added by Unicode 17, which Oniguruma 16 and tiktoken's tables lack.
#[rustfmt::skip]
const LETTERS: &[(u32, u32)] = &[
    (0x88f, 0x88f), (0xc5c, 0xc5c), (0xcdc, 0xcdc), (0xa7ce, 0xa7d4), (0xa7f1, 0xa7f1), (0x10940, 0x10959),
    (0x10ec5, 0x10ec7), (0x11db0, 0x11de9), (0x16ea0, 0x16ed3), (0x16ff2, 0x16ff6), (0x187f8, 0x187ff),
    (0x18d09, 0x18d1e), (0x18d80, 0x18df2), (0x1e6c0, 0x1e6ff), (0x2b73a, 0x2b73f), (0x323b0, 0x33479),
];

/// Characters added after Unicode 11 whose NFKC form or combining class the oracle lacks.
const NORMALIZED: &[(u32, u32)] = &[
    (0x1abf, 0x1aff),
    (0x32ff, 0x32ff),
    (0xa7f1, 0xa7f4),
    (0x10783, 0x107a5),
    (0x1ccd6, 0x1ccf9),
    (0x1e030, 0x1e066),
    (0x1f16c, 0x1f16c),
    (0x1fbf0, 0x1fbf9),
];

/// Punctuation that the oracle's Unicode 6 table lacks.
#[rustfmt::skip]
const PUNCTUATION: &[(u32, u32)] = &[
    (0x61d, 0x61d), (0x9fd, 0x9fd), (0xa76, 0xa76), (0xc77, 0xc77), (0xc84, 0xc84), (0x166d, 0x166d), (0x1b4e, 0x1b4f),
    (0x1b7d, 0x1b7f), (0x2e43, 0x2e4f), (0x2e52, 0x2e5d), (0x10d6e, 0x10d6e), (0x10ead, 0x10ead), (0x10ed0, 0x10ed0),
    (0x10f55, 0x10f59), (0x10f86, 0x10f89), (0x111c9, 0x111c9), (0x113d4, 0x113d5), (0x113d7, 0x113d8),
    (0x1144b, 0x1144f), (0x1145a, 0x1145b), (0x1145d, 0x1145d), (0x11660, 0x1166c), (0x116b9, 0x116b9),
    (0x1183b, 0x1183b), (0x11944, 0x11946), (0x119e2, 0x119e2), (0x11a3f, 0x11a46), (0x11a9a, 0x11a9c),
    (0x11a9e, 0x11aa2), (0x11b00, 0x11b09), (0x11be1, 0x11be1), (0x11c41, 0x11c45), (0x11c70, 0x11c71),
    (0x11ef7, 0x11ef8), (0x11f43, 0x11f4f), (0x11fff, 0x11fff), (0x12ff1, 0x12ff2), (0x16d6d, 0x16d6f),
    (0x16e97, 0x16e9a), (0x16fe2, 0x16fe2), (0x1e5ff, 0x1e5ff), (0x1e95e, 0x1e95f),
];

/// Whether `text` has a character on which the tokenizer `name` is known to differ from its oracle. The tables come
/// from comparing every single character; see `docs/tokenizers.md`.
pub(crate) fn explained(name: &str, text: &str) -> bool {
    let tables: &[&[(u32, u32)]] = match name {
        "uni" => &[NORMALIZED],
        "wp" => &[PUNCTUATION],
        "llama" => &[],
        _ => &[LETTERS],
    };
    let known = |c: char| tables.iter().any(|table| table.iter().any(|(a, b)| (*a..=*b).contains(&u32::from(c))));
    text.chars().any(known)
}
