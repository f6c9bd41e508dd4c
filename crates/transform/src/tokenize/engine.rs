//! Tokenizer engines. Owns the trait and the default engine, `tokenizers` 1.0.0-rc.3.

use super::oracle::Reference;
use super::spelling::Spelling;
use packhorse_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokenizers::pipeline::{
    EncodeOptions, Normalizer, Override, PipelineNormalizer, PipelinePreTokenizer, PipelineToken, PipelineTokenizer,
    PreTokenizer, PreTokenizerScratch,
};

/// Token ids as the engine writes them; viewable as `&[u32]` without a copy.
pub(super) type Ids = Vec<Id>;

/// One token id.
pub(super) type Id = PipelineToken;

/// Encodes text. Deterministic across threads and call order.
pub(super) trait Engine: Send + Sync {
    /// Appends the tokens of `text` to `out`, with `template` also those that the tokenizer's post-processor adds.
    /// `out` is undefined after an error.
    fn encode(&self, text: &str, template: bool, out: &mut Ids) -> Result<()>;

    /// Whether text is split at white space before encoding, so that the cost of a word depends on its own length
    /// only. `false` if the engine encodes a text in one piece.
    fn cuts(&self) -> bool {
        false
    }

    /// Identifies the engine in plans and records.
    fn about(&self) -> About;

    /// Incremented whenever the same engine gives other tokens.
    fn revision(&self) -> u32 {
        1
    }
}

/// Name and release of an engine, and the Unicode release of its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) unicode: &'static str,
}

/// Views `ids` as integers.
pub(super) fn numbers(ids: &Ids) -> &[u32] {
    PipelineToken::cast_slice(ids)
}

/// `tokenizers` 1.0.0-rc.3.
pub(super) struct Fast {
    tokenizer: PipelineTokenizer,
    options: EncodeOptions,
    cuts: bool,
    delicate: Option<Delicate>,
    spelling: Option<Spelling>,
    reference: Arc<Reference>,
}

/// Added tokens around which this engine encodes otherwise than the reference: it marks a word before them and none after them where
/// the pre-tokenizer is `Metaspace`, and takes the end of another added token for that of a word. Texts that have one are left to the reference.
/// So are texts whose beginning the normalizer removes, where the pre-tokenizer marks the first word alone: the reference does not mark it then,
/// and texts with characters that it takes otherwise.
struct Delicate {
    /// Their ids, ascending.
    ids: Vec<u32>,
    /// Whether the first word alone is marked.
    first: bool,
    /// Pairs of texts: a text that has the first one, and the second one once it is normalized, is left to the reference.
    strange: Vec<[&'static str; 2]>,
}

/// What this engine takes otherwise in texts, before they are normalized and after: WordPiece ends a word at a NUL, and the patterns
/// of contractions that it has as code of its own lack the letter that is an `s` whatever its case.
fn strange(upgraded: &str) -> Vec<[&'static str; 2]> {
    let has_pieces = upgraded.contains("\"type\":\"WordPiece\"");
    let folds = ["(?i:'s", "(?i:[sdmt]", "(?i:'([sdmt]"].iter().any(|pattern| upgraded.contains(pattern));
    let both = [(has_pieces, ["\0", "\0"]), (folds, ["\u{17f}", "'\u{17f}"])];
    both.into_iter().filter_map(|(counts, texts)| counts.then_some(texts)).collect()
}

/// Whether a normalizer marks the beginnings of words.
fn is_mark(step: &PipelineNormalizer) -> bool {
    matches!(step, PipelineNormalizer::Metaspace(_) | PipelineNormalizer::Prepend(_))
}

impl Delicate {
    /// Those of a tokenizer; `None` if it has none. The error says which one the engine can't take.
    fn new(tokenizer: &PipelineTokenizer, upgraded: &str) -> Result<Option<Self>, String> {
        let first = upgraded.contains("\"prepend\":\"first\"");
        let steps = tokenizer.get_normalizers();
        let marks = steps.iter().any(is_mark);
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        // The engine panics where it goes on behind the first byte of such a token.
        let single = added.values().filter(|token| token.single_word);
        let panics =
            single.map(|token| &token.content).filter(|text| marks || !text.starts_with(|c: char| c.is_ascii()));
        if let Some(text) = panics.min() {
            return Err(format!("its added token {text:?} counts as a whole word only"));
        }
        // A token that strips the space behind it would take in a token of space.
        let spaces = added.values().any(|token| token.content.starts_with(char::is_whitespace));
        // Where a token that counts as a whole word only is none, the reference passes over its text, also over other tokens.
        let whole_words = added.values().any(|token| token.single_word);
        let mut ids: Vec<u32> = added
            .iter()
            .filter(|(_, token)| whole_words || token.normalized && marks || token.rstrip && spaces)
            .map(|(id, _)| *id)
            .collect();
        ids.sort_unstable();
        let delicate = Self { ids, first, strange: strange(upgraded) };
        let matters = |delicate: &Self| first || !delicate.ids.is_empty() || !delicate.strange.is_empty();
        Ok(Some(delicate).filter(matters))
    }

