//! Trial packing: packs a small part of a plan, discards the result, and sizes the shards by it.

use crate::OnError;
use crate::block_reader::BlockReader;
use crate::conversion::Conversion;
use crate::inputs::Inputs;
use crate::ordered_transformer::OrderedTransformer;
use crate::pack_context::PackContext;
use crate::plan::{Estimate, Growth, LONG_TEXT, Plan, Segment, TEXT, TrialPiece};
use crate::read_ahead::{BlockRequests, ReadAheadItem};
use crate::sample_block::SampleBlock;
use crate::spans::TARGET;
use arrow_array::cast::AsArray;
use packhorse_core::{Error, KEY, Kind, Outlet, PatchableWriter, Result, Rows, ScratchFile};
use packhorse_dataset::{PathText, PlanEntry};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Packs pieces of `plan`, discards them, and divides the plan again so that its shards get the requested size. The
/// transforms of `context` must be those of the plan. Equal inputs give equal plans.
///
/// Returns `None` without a trial if sizes are known, if one shard is enough, and if nothing can be tried: members of
/// compressed archives, and text compressed as a whole.
///
/// Errors: failed I/O, a changed input, `Cancelled`, and a value over the limits that `policy` does not skip: packing
/// would fail, and with other limits the plan would be another. Other bad inputs are ignored.
pub(crate) fn fit(context: &PackContext<'_>, plan: &mut Plan, policy: OnError) -> Result<Option<Estimate>> {
    let conversion = Conversion::of(context, plan.header(), plan.starts_with_rows())?;
    let sizes = plan.sizes(&*conversion.sink, context.transforms);
    let Some(total) = plan.guess(&sizes) else { return Ok(None) };
    let roots: Vec<PathBuf> = plan.header().roots.iter().map(PathText::to_path).collect();
    // Nothing that needs room on a disk is tried.
    let nowhere = PathBuf::new();
    let inputs = Inputs::new(&*context.store, &roots, &nowhere, conversion.limits, context.cancel).verifying(false);
    let inputs = inputs.keeping(context.kept, conversion.limits);
    let mut reader = conversion.block_reader(context, plan.header(), inputs, OnError::Skip);
    // Little is read of each piece: what lies behind it would be read for nothing.
    reader.inner.ahead = reader.inner.ahead.min(AHEAD);
    reader.thorough = false;
    let tried = |text: u64| {
        let segments = plan.segments(&sizes, total, text);
        let pieces: Vec<&TrialPiece> = segments.iter().flat_map(|segment| &segment.pieces).collect();
        let span = tracing::debug_span!(target: TARGET, "trial", pieces = pieces.len());
        let packed = span.in_scope(|| packed(&conversion, &reader, &pieces, policy))?;
        Ok::<_, Error>((segments, packed))
    };
    let (mut segments, mut packed) = tried(TEXT)?;
    let given = packed.iter().flatten().filter_map(|piece| piece.given).reduce(|a, b| a + b);
    if given == Some(0.0) {
        (segments, packed) = tried(LONG_TEXT)?;
    }
    let rows: Vec<&Rows> = packed.iter().flatten().flat_map(|packed| &packed.rows).collect();
    let (fixed, whole) = (passing(written(&conversion, &[]))?, passing(written(&conversion, &rows))?);
    let measured: Vec<_> = packed.iter().map(|piece| piece.as_ref().map(|piece| (piece.bytes, piece.given))).collect();
    let growth = fixed.zip(whole).and_then(|ends| growth(&segments, &measured, ends, sizes.grain));
    let Some(growth) = growth else { return Ok(None) };
    let (largest, error) = plan.divide_again(&sizes, &growth);
    Ok(Some(Estimate { largest, error }))
}

/// Packs each piece. Pieces in one frame of compressed text are read in order, so that it is decompressed once.
fn packed(
    conversion: &Conversion,
    reader: &BlockReader<'_>,
    pieces: &[&TrialPiece],
    policy: OnError,
) -> Result<Vec<Option<PackedPiece>>> {
    let frame = |piece: &TrialPiece| {
        let piece = piece.entries.first()?.fields.first()?;
        piece.seek_point.map(|inside| (piece.root, piece.path.clone(), inside))
    };
    let done: Vec<OnceLock<Result<Option<PackedPiece>>>> = pieces.iter().map(|_| OnceLock::new()).collect();
    let places: Vec<_> = pieces.iter().zip(&done).collect();
    rayon::scope(|scope| {
        for chain in places.chunk_by(|(a, _), (b, _)| frame(a).is_some_and(|a| frame(b) == Some(a))) {
            scope.spawn(move |scope| {
                for (piece, done) in chain {
                    let blocks = read(reader, &piece.entries);
                    scope.spawn(move |_| {
                        let packed = blocks.and_then(|blocks| PackedPiece::of(conversion, reader, piece, blocks));
                        let _ = done.set(match packed {
                            Err(e) if e.kind() == Kind::Limit && policy == OnError::Fail => Err(e),
                            packed => passing(packed),
                        });
                    });
                }
            });
        }
    });
    done.into_iter().map(|done| done.into_inner().unwrap_or(Ok(None))).collect()
}

