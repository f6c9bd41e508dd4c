//! The companions of a `.ds`: the ends of documents, and three lines of metadata.

use crate::dtype::Dtype;
use packhorse_core::{Context, Outlet, Result};
use std::io::{BufWriter, Write};

pub(super) struct Datatrove {
    ends: BufWriter<Box<dyn Write + Send>>,
    metadata: Box<dyn Write + Send>,
    /// The tokenizer's name and the bytes per token.
    name: String,
    tokens: u64,
}

impl Datatrove {
    pub(super) fn create(dtype: Dtype, tokenizer: &str, out: &mut dyn Outlet) -> Result<Self> {
        let ends = BufWriter::with_capacity(64 << 10, out.stream(".ds.index")?);
        let name = format!("{tokenizer}|{}", dtype.size());
        Ok(Self { ends, metadata: out.stream(".ds.metadata")?, name, tokens: 0 })
    }

    pub(super) fn document(&mut self, tokens: u64) -> Result<()> {
        self.tokens += tokens;
        self.ends.write_all(&self.tokens.to_le_bytes()).context("write")
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.ends.flush().context("write")?;
        let text = format!("{}\n{}\n{}", self.name, self.tokens, metric(self.tokens));
        self.metadata.write_all(text.as_bytes()).and_then(|()| self.metadata.flush()).context("write")
    }
}

/// A number of tokens in three digits, as Python's `humanize.metric(tokens, unit="T")` formats it.
fn metric(tokens: u64) -> String {
    let exponent = tokens.checked_ilog10().unwrap_or(0);
    let thousands = exponent / 3;
    let prefix = ["", "k", "M", "G", "T", "P", "E"].get(thousands as usize).copied().unwrap_or_default();
    let digits = 2 - (exponent % 3) as usize;
    let value = tokens as f64 / 1000f64.powi(thousands as i32);
    format!("{value:.digits$} {prefix}T")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_by_humanize() {
        let said = [0, 7, 10, 999, 1000, 12_345, 999_950, 1_234_567, 10u64.pow(19)].map(metric);
        let wanted = ["0.00 T", "7.00 T", "10.0 T", "999 T", "1.00 kT", "12.3 kT", "1000 kT", "1.23 MT", "10.0 ET"];
        assert_eq!(said, wanted);
    }
}
