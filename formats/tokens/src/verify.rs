//! Checks every number of a pair, also a third-party one.

use crate::index_header::IndexHeader;
use crate::numbers;
use crate::pair::Pair;
use crate::pair_report::{PairReport, Problem, RepairKind, Tally, VerifyOptions};
use crate::sequences::{TokenWindow, each_sequence};
use packhorse_core::{Input, Kind, Result};
use std::sync::Arc;

/// Checks every number of the index of a pair (`input` is either of its files), and tokens as `look` says. Defects are
/// findings, not errors; an error is a failed read or a file that belongs to no pair.
pub fn verify(input: &dyn Input, look: &VerifyOptions) -> Result<PairReport> {
    let mut verdict = PairReport::default();
    match Pair::open(Arc::new(input)) {
        // Not a pair: that is not damage.
        Err(e) if e.kind() == Kind::Unsupported => return Err(e),
        Err(e) => verdict.take(e, input)?,
        Ok(pair) => match IndexHeader::read(&*pair.idx) {
            Err(e) => verdict.take(e, &*pair.idx)?,
            Ok((header, modes)) => Check { pair: &pair, header, modes, look, verdict: &mut verdict }.run()?,
        },
    }
    Ok(verdict)
}

struct Check<'a, 'p> {
    pair: &'a Pair<'p>,
    header: IndexHeader,
    modes: bool,
    look: &'a VerifyOptions,
    verdict: &'a mut PairReport,
}

/// Sequences in one read.
const BLOCK: u64 = 1 << 16;

impl Check<'_, '_> {
    fn run(&mut self) -> Result<()> {
        self.verdict.header = Some(self.header);
        let lengths = self.lengths()?;
        let before = self.verdict.problems.len();
        let filled = self.documents()?;
        self.modes()?;
        let index = lengths && self.verdict.problems.len() == before;
        let fits = self.size(index, filled)?;
        if fits && index && self.verdict.problems.len() == 1 && before == 1 {
            self.verdict.cure = Some(RepairKind::Pointers);
        }
        if fits
            && index
            && let Some(eod) = self.look.eod
        {
            self.ends(eod)?;
        }
        if let Some(vocabulary) = self.look.vocabulary {
            self.tokens(vocabulary)?;
        }
        Ok(())
    }

    /// Whether no length is negative. Also compares offsets with the sums of lengths.
    fn lengths(&mut self) -> Result<bool> {
        let (header, idx) = (self.header, &*self.pair.idx);
        let (mut negative, mut offsets, mut sum) = (Tally::default(), Tally::default(), 0u64);
        let mut from = 0;
        while from < header.sequences {
            let n = (header.sequences - from).min(BLOCK);
            let lengths: Vec<[u8; 4]> = numbers::read_array(idx, header.length_at(from), n as usize)?;
            let pointers: Vec<[u8; 8]> = numbers::read_array(idx, header.pointer_at(from), n as usize)?;
            for (i, (length, pointer)) in (from..).zip(lengths.iter().zip(&pointers)) {
                let (length, pointer) = (i32::from_le_bytes(*length), i64::from_le_bytes(*pointer));
                let wanted = u128::from(sum) * u128::from(header.dtype.size());
                if u128::try_from(pointer).ok() != Some(wanted) {
                    offsets.add(|| {
                        format!("has offset {pointer} for sequence {i}, but the lengths before it sum to {wanted}")
                    });
                }
                match u64::try_from(length) {
                    Ok(length) => sum += length,
                    Err(_) => negative.add(|| format!("has {length} as the length of sequence {i}")),
                }
            }
            from += n;
        }
        self.verdict.tokens = sum;
        let sound = negative.count == 0;
        self.verdict.add(idx, negative);
        self.verdict.add(idx, offsets);
        Ok(sound)
    }

    /// The number of documents with sequences.
    fn documents(&mut self) -> Result<u64> {
        let (header, idx) = (self.header, &*self.pair.idx);
        let (mut falls, mut last, mut at, mut filled) = (Tally::default(), 0u64, 0u64, 0);
        numbers::each(idx, header.entry_at(0), header.documents + 1, &mut |entries| {
            for entry in entries {
                let entry = u64::from_le_bytes(*entry);
                if at == 0 && entry != 0 {
                    falls.add(|| format!("has a document index that begins with {entry} instead of 0"));
                } else if entry < last || entry > header.sequences {
                    falls.add(|| {
                        format!(
                            "has {entry} as entry {at} of the document index, after {last} and of {} sequences",
                            header.sequences
                        )
                    });
                }
                filled += u64::from(entry > last);
                (last, at) = (entry, at + 1);
            }
            Ok(())
        })?;
        if last != header.sequences && falls.count == 0 {
            falls.add(|| {
                format!(
                    "has a document index that ends at sequence {last} of {}: documents were lost, as by the merge of NeoX \
                     and NeMo, and can't be recovered from the index",
                    header.sequences
                )
            });
        }
        self.verdict.add(idx, falls);
        Ok(filled)
    }