/// Reads the blocks of some entries.
fn read(reader: &BlockReader<'_>, entries: &[PlanEntry]) -> Result<Vec<SampleBlock>> {
    let mut blocks = Vec::new();
    let mut push = |block: SampleBlock| {
        blocks.push(block);
        Ok(())
    };
    // In blocks as large as those of packing, which limits count for.
    for request in BlockRequests::new(entries.iter().cloned().map(Ok), false) {
        match request? {
            ReadAheadItem::Run(runs) => reader.run(&runs, OrderedTransformer::raw(&mut push))?,
            ReadAheadItem::Block(samples) => push(reader.read(samples)?)?,
            ReadAheadItem::Large(sample) => push(reader.read(vec![sample])?)?,
        }
    }
    Ok(blocks)
}

/// Drops errors of inputs: packing reports them later.
fn passing<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Err(e) if matches!(e.kind(), Kind::Cancelled | Kind::Changed | Kind::Environment | Kind::Bug) => Err(e),
        done => Ok(done.ok()),
    }
}

/// The most bytes that a source reads ahead in a trial.
const AHEAD: u64 = 16 << 20;

/// Packed entries.
struct PackedPiece {
    rows: Vec<Rows>,
    /// The bytes of a shard with these rows.
    bytes: u64,
    given: Given,
}

/// Of a piece of text the bytes of its documents, before the transforms, per byte of its range. Its documents are those
/// that start there: of long ones none, or more than its range. `None` for other pieces.
type Given = Option<f64>;

impl PackedPiece {
    fn of(
        conversion: &Conversion,
        reader: &BlockReader<'_>,
        piece: &TrialPiece,
        blocks: Vec<SampleBlock>,
    ) -> Result<Self> {
        let told = piece.entries.iter().any(|entry| entry.json.is_some()).then_some("json");
        let text = blocks.iter().flat_map(|block| &block.rows).map(|rows| text_bytes(rows, told)).sum::<u64>() as f64;
        let positions = piece.positions().filter(|positions| *positions > 0);
        let given = positions.map(|positions| text / positions as f64);
        let mut rows = Vec::new();
        for block in blocks {
            rows.extend(reader.transformed(block)?.rows);
        }
        let bytes = written(conversion, &rows.iter().collect::<Vec<_>>())?;
        Ok(Self { rows, bytes, given })
    }
}

/// The bytes of the texts of rows, without keys and the column of metadata.
fn text_bytes(rows: &Rows, metadata: Option<&str>) -> u64 {
    let schema = rows.schema();
    let is_text = |name: &str| name != KEY && Some(name) != metadata;
    let columns = schema.fields().iter().zip(rows.columns()).filter(|(field, _)| is_text(field.name()));
    let texts = columns.filter_map(|(_, column)| column.as_string_view_opt());
    texts.flat_map(|texts| texts.lengths()).map(u64::from).sum()
}

/// The bytes of the data file of a shard with these rows.
fn written(conversion: &Conversion, rows: &[&Rows]) -> Result<u64> {
    let mut outlet = CountingOutlet { suffix: conversion.sink.suffix(), bytes: Arc::default() };
    let mut writer = conversion.sink.create(&conversion.written, &mut outlet)?;
    rows.iter().try_for_each(|rows| writer.push(rows))?;
    writer.finish()?;
    Ok(outlet.bytes.load(Ordering::Relaxed))
}

/// The growth of guessed bytes, by the `measured` bytes of both pieces of each segment. Segments without a measurement
/// grow as the others; `None` without any measurement. An empty shard has `fixed` bytes, and a shard of all pieces
/// `whole`: less than separate ones if the sink compresses or pads blocks.
fn growth(
    segments: &[Segment],
    measured: &[Option<(u64, Given)>],
    (fixed, whole): (u64, u64),
    grain: u64,
) -> Option<Growth> {
    let usual = usual_of_long(&measured.iter().flatten().filter_map(|(_, given)| *given).collect::<Vec<_>>());
    // Of each piece: guess and bytes. Of long documents the guess is for those that it has, not for its range.
    let known = |(piece, measured): (&TrialPiece, &Option<(u64, Given)>)| {
        let (bytes, given) = (*measured)?;
        let part = given.zip(usual).map_or(1.0, |(given, usual)| given / usual);
        let guess = piece.guess as f64 / grain as f64 * part;
        (guess > 0.0).then(|| (guess, bytes.saturating_sub(fixed) as f64))
    };
    let pieces: Vec<Option<(f64, f64)>> =
        segments.iter().flat_map(|segment| &segment.pieces).zip(measured).map(known).collect();
    let ratio = |pieces: &[Option<(f64, f64)>]| {
        let sum = pieces.iter().flatten().fold((0.0, 0.0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1));
        (sum.0 > 0.0).then(|| sum.1 / sum.0)
    };
    let overall = ratio(&pieces).filter(|ratio| *ratio > 0.0)?;
    let apart: f64 = pieces.iter().flatten().map(|(_, bytes)| bytes).sum();
    let together = whole.saturating_sub(fixed) as f64 / apart;
    let ratios = pieces.chunks(2).map(|pair| ratio(pair).unwrap_or(overall) * together);
    let segments = segments.iter().map(|segment| segment.end).zip(ratios).collect();
    let errors: Vec<f64> = pieces.chunks(2).filter_map(|pair| error_of(pair, overall)).collect();
    let error = (errors.iter().fold(0.0, |sum, e| sum + e * e) / errors.len().max(1) as f64).sqrt();
    Some(Growth { segments, fixed, error })
}

