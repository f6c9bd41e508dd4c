//! Collates samples into a slab, row by row. Skipped samples leave no gaps: the next sample takes the row.

use super::field_decoder::{FieldDecoder, PictureDecoder};
use super::place::ResolvedField;
use crate::batch::aligned;
use crate::batch_metadata::BatchMetadata;
use crate::on_error::{OnError, may_be_skipped};
use crate::sample_block::Row;
use crate::{Layout, LoaderCounters, SampleBlock};
use packhorse_core::{Code, Error, Event, Kind, Limits, Observer, Result};
use packhorse_order::draw;
use packhorse_transform::image::Draws;
use std::ops::Range;
use std::sync::Arc;

/// Collates fetched samples into slabs.
#[derive(Clone)]
pub(crate) struct Collate {
    pub(crate) fields: Arc<[ResolvedField]>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) batch: usize,
    pub(crate) limits: Limits,
    pub(crate) on_error: OnError,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) counters: Arc<LoaderCounters>,
    pub(crate) seed: u64,
}

/// Buffers that a thread reuses between batches.
#[derive(Default)]
pub(crate) struct CollateScratch {
    /// One decoder per field of pictures.
    decoders: Vec<Option<PictureDecoder>>,
    /// The size of each row and ragged field, in bytes.
    sizes: Vec<usize>,
    /// Whether each row is skipped.
    bad: Vec<bool>,
    faults: Vec<(usize, Error)>,
    /// The end of the ragged values of each field so far.
    ends: Vec<usize>,
    places: Vec<Range<usize>>,
}

impl Collate {
    /// The same for slabs of `rows` rows.
    ///
    /// Errors (kind `Config`): more rows than fit memory.
    pub(crate) fn with_rows(&self, rows: usize) -> Result<Self> {
        let same = self.clone();
        if rows == self.batch {
            return Ok(same);
        }
        Ok(Self { layout: Arc::new(self.layout.with_rows(self.batch, rows)?), batch: rows, ..same })
    }

    /// Fills `slab`, or returns the bytes needed. The caller sets positions and epoch of `filled`.
    pub(crate) fn fill(
        &self,
        fetched: &SampleBlock,
        epoch: u64,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        scratch: &mut CollateScratch,
    ) -> Result<Option<usize>> {
        self.prepare(scratch)?;
        self.measure(fetched, scratch);
        let bytes = self.lay_out(scratch)?;
        if bytes > slab.len() {
            return Ok(Some(bytes));
        }
        for (row, fault) in scratch.faults.drain(..) {
            self.leave_out(fault, fetched, row)?;
        }
        filled.numbers.clear();
        filled.keys.clear();
        filled.key_ends.clear();
        scratch.ends.clear();
        scratch.ends.resize(self.fields.len(), 0);
        let mut to = 0;
        for row in 0..fetched.len() {
            if scratch.bad.get(row) == Some(&true) {
                continue;
            }
            match self.row(fetched, row, to, epoch, slab, scratch) {
                Ok(()) => {
                    filled.numbers.push(fetched.number(row).unwrap_or_default());
                    filled.keys.push_str(fetched.key(row).unwrap_or_default());
                    filled.key_ends.push(filled.keys.len());
                    to += 1;
                }
                Err(error) => self.leave_out(error, fetched, row)?,
            }
        }
        self.finish(to, slab, filled, scratch);
        Ok(None)
    }

