use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt16Type;
use arrow_array::{StringArray, StringViewArray};
use serde_json::Value;

#[cfg(feature = "tokenizer-oracle")]
mod reference;

/// A tokenizer of letters and one merge, with a template and an end token.
fn json() -> String {
    r#"{"version":"1.0","added_tokens":[
    {"id":6,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
    {"id":7,"content":"</s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
    "normalizer":null,"pre_tokenizer":null,"decoder":null,"truncation":{"direction":"Right","max_length":3,"strategy":"LongestFirst","stride":0},
    "padding":null,
    "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
    "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"<s>":{"id":"<s>","ids":[6],"tokens":["<s>"]}}},
    "model":{"type":"BPE","dropout":null,"unk_token":"?","continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,
    "byte_fallback":false,"vocab":{"?":0,"a":1,"b":2,"ab":3,"<":4,"s":5,"<s>":6,"</s>":7,">":9},"merges":["a b"]}}"#
        .to_owned()
}

fn rows(texts: &[Option<&str>], key: bool) -> Rows {
    let names: Vec<String> = (0..texts.len()).map(|i| format!("k{i}")).collect();
    let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values(&names));
    let text: ArrayRef = Arc::new(StringViewArray::from_iter(texts.iter().copied()));
    let other: ArrayRef = Arc::new(StringViewArray::from_iter(texts.iter().copied()));
    let mut fields = vec![FieldType::Text.field("body", true), FieldType::Text.field("text", true)];
    let mut columns = vec![other, text];
    if key {
        fields.insert(0, FieldType::Text.field(KEY, false));
        columns.insert(0, keys);
    }
    Rows::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn tokens(options: TokenizeOptions, texts: &[Option<&str>]) -> Vec<Vec<u16>> {
    let tokenize = Tokenize::new(json().as_bytes(), "t.json", options).unwrap();
    let rows = rows(texts, true);
    let found = tokenize.apply(rows.clone()).unwrap();
    assert_eq!(found.schema(), tokenize.schema(&rows.schema()).unwrap());
    assert_eq!(found.num_columns(), 2);
    let list = found.column_by_name(TOKENS).unwrap().as_list::<i32>().clone();
    list.iter().map(|doc| doc.unwrap().as_primitive::<UInt16Type>().values().to_vec()).collect()
}

#[test]
fn special_tokens_and_empty_documents() {
    let texts = [Some("abba"), Some(""), Some("<s>a")];
    let with = |special, append_eod, empty| TokenizeOptions { special, append_eod, empty, ..Default::default() };
    // Truncation in the file is ignored.
    let plain = [vec![6, 3, 2, 1], vec![6], vec![6, 6, 1]];
    assert_eq!(tokens(TokenizeOptions::default(), &texts), plain);
    let none = [vec![3, 2, 1], vec![], vec![6, 1]];
    assert_eq!(tokens(with(Special::None, false, Empty::Skip), &texts), none);
    let appended = [vec![3, 2, 1, 7], vec![], vec![6, 1, 7]];
    assert_eq!(tokens(with(Special::None, true, Empty::Skip), &texts), appended);
    assert_eq!(tokens(with(Special::Eod, false, Empty::Skip), &texts), appended);
    assert_eq!(tokens(with(Special::Eod, false, Empty::Eod), &texts)[1], [7]);
    assert_eq!(tokens(with(Special::None, false, Empty::Eod), &texts), [vec![3, 2, 1], vec![7], vec![6, 1]]);
    assert_eq!(tokens(with(Special::Bos, true, Empty::Skip), &texts)[0], [6, 3, 2, 1, 7]);
    let literal = TokenizeOptions { parse_special: Some(false), special: Special::None, ..Default::default() };
    assert_eq!(tokens(literal, &texts)[2], [4, 5, 9, 1]);
}

#[test]
fn a_template_with_a_token_outside_of_the_vocabulary_is_refused() {
    let json = json().replace(r#""ids":[6]"#, r#""ids":[10]"#);
    let with = |special| Tokenize::new(json.as_bytes(), "t.json", TokenizeOptions { special, ..Default::default() });
    let error = with(Special::Template).err().unwrap();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.to_string().contains("adds the token 10, which is outside of the vocabulary of 10"), "{error}");
    assert!(with(Special::None).is_ok());
}

#[test]
fn the_oracle_agrees() {
    let texts = [Some("abba"), Some(""), Some("<s>axb</s>")];
    for special in [Special::Template, Special::None, Special::Bos, Special::Eod] {
        for empty in [Empty::Skip, Empty::Eod] {
            for (append_eod, parse) in [(false, None), (true, Some(false))] {
                let options = TokenizeOptions {
                    special,
                    empty,
                    append_eod,
                    parse_special: parse,
                    check_exact: 1.0,
                    ..Default::default()
                };
                assert_eq!(tokens(options, &texts).len(), 3);
            }
        }
    }
}

#[test]
fn a_difference_names_document_and_token() {
    let options = TokenizeOptions { check_exact: 1.0, ..Default::default() };
    let tokenize = Tokenize::new(json().as_bytes(), "t.json", options).unwrap();
    let error = tokenize.check(Some("k"), "ab", &[6, 1, 2]).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().starts_with("token 1 is 1 by tokenizers 1.0.0-rc.3"), "{error}");
    assert!(tokenize.check(Some("k"), "ab", &[6]).unwrap_err().to_string().contains("is nothing by"));
    assert!(tokenize.check(Some("k"), "ab", &[6, 3, 7]).is_err());
    assert!(tokenize.check(Some("k"), "ab", &[6, 3]).is_ok());
}

