//! Hugging Face's `tokenizer.json`: reading ids and upgrading the version.
//!
//! Specification: <https://github.com/huggingface/tokenizers>. Releases up to 0.23 write version 1.0, release 1.0
//! writes version 2.0. This module reads token ids and converts to version 2.0. The vocabulary stays text throughout:
//! a score that is parsed and printed again may change.

use packhorse_core::{Error, Result, nearest};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

type Parts<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// What a `tokenizer.json` declares about its tokens.
pub(super) struct Facts {
    /// One more than the highest id.
    pub(super) vocabulary: u64,
    /// The ids of the requested tokens.
    pub(super) named: BTreeMap<String, u32>,
    /// The texts of the tokens beside the model's that are looked for in normalized text.
    pub(super) normalized: BTreeSet<String>,
    /// Whether added tokens are listed in another order than that of their ids, which the library does not look at.
    pub(super) disordered: bool,
}

/// Reads `text` and looks up the tokens `wanted`. A `Config` error if it is not a tokenizer.
pub(super) fn facts(text: &str, wanted: &[String]) -> Result<Facts> {
    let parts: Parts<'_> = serde_json::from_str(text).map_err(|e| damaged(&e.to_string()))?;
    if !parts.is_empty() && parts.values().all(|value| value.get().bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(damaged("it holds a vocabulary alone").hint(WHOLE));
    }
    refuse_unknown(&parts)?;
    let model: Parts<'_> = within(&parts, "model")?;
    refuse_dropout(&model)?;
    let added = parts.get("added_tokens").map_or("[]", |added| added.get());
    let added: Option<Vec<Value>> = serde_json::from_str(added).map_err(|e| damaged(&e.to_string()))?;
    let added = added.unwrap_or_default().iter().map(AddedToken::of).collect::<Result<Vec<_>>>()?;
    let wanted = wanted.iter().map(String::as_str).chain(added.iter().map(|token| &*token.content)).collect();
    let mut count = Count { next: 0, tokens: 0, wanted, named: BTreeMap::new() };
    let vocabulary = model.get("vocab").ok_or_else(|| damaged("its model has no vocabulary"))?;
    let mut deserializer = serde_json::Deserializer::from_str(vocabulary.get());
    (&mut count).deserialize(&mut deserializer).map_err(|e| damaged(&e.to_string()))?;
    let disordered = !count.add(&added)?;
    let normalized = added.iter().filter(|token| token.normalized && !token.content.is_empty());
    let normalized = normalized.map(|token| token.content.clone()).collect();
    Ok(Facts { vocabulary: count.next, named: count.named, normalized, disordered })
}

/// A token beside those of the model.
struct AddedToken {
    content: String,
    id: u32,
    normalized: bool,
}

impl AddedToken {
    fn of(token: &Value) -> Result<Self> {
        let id = token.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        let content = token.get("content").and_then(Value::as_str);
        let (Some(id), Some(content)) = (id, content) else {
            return Err(damaged("an added token has no id or text"));
        };
        let normalized = token.get("normalized").and_then(Value::as_bool).unwrap_or(true);
        Ok(Self { content: content.to_owned(), id, normalized })
    }
}

/// The same tokenizer in version 2.0; the error says why it can't be converted, or what the first engine does not take.
pub(super) fn canonical(text: &str) -> Result<String, String> {
    let mut parts: Parts<'_> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let model = parts.remove("model").ok_or("no model")?;
    let mut model: Parts<'_> = serde_json::from_str(model.get()).map_err(|e| e.to_string())?;
    let vocabulary = model.remove("vocab").ok_or("no vocabulary")?.get();
    refuse_inexact(&model)?;
    let mut whole = value(&parts)?;
    whole["model"] = value(&model)?;
    // A model without a type is recognized by its vocabulary: a list or a map.
    whole["model"]["vocab"] = if vocabulary.starts_with('[') { json!([]) } else { json!({}) };
    tokenizers::canonicalize_value(&mut whole).map_err(|e| e.to_string())?;
    let mut model = whole["model"].take();
    model.as_object_mut().ok_or("no model")?.remove("vocab");
    let (whole, model) = (whole.to_string(), model.to_string());
    // Only the model was made null above, so the first match is it.
    let (before, after) = whole.split_once("\"model\":null").ok_or("no model")?;
    let model = model.strip_suffix('}').ok_or("no model")?;
    Ok(format!("{before}\"model\":{model},\"vocab\":{vocabulary}}}{after}"))
}

/// Refuses a model for which the first engine gives other tokens than the reference.
fn refuse_inexact(model: &Parts<'_>) -> Result<(), String> {
    let is_set = |name: &str| model.get(name).is_some_and(|value| !["null", "\"\"", "false"].contains(&value.get()));
    match () {
        () if is_set("end_of_word_suffix") => Err("model.end_of_word_suffix, for words of one character".to_owned()),
        // For unknown characters that are joined or become bytes.
        () if model.contains_key("merges") && is_set("continuing_subword_prefix") => {
            Err("model.continuing_subword_prefix of a BPE".to_owned())
        }
        () => Ok(()),
    }
}

fn value(parts: &Parts<'_>) -> Result<Value, String> {
    let entries = parts.iter().map(|(name, part)| Ok((name.to_string(), serde_json::from_str(part.get())?)));
    entries.collect::<Result<serde_json::Map<_, _>, serde_json::Error>>().map(Value::Object).map_err(|e| e.to_string())
}

fn within<'a>(parts: &Parts<'a>, name: &str) -> Result<Parts<'a>> {
    let part = parts.get(name).ok_or_else(|| damaged(&format!("it has no {name}")))?;
    serde_json::from_str(part.get()).map_err(|e| damaged(&e.to_string()))
}

