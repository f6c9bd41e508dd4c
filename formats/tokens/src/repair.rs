//! Writing the `.idx` of a pair anew, where it is known how it went wrong.

use crate::header::{HEADER, Header};
use crate::merge::pointers;
use crate::numbers;
use crate::pair::Pair;
use crate::sequences::each_sequence;
use crate::verdict::{Cure, Look, Verdict};
use crate::verify::verify;
use packhorse_core::{Context, Error, Input, Result};
use std::io::{BufWriter, Write};

/// What [`repair`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// How.
    pub cure: Cure,
    /// What was wrong.
    pub verdict: Verdict,
}

/// Verifies the pair that `input` is either file of, and writes its `.idx` anew to `out`; the `.bin` stays as
/// it is. `None`, and nothing written, where nothing is wrong. What can't be repaired is a `Content` error that
/// says why.
pub fn repair(input: &dyn Input, look: &Look, out: &mut dyn Write) -> Result<Option<Repaired>> {
    let verdict = verify(input, look)?;
    let Some(first) = verdict.problems.first() else { return Ok(None) };
    let Some(cure) = verdict.cure else {
        let more = match verdict.problems.len() {
            1 => String::new(),
            n => format!(" (and {} more problems)", n - 1),
        };
        let message = format!("can't be repaired, since it {first}{more}; make it again from its text");
        return Err(Error::content(message).in_input(&first.file));
    };
    let pair = Pair::open(input)?;
    let idx = pair.idx.get();
    let (header, _) = Header::read(idx)?;
    out.write_all(&header.encode()?).context("write")?;
    match cure {
        Cure::CountEod { .. } => counted(idx, &header, out)?,
        Cure::Pointers => {
            copy(idx, HEADER, 4 * header.sequences, out)?;
            pointers(idx, &header, 0, out)?;
        }
    }
    let len = idx.len().unwrap_or_default();
    copy(idx, header.entry_at(0), len.saturating_sub(header.entry_at(0)), out)?;
    out.flush().context("write")?;
    Ok(Some(Repaired { cure, verdict }))
}

/// Lengths and offsets, the last sequence of each document being one longer.
fn counted(idx: &dyn Input, header: &Header, out: &mut dyn Write) -> Result<()> {
    let mut out = BufWriter::with_capacity(256 << 10, out);
    let longer = |length: i32, last: bool| {
        let length = length.checked_add(i32::from(last));
        length
            .ok_or_else(|| Error::content("can't be repaired: a sequence would be of 2^31 tokens").in_input(idx.name()))
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
    numbers::each_bytes(idx, offset, len, &mut |bytes| out.write_all(bytes).context("write"))
}