#[test]
fn descriptions_round_trip() {
    let options = TokenizeOptions {
        append_eod: true,
        special: Special::Bos,
        field: Some("bo dy".to_owned()),
        check_exact: 0.5,
        ..Default::default()
    };
    for options in [options, TokenizeOptions { parse_special: Some(false), ..Default::default() }] {
        let tokenize = Tokenize::new(json().as_bytes(), "t.json", options).unwrap();
        let text = tokenize.describe();
        let limits = packhorse_core::Limits::default();
        let made = |text: &str, files: &dyn Fn(&str) -> Result<Vec<u8>>| {
            crate::from_description_with(text, &RebuildContext { limits, files, check_exact: 0.0 })
        };
        let again = made(&text, &|digest| {
            assert_eq!(digest, tokenize.record().digest);
            Ok(json().into_bytes())
        });
        assert_eq!(again.unwrap().describe(), text);
        assert!(crate::from_description(&text, limits).is_err());
        assert!(made(&text, &|_| Ok(b"{}".to_vec())).is_err());
        let newer = text.replace("tokenize/1", "tokenize/999");
        assert!(made(&newer, &|_| Ok(json().into_bytes())).is_err());
    }
}

/// Vocabularies have the digits as tokens too.
#[test]
fn a_number_is_the_id_of_a_token() {
    let digits = json().replace(r#"">":9"#, r#"">":9,"7":8"#);
    for eod in [None, Some("7".to_owned()), Some("</s>".to_owned())] {
        let options = TokenizeOptions { append_eod: true, special: Special::None, eod, ..Default::default() };
        let tokenize = Tokenize::new(digits.as_bytes(), "t.json", options).unwrap();
        assert_eq!(tokenize.record().eod, Some(7));
        let files = |_: &str| Ok(digits.clone().into_bytes());
        let context = RebuildContext { limits: packhorse_core::Limits::default(), files: &files, check_exact: 0.0 };
        let again = crate::from_description_with(&tokenize.describe(), &context).unwrap();
        assert_eq!(again.describe(), tokenize.describe());
    }
}

/// A tokenizer with a model of BPE, and added tokens.
#[cfg(feature = "tokenizer-oracle")]
fn of_model(model: &str, added: &str) -> String {
    format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{added}],"normalizer":null,
        "pre_tokenizer":{{"type":"Whitespace"}},"post_processor":null,"decoder":null,
        "model":{{"type":"BPE","dropout":null,"unk_token":"[UNK]","byte_fallback":false,"ignore_merges":false,{model}}}}}"#
    )
}

