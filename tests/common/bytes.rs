//! A tokenizer whose tokens are the bytes of the text, and a reader of its output: so tests
//! know every token without a tokenizer of their own.

use std::path::Path;

/// The token that ends a document.
pub(crate) const EOD: u16 = 256;

/// Byte-level BPE without a merge, in the form of Hugging Face's `tokenizer.json`: token N is byte N.
pub(crate) fn tokenizer() -> String {
    let plain = |b: u32| matches!(b, 33..=126 | 161..=172 | 174..=255);
    let mut others = 256..;
    let mut letter = |b: u32| char::from_u32(if plain(b) { b } else { others.next().unwrap() }).unwrap();
    let vocab: serde_json::Map<String, serde_json::Value> =
        (0..256).map(|b| (letter(b).to_string(), b.into())).collect();
    let level = serde_json::json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
    });
    let end = serde_json::json!({
        "id": EOD, "content": "<|endoftext|>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true,
    });
    let model = serde_json::json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": [],
    });
    serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [end], "normalizer": null,
        "pre_tokenizer": level, "post_processor": null, "decoder": level, "model": model,
    })
    .to_string()
}

/// The documents of a pair, by its `.bin`: read as the format's description says, by numbers of 2 bytes.
pub(crate) fn documents(bin: &Path) -> Vec<Vec<u16>> {
    let index = std::fs::read(bin.with_extension("idx")).unwrap();
    let tokens: Vec<u16> =
        std::fs::read(bin).unwrap().chunks(2).map(|pair| u16::from_le_bytes(pair.try_into().unwrap())).collect();
    let word = |at: usize| u64::from_le_bytes(index[at..at + 8].try_into().unwrap()) as usize;
    assert_eq!((&index[..9], word(9), index[17]), (&b"MMIDIDX\0\0"[..], 1, 8));
    let (sequences, entries) = (word(18), word(26));
    let len = |i: usize| i32::from_le_bytes(index[34 + 4 * i..][..4].try_into().unwrap()) as usize;
    let pointer = |i: usize| word(34 + 4 * sequences + 8 * i) / 2;
    let entry = |i: usize| word(34 + 12 * sequences + 8 * i);
    assert_eq!(index.len(), 34 + 12 * sequences + 8 * entries);
    let document = |d: usize| {
        let sequences = entry(d)..entry(d + 1);
        sequences.flat_map(|i| tokens[pointer(i)..pointer(i) + len(i)].to_vec()).collect()
    };
    (0..entries - 1).map(document).collect()
}