    fn modes(&mut self) -> Result<()> {
        if !self.modes {
            return Ok(());
        }
        let idx = &*self.pair.idx;
        let (mut others, mut at) = (Tally::default(), 0u64);
        idx.each_piece(self.header.end()..self.header.end().saturating_add(self.header.sequences), &mut |modes| {
            for mode in modes {
                if *mode != 0 {
                    others.add(|| format!("has mode {mode} for sequence {at}: multimodal pairs are not supported"));
                }
                at += 1;
            }
            Ok(())
        })?;
        self.verdict.add(idx, others);
        Ok(())
    }

    /// Whether the length of the `.bin` matches the lengths; if not, finds the cause.
    fn size(&mut self, index: bool, filled: u64) -> Result<bool> {
        let bin = &*self.pair.bin;
        let len = match self.pair.bin_len() {
            Ok(len) => len,
            Err(e) => return self.verdict.take(e, bin).map(|()| false),
        };
        let size = self.header.dtype.size();
        let wanted = u128::from(self.verdict.tokens) * u128::from(size);
        if u128::from(len) == wanted {
            return Ok(true);
        }
        let extra = u128::from(filled) * u128::from(size);
        let uncounted = index && filled > 0 && u128::from(len) == wanted + extra;
        let eod = if uncounted { self.uncounted(filled)? } else { None };
        let what = match eod {
            Some(eod) => {
                self.verdict.cure = Some(RepairKind::CountEod { eod, documents: filled });
                format!(
                    "ends {filled} documents with the token {eod}, which the lengths in the index don't count \
                     (Megatron-LM#431): document k is read k tokens early; repair counts them"
                )
            }
            None => format!(
                "is {len} bytes long where its index has sequences for {wanted}: the two files are not from one run, \
                 or one of them is cut short"
            ),
        };
        self.verdict.problems.push(Problem { file: bin.name().to_owned(), what, count: 1 });
        Ok(false)
    }

    /// The token after each document, if it is the same after all of them. A single document proves nothing, unless the
    /// token is given.
    fn uncounted(&self, filled: u64) -> Result<Option<i64>> {
        if filled < 2 && self.look.eod.is_none() {
            return Ok(None);
        }
        let mut window = TokenWindow::new(&*self.pair.bin, self.header.dtype);
        let (mut eod, mut same, mut at) = (self.look.eod, true, 0u64);
        each_sequence(&*self.pair.idx, &self.header, &mut |length, last| {
            at = at.saturating_add(u64::from(length.unsigned_abs()));
            if last && same {
                let token = window.token(at)?;
                same = token.is_some() && *eod.get_or_insert(token.unwrap_or_default()) == token.unwrap_or_default();
                at += 1;
            }
            Ok(())
        })?;
        Ok(eod.filter(|_| same))
    }

    /// Reports documents that don't end with `eod`.
    fn ends(&mut self, eod: i64) -> Result<()> {
        let bin = &*self.pair.bin;
        let mut window = TokenWindow::new(bin, self.header.dtype);
        let (mut others, mut at, mut document) = (Tally::default(), 0u64, 0u64);
        each_sequence(&*self.pair.idx, &self.header, &mut |length, last| {
            at = at.saturating_add(u64::from(length.unsigned_abs()));
            if last {
                let token = at.checked_sub(1).map(|at| window.token(at)).transpose()?.flatten();
                if token != Some(eod) {
                    others.add(|| {
                        format!("has a document (number {document}, without empty ones) that doesn't end with {eod}")
                    });
                }
                document += 1;
            }
            Ok(())
        })?;
        self.verdict.add(bin, others);
        Ok(())
    }

    fn tokens(&mut self, vocabulary: u64) -> Result<()> {
        let (bin, dtype) = (&*self.pair.bin, self.header.dtype);
        let (mut others, mut at) = (Tally::default(), 0u64);
        let len = self.pair.bin_len().unwrap_or_default();
        bin.each_piece(0..len - len % dtype.size(), &mut |bytes| {
            if !dtype.all_below(vocabulary, bytes) {
                for (i, token) in (at..).zip(bytes.chunks_exact(dtype.width())) {
                    if !dtype.is_below(vocabulary, token) {
                        others.add(|| {
                            let id = dtype.value(token).map_or("a fraction".to_owned(), |id| id.to_string());
                            format!("has {id} as token {i}, but ids of the vocabulary are below {vocabulary}")
                        });
                    }
                }
            }
            at += bytes.len() as u64 / dtype.size();
            Ok(())
        })?;
        self.verdict.add(bin, others);
        Ok(())
    }
}