/// The ids are those of the Python package of tokenizers 0.23.
#[cfg(feature = "tokenizer-oracle")]
#[test]
fn what_the_first_engine_takes_otherwise_is_left_to_the_reference() {
    let ids = |json: &str, text: &str| {
        let tokenize = Tokenize::new(json.as_bytes(), "t.json", TokenizeOptions::default()).unwrap();
        let found = tokenize.apply(rows(&[Some(text)], true)).unwrap();
        let list = found.column_by_name(TOKENS).unwrap().as_list::<i32>().value(0);
        list.as_primitive::<UInt16Type>().values().to_vec()
    };
    let ends = r#""continuing_subword_prefix":null,"end_of_word_suffix":"</w>","fuse_unk":false,
        "vocab":{"[UNK]":0,"a":1,"b":2,"a</w>":3,"b</w>":4,"ab</w>":5},"merges":[["a","b</w>"]]"#;
    assert_eq!(ids(&of_model(ends, ""), "ab a b"), [5, 3, 4]);
    let fuses = r###""continuing_subword_prefix":"##","end_of_word_suffix":null,"fuse_unk":true,
        "vocab":{"[UNK]":0,"a":1,"##b":2,"ab":3},"merges":[["a","##b"]]"###;
    assert_eq!(ids(&of_model(fuses, ""), "ééé ab aéé"), [0, 3, 1, 0]);
    let plain = r#""continuing_subword_prefix":null,"end_of_word_suffix":"","fuse_unk":false,
        "vocab":{"[UNK]":0,"a":1,"b":2,"ab":3},"merges":[["a","b"]]"#;
    let token = |id, content, strips| {
        format!(
            r#"{{"id":{id},"content":"{content}","single_word":false,"lstrip":false,"rstrip":{strips},"normalized":false,"special":false}}"#
        )
    };
    let added = [token(4, "<e>", true), token(5, "\\n", false)].join(",");
    assert_eq!(ids(&of_model(plain, &added), "<e>\nab"), [4, 5, 3]);
    assert_eq!(ids(&of_model(plain, &added), "ab\n"), [3, 5]);
}

/// Cuts of one likelihood are told apart by the last bit of the scores.
#[cfg(feature = "tokenizer-oracle")]
#[test]
fn the_oracle_reads_scores_as_the_python_package() {
    let unigram = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
        "pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true},"post_processor":null,
        "decoder":null,"model":{"type":"Unigram","unk_id":0,"byte_fallback":false,"vocab":[["<unk>",0.0],["▁",-7.0],
        ["▁==",-7.7968012895567655],["=",-6.250668157738406],["==",-8.729593769857322],["</s>",0.0]]}}"#;
    let options = TokenizeOptions { check_exact: 1.0, ..Default::default() };
    let tokenize = Tokenize::new(unigram.as_bytes(), "t.json", options).unwrap();
    let found = tokenize.apply(rows(&[Some("=====")], true)).unwrap();
    let list = found.column_by_name(TOKENS).unwrap().as_list::<i32>().value(0);
    assert_eq!(list.as_primitive::<UInt16Type>().values(), &[2, 4, 3]);
}

#[test]
fn text_fields_are_found_and_unknown_names_refused() {
    let schema = rows(&[], true).schema();
    let with = |options| Tokenize::new(json().as_bytes(), "t.json", options).unwrap();
    let named = with(TokenizeOptions { field: Some("cls".to_owned()), ..Default::default() });
    assert!(named.schema(&schema).unwrap_err().to_string().contains("body, text"));
    assert!(with(TokenizeOptions::default()).schema(&schema).is_ok());
    // Another field is not taken where `text` is not text.
    let blob = |name: &str| FieldType::Blob.field(name, true);
    for text in [blob("text"), blob("text.body")] {
        let schema = Arc::new(Schema::new(vec![FieldType::Text.field("url", true), text]));
        let error = with(TokenizeOptions::default()).schema(&schema).unwrap_err();
        assert!(error.to_string().contains("field text does not hold text"), "{error}");
        let named = TokenizeOptions { field: Some("url".to_owned()), ..Default::default() };
        assert!(with(named).schema(&schema).is_ok());
    }
    let without: SchemaRef = Arc::new(Schema::empty());
    assert!(with(TokenizeOptions::default()).schema(&without).is_err());
    let error = with(TokenizeOptions::default()).apply(rows(&[Some("a"), None], true)).unwrap_err();
    assert_eq!((error.kind(), error.sample(), error.field()), (Kind::Content, Some("k1"), Some("text")));
    let found = with(TokenizeOptions::default()).apply(rows(&[Some("a")], false)).unwrap();
    assert_eq!(found.num_columns(), 1);
    let plain: ArrayRef = Arc::new(StringArray::from(vec!["ab"]));
    let narrow = Rows::try_from_iter([("x", plain)]).unwrap();
    assert_eq!(with(TokenizeOptions::default()).apply(narrow).unwrap().num_rows(), 1);
}