    fn prepare(&self, scratch: &mut CollateScratch) -> Result<()> {
        if scratch.decoders.len() != self.fields.len() {
            let decoder =
                |field: &ResolvedField| field.view.map(|view| PictureDecoder::new(view, self.limits)).transpose();
            scratch.decoders = self.fields.iter().map(decoder).collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// Reports a skipped sample; an error unless bad samples are skipped.
    fn leave_out(&self, error: Error, fetched: &SampleBlock, row: usize) -> Result<()> {
        // The error of a lost shard is the same for all of its samples.
        let of_shard = matches!(fetched.rows.get(row), Some(Row::None));
        let error = match (error.sample().is_some(), fetched.key(row)) {
            (false, Some(key)) if !of_shard => error.in_sample(key),
            _ => error,
        };
        if !may_be_skipped(error.kind()) {
            return Err(error);
        }
        if self.on_error == OnError::Fail {
            let error = match error.code() == Code::FieldMissing {
                true => error.hint("a field that is not required is zeros there, which `Present` tells from values"),
                false => error,
            };
            return Err(error.hint("a loader with `on-error=skip` leaves such samples out"));
        }
        self.counters.skipped.add(1);
        self.observer.event(&Event::Skipped(&error));
        Ok(())
    }

    /// Measures all ragged values.
    fn measure(&self, fetched: &SampleBlock, scratch: &mut CollateScratch) {
        let CollateScratch { decoders, sizes, bad, faults, .. } = scratch;
        faults.clear();
        sizes.clear();
        sizes.resize(fetched.len() * self.fields.len(), 0);
        bad.clear();
        bad.resize(fetched.len(), false);
        for (row, bad) in bad.iter_mut().enumerate() {
            if let Some(fault) = fetched.fault(row) {
                *bad = true;
                faults.push((row, fault.clone()));
                continue;
            }
            for (at, (field, decoder)) in self.fields.iter().zip(decoders.iter_mut()).enumerate() {
                let size = match fetched.value(row, field.column) {
                    Some(value) if field.ragged => {
                        field.cell.measure(value, decoder.as_mut()).map_err(|error| named(error, field))
                    }
                    None if field.required => Err(missing(field)),
                    _ => Ok(0),
                };
                match size {
                    Ok(size) => {
                        if let Some(place) = sizes.get_mut(row * self.fields.len() + at) {
                            *place = size;
                        }
                    }
                    Err(error) => {
                        *bad = true;
                        faults.push((row, error));
                        break;
                    }
                }
            }
        }
    }

    /// Computes the places of ragged values; returns the total bytes of the slab.
    fn lay_out(&self, scratch: &mut CollateScratch) -> Result<usize> {
        let mut end = self.layout.bytes();
        scratch.places.clear();
        for (at, field) in self.fields.iter().enumerate() {
            let rows = scratch.sizes.chunks_exact(self.fields.len().max(1)).zip(&scratch.bad);
            let sizes = rows.filter(|(_, bad)| !**bad).map(|(sizes, _)| sizes.get(at).copied().unwrap_or(0));
            let bytes = sizes.fold(0usize, usize::saturating_add);
            let start = if field.ragged { aligned(end)? } else { 0 };
            let stop = start.saturating_add(bytes);
            scratch.places.push(start..stop);
            end = end.max(stop);
        }
        match isize::try_from(end) {
            Ok(_) => Ok(end),
            Err(_) => Err(Error::new(Kind::Limit, "a batch is larger than memory: make it smaller")),
        }
    }

    /// Writes one sample to row `to`.
    fn row(
        &self,
        fetched: &SampleBlock,
        row: usize,
        to: usize,
        epoch: u64,
        slab: &mut [u8],
        scratch: &mut CollateScratch,
    ) -> Result<()> {
        let CollateScratch { decoders, sizes, ends, places, .. } = scratch;
        let epoch = fetched.epochs.get(row).copied().unwrap_or(epoch);
        let key = draw(self.seed, epoch, fetched.number(row).unwrap_or_default(), 0);
        let draws = Draws::new(key);
        for (at, (field, decoder)) in self.fields.iter().zip(decoders.iter_mut()).enumerate() {
            let place = match places.get(at).filter(|_| field.ragged) {
                Some(place) => {
                    let from = place.start + ends.get(at).copied().unwrap_or(0);
                    from..from + sizes.get(row * self.fields.len() + at).copied().unwrap_or(0)
                }
                None => self.dense(field.at, to, field.stride),
            };
            let mut shape = [0u8; 4 * MOST_DIMENSIONS];
            let shape = shape.get_mut(..4 * field.rank.min(MOST_DIMENSIONS)).unwrap_or_default();
            let out = slab.get_mut(place).ok_or_else(|| Error::bug(format!("no room for row {to}")))?;
            match fetched.value(row, field.column) {
                Some(value) => {
                    let images: Vec<_> = field.images.iter().filter_map(|at| fetched.value(row, *at)).collect();
                    match field.cell.write(value, decoder.as_mut(), draws, &images, out, shape) {
                        // Nothing at a path in JSON.
                        Err(error) if !field.required && error.code() == Code::FieldMissing => out.fill(0),
                        written => written.map_err(|error| named(error, field))?,
                    }
                }
                None if matches!(field.cell, FieldDecoder::Draws) => out.copy_from_slice(&key.to_le_bytes()),
                None => out.fill(0),
            }
            if field.rank > 1 {
                let place = self.dense(field.at + 2, to, 4 * field.rank);
                if let Some(out) = slab.get_mut(place).filter(|out| out.len() == shape.len()) {
                    out.copy_from_slice(shape);
                }
            }
        }
        // Only now, when nothing can fail.
        for (at, field) in self.fields.iter().enumerate().filter(|(_, field)| field.ragged) {
            let Some(end) = ends.get_mut(at) else { continue };
            let start = *end;
            *end += sizes.get(row * self.fields.len() + at).copied().unwrap_or(0);
            for (entry, bytes) in [(to, start), (to + 1, *end)] {
                self.offset(field, entry, bytes, slab);
            }
        }
        Ok(())
    }

    fn dense(&self, at: usize, row: usize, stride: usize) -> Range<usize> {
        let start = self.layout.fields().get(at).map_or(0, |field| field.offset) + row * stride;
        start..start + stride
    }

    /// Writes an entry of the offsets of a ragged field.
    fn offset(&self, field: &ResolvedField, entry: usize, bytes: usize, slab: &mut [u8]) {
        let value = (bytes / field.stride.max(1)) as i64;
        if let Some(out) = slab.get_mut(self.dense(field.at + 1, entry, 8)) {
            out.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Zeroes the rest of the rows, and sets the metadata.
    fn finish(&self, rows: usize, slab: &mut [u8], filled: &mut BatchMetadata, scratch: &CollateScratch) {
        filled.set_dense(&self.layout, rows);
        for (field, place) in self.layout.fields().iter().zip(&filled.places) {
            if let Some(rest) = slab.get_mut(place.end..field.offset + field.bytes).filter(|_| !field.ragged) {
                rest.fill(0);
            }
        }
        for (at, field) in self.fields.iter().enumerate().filter(|(_, field)| field.ragged) {
            let bytes = scratch.ends.get(at).copied().unwrap_or(0);
            let start = scratch.places.get(at).map_or(0, |place| place.start);
            (rows..=self.batch).for_each(|entry| self.offset(field, entry, bytes, slab));
            if let Some(place) = filled.places.get_mut(field.at) {
                *place = start..start + bytes;
            }
            if let Some(place) = filled.places.get_mut(field.at + 1) {
                place.end = place.start + 8 * (rows + 1);
            }
        }
        filled.longest = 0;
    }
}

/// NumPy's maximum number of dimensions.
const MOST_DIMENSIONS: usize = 64;

/// A field of the dataset, with its name in batches where that is another.
fn shown(field: &ResolvedField) -> String {
    match field.name == field.source {
        true => field.name.clone(),
        false => format!("{} ({} in batches)", field.source, field.name),
    }
}

/// Prefixes an error with the field.
fn named(error: Error, field: &ResolvedField) -> Error {
    error.subject(format_args!("field {}", shown(field))).in_field(&field.source)
}

/// The error of a sample without a field.
fn missing(field: &ResolvedField) -> Error {
    let error = Error::content(format!("has no field {}", shown(field)));
    error.with_code(Code::FieldMissing).in_field(&field.source)
}
