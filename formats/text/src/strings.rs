//! JSON strings: finds their end and unescapes them.

use crate::lanes::{LANES, WORD, special, specials};

/// The number of bytes before the first quote, backslash or control character (below 0x20).
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

// Messages for invalid strings.
pub(crate) const CONTROL: &str = "a control character in a string; write it as an escape";
pub(crate) const OPEN: &str = "a string does not end";
pub(crate) const NO_ESCAPE: &str = "an invalid escape";

/// The length of the escape at the start of `bytes`, which begin with a backslash; `None` if it is invalid.
#[inline]
pub(crate) fn escape_len(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => hex(bytes.get(2..)?).map(|_| 6),
        _ => None,
    }
}

/// The extent of a string and the length of its unescaped text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StringExtent {
    /// The bytes before the closing quote.
    pub(crate) len: usize,
    /// Whether it contains escapes.
    pub(crate) escaped: bool,
    /// The length of the unescaped text, or the position of the first lone surrogate.
    pub(crate) text: Result<usize, usize>,
}

/// Where a string is invalid, and why.
pub(crate) type StringError = (usize, &'static str);

/// Unescapes into `out` the string that `bytes` start with, after its opening quote. `out` grows as needed; bytes after
/// the text are undefined.
pub(crate) fn unescape(bytes: &[u8], out: &mut Vec<u8>) -> Result<StringExtent, StringError> {
    // No escape is shorter than its text, and the last run of plain bytes is copied in whole words.
    if out.len() < bytes.len() + WORD {
        out.resize(bytes.len() + WORD, 0);
    }
    let (mut from, mut to, mut escaped, mut lone) = (0, 0, false, None);
    loop {
        let (read, written) =
            unescape_words(bytes.get(from..).unwrap_or_default(), out.get_mut(to..).unwrap_or_default());
        // Only escapes shrink.
        escaped |= read != written;
        (from, to) = (from + read, to + written);
        let n = copy_plain(bytes.get(from..).unwrap_or_default(), out.get_mut(to..).unwrap_or_default());
        (from, to) = (from + n, to + n);
        match bytes.get(from) {
            Some(b'"') => break,
            Some(b'\\') => escaped = true,
            Some(_) => return Err((from, CONTROL)),
            None => return Err((from, OPEN)),
        }
        // Escapes often come in runs: the letters of a word, line ends.
        while let Some(rest @ [b'\\', ..]) = bytes.get(from..) {
            if let Some(byte) = simple(rest, 0) {
                out.iter_mut().skip(to).take(1).for_each(|room| *room = byte);
                (from, to) = (from + 2, to + 1);
                continue;
            }
            let len = escape_len(rest).ok_or((from, NO_ESCAPE))?;
            from += match unicode(rest) {
                Some((character, len)) => {
                    to += character.encode_utf8(out.get_mut(to..).unwrap_or_default()).len();
                    len
                }
                None => {
                    lone.get_or_insert(from);
                    len
                }
            };
        }
    }
    Ok(StringExtent { len: from, escaped, text: lone.map_or(Ok(to), Err) })
}

/// Unescapes whole words of `text` into `out`, up to the closing quote, an escape of more than two bytes, or the last
/// bytes of `text`; returns the number of bytes read and written. Dense escapes cause no branch mispredictions: the
/// mask of a word gives all positions at once, and the bytes after an escape are copied before their number is known.
#[inline]
fn unescape_words(text: &[u8], out: &mut [u8]) -> (usize, usize) {
    let (mut from, mut to) = (0, 0);
    // The last escape of a word may end after it, and one more word is copied from there.
    while let Some(window) = text.get(from..).and_then(<[u8]>::first_chunk::<{ 2 * WORD + 1 }>)
        && let Some(word) = window.first_chunk::<WORD>()
    {
        let Some(room) = out.get_mut(to..).and_then(<[u8]>::first_chunk_mut::<{ 2 * WORD }>) else { break };
        let (mut left, mut done, mut written) = (specials(word), 0, 0);
        if let Some(room) = room.first_chunk_mut::<WORD>() {
            *room = *word;
        }
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            written += at - done;
            done = at;
            let Some(meant) = simple(window, at) else { return (from + done, to + written) };
            done += 2;
            if let Some((byte, rest)) = room.get_mut(written..).and_then(<[u8]>::split_first_mut) {
                *byte = meant;
                if let (Some(rest), Some(next)) =
                    (rest.first_chunk_mut::<WORD>(), window.get(done..).and_then(<[u8]>::first_chunk::<WORD>))
                {
                    *rest = *next;
                }
            }
            written += 1;
            // Clears the bits of the escape.
            left &= (!0u64).checked_shl(done as u32).unwrap_or_default();
        }
        let end = done.max(WORD);
        (from, to) = (from + end, to + written + end - done);
    }
    (from, to)
}

/// Copies the bytes of `text` up to the first quote, backslash or control character to `out`, which must have room for
/// them and for [`LANES`] more; returns their number.
#[inline]
fn copy_plain(text: &[u8], out: &mut [u8]) -> usize {
    let (blocks, tail) = text.as_chunks::<LANES>();
    let (rooms, _) = out.as_chunks_mut::<LANES>();
    let mut n = 0;
    for (lanes, room) in blocks.iter().zip(rooms) {
        *room = *lanes;
        match special(lanes) {
            None => n += LANES,
            Some(more) => return n + more,
        }
    }
    for (byte, room) in tail.iter().zip(out.get_mut(n..).unwrap_or_default()) {
        if is_special(*byte) {
            break;
        }
        *room = *byte;
        n += 1;
    }
    n
}

