//! Merging pairs into one: the plan, computed from their indexes, and its execution.

use crate::index_header::{HEADER, IndexHeader};
use crate::index_summary::IndexSummary;
use crate::numbers;
use crate::pair::Pair;
use packhorse_core::{Context, Error, Input, InputRange as Range, Kind, Outlet, Result, ShardSummary};
use std::io::{BufWriter, Write};
use std::sync::Arc;

/// A plan to concatenate pairs. Document indexes are kept: each entry is raised by the sequences before its pair, as in
/// Megatron's merge.
///
/// To execute it, copy each `.bin` to its place ([`MergePlan::bodies`]) and write the `.idx`, either sequentially
/// ([`MergePlan::write_idx`]) or in sections ([`MergePlan::sections`]). All of this may run in parallel.
#[derive(Clone, Debug)]
pub struct MergePlan {
    header: IndexHeader,
    parts: Vec<PlannedPair>,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct PlannedPair {
    header: IndexHeader,
    /// Sequences of the pairs before.
    sequences: u64,
    /// The offset of its `.bin` in the merged one, and its length.
    offset: u64,
    len: u64,
}

/// The place of an input's `.bin` in the merged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinPlacement {
    /// The number of the input.
    pub input: usize,
    /// Its offset in the merged `.bin`.
    pub offset: u64,
    /// Its length.
    pub len: u64,
}

/// A section of the merged `.idx` that depends on one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSection {
    /// The number of the input.
    pub input: usize,
    /// Its offset in the merged `.idx`.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    array: IndexArray,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexArray {
    Lengths,
    Pointers,
    Documents,
}

impl MergePlan {
    /// Scans the index of each of `inputs`, each either file of a pair. Pairs of different types are a `Config` error
    /// that names two of them; a damaged pair is a `Content` error.
    pub fn new(inputs: &[&dyn Input]) -> Result<Self> {
        let mut plan: Option<Self> = None;
        let mut first = "";
        for input in inputs {
            let shape = checked_summary(*input).map_err(|e| e.in_input(input.name()))?;
            match &mut plan {
                None => {
                    first = input.name();
                    let header = IndexHeader { sequences: 0, documents: 0, ..shape.header };
                    let mut one = Self { header, parts: Vec::new(), bytes: 0 };
                    one.add(&shape)?;
                    plan = Some(one);
                }
                Some(plan) if plan.header.dtype != shape.header.dtype => {
                    return Err(Error::config(format!(
                        "{first} has tokens of type {}, but {} has type {}; merge pairs of one type",
                        plan.header.dtype.name(),
                        input.name(),
                        shape.header.dtype.name()
                    )));
                }
                Some(plan) => plan.add(&shape)?,
            }
        }
        plan.ok_or_else(|| Error::config("there is no pair to merge"))
    }

    fn add(&mut self, shape: &IndexSummary) -> Result<()> {
        let many = || Error::new(Kind::Limit, "the merged pair would be larger than a file can be");
        let len = shape.tokens.checked_mul(shape.header.dtype.size()).ok_or_else(many)?;
        let header = &mut self.header;
        self.parts.push(PlannedPair { header: shape.header, sequences: header.sequences, offset: self.bytes, len });
        header.sequences = header.sequences.checked_add(shape.header.sequences).ok_or_else(many)?;
        header.documents = header.documents.checked_add(shape.header.documents).ok_or_else(many)?;
        self.bytes = self.bytes.checked_add(len).ok_or_else(many)?;
        Ok(())
    }

    /// The header of the merged `.idx`.
    pub fn header(&self) -> IndexHeader {
        self.header
    }

    /// The length of the merged `.bin`.
    pub fn bin_len(&self) -> u64 {
        self.bytes
    }

    /// The length of the merged `.idx`.
    pub fn idx_len(&self) -> u64 {
        self.header.end()
    }

    /// The place of each `.bin`.
    pub fn bodies(&self) -> Vec<BinPlacement> {
        let body = |(input, part): (usize, &PlannedPair)| BinPlacement { input, offset: part.offset, len: part.len };
        self.parts.iter().enumerate().map(body).collect()
    }

    /// The bytes of the merged `.idx` before its sections.
    pub fn idx_header(&self) -> Result<Vec<u8>> {
        self.header.encode().map(|bytes| bytes.to_vec())
    }

