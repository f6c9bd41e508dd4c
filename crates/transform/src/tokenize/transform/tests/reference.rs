//! Tokenizers of which the reference takes over a part.

use super::*;

/// A tokenizer with this model, normalizer and pre-tokenizer, and added tokens from `first` on that are looked for in normalized text.
fn of_parts(model: &str, normalizer: &str, pre_tokenizer: &str, (first, added): (usize, &[&str])) -> String {
    let token = |(id, content): (usize, &&str)| {
        let flags = r#""single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false"#;
        format!(r#"{{"id":{id},"content":"{content}",{flags}}}"#)
    };
    let added: Vec<String> = (first..).zip(added).map(token).collect();
    format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{}],"normalizer":{normalizer},
        "pre_tokenizer":{pre_tokenizer},"post_processor":null,"decoder":null,"model":{model}}}"#,
        added.join(",")
    )
}

fn words(vocabulary: &str) -> String {
    format!(r#"{{"type":"WordLevel","vocab":{{"<unk>":0{vocabulary}}},"unk_token":"<unk>"}}"#)
}

/// The pre-tokenizer of Qwen.
const CONTRACTIONS: &str = r#"{"type":"Split","behavior":"Isolated","invert":false,"pattern":{"Regex":
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}}"#;

/// The tokens of a text.
fn ids(json: &str, text: &str) -> Vec<u16> {
    let tokenize = Tokenize::new(json.as_bytes(), "t.json", TokenizeOptions::default()).unwrap();
    let found = tokenize.apply(rows(&[Some(text)], true)).unwrap();
    let list = found.column_by_name(TOKENS).unwrap().as_list::<i32>().value(0);
    list.as_primitive::<UInt16Type>().values().to_vec()
}