/// The byte of the two-byte escape at `at`, if there is one.
#[inline]
fn simple(bytes: &[u8], at: usize) -> Option<u8> {
    let [b'\\', byte] = bytes.get(at..)?.first_chunk::<2>()? else { return None };
    SIMPLE.get(usize::from(*byte)).copied().filter(|meant| *meant != 0)
}

/// The byte that each byte after a backslash stands for; 0 if that is not a two-byte escape.
const SIMPLE: [u8; 256] = {
    let mut meant = [0; 256];
    let all = [
        (b'n', b'\n'),
        (b't', b'\t'),
        (b'r', b'\r'),
        (b'b', 8),
        (b'f', 12),
        (b'"', b'"'),
        (b'\\', b'\\'),
        (b'/', b'/'),
    ];
    let mut i = 0;
    while i < all.len() {
        meant[all[i].0 as usize] = all[i].1;
        i += 1;
    }
    meant
};

/// The character of the `\u` escape, or pair of surrogates, at the start of `bytes`, and the length of the escape.
fn unicode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = hex(bytes.get(2..)?)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    let second = hex(bytes.get(6..)?.strip_prefix(b"\\u")?).filter(|unit| (0xdc00..0xe000).contains(unit))?;
    Some((char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 12))
}

/// The value of the four hexadecimal digits at the start of `bytes`.
#[inline]
fn hex(bytes: &[u8]) -> Option<u32> {
    let digit = |byte: &u8| DIGITS.get(usize::from(*byte)).map_or(NONE, |digit| u32::from(*digit));
    let [a, b, c, d] = bytes.first_chunk::<4>()?;
    let number = digit(a) << 12 | digit(b) << 8 | digit(c) << 4 | digit(d);
    (number <= 0xffff && (digit(b) | digit(c) | digit(d)) < 16).then_some(number)
}

/// Marks a byte that is not a digit.
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
    fn every_byte_is_found_at_every_position() {
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

    /// Escapes and plain bytes as in source code: dense, in runs, and far apart.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => Just(r"\n".to_owned()),
            2 => prop::sample::select(vec![r"\\", "\\\"", r"\t", r"\/", r"\u00e9", r"\ud83d\ude00", "é", "😀"]).prop_map(str::to_owned),
            3 => (0..40usize).prop_map(|len| "an ordinary word of code, or four of them"[..len].to_owned()),
            1 => (60..200usize).prop_map(|len| "x".repeat(len)),
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn strings_are_unescaped_as_by_serde_json(written in pieces(), behind in "[ -~\"\\\\]{0,200}") {
            let expected: String = serde_json::from_str(&format!("\"{written}\"")).unwrap();
            let mut out = vec![b'?'; 10];
            let found = unescape(format!("{written}\"{behind}").as_bytes(), &mut out).unwrap();
            prop_assert_eq!((found.len, found.escaped), (written.len(), written.contains('\\')));
            prop_assert_eq!(str::from_utf8(&out[..found.text.unwrap()]).unwrap(), expected);
        }

        #[test]
        fn faults_are_found_after_any_string(written in pieces(), fault in 0..4usize) {
            let (bad, what) = [("", OPEN), ("\n", CONTROL), (r"\x", NO_ESCAPE), ("\\", NO_ESCAPE)][fault];
            // With and without enough bytes after it for whole words.
            for behind in [0, 300] {
                let behind = if fault == 0 || fault == 3 { 0 } else { behind };
                let bytes = format!("{written}{bad}{}", "y".repeat(behind));
                prop_assert_eq!(unescape(bytes.as_bytes(), &mut Vec::new()), Err((written.len(), what)));
            }
        }
    }

    fn text(text: &str) -> Result<String, usize> {
        let mut out = vec![b'?'; 3];
        let found = unescape(format!("{text}\"more\\").as_bytes(), &mut out).unwrap();
        assert_eq!((found.len, found.escaped), (text.len(), text.contains('\\')));
        Ok(str::from_utf8(&out[..found.text?]).unwrap().to_owned())
    }

    #[test]
    fn all_escapes_are_unescaped() {
        let all = r#"a\n\t\r\b\f\/\\\"\u00e4\uD83D\ude00é\u0000"#;
        assert_eq!(text(all).unwrap(), "a\n\t\r\u{8}\u{c}/\\\"ä😀é\0");
        for len in 0..70 {
            let words = "0123456789 ".repeat(9)[..len].to_owned();
            assert_eq!(text(&words), Ok(words.clone()));
            assert_eq!(text(&format!("{words}\\n{words}\\u00E4")), Ok(format!("{words}\n{words}ä")));
        }
        for (lone, at) in [(r"\ud83d", 0), (r"ab\ud83dx", 2), (r"\ude00", 0), (r"\ud83d\u0041", 0), (r"\ud83d\n", 0)] {
            assert_eq!(text(lone), Err(at), "{lone}");
        }
    }

    #[test]
    fn invalid_strings_are_located() {
        for (bytes, at, what) in [
            ("", 0, OPEN),
            ("abc", 3, OPEN),
            ("0123456789\\", 10, NO_ESCAPE),
            (r#"a\x""#, 1, NO_ESCAPE),
            (r#"\u12g4""#, 0, NO_ESCAPE),
            (r#"\ud800\u12""#, 6, NO_ESCAPE),
            ("a\tb\"", 1, CONTROL),
        ] {
            assert_eq!(unescape(bytes.as_bytes(), &mut Vec::new()), Err((at, what)), "{bytes}");
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