    /// The sections of the merged `.idx` after its header, in file order and without gaps.
    pub fn sections(&self) -> Vec<IndexSection> {
        let mut sections = Vec::new();
        let mut offset = HEADER;
        for array in [IndexArray::Lengths, IndexArray::Pointers, IndexArray::Documents] {
            for (input, part) in self.parts.iter().enumerate() {
                let len = match array {
                    IndexArray::Lengths => 4 * part.header.sequences,
                    IndexArray::Pointers => 8 * part.header.sequences,
                    // Only the first pair writes its first entry, 0.
                    IndexArray::Documents => 8 * (part.header.documents + u64::from(input == 0)),
                };
                sections.push(IndexSection { input, offset, len, array });
                offset += len;
            }
        }
        sections
    }

    /// Writes the bytes of `section`; `input` is either file of its pair.
    pub fn write_section(&self, section: &IndexSection, input: &dyn Input, out: &mut dyn Write) -> Result<()> {
        let part = self.parts.get(section.input).ok_or_else(|| Error::bug("a section of no input"))?;
        let pair = Pair::open(Arc::new(input))?;
        let idx = &*pair.idx;
        if IndexHeader::read(idx)?.0 != part.header {
            return Err(
                Error::new(Kind::Changed, "has changed since the merge was planned; run it again").in_input(idx.name())
            );
        }
        match section.array {
            IndexArray::Lengths => {
                let from = part.header.length_at(0);
                let range = from..from.saturating_add(section.len);
                idx.each_piece(range, &mut |bytes| out.write_all(bytes).context("write"))
            }
            IndexArray::Pointers => pointers(idx, &part.header, part.offset, out),
            IndexArray::Documents => entries(idx, part, section.input, out),
        }
    }

    /// Writes the merged `.idx`; `inputs` must be those of the plan.
    pub fn write_idx(&self, inputs: &[&dyn Input], out: &mut dyn Write) -> Result<()> {
        out.write_all(&self.idx_header()?).context("write")?;
        for section in self.sections() {
            let input = inputs.get(section.input).ok_or_else(|| Error::bug("a merge without its inputs"))?;
            self.write_section(&section, *input, out)?;
        }
        out.flush().context("write")
    }
}

/// Merges pairs into one; returns its summary.
pub(crate) fn merge(inputs: &[&dyn Input], out: &mut dyn Outlet) -> Result<ShardSummary> {
    let plan = MergePlan::new(inputs)?;
    let pairs = inputs.iter().map(|input| Pair::open(Arc::new(*input))).collect::<Result<Vec<_>>>()?;
    let part =
        |copy: BinPlacement| pairs.get(copy.input).map(|pair| Range { input: &*pair.bin, offset: 0, len: copy.len });
    let parts: Vec<Range<'_>> = plan.bodies().into_iter().filter_map(part).collect();
    out.concat(".bin", &parts)?;
    plan.write_idx(inputs, &mut BufWriter::with_capacity(256 << 10, out.stream(".idx")?))?;
    let header = plan.header();
    let counts = [
        ("documents", header.documents),
        ("sequences", header.sequences),
        ("tokens", plan.bin_len() / header.dtype.size().max(1)),
    ];
    Ok(ShardSummary {
        samples: header.documents,
        bytes: plan.bin_len(),
        counts: counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        ..ShardSummary::default()
    })
}

/// The summary of the pair's index, checked against the length of the `.bin`.
pub(crate) fn checked_summary(input: &dyn Input) -> Result<IndexSummary> {
    let pair = Pair::open(Arc::new(input))?;
    let shape = IndexSummary::of(&*pair.idx)?;
    shape.fits(&*pair.bin, pair.bin_len()?)?;
    Ok(shape)
}

/// Writes the offset of each sequence of `idx`; the first is `offset`.
pub(crate) fn pointers(idx: &dyn Input, header: &IndexHeader, offset: u64, out: &mut dyn Write) -> Result<()> {
    let mut at = offset;
    let mut bytes = Vec::new();
    numbers::each::<4>(idx, header.length_at(0), header.sequences, &mut |lengths| {
        bytes.clear();
        for length in lengths {
            bytes.extend_from_slice(&at.to_le_bytes());
            let length = u64::from(i32::from_le_bytes(*length).unsigned_abs());
            at = at.saturating_add(length.saturating_mul(header.dtype.size()));
        }
        out.write_all(&bytes).context("write")
    })
}

/// Writes the entries of the document index of input `input`.
fn entries(idx: &dyn Input, part: &PlannedPair, input: usize, out: &mut dyn Write) -> Result<()> {
    let skip = u64::from(input > 0);
    let mut bytes = Vec::new();
    numbers::each::<8>(idx, part.header.entry_at(skip), part.header.documents + 1 - skip, &mut |entries| {
        bytes.clear();
        for entry in entries {
            bytes.extend_from_slice(&u64::from_le_bytes(*entry).saturating_add(part.sequences).to_le_bytes());
        }
        out.write_all(&bytes).context("write")
    })
}
