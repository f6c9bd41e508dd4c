//! Strings of JSON: where they end, and what they say.

use crate::lanes::{LANES, WORD, special, specials};

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

/// What a string can't be.
pub(crate) const CONTROL: &str = "a control character in a string; write it as an escape";
pub(crate) const OPEN: &str = "a string does not end";
pub(crate) const NO_ESCAPE: &str = "a backslash without its escape";

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

/// What a string says, and where it ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// The bytes before the closing quote.
    pub(crate) len: usize,
    /// Whether there are escapes among them.
    pub(crate) escaped: bool,
    /// How many bytes it says; where its first lone surrogate stands, if there is one.
    pub(crate) text: Result<usize, usize>,
}

/// Why bytes are no string, and at which of them.
pub(crate) type NoString = (usize, &'static str);

/// Writes to `out` what the string says that `bytes` begin with, behind its first quote. `out` grows as needed, and
/// what it holds behind those bytes means nothing.
pub(crate) fn said(bytes: &[u8], out: &mut Vec<u8>) -> Result<Said, NoString> {
    // No escape says more bytes than it has, and the last run of plain bytes may be copied in whole words.
    if out.len() < bytes.len() + WORD {
        out.resize(bytes.len() + WORD, 0);
    }
    let (mut from, mut to, mut escaped, mut lone) = (0, 0, false, None);
    loop {
        let (read, written) = words(bytes.get(from..).unwrap_or_default(), out.get_mut(to..).unwrap_or_default());
        // Fewer bytes come of some only where there were escapes among them.
        escaped |= read != written;
        (from, to) = (from + read, to + written);
        let n = copy(bytes.get(from..).unwrap_or_default(), out.get_mut(to..).unwrap_or_default());
        (from, to) = (from + n, to + n);
        match bytes.get(from) {
            Some(b'"') => break,
            Some(b'\\') => escaped = true,
            Some(_) => return Err((from, CONTROL)),
            None => return Err((from, OPEN)),
        }
        // They often follow each other: the letters of a word, the end of a line and the start of the next.
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
    Ok(Said { len: from, escaped, text: lone.map_or(Ok(to), Err) })
}

/// Writes to `out` what `text` says up to an end, an escape of more than two bytes, or its last bytes; returns how many
/// were read and written. Where escapes are dense, no guess of the processor's has to be right for each of them: all places
/// of a word are known at once, and what follows an escape is copied whole before anybody asks how long it is.
#[inline]
fn words(text: &[u8], out: &mut [u8]) -> (usize, usize) {
    let (mut from, mut to) = (0, 0);
    // The last escape of a word may end behind it, and a word behind that is copied.
    while let Some(window) = text.get(from..).and_then(<[u8]>::first_chunk::<{ 2 * WORD + 1 }>)
        && let Some(word) = window.first_chunk::<WORD>()
    {
        let Some(room) = out.get_mut(to..).and_then(<[u8]>::first_chunk_mut::<{ 2 * WORD }>) else { break };
        let (mut left, mut done, mut said) = (specials(word), 0, 0);
        if let Some(room) = room.first_chunk_mut::<WORD>() {
            *room = *word;
        }
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            said += at - done;
            done = at;
            let Some(meant) = simple(window, at) else { return (from + done, to + said) };
            done += 2;
            if let Some((byte, rest)) = room.get_mut(said..).and_then(<[u8]>::split_first_mut) {
                *byte = meant;
                if let (Some(rest), Some(next)) =
                    (rest.first_chunk_mut::<WORD>(), window.get(done..).and_then(<[u8]>::first_chunk::<WORD>))
                {
                    *rest = *next;
                }
            }
            said += 1;
            // Neither the backslash nor what it is for.
            left &= (!0u64).checked_shl(done as u32).unwrap_or_default();
        }
        let end = done.max(WORD);
        (from, to) = (from + end, to + said + end - done);
    }
    (from, to)
}

/// Copies the bytes of `text` up to the first quote, backslash or control character to `out`, which has room for them and
/// for [`LANES`] more, and returns how many they are.
#[inline]
fn copy(text: &[u8], out: &mut [u8]) -> usize {
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

/// The byte that the escape of two bytes at `at` means, if there is one.
#[inline]
fn simple(bytes: &[u8], at: usize) -> Option<u8> {
    let [b'\\', byte] = bytes.get(at..)?.first_chunk::<2>()? else { return None };
    SIMPLE.get(usize::from(*byte)).copied().filter(|meant| *meant != 0)
}

/// What a byte behind a backslash means; 0 where it is no escape of two bytes.
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

/// The character that the escape `\u` at the start of `bytes` means, with the one behind it if it takes two, and how
/// many bytes that took.
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

    /// Escapes and plain bytes as they follow each other in code: dense, in runs, and far apart.
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
        fn strings_say_what_serde_json_reads(written in pieces(), behind in "[ -~\"\\\\]{0,200}") {
            let expected: String = serde_json::from_str(&format!("\"{written}\"")).unwrap();
            let mut out = vec![b'?'; 10];
            let found = said(format!("{written}\"{behind}").as_bytes(), &mut out).unwrap();
            prop_assert_eq!((found.len, found.escaped), (written.len(), written.contains('\\')));
            prop_assert_eq!(str::from_utf8(&out[..found.text.unwrap()]).unwrap(), expected);
        }

        #[test]
        fn faults_are_found_behind_any_string(written in pieces(), fault in 0..4usize) {
            let (bad, what) = [("", OPEN), ("\n", CONTROL), (r"\x", NO_ESCAPE), ("\\", NO_ESCAPE)][fault];
            // With and without enough bytes behind for whole words.
            for behind in [0, 300] {
                let behind = if fault == 0 || fault == 3 { 0 } else { behind };
                let bytes = format!("{written}{bad}{}", "y".repeat(behind));
                prop_assert_eq!(said(bytes.as_bytes(), &mut Vec::new()), Err((written.len(), what)));
            }
        }
    }

    fn text(text: &str) -> Result<String, usize> {
        let mut out = vec![b'?'; 3];
        let found = said(format!("{text}\"more\\").as_bytes(), &mut out).unwrap();
        assert_eq!((found.len, found.escaped), (text.len(), text.contains('\\')));
        Ok(str::from_utf8(&out[..found.text?]).unwrap().to_owned())
    }

    #[test]
    fn escapes_say_what_they_mean() {
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
    fn what_is_no_string_is_told_where() {
        for (bytes, at, what) in [
            ("", 0, OPEN),
            ("abc", 3, OPEN),
            ("0123456789\\", 10, NO_ESCAPE),
            (r#"a\x""#, 1, NO_ESCAPE),
            (r#"\u12g4""#, 0, NO_ESCAPE),
            (r#"\ud800\u12""#, 6, NO_ESCAPE),
            ("a\tb\"", 1, CONTROL),
        ] {
            assert_eq!(said(bytes.as_bytes(), &mut Vec::new()), Err((at, what)), "{bytes}");
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
