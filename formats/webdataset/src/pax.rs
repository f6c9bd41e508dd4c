//! PAX extended headers: what they say of the member that follows.
//!
//! Specification: POSIX.1-2001, pax Extended Header; `GNU.sparse.*` as GNU tar 1.35 documents it. A
//! record that readers are known to take in different ways is refused.

use packhorse_core::{Error, Result};

/// What an extended header says.
#[derive(Default)]
pub(crate) struct Pax {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    /// Whether the member is a sparse file, of which only the parts that are no holes are stored.
    pub(crate) sparse: bool,
}

impl Pax {
    /// Reads the records of a header for one member.
    pub(crate) fn parse(mut bytes: &[u8]) -> Result<Self> {
        let mut pax = Self::default();
        while let Some((keyword, value)) = record(&mut bytes)? {
            match keyword {
                b"path" => pax.path = Some(path(value)?),
                b"size" => pax.size = Some(decimal(value).ok_or_else(damaged)?),
                _ if keyword.starts_with(b"GNU.sparse.") => {
                    pax.sparse = true;
                    if keyword == b"GNU.sparse.name" {
                        pax.path = Some(path(value)?);
                    }
                }
                _ => {}
            }
        }
        Ok(pax)
    }

    /// Makes sure that the records of a global header, which hold for all members after it, name and
    /// measure none of them.
    pub(crate) fn check_global(mut bytes: &[u8]) -> Result<()> {
        while let Some((keyword, _)) = record(&mut bytes)? {
            if keyword == b"path" || keyword == b"size" || keyword.starts_with(b"GNU.sparse.") {
                return Err(Error::content(format!(
                    "has a global PAX header that sets {} for all members, which readers take in different ways; \
                     write the tar again without it",
                    keyword.escape_ascii()
                )));
            }
        }
        Ok(())
    }
}

/// The record at the start of `bytes`, which move past it: `LENGTH KEYWORD=VALUE\n`. A NUL ends them.
fn record<'a>(bytes: &mut &'a [u8]) -> Result<Option<(&'a [u8], &'a [u8])>> {
    if bytes.first().is_none_or(|b| *b == 0) {
        return Ok(None);
    }
    let digits = bytes.iter().position(|b| *b == b' ').ok_or_else(damaged)?;
    let len = bytes.get(..digits).and_then(decimal).and_then(|len| usize::try_from(len).ok()).ok_or_else(damaged)?;
    let record = bytes.get(digits + 1..len).and_then(|r| r.strip_suffix(b"\n")).ok_or_else(damaged)?;
    let equals = record.iter().position(|b| *b == b'=').filter(|at| *at > 0).ok_or_else(damaged)?;
    *bytes = bytes.get(len..).unwrap_or_default();
    let (keyword, value) = record.split_at(equals);
    Ok(Some((keyword, value.get(1..).unwrap_or_default())))
}

fn damaged() -> Error {
    Error::content("has a damaged PAX header")
}

fn path(value: &[u8]) -> Result<Vec<u8>> {
    let problem = match value {
        [] => "is empty",
        _ if value.contains(&0) => "holds a NUL",
        _ => return Ok(value.to_vec()),
    };
    Err(Error::content(format!(
        "has a PAX header whose path {problem} ({}), which readers take in different ways; write the tar again",
        value.escape_ascii()
    )))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
