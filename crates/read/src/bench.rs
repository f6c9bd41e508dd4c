//! Measures the throughput of each stage of reading and of all together, to find the slowest.

use crate::batch_metadata::BatchMetadata;
use crate::dataset::Shard;
use crate::epoch_order::EpochOrder;
use crate::pipeline::{decode_span, fetch};
use crate::sample_work::{Feed, SampleWork, WorkerState};
use crate::spans::TARGET;
use crate::work::Work;
use crate::{Dataset, FieldOptions, Host, Loader, LoaderOptions, SampleBlock, Value};
use packhorse_core::{Error, Input, Result, counted};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bytes per read in the stage `raw`.
const PIECE: u64 = 4 << 20;
/// Bytes of samples that the stage `decode` decodes repeatedly.
const KEPT: usize = 256 << 20;

/// The result of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// `raw`: all bytes of the shards, in large pieces. `parse`: samples in the loader's order, whose field bytes are
    /// located (and read, unless mapped) but not decoded. `decode`: samples in memory, decoded into slabs. `batch`: the
    /// loader.
    pub stage: &'static str,
    /// Samples; for `raw`, estimated from the bytes.
    pub samples: u64,
    /// Bytes: of shards for `raw`, of stored fields for `parse` and `decode`, of slabs for `batch`.
    pub bytes: u64,
    /// Seconds of wall clock.
    pub seconds: f64,
}

/// Measures each stage for about this time, on the threads of `options`, and calls `each` with its result.
///
/// Errors: those of [`Loader::new`] and of reading.
pub fn measure(
    dataset: &Dataset,
    fields: &[FieldOptions],
    options: &LoaderOptions,
    time: Duration,
    each: &mut dyn FnMut(&Measured),
) -> Result<()> {
    let options = LoaderOptions { epochs: None, ..options.clone() };
    let order = EpochOrder::of(dataset, &options)?;
    let (work, _) = SampleWork::of_dataset(
        dataset.clone(),
        (fields, &[]),
        order,
        0,
        &LoaderOptions { state: None, ..options.clone() },
        None,
    )?;
    if work.steps.count == 0 {
        let text =
            format!("the dataset has {}, fewer than a batch of {}", counted(dataset.len(), "sample"), options.batch);
        return Err(Error::config(text).hint("make `batch` smaller"));
    }
    let threads = options.threads.max(1);
    each(&raw(&work, threads, time)?);
    each(&parse(&work, threads, time)?);
    each(&decode(&work, threads, time)?);
    drop(work);
    each(&batch(dataset, fields, &options, time)?);
    Ok(())
}

/// Calls `work` on several threads until time is up or nothing is left; it adds samples and bytes.
fn timed(
    stage: &'static str,
    threads: usize,
    time: Duration,
    work: impl Fn(u64, &mut WorkerState) -> Result<Option<(u64, u64)>> + Sync,
) -> Result<Measured> {
    let (next, samples, bytes) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (over, failed) = (AtomicBool::new(false), Mutex::new(None));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut kept = WorkerState::default();
                while !over.load(Ordering::Relaxed) && start.elapsed() < time {
                    match work(next.fetch_add(1, Ordering::Relaxed), &mut kept) {
                        Ok(Some((more, weight))) => {
                            samples.fetch_add(more, Ordering::Relaxed);
                            bytes.fetch_add(weight, Ordering::Relaxed);
                        }
                        Ok(None) => over.store(true, Ordering::Relaxed),
                        Err(error) => {
                            over.store(true, Ordering::Relaxed);
                            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        }
                    }
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(Measured {
            stage,
            samples: samples.into_inner(),
            bytes: bytes.into_inner(),
            seconds: start.elapsed().as_secs_f64(),
        }),
    }
}

