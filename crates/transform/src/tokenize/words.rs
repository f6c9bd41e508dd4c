//! Converts a tokenize transform to its canonical description and back.

use super::TokenizeOptions;
use super::tokenizer::Tokenizer;
use packhorse_core::{Error, Result};

/// The description: everything that decides the tokens.
pub(super) fn describe(
    tokenizer: &Tokenizer,
    options: &TokenizeOptions,
    digest: &str,
    bos: Option<u32>,
    eod: Option<u32>,
    append: bool,
) -> String {
    let (about, revision) = (tokenizer.engine.about(), tokenizer.engine.revision());
    let mut text = format!(
        "tokenize/{revision} engine={}-{} unicode={} tokenizer={digest} kind={} vocabulary={} special={} empty={}",
        about.name,
        about.version,
        about.unicode,
        tokenizer.kind,
        tokenizer.vocabulary,
        options.special.name(),
        options.empty.name()
    );
    let numbers = [("bos", bos), ("eod", eod)].into_iter().filter_map(|(name, id)| Some((name, id?)));
    text.extend(numbers.map(|(name, id)| format!(" {name}={id}")));
    text.extend(append.then_some(" append_eod"));
    text.extend(tokenizer.parse_special.then_some(" parse_special"));
    text.extend(tokenizer.pattern.map(|name| format!(" pattern={name}")));
    // JSON without spaces: descriptions are split at spaces.
    let field = options.field.as_ref().and_then(|name| serde_json::to_string(name).ok());
    text.extend(field.map(|name| format!(" field={}", name.replace(' ', "\\u0020"))));
    text
}

/// Parses the words after the first into options and the tokenizer's digest. Derived words are skipped: the caller
/// compares the whole description.
pub(super) fn options<'w>(words: impl Iterator<Item = &'w str>) -> Result<(TokenizeOptions, String)> {
    let unknown = || Error::config("the plan's tokenize transform has words that this build does not know");
    let mut options = TokenizeOptions { parse_special: Some(false), ..TokenizeOptions::default() };
    let mut digest = None;
    for word in words {
        match word.split_once('=') {
            None if word == "append_eod" => options.append_eod = true,
            None if word == "parse_special" => options.parse_special = Some(true),
            Some(("special", name)) => options.special = name.parse()?,
            Some(("empty", name)) => options.empty = name.parse()?,
            Some(("bos", id)) => options.bos = Some(id.to_owned()),
            Some(("eod", id)) => options.eod = Some(id.to_owned()),
            Some(("pattern", name)) => options.pattern = Some(name.to_owned()),
            Some(("field", name)) => options.field = Some(serde_json::from_str(name).map_err(|_| unknown())?),
            Some(("tokenizer", text)) => digest = Some(text.to_owned()),
            Some(("engine" | "unicode" | "vocabulary" | "kind", _)) => {}
            _ => return Err(unknown()),
        }
    }
    Ok((options, digest.ok_or_else(unknown)?))
}
