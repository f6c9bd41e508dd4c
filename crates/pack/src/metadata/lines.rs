//! The lines of a file, none longer than a limit.

use packhorse_core::{Context, Error, Kind, Result};
use std::io::{BufRead, BufReader, Read};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The lines of a file, one at a time.
pub(super) struct Lines<R> {
    bytes: BufReader<R>,
    line: Vec<u8>,
    number: u64,
    limit: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(bytes: R, limit: u64) -> Self {
        Self { bytes: BufReader::with_capacity(1 << 18, bytes), line: Vec::new(), number: 0, limit }
    }

    /// The number of the current line, counted from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The current line, without its end and a byte order mark.
    pub(super) fn line(&self) -> &[u8] {
        let line = self.line.strip_prefix(if self.number == 1 { BOM } else { b"" }).unwrap_or(&self.line);
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Reads the next line, if there is one.
    ///
    /// Errors: `Limit` for a longer line than the limit, which is not read to its end.
    pub(super) fn next(&mut self) -> Result<bool> {
        self.line.clear();
        self.number += 1;
        let most = self.limit.saturating_add(1);
        let read = (&mut self.bytes).take(most).read_until(b'\n', &mut self.line).context("read")?;
        if self.line.len() as u64 > self.limit {
            let text = format!("line {}: is longer than the limit of {} bytes for a row", self.number, self.limit);
            return Err(Error::new(Kind::Limit, text));
        }
        Ok(read > 0)
    }
}
