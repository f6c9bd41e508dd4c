//! Strings of JSON: where they end, and what they say.

use memchr::memchr;

const ONES: u64 = u64::MAX / 255;
const HIGHS: u64 = ONES << 7;

/// How many bytes come before the first quote, backslash or control character (below 0x20).
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    // Short strings and short runs between escapes end here.
    for _ in 0..8 {
        let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) else { break };
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let (blocks, _) = bytes.get(at..).unwrap_or_default().as_chunks::<64>();
    for block in blocks {
        if block.iter().fold(false, |any, byte| any | is_special(*byte)) {
            break;
        }
        at += 64;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    for word in rest.as_chunks::<8>().0 {
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let tail = bytes.get(at..).unwrap_or_default();
    at + tail.iter().position(|byte| is_special(*byte)).unwrap_or(tail.len())
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// A word whose lowest set bit is the highest of the first byte that is special; 0 where none is.
fn special(word: u64) -> u64 {
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGHS;
    below(word, 0x20) | below(word ^ (ONES * u64::from(b'"')), 1) | below(word ^ (ONES * u64::from(b'\\')), 1)
}

/// The number of bytes of the escape at the start of `bytes`, which begins with a backslash; `None` if
/// it is none.
pub(crate) fn escape_len(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => bytes.get(2..6)?.iter().all(u8::is_ascii_hexdigit).then_some(6),
        _ => None,
    }
}

/// Appends to `out` what the escaped string `text` says. Its escapes are known to be escapes; a lone
/// surrogate is an error, which says where it stands.
pub(crate) fn unescape(text: &str, out: &mut String) -> Result<(), usize> {
    let mut at = 0;
    while let Some(rest) = text.get(at..) {
        let Some(n) = memchr(b'\\', rest.as_bytes()) else {
            out.push_str(rest);
            break;
        };
        out.push_str(rest.get(..n).unwrap_or_default());
        at += n;
        let (character, len) = character(rest.as_bytes().get(n..).unwrap_or_default()).ok_or(at)?;
        out.push(character);
        at += len;
    }
    Ok(())
}

/// The character that the escape at the start of `bytes` means, and how many bytes that took.
fn character(bytes: &[u8]) -> Option<(char, usize)> {
    let simple = match bytes.get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\x08',
        b'f' => '\x0c',
        b'u' => return unicode(bytes),
        other => char::from(*other),
    };
    Some((simple, 2))
}

fn unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = hex(bytes.get(2..6)?)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    let second = hex(bytes.get(6..12)?.strip_prefix(b"\\u")?).filter(|unit| (0xdc00..0xe000).contains(unit))?;
    Some((char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 12))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_byte_at_every_place_is_told() {
        for special in 0..=255u8 {
            for len in [1, 7, 8, 9, 63, 64, 65, 130, 200] {
                for at in [0, 1, 7, 8, 62, 63, 64, 65, 127, 128, 199] {
                    let mut bytes = vec![b'x'; len];
                    if at < len {
                        bytes[at] = special;
                        bytes[len - 1] = if at + 1 == len { special } else { b'"' };
                    }
                    let expected = bytes.iter().position(|b| is_special(*b)).unwrap_or(len);
                    assert_eq!(plain(&bytes), expected, "{special} at {at} of {len}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_first_special_byte_is_found(bytes in prop::collection::vec(any::<u8>(), 0..300), high in any::<bool>()) {
            let bytes: Vec<u8> = bytes.iter().map(|b| if high { b | 0x80 } else { b & 0x7f | 0x40 }).collect();
            prop_assert_eq!(plain(&bytes), bytes.iter().position(|b| is_special(*b)).unwrap_or(bytes.len()));
        }
    }

    #[test]
    fn escapes_say_what_they_mean() {
        let mut out = String::new();
        unescape(r#"a\n\t\r\b\f\/\\\"\u00e4\uD83D\ude00é\u0000"#, &mut out).unwrap();
        assert_eq!(out, "a\n\t\r\u{8}\u{c}/\\\"ä😀é\0");
        for (text, at) in [(r"\ud83d", 0), (r"ab\ud83dx", 2), (r"\ude00", 0), (r"\ud83d\u0041", 0), (r"\ud83d\n", 0)] {
            assert_eq!(unescape(text, &mut String::new()), Err(at), "{text}");
        }
    }
}