    /// Whether the normalizer removes the beginning of a text before its first word is marked, or may.
    fn removes_beginning(&self, text: &str, tokenizer: &PipelineTokenizer) -> bool {
        let Some(first) = text.chars().next().filter(|_| self.first) else { return false };
        let mut left = first.to_string();
        for step in tokenizer.get_normalizers() {
            match step {
                step if is_mark(step) => {}
                // These look at more than one character.
                PipelineNormalizer::Replace(_) => return true,
                step => match step.normalize(&left, 1) {
                    Ok(normalized) => left = normalized.into_owned(),
                    Err(_) => return true,
                },
            }
        }
        left.is_empty()
    }

    fn is_strange(&self, text: &str, tokenizer: &PipelineTokenizer) -> bool {
        let in_normal =
            |part: &str| normal(tokenizer.get_normalizers().iter(), text).map_or(true, |normal| normal.contains(part));
        self.strange.iter().any(|[before, after]| text.contains(before) && in_normal(after))
    }
}

impl Fast {
    /// Refuses added tokens, given by their texts, that are looked for in normalized text and that this engine does not find
    /// there: those that have a space then, where spaces are marks, those that are nothing then, and those of which a normalizer
    /// replaces a part. It also passes over tokens whose common beginning can overlap itself, as that of `<<SYS>>` in `<<<SYS>>`.
    pub(super) fn refuse_unfound(&self, normalized: &BTreeSet<String>) -> Result<(), String> {
        if let Some(text) = self.overlapping() {
            return Err(format!("its added tokens, which all begin with {text:?}"));
        }
        let steps = self.tokenizer.get_normalizers();
        let marks = steps.iter().any(is_mark);
        let is_lost = |text: &String| {
            let form = normal(steps.iter().filter(|step| !matches!(step, PipelineNormalizer::Metaspace(_))), text);
            form.is_ok_and(|form| form.is_empty() || marks && form.contains(' ')) || marks && text.contains(' ')
        };
        let replaces = |text: &String| {
            let mut steps = steps.iter().filter(|step| matches!(step, PipelineNormalizer::Replace(_)));
            steps.any(|step| step.normalize(text, 1).is_ok_and(|new| new != text.as_str()))
        };
        match normalized.iter().find(|text| is_lost(text) || replaces(text)) {
            Some(text) => Err(format!("its added token {text:?}, which counts in normalized text")),
            None => Ok(()),
        }
    }

