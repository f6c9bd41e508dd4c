//! Fills a slab with the samples of a batch: tokens, padding and companions.

use crate::batch_metadata::BatchMetadata;
use crate::layout::{Layout, SlabField};
use crate::tokens::TokenReads;
use crate::{LossMask, Remainder, TokenOptions, Tokens};
use packhorse_core::{DataType, Error, Result};
use packhorse_order::{Order, Segment, cu_seqlens, position_ids, segment_ids};
use std::ops::Range;
use std::sync::Arc;

/// How a loader's batches are filled.
pub(crate) struct Filler {
    tokens: Arc<Tokens>,
    order: Arc<dyn Order>,
    pub(crate) layout: Arc<Layout>,
    rows: usize,
    /// Inputs per row.
    length: usize,
    /// Tokens per row.
    width: usize,
    pad: Option<i64>,
    /// Whether a batch with too few samples has rows of padding.
    full: bool,
    loss: LossMask,
}

/// Buffers that a thread reuses between batches.
#[derive(Debug, Default)]
pub struct TokenScratch {
    reading: TokenReads,
    segments: Vec<Segment>,
    /// The end of the segments of each row.
    ends: Vec<usize>,
    numbers: Vec<i32>,
    cumulative: Vec<i32>,
}

impl Filler {
    /// Errors (kind `Config`): empty rows, batches of 2^31 tokens or more, a padding token that does not fit the type.
    pub(crate) fn new(tokens: Arc<Tokens>, order: Arc<dyn Order>, options: &TokenOptions) -> Result<Self> {
        let (rows, length) = (options.batch as usize, options.length as usize);
        let width = length + usize::from(options.extra_token);
        if rows == 0 || length == 0 || rows.checked_mul(width).is_none_or(|all| i32::try_from(all).is_err()) {
            let message = format!("batches of {rows} samples of {length} tokens are not of 1 to 2^31 tokens");
            return Err(Error::config(message));
        }
        let token_type = tokens.token_type();
        if let Some(pad) = options.pad {
            token_type.fill(pad, &mut [0; 8]).ok_or_else(|| {
                Error::config(format!("padding of {pad} does not fit tokens of type {}", token_type.data_type()))
            })?;
        }
        let asked = &options.companions;
        let mut fields = vec![("tokens", token_type.data_type(), token_type.width(), vec![rows, width])];
        for (name, wanted) in [("position_ids", asked.position_ids), ("segment_ids", asked.segment_ids)] {
            fields.extend(wanted.then(|| (name, DataType::Int32, 4, vec![rows, length])));
        }
        if asked.loss_mask != LossMask::Off {
            fields.push(("loss_mask", DataType::UInt8, 1, vec![rows, length]));
        }
        // The last field, so that its unused end need not be copied.
        fields.extend(asked.cu_seqlens.then(|| ("cu_seqlens", DataType::Int32, 4, vec![rows * length + 1])));
        let layout = Arc::new(Layout::new(fields)?);
        let full = options.remainder == Remainder::Pad;
        Ok(Self { tokens, order, layout, rows, length, width, pad: options.pad, full, loss: asked.loss_mask })
    }

    /// Puts these samples of the order, at most a batch, into `slab`.
    pub(crate) fn fill(
        &self,
        samples: Range<u64>,
        slab: &mut [u8],
        filled: &mut BatchMetadata,
        scratch: &mut TokenScratch,
    ) -> Result<()> {
        self.fill_tokens(&samples, self.part(slab, "tokens"), scratch).inspect_err(|_| scratch.reading.forget())?;
        self.fill_numbers(self.part(slab, "position_ids"), scratch, position_ids);
        self.fill_numbers(self.part(slab, "segment_ids"), scratch, segment_ids);
        self.fill_mask(self.part(slab, "loss_mask"), scratch);
        let rows = if self.full { self.rows } else { (samples.end - samples.start) as usize };
        let (boundaries, longest) = self.fill_ends(rows, self.part(slab, "cu_seqlens"), scratch);
        filled.set_dense(&self.layout, rows);
        filled.set_bytes(self.layout.position("cu_seqlens"), 4 * boundaries);
        filled.positions = samples;
        filled.longest = longest;
        Ok(())
    }

