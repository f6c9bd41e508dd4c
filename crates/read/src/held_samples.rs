//! Samples whose fields a device holds: where the bytes of each are. Refuses to know the device.
//!
//! ```text
//! slab of a batch:   pieces (from, to, bytes) │ keys of draws, offsets of ragged rows      (some kilobytes)
//! on the device:     every piece is copied to its place in the batch, as if the whole slab had been sent
//! ```

use crate::batch_metadata::BatchMetadata;
use crate::fields::{Collate, FieldDecoder};
use crate::gather::Gather;
use crate::layout::{ALIGN, Layout};
use crate::{Batch, Dataset, FieldKind, FieldOptions, SampleBlock, SlabField};
use packhorse_core::{Error, Result};
use packhorse_order::draw;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The samples of a dataset whose fields a device holds, by their numbers. A loader for such a device
/// ([`Device::held`](crate::Device::held)) reads and decodes nothing: its batches say where the device finds their fields
/// ([`Gather`]).
#[derive(Debug)]
pub struct HeldSamples {
    id: u64,
    /// The dataset's identity, and the fields that were kept.
    fingerprint: u64,
    fields: Vec<FieldOptions>,
    layout: Arc<Layout>,
    blocks: Vec<Block>,
    samples: u64,
}

/// A batch that the device holds.
#[derive(Debug)]
struct Block {
    /// Where its slab begins on the device.
    address: u64,
    metadata: BatchMetadata,
    /// The offsets of each ragged field, by its position in the layout; empty for the others.
    offsets: Vec<Vec<u64>>,
}

/// The bytes of a piece in a slab.
const PIECE: usize = 24;

/// Values in a slab begin at multiples of this.
const WIDTH: usize = 16;

/// Where a field of a batch comes from: its position in the layout of the batch, and in that of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldField {
    Draws {
        to: usize,
    },
    Dense {
        to: usize,
        from: usize,
    },
    /// Its offsets follow it.
    Ragged {
        to: usize,
        from: usize,
    },
}

impl HeldSamples {
    /// No samples of `dataset` yet, which will have these fields.
    pub fn new(dataset: &Dataset, fields: &[FieldOptions]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (id, fields) = (NEXT.fetch_add(1, Ordering::Relaxed), fields.to_vec());
        Self { id, fingerprint: dataset.fingerprint(), fields, layout: Arc::default(), blocks: Vec::new(), samples: 0 }
    }