#[test]
fn impossible_options_are_refused() {
    let refused = |options| Tokenize::new(json().as_bytes(), "t.json", options).err().unwrap().to_string();
    let eod = |text: &str| TokenizeOptions { eod: Some(text.to_owned()), append_eod: true, ..Default::default() };
    assert!(refused(eod("10")).contains("outside of the vocabulary of 10"));
    assert!(refused(eod("<end>")).contains("no token \"<end>\""));
    assert!(refused(TokenizeOptions { check_exact: 1.5, ..Default::default() }).contains("from 0 to 1"));
    let nothing = json().replace("</s>", "</x>");
    let options = TokenizeOptions { append_eod: true, ..Default::default() };
    let error = Tokenize::new(nothing.as_bytes(), "t.json", options).err().unwrap();
    assert!(error.to_string().contains("<|endoftext|>, "), "{error}");
    let compressed = Tokenize::new(b"\x28\xb5\x2f\xfdx", "t", Default::default()).err().unwrap();
    assert!(compressed.to_string().contains("is compressed; decompress it first"), "{compressed}");
    for file in ["", "x", "{", "{}", "YQ== 0", "\n\n"] {
        assert_eq!(
            Tokenize::new(file.as_bytes(), "t", Default::default()).err().unwrap().kind(),
            Kind::Config,
            "{file}"
        );
    }
}