    /// The bytes of a field; empty if there is no such field.
    fn part<'s>(&self, slab: &'s mut [u8], name: &str) -> &'s mut [u8] {
        let bytes = |field: &SlabField| field.offset..field.offset + field.bytes;
        self.layout.field(name).and_then(|field| slab.get_mut(bytes(field))).unwrap_or_default()
    }

    fn fill_tokens(&self, samples: &Range<u64>, out: &mut [u8], scratch: &mut TokenScratch) -> Result<()> {
        let TokenScratch { reading, segments, ends, .. } = scratch;
        segments.clear();
        ends.clear();
        let stride = self.width * self.tokens.token_type().width();
        for (row, sample) in samples.clone().enumerate() {
            let named = |error: Error| error.in_sample(sample);
            let first = segments.len();
            self.order.sample(sample, segments).map_err(named)?;
            let these = segments.get(first..).unwrap_or_default();
            self.check(these).map_err(named)?;
            let mut at = row * stride;
            for segment in these {
                at = self.tokens.want(segment, at, out.len(), reading).map_err(named)?;
            }
            self.pad(out.get_mut(at..(row + 1) * stride).unwrap_or_default());
            ends.push(segments.len());
        }
        self.pad(out.get_mut(ends.len() * stride..).unwrap_or_default());
        ends.resize(self.rows, segments.len());
        self.tokens.finish(out, reading)
    }

    /// Checks that a sample fits a row, and fills it unless there is a padding token.
    fn check(&self, segments: &[Segment]) -> Result<()> {
        let tokens: u64 = segments.iter().map(|segment| u64::from(segment.length)).sum();
        let width = self.width as u64;
        if tokens > width {
            let message = format!("has {tokens} tokens and a row {width}: the order is of longer samples");
            return Err(Error::config(message));
        }
        if tokens < width && self.pad.is_none() {
            let message = format!("has {tokens} tokens of {width}: name a token to pad with");
            return Err(Error::config(message));
        }
        Ok(())
    }

    fn pad(&self, out: &mut [u8]) {
        if !out.is_empty() {
            // The constructor checked that the type holds it.
            let _ = self.tokens.token_type().fill(self.pad.unwrap_or(0), out);
        }
    }

    /// The segments of each row; empty for rows beyond the samples.
    fn rows<'s>(&self, segments: &'s [Segment], ends: &'s [usize]) -> impl Iterator<Item = &'s [Segment]> {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(ends).map(|(start, end)| segments.get(start..*end).unwrap_or_default())
    }

    fn fill_numbers(&self, out: &mut [u8], scratch: &mut TokenScratch, numbers_of: impl Fn(&[Segment], &mut [i32])) {
        let TokenScratch { segments, ends, numbers, .. } = scratch;
        numbers.resize(self.length, 0);
        for (out, row) in out.chunks_exact_mut(self.length * 4).zip(self.rows(segments, ends)) {
            numbers_of(row, numbers);
            write(numbers, out);
        }
    }

    fn fill_mask(&self, out: &mut [u8], scratch: &TokenScratch) {
        for (out, row) in out.chunks_exact_mut(self.length).zip(self.rows(&scratch.segments, &scratch.ends)) {
            let tokens: usize = row.iter().map(|segment| segment.length as usize).sum();
            let (counted, others) = out.split_at_mut(tokens.saturating_sub(1).min(self.length));
            counted.fill(1);
            others.fill(0);
            if self.loss == LossMask::Documents {
                let mut end = 0;
                for segment in row {
                    end += segment.length as usize;
                    if let Some(last) = out.get_mut(end.saturating_sub(1)) {
                        *last = 0;
                    }
                }
            }
        }
    }

    fn fill_ends(&self, rows: usize, out: &mut [u8], scratch: &mut TokenScratch) -> (usize, u32) {
        let TokenScratch { segments, ends, numbers, cumulative, .. } = scratch;
        cumulative.clear();
        if out.is_empty() {
            return (0, 0);
        }
        cumulative.push(0);
        let mut longest = 0;
        for (row, segments) in self.rows(segments, ends).take(rows).enumerate() {
            numbers.clear();
            cu_seqlens(segments, self.length as u32, numbers);
            longest = numbers
                .windows(2)
                .map(|two| two.last().zip(two.first()).map_or(0, |(b, a)| b - a))
                .fold(longest, i32::max);
            let base = (row * self.length) as i32;
            cumulative.extend(numbers.iter().skip(1).map(|end| base + end));
        }
        write(cumulative, out);
        (cumulative.len(), longest as u32)
    }
}

fn write(numbers: &[i32], out: &mut [u8]) {
    for (out, number) in out.as_chunks_mut().0.iter_mut().zip(numbers) {
        *out = number.to_le_bytes();
    }
}