    /// What all added tokens of one kind begin with, short of the last byte of the shortest, if it can overlap itself. The engine looks
    /// for this text, and goes on behind it where no token follows.
    fn overlapping(&self) -> Option<String> {
        let added = self.tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        [(true, true), (true, false), (false, true), (false, false)].into_iter().find_map(|(normalized, special)| {
            let kind = added.values().filter(|token| token.normalized == normalized && (special || !token.special));
            let kind: Vec<&[u8]> = kind.map(|token| token.content.as_bytes()).collect();
            let shortest = kind.iter().map(|token| token.len()).min()?;
            let runs = kind.iter().all(|token| token.iter().all(|byte| Some(byte) == token.first()));
            let common = kind.into_iter().reduce(|a, b| a.get(..shared(a, b)).unwrap_or_default())?;
            let end = |at: usize| common.get(at..shortest.saturating_sub(1).min(common.len())).unwrap_or_default();
            // Where a run of one byte is too short, so is the rest of it.
            let overlaps = !runs && (1..end(0).len()).any(|at| end(0).starts_with(end(at)));
            overlaps.then(|| String::from_utf8_lossy(end(0)).into_owned())
        })
    }

    /// Refuses added tokens, given by their texts, that are equal once they are normalized.
    pub(super) fn refuse_equals(&self, normalized: &BTreeSet<String>) -> Result<()> {
        refuse_equals(normalized, &|text| normal(self.tokenizer.get_normalizers().iter(), text))
    }

    /// Encodes a text, or leaves it to the reference.
    fn encode_text(&self, text: &str, out: &mut Ids) -> Result<()> {
        let before = out.len();
        let delicate = self.delicate.as_ref();
        let is_rare = |delicate: &Delicate| {
            delicate.removes_beginning(text, &self.tokenizer) || delicate.is_strange(text, &self.tokenizer)
        };
        if delicate.is_some_and(is_rare) {
            return self.refer(text, &"for texts with characters that the first one takes otherwise", out);
        }
        let encoded = self.tokenizer.encode_into(text, &self.options, out);
        // The engine fails on a word without any token if the tokenizer has no unknown token.
        encoded.map_err(|e| Error::content(format!("can't be tokenized: {e}")))?;
        let ids = PipelineToken::cast_slice(out).get(before..).unwrap_or_default();
        let of_delicate = |delicate: &Delicate| ids.iter().find(|id| delicate.ids.binary_search(id).is_ok()).copied();
        if let Some(id) = delicate.and_then(of_delicate) {
            out.truncate(before);
            return self.refer(text, &format_args!("for texts with the added token {id}"), out);
        }
        if let Some(mended) = self.mended(ids, text) {
            out.truncate(before);
            out.extend(mended.into_iter().map(Id::from));
        }
        Ok(())
    }

    /// The tokens of a text, if `ids` has one for a word that only shares its hash.
    fn mended(&self, ids: &[u32], text: &str) -> Option<Vec<u32>> {
        let spelling = self.spelling.as_ref()?;
        if spelling.may_spell(ids, text) {
            return None;
        }
        let steps = self.tokenizer.get_normalizers();
        match spelling.spelled(ids, text) {
            (_, at) if at == text.len() => None,
            spelled if steps.is_empty() => spelling.mended(ids, text, spelled, &self.reference.json),
            _ => {
                let text = normal(steps.iter(), text).ok()?;
                spelling.mended(ids, &text, spelling.spelled(ids, &text), &self.reference.json)
            }
        }
    }

    /// Leaves a text to the reference; `why` says for which texts this needs it.
    fn refer(&self, text: &str, why: &dyn std::fmt::Display, out: &mut Ids) -> Result<()> {
        self.reference.engine().map_err(|error| error.remark(why))?.encode(text, false, out)
    }

    /// With the bytes of the tokens, whose ids are below `vocabulary`.
    pub(super) fn with_spelling(self, vocabulary: u32) -> Self {
        Self { spelling: Spelling::new(&self.tokenizer, vocabulary), ..self }
    }

