//! Rewrites the `.idx` of a pair with a known defect.

use crate::index_header::{HEADER, IndexHeader};
use crate::merge::pointers;
use crate::pair::Pair;
use crate::pair_report::{PairReport, RepairKind, VerifyOptions};
use crate::sequences::each_sequence;
use crate::verify::verify;
use packhorse_core::{Context, Error, Input, Result};
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// The result of [`repair`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// The repair that was made.
    pub cure: RepairKind,
    /// The findings before the repair.
    pub verdict: PairReport,
}

/// Verifies a pair (`input` is either of its files) and writes a repaired `.idx` to `out`; the `.bin` does not change.
/// Returns `None` and writes nothing if the pair is sound. A defect that can't be repaired is a `Content` error that
/// says why.
pub fn repair(input: &dyn Input, look: &VerifyOptions, out: &mut dyn Write) -> Result<Option<RepairReport>> {
    let verdict = verify(input, look)?;
    let Some(first) = verdict.problems.first() else { return Ok(None) };
    let Some(cure) = verdict.cure else {
        let more = match verdict.problems.len() {
            1 => String::new(),
            n => format!(" (and {} more problems)", n - 1),
        };
        let message = format!("can't be repaired, since it {first}{more}; tokenize its text again");
        return Err(Error::content(message).in_input(&first.file));
    };
    let pair = Pair::open(Arc::new(input))?;
    let idx = &*pair.idx;
    let (header, _) = IndexHeader::read(idx)?;
    out.write_all(&header.encode()?).context("write")?;
    match cure {
        RepairKind::CountEod { .. } => counted(idx, &header, out)?,
        RepairKind::Pointers => {
            copy(idx, HEADER, 4 * header.sequences, out)?;
            pointers(idx, &header, 0, out)?;
        }
    }
    let len = idx.len().unwrap_or_default();
    copy(idx, header.entry_at(0), len.saturating_sub(header.entry_at(0)), out)?;
    out.flush().context("write")?;
    Ok(Some(RepairReport { cure, verdict }))
}

/// Writes lengths and offsets, with the last sequence of each document one token longer.
fn counted(idx: &dyn Input, header: &IndexHeader, out: &mut dyn Write) -> Result<()> {
    let mut out = BufWriter::with_capacity(256 << 10, out);
    let longer = |length: i32, last: bool| {
        let length = length.checked_add(i32::from(last));
        length
            .ok_or_else(|| Error::content("can't be repaired: a sequence would have 2^31 tokens").in_input(idx.name()))
    };
    each_sequence(idx, header, &mut |length, last| {
        out.write_all(&longer(length, last)?.to_le_bytes()).context("write")
    })?;
    let mut at = 0u64;
    each_sequence(idx, header, &mut |length, last| {
        out.write_all(&at.to_le_bytes()).context("write")?;
        let length = u64::from(longer(length, last)?.unsigned_abs());
        at = at.saturating_add(length.saturating_mul(header.dtype.size()));
        Ok(())
    })?;
    out.flush().context("write")
}

fn copy(idx: &dyn Input, offset: u64, len: u64, out: &mut dyn Write) -> Result<()> {
    idx.each_piece(offset..offset.saturating_add(len), &mut |bytes| out.write_all(bytes).context("write"))
}
