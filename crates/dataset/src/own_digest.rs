//! JSON documents whose last member, `blake3`, is the digest of all bytes before the line that holds it.

use crate::Digest;
use packhorse_core::{Context, Error, Result};
use serde::Serialize;
use std::io::{self, BufWriter, Read, Write};

/// The bytes of `document`, an object with at least one member, with its digest. `what` names it in errors.
pub(crate) fn with_own_digest(document: &impl Serialize, what: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_with_own_digest(document, what, &mut bytes)?;
    Ok(bytes)
}

/// Writes the same bytes to `out`, without holding them in memory, and flushes it.
pub(crate) fn write_with_own_digest(document: &impl Serialize, what: &str, out: &mut dyn Write) -> Result<()> {
    let body = Body { out, hasher: blake3::Hasher::new(), end: Vec::new() };
    let mut body = BufWriter::with_capacity(PIECE, body);
    serde_json::to_writer_pretty(&mut body, document).or_else(|e| match e.is_io() {
        true => Err(io::Error::from(e)).context("write"),
        false => Err(Error::bug(format!("can't encode {what}: {e}"))),
    })?;
    body.into_inner().map_err(|e| e.into_error()).and_then(Body::finish).context("write")
}

/// Bytes that are hashed and written at once.
const PIECE: usize = 64 << 10;

/// Hashes the bytes that it passes on, and keeps back the brackets and line breaks that may be the end of the document.
struct Body<'a> {
    out: &'a mut dyn Write,
    hasher: blake3::Hasher,
    end: Vec<u8>,
}

impl Body<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes)
    }

    /// Ends the document with its digest.
    fn finish(mut self) -> io::Result<()> {
        self.put(b",\n")?;
        write!(self.out, "  \"blake3\": \"{}\"\n}}\n", Digest::from(self.hasher.finalize()))?;
        self.out.flush()
    }
}

impl Write for Body<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let inner = buf.iter().rposition(|byte| !matches!(byte, b'}' | b'\n')).map_or(0, |at| at + 1);
        let (inner, end) = buf.split_at(inner);
        if !inner.is_empty() {
            let held = std::mem::take(&mut self.end);
            self.put(&held)?;
            self.put(inner)?;
        }
        self.end.extend_from_slice(end);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the digest at the end of a document is that of its bytes.
pub(crate) fn own_digest_holds(bytes: &[u8]) -> bool {
    let Some(body) = bytes.strip_suffix(b"\"\n}\n") else { return false };
    let Some((before, hex)) = body.len().checked_sub(64).and_then(|at| body.split_at_checked(at)) else { return false };
    let Some(before) = before.strip_suffix(b"  \"blake3\": \"") else { return false };
    hex == Digest::of(before).to_string().as_bytes()
}

/// Bytes of the line with the digest, and of the end of the document.
const TAIL: usize = 13 + 64 + 4;

/// A document that is read, and hashed on the way, so that its text need not be in memory.
pub(crate) struct Hashed<R> {
    inner: R,
    hasher: blake3::Hasher,
    /// The last bytes so far.
    tail: Vec<u8>,
}

impl<R: Read> Hashed<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hasher: blake3::Hasher::new(), tail: Vec::new() }
    }

    /// Whether the digest at the end is that of the bytes before, once all are read.
    pub(crate) fn holds(&self) -> bool {
        let hex = self.tail.strip_prefix(b"  \"blake3\": \"").and_then(|rest| rest.strip_suffix(b"\"\n}\n"));
        hex.is_some_and(|hex| hex == Digest::from(self.hasher.finalize()).to_string().as_bytes())
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.tail.extend_from_slice(buf.get(..n).unwrap_or_default());
        let before = self.tail.len().saturating_sub(TAIL);
        self.hasher.update(self.tail.get(..before).unwrap_or_default());
        self.tail.drain(..before);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_digest_is_of_all_before_its_line() {
        for lengths in [vec![0], vec![1, 2], vec![PIECE - 20, 7], vec![PIECE, 3 * PIECE]] {
            let text = |n: &usize| "}\n{\"}".chars().cycle().take(*n).collect::<String>();
            let document: BTreeMap<String, String> = lengths.iter().map(|n| (format!("a{n:07}"), text(n))).collect();
            let bytes = with_own_digest(&document, "a test").unwrap();
            assert!(own_digest_holds(&bytes), "{lengths:?}");
            for piece in [1, 7, TAIL, TAIL + 1, PIECE] {
                let mut hashed = Hashed::new(&bytes[..]);
                while hashed.read(&mut vec![0; piece]).unwrap() > 0 {}
                assert!(hashed.holds(), "{lengths:?} in pieces of {piece}");
            }
            let mut cut = Hashed::new(&bytes[1..]);
            io::copy(&mut cut, &mut io::sink()).unwrap();
            assert!(!cut.holds());
            let mut back: BTreeMap<String, String> = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(back.remove("blake3").map(|digest| digest.len()), Some(64));
            assert_eq!(back, document);
            let before = serde_json::to_string_pretty(&document).unwrap();
            assert!(bytes.starts_with(before.trim_end_matches("\n}").as_bytes()), "{lengths:?}");
        }
    }

    #[test]
    fn a_failed_write_is_an_error() {
        let mut full = [0; 30];
        let error = write_with_own_digest(&BTreeMap::from([("a", "b".repeat(50))]), "a test", &mut &mut full[..]);
        assert_eq!(error.unwrap_err().kind(), packhorse_core::Kind::Environment);
    }
}