fn raw(work: &SampleWork, threads: usize, time: Duration) -> Result<Measured> {
    let Feed::Dataset { reader, .. } = &work.feed else { return Err(Error::bug("a stream has no shards")) };
    let (shards, counters) = (reader.dataset().shards(), work.counters());
    // For each shard the number of pieces up to its end.
    let ends = shards.iter().scan(0u64, |end, shard| {
        *end = end.saturating_add(shard.main_bytes().div_ceil(PIECE));
        Some(*end)
    });
    let ends: Vec<u64> = ends.collect();
    let buffers: Mutex<Vec<Vec<u8>>> = Mutex::default();
    let files: Vec<OnceLock<Arc<dyn Input>>> = shards.iter().map(|_| OnceLock::new()).collect();
    let mut measured = timed("raw", threads, time, |step, _| {
        let number = ends.partition_point(|end| *end <= step);
        let Some(shard) = shards.get(number) else { return Ok(None) };
        let before = number.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
        let known = files.get(number).and_then(OnceLock::get).cloned();
        let input: Arc<dyn Input> = match known {
            Some(input) => input,
            None => {
                let opened = match shard.open_data()? {
                    Some(data) => data.into(),
                    None => reader.input(number as u32)?,
                };
                files.get(number).map_or(&opened, |file| file.get_or_init(|| Arc::clone(&opened))).clone()
            }
        };
        let at = (step - before) * PIECE;
        let mut buffer = buffers.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        buffer.resize(PIECE as usize, 0);
        let len = PIECE.min(shard.main_bytes().saturating_sub(at));
        let span = tracing::debug_span!(target: TARGET, "read_raw", fname = input.name(), offset = at, size = len);
        let piece = buffer.get_mut(..len as usize).unwrap_or_default();
        span.in_scope(|| counters.read.of(|| input.read_at(at, piece)))?;
        counters.read_bytes.add(len);
        buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        Ok(Some((0, len)))
    })?;
    let sum = |of: fn(&Shard) -> u64| shards.iter().fold(0u64, |sum, shard| sum.saturating_add(of(shard)));
    let share = measured.bytes as f64 / sum(Shard::main_bytes).max(1) as f64;
    measured.samples = (share * sum(|shard| shard.samples) as f64) as u64;
    Ok(measured)
}

/// Bytes of the fields of all samples that were fetched.
fn payload(fetched: &SampleBlock) -> u64 {
    let columns = fetched.columns;
    let values = (0..fetched.len()).flat_map(|row| (0..columns).filter_map(move |column| fetched.value(row, column)));
    let bytes = values.map(|value| match value {
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::Row(array, _) => array.get_buffer_memory_size() as u64 / array.len().max(1) as u64,
    });
    bytes.sum()
}

fn parse(work: &SampleWork, threads: usize, time: Duration) -> Result<Measured> {
    let steps = work.steps.in_first;
    timed("parse", threads, time, |step, kept| {
        if step >= steps {
            return Ok(None);
        }
        let Some(fetched) = fetch(work, step, kept).0? else { return Ok(None) };
        let done = (fetched.len() as u64, payload(&fetched));
        work.done(fetched);
        Ok(Some(done))
    })
}

fn decode(work: &SampleWork, threads: usize, time: Duration) -> Result<Measured> {
    let (mut held, mut kept, mut weight) = (Vec::new(), WorkerState::default(), 0);
    for step in 0..work.steps.in_first {
        let Some(fetched) = fetch(work, step, &mut kept).0? else { break };
        weight += work.weight(&fetched).max(usize::try_from(payload(&fetched)).unwrap_or(usize::MAX));
        held.push(fetched);
        if weight > KEPT {
            break;
        }
    }
    let slabs: Mutex<Vec<(Vec<u8>, BatchMetadata)>> = Mutex::default();
    timed("decode", threads, time, |step, kept| {
        let Some(fetched) = held.get((step % held.len().max(1) as u64) as usize) else { return Ok(None) };
        let found = slabs.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let (mut slab, mut filled) = found.unwrap_or_default();
        let (span, start) = (decode_span(step), Instant::now());
        while let Some(bytes) = work.collate(step, fetched, &mut slab, &mut filled, kept)? {
            slab.resize(bytes, 0);
        }
        work.counters().decode.add(start.elapsed());
        span.record("samples", filled.rows);
        drop(span);
        let done = (filled.rows as u64, payload(fetched));
        slabs.lock().unwrap_or_else(PoisonError::into_inner).push((slab, filled));
        Ok(Some(done))
    })
}

fn batch(dataset: &Dataset, fields: &[FieldOptions], options: &LoaderOptions, time: Duration) -> Result<Measured> {
    let mut loader = Loader::new(dataset.clone(), fields, options, Host::default())?;
    let (mut samples, mut bytes) = (0, 0);
    let start = Instant::now();
    while start.elapsed() < time
        && let Some(batch) = loader.next()
    {
        let batch = batch?;
        samples += batch.rows() as u64;
        bytes += batch.used() as u64;
    }
    Ok(Measured { stage: "batch", samples, bytes, seconds: start.elapsed().as_secs_f64() })
}
