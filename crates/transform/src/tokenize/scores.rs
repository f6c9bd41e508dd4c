//! The scores of a Unigram model as the Python package of `tokenizers` reads them.
//!
//! It parses JSON by `serde_json` without the feature `float_roundtrip`, which this build has: numbers of 16 digits and more may differ in the
//! last bit, which decides between ways to cut a text that are equally likely. This module replaces each score by the number that is read there.

use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

type Parts<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// The `tokenizer.json` with other scores; `None` if it has none, or is damaged.
pub(super) fn as_read(json: &[u8]) -> Option<String> {
    let mut parts: Parts<'_> = serde_json::from_slice(json).ok()?;
    let mut model: Parts<'_> = serde_json::from_str(parts.get("model")?.get()).ok()?;
    let vocabulary: Vec<(Cow<'_, str>, &RawValue)> = serde_json::from_str(model.get("vocab")?.get()).ok()?;
    let read = |score: &str| number(score).map_or_else(|| score.to_owned(), |number| format!("{number:?}"));
    let raw = |text: String| RawValue::from_string(text).ok();
    let scored: Option<Vec<_>> =
        vocabulary.iter().map(|(token, score)| Some((token, raw(read(score.get()))?))).collect();
    let vocabulary = serde_json::value::to_raw_value(&scored?).ok()?;
    model.insert("vocab".into(), &vocabulary);
    let model = serde_json::value::to_raw_value(&model).ok()?;
    parts.insert("model".into(), &model);
    serde_json::to_string(&parts).ok()
}

/// A number with a fraction or an exponent as `serde_json` parses it fast: all digits as one integer, times or through a
/// power of ten. `None` for others, which it parses exactly.
fn number(text: &str) -> Option<f64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1.0, text), |digits| (-1.0, digits));
    let (digits, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.is_empty() && exponent == "0" {
        return None;
    }
    let mut significand: u64 = whole.parse().ok()?;
    let mut power: i32 = exponent.parse().ok()?;
    for digit in fraction.bytes() {
        // Digits beyond those that fit are dropped.
        let Some(more) = significand.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit - b'0'))) else {
            break;
        };
        (significand, power) = (more, power - 1);
    }
    let scale = format!("1e{}", power.unsigned_abs()).parse::<f64>().ok().filter(|scale| scale.is_finite())?;
    let number = significand as f64;
    Some(sign * if power < 0 { number / scale } else { number * scale })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_the_fast_parser() {
        // Bits that `json.loads` of serde_json 1 gives without `float_roundtrip`.
        for (text, bits) in [
            ("-7.7968012895567655", (77_968_012_895_567_655u64 as f64 / 1e16).to_bits() | 1 << 63),
            ("-6.250668157738406", 6.250668157738406f64.to_bits() | 1 << 63),
            ("-1.5", (-1.5f64).to_bits()),
            ("2.5e-3", (25.0f64 / 1e4).to_bits()),
        ] {
            assert_eq!(number(text).unwrap().to_bits(), bits, "{text}");
        }
        assert_eq!((number("-7"), number("0")), (None, None));
        let json = r#"{"version":"1.0","model":{"type":"Unigram","vocab":[["<unk>",0.0],["a",-7],["é\n",-7.7968012895567655]]}}"#;
        let read = as_read(json.as_bytes()).unwrap();
        assert!(read.contains(r#"["a",-7]"#) && read.contains(r#"["é\n",-7.796801289556765]"#), "{read}");
        assert!(as_read(br#"{"model":{"vocab":{"a":1}}}"#).is_none() && as_read(b"x").is_none());
    }
}
