//! PAX extended headers, which describe the next member.
//!
//! Specification: POSIX.1-2001, pax Extended Header; `GNU.sparse.*` as documented by GNU tar 1.35. Records that readers
//! interpret differently are refused.

use packhorse_core::{Error, Result};

/// The parsed records of an extended header.
#[derive(Default)]
pub(crate) struct Pax {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    /// Whether the member is a sparse file, stored without its holes.
    pub(crate) sparse: bool,
}

impl Pax {
    /// Parses the header of one member.
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

    /// Refuses a global header, which applies to all members after it, that sets a path or a size.
    pub(crate) fn check_global(mut bytes: &[u8]) -> Result<()> {
        while let Some((keyword, _)) = record(&mut bytes)? {
            if keyword == b"path" || keyword == b"size" || keyword.starts_with(b"GNU.sparse.") {
                return Err(Error::content(format!(
                    "has a global PAX header that sets {} for all members, which readers interpret differently; \
                     write the tar again without it",
                    keyword.escape_ascii()
                )));
            }
        }
        Ok(())
    }
}

/// Takes the record `LENGTH KEYWORD=VALUE\n` from the start of `bytes`. A NUL ends the records.
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
        "has a PAX header whose path {problem} ({}), which readers interpret differently; write the tar again",
        value.escape_ascii()
    )))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
