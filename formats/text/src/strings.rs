//! Strings of JSON: where they end, and what they say.

use crate::lanes::{LANES, backslash, special};

/// How many bytes come before the first quote, backslash or control character (below 0x20).
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    // Short strings and short runs between escapes end here.
    for _ in 0..8 {
        let Some(lanes) = lanes(bytes, at) else { break };
        match special(lanes) {
            None => at += LANES,
            Some(n) => return at + n,
        }
    }
    let (blocks, _) = bytes.get(at..).unwrap_or_default().as_chunks::<64>();
    let dull = |block: &&[u8; 64]| !block.iter().fold(false, |any, byte| any | is_special(*byte));
    at += 64 * blocks.iter().take_while(dull).count();
    while let Some(lanes) = lanes(bytes, at) {
        match special(lanes) {
            None => at += LANES,
            Some(n) => return at + n,
        }
    }
    let tail = bytes.get(at..).unwrap_or_default();
    at + tail.iter().position(|byte| is_special(*byte)).unwrap_or(tail.len())
}

fn lanes(bytes: &[u8], at: usize) -> Option<&[u8; LANES]> {
    bytes.get(at..)?.first_chunk()
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The number of bytes of the escape at the start of `bytes`, which begins with a backslash; `None` if
/// it is none.
#[inline]
pub(crate) fn escape_len(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => hex(bytes.get(2..)?).map(|_| 6),
        _ => None,
    }
}

/// Writes to `out` what the escaped string `text` says, and returns how many bytes that are. The escapes are known to
/// be escapes; a lone surrogate is an error, which says where it stands. `out` grows as needed, and what
/// it holds behind those bytes means nothing.
pub(crate) fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<usize, usize> {
    // No escape says more bytes than it has, and the last run of plain bytes may be copied in whole lanes.
    if out.len() < text.len() + LANES {
        out.resize(text.len() + LANES, 0);
    }
    let (mut from, mut to) = (0, 0);
    loop {
        let n = copy(text, from, out, to);
        (from, to) = (from + n, to + n);
        if from >= text.len() {
            return Ok(to);
        }
        let (character, len) = character(text.get(from..).unwrap_or_default()).ok_or(from)?;
        let room = out.get_mut(to..).unwrap_or_default();
        match room.first_mut().filter(|_| character.is_ascii()) {
            Some(byte) => (*byte, to) = (character as u8, to + 1),
            None => to += character.encode_utf8(room).len(),
        }
        from += len;
    }
}

/// Copies the bytes of `text` from `from` on up to a backslash to `out`, and returns how many they are.
#[inline]
fn copy(text: &[u8], from: usize, out: &mut [u8], to: usize) -> usize {
    let mut n = 0;
    while let Some(lanes) = lanes(text, from + n) {
        if let Some(room) = out.get_mut(to + n..).and_then(|room| room.first_chunk_mut()) {
            *room = *lanes;
        }
        match backslash(lanes) {
            None => n += LANES,
            Some(more) => return n + more,
        }
    }
    let rest = text.get(from + n..).unwrap_or_default();
    for (byte, room) in rest.iter().zip(out.get_mut(to + n..).unwrap_or_default()) {
        if *byte == b'\\' {
            break;
        }
        *room = *byte;
        n += 1;
    }
    n
}

/// The character that the escape at the start of `bytes` means, and how many bytes that took.
#[inline]
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
    let first = hex(bytes.get(2..)?)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    let second = hex(bytes.get(6..)?.strip_prefix(b"\\u")?).filter(|unit| (0xdc00..0xe000).contains(unit))?;
    Some((char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 12))
}

/// The number of the four hexadecimal digits at the start of `bytes`.
#[inline]
fn hex(bytes: &[u8]) -> Option<u32> {
    let digit = |byte: &u8| DIGITS.get(usize::from(*byte)).map_or(NONE, |digit| u32::from(*digit));
    let [a, b, c, d] = bytes.first_chunk::<4>()?;
    let number = digit(a) << 12 | digit(b) << 8 | digit(c) << 4 | digit(d);
    (number <= 0xffff && (digit(b) | digit(c) | digit(d)) < 16).then_some(number)
}

/// What stands for no digit.
const NONE: u32 = 0xff;

/// The value of each byte as a hexadecimal digit.
const DIGITS: [u8; 256] = {
    let mut digits = [NONE as u8; 256];
    let mut i = 0;
    while i < 16 {
        digits[b"0123456789abcdef"[i] as usize] = i as u8;
        digits[b"0123456789ABCDEF"[i] as usize] = i as u8;
        i += 1;
    }
    digits
};

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

    fn said(text: &str) -> Result<String, usize> {
        let mut out = vec![b'?'; 3];
        let len = unescape(text.as_bytes(), &mut out)?;
        Ok(str::from_utf8(&out[..len]).unwrap().to_owned())
    }

    #[test]
    fn escapes_say_what_they_mean() {
        let text = r#"a\n\t\r\b\f\/\\\"\u00e4\uD83D\ude00é\u0000"#;
        assert_eq!(said(text).unwrap(), "a\n\t\r\u{8}\u{c}/\\\"ä😀é\0");
        for len in 0..70 {
            let words = "0123456789 ".repeat(9)[..len].to_owned();
            assert_eq!(said(&words), Ok(words.clone()));
            assert_eq!(said(&format!("{words}\\n{words}\\u00E4")), Ok(format!("{words}\n{words}ä")));
        }
        for (text, at) in [(r"\ud83d", 0), (r"ab\ud83dx", 2), (r"\ude00", 0), (r"\ud83d\u0041", 0), (r"\ud83d\n", 0)] {
            assert_eq!(said(text), Err(at), "{text}");
        }
    }

    #[test]
    fn four_hexadecimal_digits_are_a_number() {
        for number in [0u32, 1, 0x9a, 0xf00d, 0xffff, 0xABCD] {
            assert_eq!(hex(format!("{number:04x}").as_bytes()), Some(number));
            assert_eq!(hex(format!("{number:04X}x").as_bytes()), Some(number));
        }
        for bad in 0..=255u8 {
            for at in 0..4 {
                let mut digits = *b"0000";
                digits[at] = bad;
                assert_eq!(hex(&digits).is_some(), bad.is_ascii_hexdigit(), "{bad} at {at}");
            }
        }
        assert_eq!(hex(b"123"), None);
    }
}