/// The sections of version 1.0.
const SECTIONS: [&str; 9] = [
    "version",
    "truncation",
    "padding",
    "added_tokens",
    "normalizer",
    "pre_tokenizer",
    "post_processor",
    "decoder",
    "model",
];

/// Refuses sections of other names, as the library of version 1.0 does: one that is misspelt would have no effect.
fn refuse_unknown(parts: &Parts<'_>) -> Result<()> {
    let is_newer = parts.get("version").is_some_and(|version| version.get() != "\"1.0\"");
    let unknown = parts.keys().find(|name| !SECTIONS.contains(&&***name));
    match unknown.filter(|_| !is_newer) {
        Some(name) => {
            let meant = nearest(name, SECTIONS).map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            Err(damaged(&format!("it has a section {name}, which no tokenizer has{meant}")))
        }
        None => Ok(()),
    }
}

/// Refuses BPE dropout: equal texts would not give equal tokens.
fn refuse_dropout(model: &Parts<'_>) -> Result<()> {
    match model.get("dropout").map(|value| value.get().parse::<f64>()) {
        Some(Ok(rate)) if rate > 0.0 => {
            Err(Error::config("the tokenizer drops merges at random (model.dropout); set it to null"))
        }
        _ => Ok(()),
    }
}

/// How to make one file of those that a model's tokenizer was published in.
pub(super) const WHOLE: &str = "vocab.json, merges.txt and vocab.txt are parts of a tokenizer; transformers makes a tokenizer.json of them: \
     `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OUT)`";

fn damaged(what: &str) -> Error {
    Error::config(format!("the file is not a valid tokenizer.json: {what}"))
}

/// Streams through a vocabulary without storing it.
struct Count<'w> {
    next: u64,
    tokens: u64,
    wanted: BTreeSet<&'w str>,
    named: BTreeMap<String, u32>,
}

impl Count<'_> {
    fn token(&mut self, text: &str, number: u32) {
        self.next = self.next.max(u64::from(number) + 1);
        self.tokens += 1;
        if self.wanted.contains(text) {
            self.named.insert(text.to_owned(), number);
        }
    }

    /// Numbers added tokens as the library does, whatever ids they state: those of the model have its ids, others follow
    /// in the order of the list. Returns whether that is the order of the stated ids.
    fn add(&mut self, added: &[AddedToken]) -> Result<bool> {
        let size = u32::try_from(self.tokens).map_err(|_| damaged("too many tokens"))?;
        let (mut next, mut last, mut ordered) = (size, None, true);
        for token in added.iter().filter(|token| !token.content.is_empty()) {
            if !self.named.contains_key(&token.content) {
                ordered &= last.replace(token.id).is_none_or(|last| last < token.id);
                self.named.insert(token.content.clone(), next);
                self.next = self.next.max(u64::from(next.max(token.id)) + 1);
                next = next.checked_add(1).ok_or_else(|| damaged("too many tokens"))?;
            }
        }
        Ok(ordered)
    }
}

impl<'de> DeserializeSeed<'de> for &mut Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vocabulary")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((text, number)) = map.next_entry::<Text<'de>, u32>()? {
            self.token(&text.0, number);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut number = 0u32;
        while let Some((text, _)) = list.next_element::<(Text<'de>, IgnoredAny)>()? {
            self.token(&text.0, number);
            number = number.checked_add(1).ok_or_else(|| serde::de::Error::custom("too many tokens"))?;
        }
        Ok(())
    }
}

/// Borrowed where the JSON has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"version":"1.0","added_tokens":[{"id":7,"content":"</s>","single_word":false,"lstrip":false,
        "rstrip":false,"normalized":false,"special":true}],"normalizer":null,"pre_tokenizer":null,"post_processor":null,
        "model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["a",-1.2345678901234567]]}}"#;

    /// GPT-2's vocabulary has the tokens `model` and `version`.
    #[test]
    fn a_vocabulary_alone_is_told() {
        let error = facts(r#"{"model":0,"version":1,"a":2}"#, &[]).map(drop).unwrap_err();
        assert!(
            error.to_string().contains("it holds a vocabulary alone") && error.to_string().contains("save_pretrained")
        );
    }

    #[test]
    fn unused_ids_count() {
        let facts = facts(SMALL, &["</s>".to_owned(), "a".to_owned()]).unwrap();
        assert_eq!((facts.vocabulary, facts.named["</s>"], facts.named["a"]), (8, 2, 1));
    }

    #[test]
    fn scores_are_not_rewritten() {
        let text = canonical(SMALL).unwrap();
        assert!(text.contains("-1.2345678901234567") && text.contains("\"version\":\"2.0\""), "{text}");
        assert!(serde_json::from_str::<Value>(&text).is_ok());
        assert_eq!(canonical(&text).unwrap(), text);
    }

    #[test]
    fn invalid_tokenizers_are_refused() {
        for text in
            ["", "{}", "[]", "{\"model\":{}}", "{\"model\":{\"vocab\":{\"a\":-1}}}", "{\"model\":{\"vocab\":3}}"]
        {
            assert!(facts(text, &[]).is_err(), "{text}");
        }
        let misspelt = SMALL.replace("\"pre_tokenizer\"", "\"pre_tokeniser\"");
        let error = facts(&misspelt, &[]).err().unwrap().to_string();
        assert!(error.contains("section pre_tokeniser") && error.contains("did you mean pre_tokenizer?"), "{error}");
        let random = SMALL.replace("\"unk_id\"", "\"dropout\":0.1,\"unk_id\"");
        assert!(facts(&random, &[]).err().unwrap().to_string().contains("dropout"));
    }
}