    /// A number that no others in this process have: the addresses in a [`Gather`] are those of the samples with this number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Adds the samples of a batch, whose slab the device holds at `address`. Batches come in the order of their samples'
    /// numbers, all from one loader.
    ///
    /// Errors: a batch out of order, or of another layout.
    pub fn push<H: AsRef<[u8]>>(&mut self, batch: &Batch<H>, address: u64) -> Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        let last = self.blocks.last().and_then(|block| block.metadata.numbers.last());
        let rising = last.into_iter().chain(batch.numbers()).is_sorted_by(|a, b| a < b);
        if self.blocks.is_empty() {
            self.layout = Arc::clone(batch.layout());
        }
        if !rising || *self.layout != **batch.layout() {
            return Err(Error::bug("samples to hold that are out of order, or of another loader"));
        }
        let offsets = |(at, field): (usize, &SlabField)| {
            let bytes = field.ragged.then(|| batch.metadata().place(at + 1)).flatten();
            let bytes = bytes.and_then(|place| batch.slab().get(place)).unwrap_or_default();
            bytes.as_chunks().0.iter().map(|offset| u64::from_le_bytes(*offset)).collect::<Vec<_>>()
        };
        let offsets = self.layout.fields().iter().enumerate().map(offsets).collect();
        self.samples += batch.rows() as u64;
        self.blocks.push(Block { address, metadata: batch.metadata().clone(), offsets });
        Ok(())
    }

    /// The number of samples.
    pub fn len(&self) -> u64 {
        self.samples
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// The layout of the batches that were added.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The block and the row of sample `number`; `None` for one that was left out.
    fn find(&self, number: u64) -> Option<(&Block, usize)> {
        let after =
            self.blocks.partition_point(|block| block.metadata.numbers.first().is_some_and(|first| *first <= number));
        let block = self.blocks.get(after.checked_sub(1)?)?;
        Some((block, block.metadata.numbers.binary_search(&number).ok()?))
    }

    /// The bytes of a slab for `rows` rows, at most.
    pub(crate) fn room(fields: &[HeldField], rows: usize) -> usize {
        let of = |field: &HeldField| match field {
            HeldField::Draws { .. } => PIECE + (8 * rows).next_multiple_of(WIDTH),
            HeldField::Dense { .. } => PIECE * rows,
            HeldField::Ragged { .. } => PIECE * (rows + 1) + (8 * (rows + 1)).next_multiple_of(WIDTH),
        };
        (fields.iter().map(of).sum::<usize>() + WIDTH).next_multiple_of(ALIGN)
    }

    /// Where the fields of a batch come from.
    ///
    /// Errors (kind `Config`): samples of another dataset; a field that was not kept, or was made another way.
    pub(crate) fn fields(
        &self,
        dataset: &Dataset,
        asked: &[FieldOptions],
        collate: &Collate,
    ) -> Result<Vec<HeldField>> {
        if dataset.fingerprint() != self.fingerprint {
            return Err(Error::config("the device holds the samples of another dataset"));
        }
        let refused = |name: &str| {
            let message = format!("the device does not hold the field {name}, or in another form");
            Error::config(message).in_field(name).hint("give loaders the fields that the samples were loaded with")
        };
        let is_kept = |field: &&FieldOptions| field.kind == FieldKind::Draws || self.fields.contains(field);
        if let Some(other) = asked.iter().find(|field| !is_kept(field)) {
            return Err(refused(&other.name));
        }
        let layout = collate.layout.fields();
        let from = |at: usize| {
            let wanted = layout.get(at).ok_or_else(|| Error::bug("a field without a place"))?;
            let known = self.layout.position(&wanted.name);
            let same = known.and_then(|at| self.layout.fields().get(at)).is_some_and(|known| {
                let inner = |field: &SlabField| field.shape.get(1..).map(<[usize]>::to_vec);
                (known.ragged, &known.data_type, inner(known)) == (wanted.ragged, &wanted.data_type, inner(wanted))
            });
            // As arrays of the first sample decide, for one.
            known.filter(|_| same).ok_or_else(|| refused(&wanted.name))
        };
        let mut found = Vec::new();
        for field in &*collate.fields {
            let to = field.at;
            match (&field.cell, field.ragged) {
                (FieldDecoder::Draws, _) => found.push(HeldField::Draws { to }),
                (_, false) => found.push(HeldField::Dense { to, from: from(to)? }),
                (_, true) => found.push(HeldField::Ragged { to, from: from(to)? }),
            }
            if field.rank > 1 {
                found.push(HeldField::Dense { to: to + 2, from: from(to + 2)? });
            }
        }
        Ok(found)
    }

    /// Describes the batch of the samples of `wanted` in `slab`, which has the [room](Self::room) of their number. Samples that
    /// the device does not hold were left out as bad ones, and have no row.
    pub(crate) fn fill(
        &self,
        (layout, fields): (&Layout, &[HeldField]),
        wanted: &SampleBlock,
        seed: u64,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
    ) -> Result<()> {
        let BatchMetadata { numbers, keys, key_ends, .. } = filled;
        numbers.clear();
        keys.clear();
        key_ends.clear();
        let mut rows = Vec::with_capacity(wanted.numbers.len());
        for (at, number) in wanted.numbers.iter().enumerate() {
            let Some((block, row)) = self.find(*number) else { continue };
            let epoch = wanted.epochs.get(at).copied().unwrap_or_default();
            rows.push((block, row, draw(seed, epoch, *number, 0)));
            numbers.push(*number);
            keys.push_str(block.metadata.key(row).unwrap_or_default());
            key_ends.push(keys.len());
        }
        filled.set_dense(layout, rows.len());
        filled.longest = 0;
        let here = fields.iter().filter(|field| !matches!(field, HeldField::Dense { .. })).count();
        let most = fields.iter().filter(|field| !matches!(field, HeldField::Draws { .. })).count() * rows.len();
        let mut out = Pieces::new(slab, here, here + most);
        // Values of rows of different lengths follow the dense fields, as in any slab.
        let mut end = layout.bytes();
        for field in fields {
            match *field {
                HeldField::Draws { to } => {
                    let to = filled.place(to).unwrap_or_default().start;
                    out.here(to, rows.iter().map(|(.., key)| *key))?;
                }
                HeldField::Dense { to, from } => {
                    let place = filled.place(to).unwrap_or_default();
                    let stride = place.len() / rows.len().max(1);
                    for (at, (block, row, _)) in rows.iter().enumerate() {
                        out.there(block.dense(from, *row, stride)?, place.start + at * stride)?;
                    }
                }
                HeldField::Ragged { to, from } => {
                    let stride = layout.fields().get(to).and_then(|field| field.strides.first().copied()).unwrap_or(1);
                    let start = end.next_multiple_of(ALIGN);
                    let (mut at, mut offsets) = (start, vec![0]);
                    for (block, row, _) in &rows {
                        let piece = block.ragged(from, *row, stride)?;
                        let bytes = (piece.end - piece.start) as usize;
                        out.there(piece, at)?;
                        at += bytes;
                        offsets.push(((at - start) / stride.max(1)) as u64);
                    }
                    end = at;
                    if let Some(place) = filled.places.get_mut(to) {
                        *place = start..at;
                    }
                    let offsets_at = filled.places.get_mut(to + 1).map_or(0, |place| {
                        place.end = place.start + 8 * (rows.len() + 1);
                        place.start
                    });
                    out.here(offsets_at, offsets.into_iter())?;
                }
            }
        }
        filled.gather = Some(Gather { holder: self.id, ..out.end() });
        Ok(())
    }
}