/// The estimated bytes of documents per byte of text, plus two standard errors: small shards are better than too large
/// ones. `None` unless documents are so long that pieces hold none, or much more than their range.
fn usual_of_long(given: &[f64]) -> Option<f64> {
    if !given.iter().any(|given| *given == 0.0 || *given > 1.5) {
        return None;
    }
    let n = given.len() as f64;
    let mean = given.iter().sum::<f64>() / n;
    let error = given.iter().map(|given| (given - mean).powi(2)).sum::<f64>().sqrt() / n;
    Some((mean + 2.0 * error).min(1.0))
}

/// The standard error of the mean of two measurements, relative to `usual`.
fn error_of(pair: &[Option<(f64, f64)>], usual: f64) -> Option<f64> {
    let [Some(first), Some(second)] = pair else { return None };
    Some((first.1 / first.0 - second.1 / second.0).abs() / 2.0 / usual)
}

/// An outlet that counts the bytes of the file with this suffix and stores nothing.
struct CountingOutlet {
    suffix: &'static str,
    bytes: Arc<AtomicU64>,
}

impl CountingOutlet {
    fn file(&self, suffix: &str) -> ByteCounter {
        ByteCounter(if suffix == self.suffix { self.bytes.clone() } else { Arc::default() })
    }
}

impl Outlet for CountingOutlet {
    fn stream(&mut self, suffix: &str) -> Result<Box<dyn Write + Send>> {
        Ok(Box::new(self.file(suffix)))
    }

    fn patchable(&mut self, suffix: &str) -> Result<Box<dyn PatchableWriter>> {
        Ok(Box::new(self.file(suffix)))
    }

    fn scratch(&mut self) -> Result<Box<dyn ScratchFile>> {
        Ok(Box::new(Vec::new()))
    }
}

struct ByteCounter(Arc<AtomicU64>);

impl Write for ByteCounter {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.fetch_add(buf.len() as u64, Ordering::Relaxed);
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl PatchableWriter for ByteCounter {
    fn finish(self: Box<Self>, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(end: u64, guesses: [u64; 2]) -> Segment {
        Segment { end, pieces: guesses.map(|guess| TrialPiece { entries: Vec::new(), guess }) }
    }

    #[test]
    fn each_segment_grows_as_its_pieces_did() {
        let segments = [segment(100, [10, 10]), segment(200, [10, 0]), segment(300, [10, 10])];
        let measured = [Some((25, None)), Some((15, None)), Some((35, None)), Some((9, None)), None, None];
        let growth = growth(&segments, &measured, (5, 35), 1).unwrap();
        // 30 guessed bytes became 60 in three files and 30 in one, beside 5 fixed bytes of each file.
        assert_eq!(growth.segments, [(100, 0.75), (200, 1.5), (300, 1.0)]);
        assert_eq!(growth.fixed, 5);
        // Ratios of 2 and 1, where 2 is usual; the other segments have at most one measurement.
        assert!((growth.error - 0.25).abs() < 1e-9, "{}", growth.error);
    }

    #[test]
    fn of_long_documents_those_that_a_piece_has_are_guessed() {
        // One document of three ranges in every third piece.
        let segments = [segment(100, [10, 10]), segment(200, [10, 10]), segment(300, [10, 10])];
        let (none, one) = (Some((0, Some(0.0))), Some((60, Some(3.0))));
        let found = growth(&segments, &[one, none, none, none, none, one], (0, 120), 1).unwrap();
        assert_eq!(found.segments, [(100, 2.0), (200, 2.0), (300, 2.0)]);
        assert!(found.error == 0.0 && found.error.is_sign_positive());
        // Half of the text is documents.
        let (none, one) = (Some((0, Some(0.0))), Some((20, Some(1.0))));
        let pieces = [none, one].repeat(50);
        let segments: Vec<Segment> = (0..50).map(|i| segment(i, [10, 10])).collect();
        let ratio = growth(&segments, &pieces, (0, 1000), 1).unwrap().segments[0].1;
        assert!((1.0..1.25).contains(&ratio), "{ratio}");
        // Documents that are short beside their pieces.
        let short = [Some((10, Some(0.9))), Some((12, Some(1.1))), None, None, None, None];
        assert_eq!(growth(&segments[..3], &short, (0, 22), 1).unwrap().segments[0].1, 1.1);
    }

    #[test]
    fn nothing_known_is_no_growth() {
        assert!(growth(&[segment(100, [10, 10])], &[None, None], (0, 0), 1).is_none());
        assert!(growth(&[], &[], (0, 0), 1).is_none());
    }
}
