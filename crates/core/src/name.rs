//! From the name of a file or an archive member to a key and a field.
//!
//! The split is WebDataset's: `^((?:.*/|)[^.]+)[.]([^/]*)$`, so the key is the directory and the base
//! name up to its *first* dot, and the field is the rest. On top of it packhorse makes keys that
//! every reader carries, by one reversible rule, [`escape`].

use std::borrow::Cow;
use std::fmt;

/// A canonical name: what a sample and one of its fields are called everywhere in packhorse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberName {
    /// The sample's key: `/` between directories, no dot, no white space.
    pub key: String,
    /// The field: lower case, may hold dots (`seg.png`).
    pub field: String,
}

/// Why a name gives no member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// It, or a directory above it, starts with a dot; or a file of Windows, `Thumbs.db` or `desktop.ini`, which that hides.
    Hidden,
    /// It has no extension, so there is no field.
    NoField,
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameFault::Hidden => "is hidden (a name that starts with a dot, or a file that Windows hides)",
            NameFault::NoField => "has no extension, so it can't be a field of a sample",
        })
    }
}

/// Splits the relative name `raw` (bytes as the file system or the archive holds them; `/` separates).
///
/// Empty and `.` components vanish. The field is made lower case. Both parts go through [`escape`];
/// a key that would start with the reserved `__` starts with `%5F_`.
pub fn split_name(raw: &[u8]) -> Result<MemberName, NameFault> {
    let base = raw.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
    let (dir, base) = raw.split_at(base);
    let MemberName { key: stem, field } = split_base(base)?;
    let mut key = folder_key(dir)?;
    key.push_str(&stem);
    reserve(&mut key);
    Ok(MemberName { key, field })
}

/// The part of a key that comes from the folder `dir`: empty, or ending in `/`.
pub fn folder_key(dir: &[u8]) -> Result<String, NameFault> {
    let mut key = String::with_capacity(dir.len() + 1);
    for part in dir.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".") {
        if is_hidden(part) {
            return Err(NameFault::Hidden);
        }
        escape(part, false, &mut key);
        key.push('/');
    }
    reserve(&mut key);
    Ok(key)
}

/// [`split_name`] of a name without folders; the caller, who knows the folder, handles `__` at its start.
pub fn split_base(base: &[u8]) -> Result<MemberName, NameFault> {
    let of_windows = |name: &[u8]| base.eq_ignore_ascii_case(name);
    if is_hidden(base) || of_windows(b"Thumbs.db") || of_windows(b"desktop.ini") {
        return Err(NameFault::Hidden);
    }
    let dot = base.iter().position(|b| *b == b'.').ok_or(NameFault::NoField)?;
    let (stem, ext) = base.split_at(dot);
    member_name(stem, ext.get(1..).unwrap_or_default())
}

/// The canonical name of the field `field` of the sample `stem`, for names that are split by another rule than
/// [`split_base`]'s; `__` at its start is left to the caller, as there.
pub fn member_name(stem: &[u8], field: &[u8]) -> Result<MemberName, NameFault> {
    if is_hidden(stem) {
        return Err(NameFault::Hidden);
    }
    if field.is_empty() {
        return Err(NameFault::NoField);
    }
    let mut key = String::with_capacity(stem.len());
    escape(stem, false, &mut key);
    let mut name = String::with_capacity(field.len());
    escape(field, true, &mut name);
    name.make_ascii_lowercase();
    Ok(MemberName { key, field: name })
}

/// Readers take keys that start with `__` for their own.
fn reserve(key: &mut String) {
    if key.starts_with("__") {
        key.replace_range(..1, "%5F");
    }
}

/// `..` does not count as hidden: an archive may hold it, and it is escaped like any other dot.
fn is_hidden(part: &[u8]) -> bool {
    part.first() == Some(&b'.') && part != b".."
}

/// Appends `raw` to `out` with percent-encoding (RFC 3986 §2.1) of what some reader can't carry in
/// a name: dots (unless `dots`), white space, control characters, and bytes that are not UTF-8.
///
/// A `%` stays as it is, so that names which were escaped before do not change again. Two names
/// that fall together by this are found as duplicate keys.
pub fn escape(raw: &[u8], dots: bool, out: &mut String) {
    for chunk in raw.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_escaped(c) && !(c == '.' && dots) {
                let mut buf = [0; 4];
                c.encode_utf8(&mut buf).bytes().for_each(|byte| push_percent(byte, out));
            } else {
                out.push(c);
            }
        }
        chunk.invalid().iter().for_each(|byte| push_percent(*byte, out));
    }
}