impl Block {
    fn place(&self, field: usize) -> Result<Range<usize>> {
        self.metadata.place(field).ok_or_else(|| Error::bug("a field that the device does not hold"))
    }

    /// The addresses of a row of a dense field, whose rows have `stride` bytes.
    fn dense(&self, field: usize, row: usize, stride: usize) -> Result<Range<u64>> {
        let start = self.address + (self.place(field)?.start + row * stride) as u64;
        Ok(start..start + stride as u64)
    }

    /// The addresses of a row of a ragged field, whose entries have `stride` bytes.
    fn ragged(&self, field: usize, row: usize, stride: usize) -> Result<Range<u64>> {
        let offsets = self.offsets.get(field).map(Vec::as_slice).unwrap_or_default();
        let [from, to] = [row, row + 1].map(|at| offsets.get(at).copied());
        let start = self.address + self.place(field)?.start as u64;
        let rows = from.zip(to).filter(|(from, to)| from <= to);
        let (from, to) = rows.ok_or_else(|| Error::bug("a row that the device does not hold"))?;
        Ok(start + from * stride as u64..start + to * stride as u64)
    }
}

/// Writes pieces and values into a slab.
struct Pieces<'s> {
    slab: &'s mut [u8],
    /// Pieces from this slab and others so far, and where the next ones go.
    here: usize,
    next: usize,
    /// The end of the values.
    values: usize,
    longest: u64,
}

impl<'s> Pieces<'s> {
    /// With `here` pieces from this slab, of `most` in all.
    fn new(slab: &'s mut [u8], here: usize, most: usize) -> Self {
        Self { slab, here: 0, next: here, values: (PIECE * most).next_multiple_of(WIDTH), longest: 0 }
    }

    fn put(&mut self, number: usize, piece: [u64; 3]) -> Result<()> {
        let at = number * PIECE;
        let out = self.slab.get_mut(at..at + PIECE).ok_or_else(|| Error::bug("no room for a piece of a batch"))?;
        out.as_chunks_mut().0.iter_mut().zip(piece).for_each(|(to, from)| *to = from.to_le_bytes());
        self.longest = self.longest.max(piece[2]);
        Ok(())
    }

    /// Values that are sent with the pieces, for `to`.
    fn here(&mut self, to: usize, values: impl Iterator<Item = u64>) -> Result<()> {
        let start = self.values;
        for value in values {
            let out = self.slab.get_mut(self.values..self.values + 8);
            out.ok_or_else(|| Error::bug("no room for values of a batch"))?.copy_from_slice(&value.to_le_bytes());
            self.values += 8;
        }
        let bytes = self.values - start;
        self.put(self.here, [start as u64, to as u64, bytes as u64])?;
        self.here += 1;
        self.values = self.values.next_multiple_of(WIDTH);
        Ok(())
    }

    /// The bytes at these addresses of the device, for `to`.
    fn there(&mut self, from: Range<u64>, to: usize) -> Result<()> {
        self.put(self.next, [from.start, to as u64, from.end - from.start])?;
        self.next += 1;
        Ok(())
    }

    fn end(self) -> Gather {
        let Self { here, next, values, longest, .. } = self;
        Gather { holder: 0, pieces: next as u32, here: here as u32, bytes: values, longest }
    }
}
