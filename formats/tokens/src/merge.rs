//! Many pairs as one: what goes where, worked out from their indexes.

use crate::header::{HEADER, Header};
use crate::numbers;
use crate::pair::Pair;
use crate::shape::Shape;
use packhorse_core::{Context, Error, Input, Kind, Outlet, Part as Range, Result, ShardSummary};
use std::io::{BufWriter, Write};

/// How pairs become one, their documents one after the other. The document indexes are kept: each entry is
/// raised by the sequences before it, as Megatron's own merge does.
///
/// Whoever carries it out copies each `.bin` to its place ([`MergePlan::bodies`]) and writes the `.idx`, from
/// start to end ([`MergePlan::write_idx`]) or by sections at their places ([`MergePlan::sections`]); all of
/// that may be done at the same time.
#[derive(Clone, Debug)]
pub struct MergePlan {
    header: Header,
    parts: Vec<Part>,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Part {
    header: Header,
    /// Sequences before it.
    sequences: u64,
    /// Bytes of `.bin` before it, and its own.
    offset: u64,
    len: u64,
}

/// The `.bin` of an input, all of it, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// Which input.
    pub input: usize,
    /// Where it begins in the merged `.bin`.
    pub offset: u64,
    /// Its length.
    pub len: u64,
}

/// A piece of the merged `.idx` that depends on one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Which input.
    pub input: usize,
    /// Where it begins in the merged `.idx`.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    array: Array,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Array {
    Lengths,
    Pointers,
    Documents,
}

impl MergePlan {
    /// Looks through the index of each of `inputs`, either file of a pair. Pairs of different types are a
    /// `Config` error that names two of them; one that is damaged is a `Content` error.
    pub fn new(inputs: &[&dyn Input]) -> Result<Self> {
        let mut plan: Option<Self> = None;
        let mut first = "";
        for input in inputs {
            let shape = looked(*input).map_err(|e| e.in_input(input.name()))?;
            match &mut plan {
                None => {
                    first = input.name();
                    let header = Header { sequences: 0, documents: 0, ..shape.header };
                    let mut one = Self { header, parts: Vec::new(), bytes: 0 };
                    one.add(&shape)?;
                    plan = Some(one);
                }
                Some(plan) if plan.header.dtype != shape.header.dtype => {
                    return Err(Error::config(format!(
                        "{first} has tokens of type {}, and {} of type {}; merge pairs of one type",
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

    fn add(&mut self, shape: &Shape) -> Result<()> {
        let many = || Error::new(Kind::Limit, "the pairs are more together than a file holds");
        let len = shape.tokens.checked_mul(shape.header.dtype.size()).ok_or_else(many)?;
        let header = &mut self.header;
        self.parts.push(Part { header: shape.header, sequences: header.sequences, offset: self.bytes, len });
        header.sequences = header.sequences.checked_add(shape.header.sequences).ok_or_else(many)?;
        header.documents = header.documents.checked_add(shape.header.documents).ok_or_else(many)?;
        self.bytes = self.bytes.checked_add(len).ok_or_else(many)?;
        Ok(())
    }

    /// What the merged `.idx` will say of itself.
    pub fn header(&self) -> Header {
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

    /// Where each `.bin` goes.
    pub fn bodies(&self) -> Vec<Body> {
        let body = |(input, part): (usize, &Part)| Body { input, offset: part.offset, len: part.len };
        self.parts.iter().enumerate().map(body).collect()
    }

    /// The first bytes of the merged `.idx`.
    pub fn idx_header(&self) -> Result<Vec<u8>> {
        self.header.encode().map(|bytes| bytes.to_vec())
    }

    /// Everything after them, in the order of the file and without gaps.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        let mut offset = HEADER;
        for array in [Array::Lengths, Array::Pointers, Array::Documents] {
            for (input, part) in self.parts.iter().enumerate() {
                let len = match array {
                    Array::Lengths => 4 * part.header.sequences,
                    Array::Pointers => 8 * part.header.sequences,
                    // The first entry, 0, is there once.
                    Array::Documents => 8 * (part.header.documents + u64::from(input == 0)),
                };
                sections.push(Section { input, offset, len, array });
                offset += len;
            }
        }
        sections
    }

    /// Writes the bytes of `section`; `input` is either file of the pair it is of.
    pub fn write_section(&self, section: &Section, input: &dyn Input, out: &mut dyn Write) -> Result<()> {
        let part = self.parts.get(section.input).ok_or_else(|| Error::bug("a section of no input"))?;
        let pair = Pair::open(input)?;
        let idx = pair.idx.get();
        if Header::read(idx)?.0 != part.header {
            return Err(Error::new(Kind::Changed, "changed since the merge was planned").in_input(idx.name()));
        }
        match section.array {
            Array::Lengths => numbers::each_bytes(idx, part.header.length_at(0), section.len, &mut |bytes| {
                out.write_all(bytes).context("write")
            }),
            Array::Pointers => pointers(idx, &part.header, part.offset, out),
            Array::Documents => entries(idx, part, section.input, out),
        }
    }

    /// Writes the merged `.idx`; `inputs` are those that it was planned for.
    pub fn write_idx(&self, inputs: &[&dyn Input], out: &mut dyn Write) -> Result<()> {
        out.write_all(&self.idx_header()?).context("write")?;
        for section in self.sections() {
            let input = inputs.get(section.input).ok_or_else(|| Error::bug("a merge without its inputs"))?;
            self.write_section(&section, *input, out)?;
        }
        out.flush().context("write")
    }
}

/// Carries out a merge: one pair, and what it holds.
pub(crate) fn merge(inputs: &[&dyn Input], out: &mut dyn Outlet) -> Result<ShardSummary> {
    let plan = MergePlan::new(inputs)?;
    let pairs = inputs.iter().map(|input| Pair::open(*input)).collect::<Result<Vec<_>>>()?;
    let part = |copy: Body| pairs.get(copy.input).map(|pair| Range { input: pair.bin.get(), offset: 0, len: copy.len });
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

/// The index of the pair, once it is found to fit the tokens.
pub(crate) fn looked(input: &dyn Input) -> Result<Shape> {
    let pair = Pair::open(input)?;
    let shape = Shape::of(pair.idx.get())?;
    shape.fits(pair.bin.get(), pair.bin_len()?)?;
    Ok(shape)
}

/// Writes the offset of each sequence of `idx`, the first of which is at `offset`.
pub(crate) fn pointers(idx: &dyn Input, header: &Header, offset: u64, out: &mut dyn Write) -> Result<()> {
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

/// Writes the entries of the document index of the part that is input `input`.
fn entries(idx: &dyn Input, part: &Part, input: usize, out: &mut dyn Write) -> Result<()> {
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
