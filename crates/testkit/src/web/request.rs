//! Parses requests.

use std::io::{self, BufRead, Read};
use std::ops::Range;

/// A request head; bodies are not supported.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) method: String,
    /// Decoded, without a leading slash.
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) range: Option<String>,
    pub(super) if_match: Option<String>,
    pub(super) referer: Option<String>,
}

/// The next request of a connection; `None` at its end.
pub(super) fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut head = reader.take(64 << 10);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query.to_owned())));
    let mut request = Request { method, path: decoded(path.trim_start_matches('/')), query, ..Request::default() };
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(Some(request));
        }
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                "range" => request.range = Some(value.trim().to_owned()),
                "if-match" => request.if_match = Some(value.trim().to_owned()),
                "referer" => request.referer = Some(value.trim().to_owned()),
                _ => {}
            }
        }
    }
}

impl Request {
    /// The requested range for a file of `len` bytes; `Some(None)` if it is not satisfiable.
    pub(super) fn range(&self, len: u64) -> Option<Option<Range<u64>>> {
        let (first, last) = self.range.as_deref()?.strip_prefix("bytes=")?.split_once('-')?;
        let last_byte = len.saturating_sub(1);
        let (first, last) = match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(first), Ok(last)) => (first, last.min(last_byte)),
            (Ok(first), Err(_)) => (first, last_byte),
            (Err(_), Ok(count)) => (len.saturating_sub(count), last_byte),
            _ => return None,
        };
        Some((first <= last && first < len).then_some(first..last + 1))
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16)).unwrap_or_default() as u8;
        out.push(if byte == b'%' { digit() * 16 + digit() } else { byte });
    }
    String::from_utf8_lossy(&out).into_owned()
}