/// The name that [`escape`] made this text of, or the text itself where that name was not UTF-8. What `escape` never makes,
/// such as `%41`, stays.
pub fn unescape(name: &str) -> Cow<'_, str> {
    if !name.contains('%') {
        return Cow::Borrowed(name);
    }
    let mut found = String::with_capacity(name.len());
    let mut rest = name;
    if let Some(after) = rest.strip_prefix("%5F_") {
        found.push_str("__");
        rest = after;
    }
    while let Some((plain, _)) = rest.split_once('%') {
        found.push_str(plain);
        rest = rest.get(plain.len()..).unwrap_or_default();
        let (raw, after) = percents(rest);
        for chunk in raw.utf8_chunks() {
            if !chunk.invalid().is_empty() {
                return Cow::Borrowed(name);
            }
            for c in chunk.valid().chars() {
                match is_escaped(c) {
                    true => found.push(c),
                    false => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_percent(byte, &mut found)),
                }
            }
        }
        rest = match raw.is_empty() {
            false => after,
            true => {
                found.push('%');
                rest.get(1..).unwrap_or_default()
            }
        };
    }
    found.push_str(rest);
    Cow::Owned(found)
}

/// The bytes of the percent-encodings that `text` starts with, in capitals as [`escape`] writes them, and what follows.
fn percents(text: &str) -> (Vec<u8>, &str) {
    let (mut raw, mut rest) = (Vec::new(), text);
    while let Some(([b'%', high, low], _)) = rest.as_bytes().split_first_chunk::<3>() {
        let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_lowercase());
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { break };
        raw.push((high * 16 + low) as u8);
        rest = rest.get(3..).unwrap_or_default();
    }
    (raw, rest)
}

/// Whether [`escape`] encodes the character, in keys.
fn is_escaped(c: char) -> bool {
    c == '.' || c.is_whitespace() || c.is_control()
}

fn push_percent(byte: u8, out: &mut String) {
    out.push('%');
    for nibble in [byte >> 4, byte & 15] {
        out.push(char::from_digit(nibble.into(), 16).unwrap_or('0').to_ascii_uppercase());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(raw: &[u8]) -> (String, String) {
        let name = split_name(raw).unwrap();
        (name.key, name.field)
    }

    #[test]
    fn the_key_ends_at_the_first_dot_of_the_base_name() {
        assert_eq!(split(b"train/dress/0001.jpg"), ("train/dress/0001".into(), "jpg".into()));
        assert_eq!(split(b"./a/b.seg.PNG"), ("a/b".into(), "seg.png".into()));
        assert_eq!(split(b"v1.2/x.jpg"), ("v1%2E2/x".into(), "jpg".into()));
    }

    #[test]
    fn what_readers_cannot_carry_is_percent_encoded() {
        assert_eq!(split(b"my photo.jpg").0, "my%20photo");
        assert_eq!(split(b"a\nb.jpg").0, "a%0Ab");
        assert_eq!(split(b"\xff\xe9.jpg").0, "%FF%E9");
        assert_eq!(split("größe/日本.jpg".as_bytes()).0, "größe/日本");
        assert_eq!(split(b"__key__.jpg").0, "%5F_key__");
        assert_eq!(split(b"../../etc/x.jpg").0, "%2E%2E/%2E%2E/etc/x");
    }

    #[test]
    fn escaping_twice_changes_nothing() {
        for raw in [&b"my photo.v1/a b.jpg"[..], b"50%.jpg", b"\xff\xff/\x01.txt"] {
            let (key, field) = split(raw);
            assert_eq!(split(format!("{key}.{field}").as_bytes()), (key, field));
        }
    }

    #[test]
    fn what_was_escaped_comes_back_and_nothing_else_changes() {
        for raw in
            ["my photo", "v1.2", "a\nb", "x\u{3000}y", "__x", "größe", "100%", "%", "x%4", "x%zz", "%41", "a%2e", ""]
        {
            let mut escaped = String::new();
            escape(raw.as_bytes(), false, &mut escaped);
            reserve(&mut escaped);
            assert_eq!(unescape(&escaped), raw, "{escaped}");
        }
        assert_eq!(unescape("%FF%20a"), "%FF%20a");
    }

    #[test]
    fn names_without_a_field_say_why() {
        for (raw, fault) in [
            (&b"README"[..], NameFault::NoField),
            (b"a.", NameFault::NoField),
            (b"", NameFault::NoField),
            (b".DS_Store", NameFault::Hidden),
            (b".git/config.txt", NameFault::Hidden),
            (b"cat/Thumbs.db", NameFault::Hidden),
        ] {
            assert_eq!(split_name(raw), Err(fault));
        }
    }
}