/// The ids are those of the Python package of tokenizers 0.23.
#[test]
fn rare_characters_and_added_tokens_have_the_tokens_of_the_reference() {
    let metaspace = r#"{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true}"#;
    // A line break that the normalizer makes a space.
    let breaks = of_parts(&words(r#","▁a":1,"▁b":2"#), r#"{"type":"Nmt"}"#, metaspace, (3, &["\\n"]));
    assert_eq!(ids(&breaks, "a b"), [1, 3, 2]);
    // One that it removes.
    let strip = r#"{"type":"Strip","strip_left":true,"strip_right":true}"#;
    assert_eq!(ids(&of_parts(&words(r#","ab":1"#), strip, "null", (2, &["\\n"])), "ab"), [0, 0]);
    // Tokens whose common beginning overlaps itself.
    let doubled = of_parts(&words(""), "null", "null", (1, &["<<SYS>>", "<</SYS>>"]));
    assert_eq!(ids(&doubled, "<<<SYS>>"), [0, 1]);
    let equals = of_parts(&words(""), "null", "null", (1, &["==="]));
    assert_eq!(ids(&equals, "====="), [1, 0]);
    assert_eq!(ids(&equals, "== ==="), [0, 1]);
    // Runs of spaces, of which the shortest is always found, stay with the first engine.
    let spaces = of_parts(&words(""), "null", "null", (1, &["   ", "  "]));
    assert_eq!(ids(&spaces, "a     b"), [0, 1, 2, 0]);
    let first = Tokenize::new(spaces.as_bytes(), "t.json", TokenizeOptions::default()).unwrap();
    assert!(first.describe().starts_with("tokenize/1 engine=tokenizers-1"), "{}", first.describe());
    let pieces = r###"{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
        "vocab":{"[UNK]":0,"a":1,"##a":2}}"###;
    assert_eq!(ids(&of_parts(pieces, "null", "null", (3, &[])), "a\0a"), [0]);
    assert_eq!(ids(&of_parts(pieces, "null", "null", (3, &[])), "aa"), [1, 2]);
    // A normalizer may remove it.
    let clean = r#"{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true}"#;
    assert_eq!(ids(&of_parts(pieces, clean, "null", (3, &[])), "a\0a"), [1, 2]);
    let long = of_parts(&words(r#","'ſ":1,"o":2,"'ſo":3,"'s":4"#), "null", CONTRACTIONS, (5, &[]));
    assert_eq!((ids(&long, "'ſo"), ids(&long, "'so")), (vec![1, 2], vec![4, 2]));
    let bytes: String = (0..256).map(|byte| format!(r#","<0x{byte:02X}>":{}"#, 1 + byte)).collect();
    let prefixed = format!(
        r###"{{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":"##","end_of_word_suffix":null,
        "fuse_unk":false,"byte_fallback":true,"ignore_merges":false,"vocab":{{"a":0{bytes}}},"merges":[]}}"###
    );
    assert_eq!(ids(&of_parts(&prefixed, "null", "null", (257, &[])), "ab"), [0, 36, 36, 99]);
    // The library takes either of two that are equal once they are normalized, whichever engine does it.
    let lower = r#"{"type":"Lowercase"}"#;
    for split in ["null", r#"{"type":"Split","pattern":{"Regex":"a+"},"behavior":"Isolated","invert":false}"#] {
        let equal = of_parts(&words(""), lower, split, (1, &["PyTorch", "pytorch"]));
        let refused = Tokenize::new(equal.as_bytes(), "t.json", TokenizeOptions::default()).err().unwrap();
        assert!(refused.to_string().contains("equal once they are normalized"), "{refused}");
    }
}

/// Runs of digits other than those of cl100k, and a step after those of DeepSeek.
#[test]
fn pre_tokenizers_are_taken_whole() {
    let numbers = words(r#","1":1,"2":2,"3":3,"4":4,"12":5,"34":6,"123":7,"1234":8"#);
    for (digits, wanted) in [("", &[1, 2, 3, 4][..]), ("{1,2}", &[5, 6]), ("{1,3}", &[7, 4]), ("+", &[8])] {
        let digits = CONTRACTIONS.replace(r"|\\p{N}|", &format!(r"|\\p{{N}}{digits}|"));
        assert_eq!(ids(&of_parts(&numbers, "null", &digits, (9, &[])), "1234"), wanted);
    }
    let split = |pattern: &str| {
        let split = serde_json::json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        split.to_string()
    };
    let large = concat!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"##,
        "\r\n",
        r##"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+["##,
        "\r\n",
        r##"]*|\s*["##,
        "\r\n",
        r##"]+|\s+(?!\S)|\s+"##
    );
    let three = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", large].map(split).join(",");
    let bytes = r#"{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}"#;
    let digits = r#"{"type":"Digits","individual_digits":true}"#;
    let mut vocabulary: serde_json::Map<String, Value> = ["0", "1", "2", "3", "4", "12", "5", "123", "1234"]
        .into_iter()
        .zip(0..)
        .map(|(token, id)| (token.to_owned(), id.into()))
        .collect();
    // The letters of bytes: those that are not printed come after all others.
    let (seen, unseen): (Vec<u32>, Vec<u32>) =
        (0..256).partition(|byte| matches!(byte, 33..=126 | 161..=172 | 174..=255));
    for letter in seen.into_iter().chain((0..unseen.len() as u32).map(|n| 256 + n)).filter_map(char::from_u32) {
        let next = vocabulary.len();
        vocabulary.entry(letter).or_insert(next.into());
    }
    let pairs = serde_json::json!({"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": ["1 2", "12 3", "123 4"]});
    let both = format!("{digits},{bytes}");
    for (more, wanted, engine) in [(bytes, &[7, 4][..], "tokenizers-1"), (&both, &[1, 2, 3, 4], "tokenizers-0")] {
        let steps = format!(r#"{{"type":"Sequence","pretokenizers":[{three},{more}]}}"#);
        let tokenizer = of_parts(&pairs.to_string(), "null", &steps, (9, &[]));
        assert_eq!(ids(&tokenizer, "1234"), wanted, "{more}");
        let made = Tokenize::new(tokenizer.as_bytes(), "t.json", TokenizeOptions::default()).unwrap();
        assert!(made.describe().starts_with(&format!("tokenize/1 engine={engine}")), "{:?}", made.tokenizer.fallback);
    }
}

/// The first engine takes this word for ` Pione`, which has the same 32 bits of hash.
#[test]
fn a_word_whose_hash_is_that_of_a_token_has_the_tokens_of_the_reference() {
    let Some(data) = packhorse_testkit::external::data() else { return };
    let file = zstd::decode_all(std::fs::File::open(data.join("tokenizers/gpt2.json.zst")).unwrap()).unwrap();
    let json = String::from_utf8(file).unwrap();
    assert_eq!(ids(&json, "stmbclq"), [301, 2022, 565, 80]);
    assert_eq!(ids(&json, "stmbclq.stmbclq"), [301, 2022, 565, 80, 13, 301, 2022, 565, 80]);
    // Normalized texts are checked too.
    let composed = json.replacen(r#""normalizer": null"#, r#""normalizer": {"type": "NFC"}"#, 1).replacen(
        r#""normalizer":null"#,
        r#""normalizer":{"type":"NFC"}"#,
        1,
    );
    assert!(composed.contains("NFC"));
    assert_eq!(ids(&composed, "e\u{301}.stmbclq"), ids(&json, "\u{e9}.stmbclq"));
}