    /// From a `tokenizer.json` of version 2.0; the error says why this engine can't read it.
    pub(super) fn new(json: &str, reference: &Arc<Reference>) -> Result<Self, String> {
        let tokenizer = tokenizers::from_json(json).map_err(|e| e.to_string())?;
        refuse_cut_short(&tokenizer, json)?;
        let delicate = Delicate::new(&tokenizer, json)?;
        // An unsupported regular expression fails on first use only.
        let (mut scratch, mut spans) = (PreTokenizerScratch::default(), Vec::new());
        tokenizer.get_pre_tokenizer().pre_tokenize("a 1", &mut scratch, &mut spans).map_err(|e| e.to_string())?;
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: !reference.parse_special,
            padding: Override::Off,
            truncation: Override::Off,
        };
        let cuts = spans.len() > 1;
        Ok(Self { tokenizer, options, cuts, delicate, spelling: None, reference: reference.clone() })
    }
}

/// The pattern of cl100k up to its digits, in JSON, and runs of digits that this engine cuts by threes all the same.
const CL100K: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";
const DIGITS: [&str; 2] = [r"|\\p{N}{1,2}| ?[^\\s", r"|\\p{N}+| ?[^\\s"];

/// Refuses pre-tokenizers of which this engine, which has code of its own for them, leaves out a part.
fn refuse_cut_short(tokenizer: &PipelineTokenizer, json: &str) -> Result<(), String> {
    if DIGITS.iter().any(|digits| json.contains(&format!("{CL100K}{digits}"))) {
        return Err("the pattern of cl100k with other runs of digits".to_owned());
    }
    let PipelinePreTokenizer::Sequence(sequence) = tokenizer.get_pre_tokenizer() else { return Ok(()) };
    let mut more = sequence.pre_tokenizers().iter().skip(3);
    match sequence.is_deepseek() && more.any(|step| !matches!(step, PipelinePreTokenizer::None)) {
        true => Err("a pre-tokenizer after the three of DeepSeek".to_owned()),
        false => Ok(()),
    }
}

/// Refuses added tokens, given by their texts, that are equal once they are normalized: `tokenizers` takes one of them, another one each time.
pub(super) fn refuse_equals<E: std::fmt::Display>(
    normalized: &BTreeSet<String>,
    normalize: &dyn Fn(&str) -> Result<String, E>,
) -> Result<()> {
    let mut forms: BTreeMap<String, &str> = BTreeMap::new();
    for text in normalized {
        let form = normalize(text).map_err(|e| Error::config(format!("the added token {text:?}: {e}")))?;
        if let Some(other) = forms.insert(form, text) {
            let message = format!("the added tokens {other:?} and {text:?} are equal once they are normalized");
            let hint = "the library takes either, by chance: remove one, or add it with normalized=False";
            return Err(Error::config(message).hint(hint));
        }
    }
    Ok(())
}

/// A text as these steps leave it.
fn normal<'s>(mut steps: impl Iterator<Item = &'s PipelineNormalizer>, text: &str) -> tokenizers::Result<String> {
    steps.try_fold(text.to_owned(), |form, step| Ok(step.normalize(&form, 1)?.into_owned()))
}

/// How many bytes two texts have in common from their beginnings on.
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Engine for Fast {
    fn encode(&self, text: &str, template: bool, out: &mut Ids) -> Result<()> {
        // The engine's own path for this copies the text and the tokens.
        let around = &self.tokenizer.get_post_processor().single;
        if template {
            out.extend(around.prefix.iter().map(|(id, _)| *id));
        }
        self.encode_text(text, out)?;
        if template {
            out.extend(around.suffix.iter().map(|(id, _)| *id));
        }
        Ok(())
    }

    fn cuts(&self) -> bool {
        self.cuts
    }

    fn about(&self) -> About {
        About { name: "tokenizers", version: "1.0.0-rc.3", unicode: "17.0" }
    }

    fn revision(&self) -> u32 {
        match &self.delicate {
            None => 1,
            Some(Delicate { first: true, .. }) => 3,
            // Rare characters alone do not make other plans: almost no text has them.
            Some(delicate) if delicate.ids.is_empty() => 1,
            Some(_) => 2,
        }
    }
}