#[test]
fn the_oracle_is_the_fallback_engine() {
    // The engine supports only the regular expressions that it knows.
    let split = r#""pre_tokenizer":{"type":"Split","pattern":{"Regex":"b+"},"behavior":"Isolated","invert":false}"#;
    let odd = json().replace(r#""pre_tokenizer":null"#, split);
    let tokenize = Tokenize::new(odd.as_bytes(), "t.json", TokenizeOptions::default()).unwrap();
    assert!(tokenize.record().fallback.is_some());
    assert!(tokenize.describe().starts_with("tokenize/1 engine=tokenizers-0.23.2 unicode="), "{}", tokenize.describe());
    let found = tokenize.apply(rows(&[Some("abba")], true)).unwrap();
    let list = found.column_by_name(TOKENS).unwrap().as_list::<i32>().value(0);
    assert_eq!(list.as_primitive::<UInt16Type>().values(), &[6, 1, 2, 2, 1]);
}

#[test]
fn the_requested_fraction_is_checked() {
    let below = (0..10_000).filter(|i| share(&i.to_string()) < 0.1).count();
    assert!((900..1100).contains(&below), "{below}");
}

#[test]
fn a_piece_that_would_take_gigabytes_is_refused() {
    let cutting = json().replace(r#""pre_tokenizer":null"#, r#""pre_tokenizer":{"type":"WhitespaceSplit"}"#);
    let with = |json: &str| Tokenize::new(json.as_bytes(), "t.json", TokenizeOptions::default()).unwrap();
    let (cutting, whole) = (with(&cutting), with(&json()));
    let refused = |tokenize: &Tokenize, text: &str| tokenize.admit(text).err().map(|e| e.kind());
    let run = "a".repeat(PIECE);
    assert_eq!((refused(&cutting, &run), refused(&whole, &run)), (None, None));
    let longer = format!("{run}a");
    assert_eq!((refused(&cutting, &longer), refused(&whole, &longer)), (Some(Kind::Limit), Some(Kind::Limit)));
    let two = format!("b {run}\n{run}");
    assert_eq!((refused(&cutting, &two), refused(&whole, &two)), (None, Some(Kind::Limit)));
    // A memory limit lowers the bound.
    let little = |tokenize: &Tokenize| tokenize.clone().within(packhorse_core::Limits::of_memory(256 << 20));
    let (run, two) = ("a".repeat(2 << 20), format!("{}\n{}", "a".repeat(1 << 20), "b".repeat(1 << 20)));
    assert_eq!((refused(&little(&cutting), &run), refused(&little(&cutting), &two)), (Some(Kind::Limit), None));
    assert_eq!((refused(&whole, &run), refused(&little(&whole), &two)), (None, Some(Kind::Limit)));
    // Only this document fails.
    let error = cutting.apply(rows(&[Some("ab"), Some(&longer)], true)).unwrap_err();
    assert_eq!((error.kind(), error.sample()), (Kind::Limit, Some("k1")));
}

/// The tokenizer with these added tokens, normalizer and pre-tokenizer; it has a token for each word's mark.
fn with_added(added: &[Value], normalizer: &str, pre_tokenizer: &str) -> String {
    let mut whole: Value = serde_json::from_str(&json()).unwrap();
    for (id, token) in (10..).zip(added) {
        let mut token = token.clone();
        token["id"] = id.into();
        whole["added_tokens"].as_array_mut().unwrap().push(token);
    }
    whole["normalizer"] = serde_json::from_str(normalizer).unwrap();
    whole["pre_tokenizer"] = serde_json::from_str(pre_tokenizer).unwrap();
    whole["model"]["vocab"]["▁"] = 8.into();
    whole.to_string()
}

fn added(content: &str, flags: [bool; 4]) -> Value {
    let [normalized, single_word, lstrip, rstrip] = flags;
    serde_json::json!({"content": content, "single_word": single_word, "lstrip": lstrip, "rstrip": rstrip,
        "normalized": normalized, "special": false})
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(1000))]

    /// What the first engine does otherwise around added tokens is left to the reference.
    #[test]
    fn texts_with_added_tokens_are_encoded_as_by_the_reference(
        flags in proptest::collection::vec(proptest::array::uniform4(proptest::bool::ANY), 4),
        normalizer in 0..7usize, pre_tokenizer in 0..6usize, count in 0..5usize,
        texts in proptest::collection::vec(proptest::collection::vec(0..11usize, 0..8), 1..6),
    ) {
        let contents = ["<x>", "bb", "abx", "b a"].into_iter().take(count);
        let tokens: Vec<Value> = contents.zip(flags).map(|(content, flags)| added(content, flags)).collect();
        let normalizers = ["null", r#"{"type":"Lowercase"}"#, r#"{"type":"NFKC"}"#,
            r#"{"type":"Replace","pattern":{"String":"ab"},"content":""}"#,
            r#"{"type":"Strip","strip_left":true,"strip_right":true}"#,
            r#"{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":false,"strip_accents":false,"lowercase":false}"#,
            r#"{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]}"#];
        let metaspace = |scheme| format!(r#"{{"type":"Metaspace","replacement":"▁","prepend_scheme":"{scheme}","split":true}}"#);
        let pre_tokenizers = ["null".to_owned(), r#"{"type":"Whitespace"}"#.to_owned(), metaspace("always"), metaspace("never"),
            metaspace("first"), format!(r#"{{"type":"Sequence","pretokenizers":[{{"type":"WhitespaceSplit"}},{}]}}"#, metaspace("always"))];
        let file = with_added(&tokens, normalizers[normalizer], &pre_tokenizers[pre_tokenizer]);
        let options = TokenizeOptions { check_exact: 1.0, ..Default::default() };
        let tokenize = Tokenize::new(file.as_bytes(), "t.json", options).unwrap();
        let pieces = ["a", "b", " ", "<x>", "bb", "abx", "A", "ab", "▁", "b a", "\u{0}"];
        let texts: Vec<String> = texts.iter().map(|text| text.iter().map(|piece| pieces[*piece]).collect()).collect();
        let texts: Vec<Option<&str>> = texts.iter().map(|text| Some(&**text)).collect();
        let found = tokenize.apply(rows(&texts, true));
        proptest::prop_assert!(found.is_ok(), "{:?} {file} {texts:?}", found.err());
    }
}

#[test]
fn added_tokens_that_are_equal_once_they_are_normalized_are_refused() {
    let tokens = [added("Bb", [true, false, false, false]), added("bB", [true, false, false, false])];
    let with = |normalizer| {
        let file = with_added(&tokens, normalizer, "null");
        Tokenize::new(file.as_bytes(), "t.json", TokenizeOptions::default()).map(|tokenize| tokenize.describe())
    };
    let error = with(r#"{"type":"Lowercase"}"#).unwrap_err();
    assert!(
        error.kind() == Kind::Config && error.to_string().contains("are equal once they are normalized"),
        "{error}"
    );
    assert!(with("null").unwrap().starts_with("tokenize/1 "));
}

#[test]
fn options_without_an_effect_are_refused() {
    let with = |options| Tokenize::new(json().as_bytes(), "t.json", options).map(drop).unwrap_err().to_string();
    let given = || Some("</s>".to_owned());
    let eod = with(TokenizeOptions { eod: given(), ..Default::default() });
    assert!(eod.contains("`eod` would have no effect") && eod.contains("`append-eod` appends"), "{eod}");
    assert!(with(TokenizeOptions { bos: given(), special: Special::Eod, ..Default::default() }).contains("`bos`"));
    let pattern = TokenizeOptions { pattern: Some("gpt2".to_owned()), ..Default::default() };
    assert!(with(pattern).contains("`pattern`"));
}

/// Whatever ids added tokens state, the library numbers them in the order of the list.
#[test]
fn added_tokens_have_the_ids_that_the_library_gives_them() {
    let ends = |ids: [u64; 2]| {
        let mut whole: Value = serde_json::from_str(&json()).unwrap();
        whole["model"]["vocab"] = serde_json::json!({"?": 0, "a": 1, "b": 2, "ab": 3});
        for (token, id) in whole["added_tokens"].as_array_mut().unwrap().iter_mut().zip(ids) {
            token["id"] = id.into();
        }
        let options = TokenizeOptions {
            special: Special::None,
            append_eod: true,
            eod: Some("</s>".to_owned()),
            check_exact: 1.0,
            ..Default::default()
        };
        let tokenize = Tokenize::new(whole.to_string().as_bytes(), "t.json", options).unwrap();
        let found = tokenize.apply(rows(&[Some("a<s>b</s>")], true)).unwrap();
        let list = found.column_by_name(TOKENS).unwrap().as_list::<i32>().value(0);
        (list.as_primitive::<UInt16Type>().values().to_vec(), tokenize.describe().contains("tokenizers-0.23"))
    };
    assert_eq!(ends([4, 5]), (vec![1, 4, 2, 5, 5], false));
    assert_eq!(ends([4, 9]), (vec![1, 4, 2, 5, 5], false));
    assert_eq!(ends([9, 4]), (vec![1, 4, 2, 5, 5], true));
}

#[test]
fn a_tokenizer_with_delicate_tokens_has_a_revision_of_its_own() {
    let describe = |flags, pre_tokenizer| {
        let file = with_added(&[added("<x>", flags)], "null", pre_tokenizer);
        Tokenize::new(file.as_bytes(), "t.json", TokenizeOptions::default()).unwrap().describe()
    };
    let metaspace = r#"{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true}"#;
    assert!(describe([true, false, false, false], "null").starts_with("tokenize/1 engine=tokenizers-1"));
    assert!(describe([false, false, false, false], metaspace).starts_with("tokenize/1 engine=tokenizers-1"));
    assert!(describe([true, false, false, false], metaspace).starts_with("tokenize/2 engine=tokenizers-1"));
    assert!(describe([false, true, false, false], "null").starts_with("tokenize/2 engine=tokenizers-1"));
    // This engine panics on these.
    assert!(describe([true, true, false, false], metaspace).starts_with("tokenize/1 engine=tokenizers-0.23"));
    let first = metaspace.replace("always", "first");
    assert!(describe([false, false, false, false], &first).starts_with("tokenize/3 engine=tokenizers-1"));
}
