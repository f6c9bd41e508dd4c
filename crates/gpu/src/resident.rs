//! A dataset in the memory of a GPU. Owns that memory; the order of samples is the loader's.

#![expect(unsafe_code, reason = "the GPU reads memory of the host, which is kept until it has")]

use crate::Gpu;
use packhorse_core::{Cancel, Code, Error, Kind, Result};
use packhorse_order::{Rank, Shuffle};
use packhorse_read::{
    ALIGN, Batch, Dataset, Device, FieldKind, FieldOptions, HeldSamples, Loader, LoaderOptions, Remainder,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The decoded fields of all samples of a dataset, in the memory of a GPU. A loader with
/// [`Upload::resident`](crate::Upload::resident) has the batches, the order and the states of one that reads the dataset, at the
/// speed of the GPU's memory: nothing is read, decoded or sent but a few kilobytes a batch.
///
/// ```no_run
/// use packhorse_core::Result;
/// use packhorse_gpu::transforms::Pictures;
/// use packhorse_gpu::{Cuda, Resident, Upload};
/// use packhorse_read::{Dataset, FieldKind, FieldOptions, Loader, LoaderOptions};
/// use packhorse_transform::image::View;
/// use std::sync::Arc;
///
/// fn train(dataset: Dataset) -> Result<()> {
///     let gpu = Cuda::from_environment()?;
///     // Pictures are kept as bytes, a little larger than they are used.
///     let fields = [FieldOptions::new("jpg", FieldKind::Picture(View::squash(256))), FieldOptions::new("cls", FieldKind::Auto)];
///     let options = LoaderOptions { epochs: None, seed: 7, ..LoaderOptions::new(256) };
///     let resident = Arc::new(Resident::load(&gpu, &dataset, &fields, &options)?);
///     let upload = Upload::resident(&resident, vec![Arc::new(Pictures::new("jpg").random_crop(224).flip(0.5))])?;
///     for batch in Loader::new(dataset, &fields, &options, upload)? {
///         let pixels = batch?.unordered_view("jpg");
///         // …
///     }
///     Ok(())
/// }
/// ```
pub struct Resident<G: Gpu> {
    gpu: G,
    samples: Arc<HeldSamples>,
    /// The slabs that `samples` has the addresses of.
    _memory: Vec<G::Memory>,
    bytes: usize,
}

/// Copies in flight while samples are loaded.
const IN_FLIGHT: usize = 2;

impl<G: Gpu + Clone> Resident<G> {
    /// Reads and decodes all samples once, in stored order, with the threads, caches, limits and error policy of `options`. The
    /// fields are those of the loaders to come; keys for random draws are made for each batch and not kept.
    ///
    /// Errors: a field that differs from epoch to epoch, such as a random crop, which the GPU must make instead
    /// (kind `Config`); more samples than memory, with the sizes (kind `Limit`); those of the loader and of the GPU.
    pub fn load(gpu: &G, dataset: &Dataset, fields: &[FieldOptions], options: &LoaderOptions) -> Result<Self> {
        Self::load_until(gpu, dataset, fields, options, &Cancel::default())
    }

    /// The same, which ends early with an error (`cancelled`) when `cancel` says so.
    ///
    /// Errors: also those of [`load`](Self::load).
    pub fn load_until(
        gpu: &G,
        dataset: &Dataset,
        fields: &[FieldOptions],
        options: &LoaderOptions,
        cancel: &Cancel,
    ) -> Result<Self> {
        if let Some(field) = fields.iter().find(|field| field.kind.is_random()) {
            let message = format!("field {} is cut or mirrored at random, so it is another in each epoch", field.name);
            let hint =
                "keep it with a fixed view; the GPU cuts and mirrors pictures that every sample has, but no masks";
            return Err(Error::config(message).in_field(&field.name).hint(hint));
        }
        let fields: Vec<_> = fields.iter().filter(|field| field.kind != FieldKind::Draws).cloned().collect();
        let keep = Keep(Arc::new(Mutex::new(Kept {
            stream: gpu.urgent_stream()?,
            gpu: gpu.clone(),
            total: dataset.len(),
            samples: HeldSamples::new(dataset, &[]),
            memory: Vec::new(),
            bytes: 0,
            in_flight: VecDeque::new(),
        })));
        let once = LoaderOptions {
            rank: Rank::default(),
            shuffle: Some(Shuffle::Sequential),
            epochs: Some(1),
            state: None,
            remainder: Remainder::Uneven,
            // Loaders leave out what they want.
            skip: Arc::default(),
            ..options.clone()
        };
        let mut loader = Loader::new(dataset.clone(), &fields, &once, keep.clone())?;
        keep.kept().samples = HeldSamples::new(dataset, loader.fields());
        let loaded = loader.try_for_each(|batch| batch.and_then(|()| cancel.check()));
        drop(loader);
        let mut kept = keep.kept();
        let settled = kept.settle(0);
        loaded.and(settled)?;
        let samples = Arc::new(std::mem::replace(&mut kept.samples, HeldSamples::new(dataset, &[])));
        Ok(Self { gpu: gpu.clone(), samples, _memory: std::mem::take(&mut kept.memory), bytes: kept.bytes })
    }
}

impl<G: Gpu> Resident<G> {
    /// The GPU that has the samples.
    pub fn gpu(&self) -> &G {
        &self.gpu
    }

    /// The samples that were kept, and where.
    pub fn samples(&self) -> &Arc<HeldSamples> {
        &self.samples
    }

    /// The bytes of the GPU's memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<G: Gpu> std::fmt::Debug for Resident<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resident")
            .field("samples", &self.samples.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// The device of the loader that reads the samples: keeps each batch.
#[derive(Clone)]
struct Keep<G: Gpu>(Arc<Mutex<Kept<G>>>);

struct Kept<G: Gpu> {
    gpu: G,
    stream: G::Stream,
    /// The samples of the dataset.
    total: u64,
    samples: HeldSamples,
    memory: Vec<G::Memory>,
    bytes: usize,
    in_flight: VecDeque<(Batch<G::Pinned>, G::Event)>,
}

impl<G: Gpu> Keep<G> {
    fn kept(&self) -> MutexGuard<'_, Kept<G>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<G: Gpu> Kept<G> {
    /// Waits until at most `most` copies are in flight.
    fn settle(&mut self, most: usize) -> Result<()> {
        while self.in_flight.len() > most {
            if let Some((batch, copied)) = self.in_flight.pop_front()
                && let Err(error) = self.gpu.synchronize(&copied)
            {
                // Leaked: the GPU may still read it.
                std::mem::forget(batch);
                return Err(error);
            }
        }
        Ok(())
    }

    /// An error if the rest of the samples will not fit, as far as the batches so far tell.
    fn fits(&self, bytes: usize, rows: usize) -> Result<()> {
        let Some(free) = self.gpu.free_memory()? else { return Ok(()) };
        // Batches and a model need some of it, too.
        let free = free - free / 20;
        let left = self.total.saturating_sub(self.samples.len());
        let (so_far, rows) = (self.bytes + bytes, self.samples.len() + rows as u64);
        let a_sample = so_far as f64 / rows.max(1) as f64;
        let needed = (a_sample * left as f64) as u64;
        // A twentieth of the samples tells enough of the rest.
        let tells = rows >= self.total / 20 || bytes > free;
        if needed <= free as u64 || !tells {
            return Ok(());
        }
        let (all, free) = (a_sample * self.total as f64 / 1e9, (free + self.bytes) as f64 / 1e9);
        let message = format!(
            "{} samples take about {all:.1} GB of the GPU's memory, and {free:.1} GB of it are free",
            self.total
        );
        let hint = "keep smaller pictures, fewer fields, or a part of the dataset; or load batches as they are needed";
        Err(Error::new(Kind::Limit, message).with_code(Code::GpuFailed).hint(hint))
    }

    fn keep(&mut self, batch: Batch<G::Pinned>) -> Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        // Rows are read sixteen bytes at a time.
        let bytes = batch.used().next_multiple_of(ALIGN);
        self.fits(bytes, batch.rows())?;
        self.settle(IN_FLIGHT - 1)?;
        let (memory, copied) = (self.gpu.memory(bytes)?, self.gpu.event()?);
        self.samples.push(&batch, self.gpu.address(&memory))?;
        let used = batch.slab().get(..batch.used()).ok_or_else(|| Error::bug("a batch that ends behind its slab"))?;
        // SAFETY: the memory is new and large enough, and kept from here on. The batch is kept until the copy is complete.
        let sent = unsafe { self.gpu.upload(used, &memory, &self.stream) };
        let sent = sent.and_then(|()| self.gpu.record(&copied, &self.stream));
        self.memory.push(memory);
        self.bytes += bytes;
        if let Err(error) = sent {
            if self.gpu.drain().is_err() {
                std::mem::forget(batch);
            }
            return Err(error);
        }
        self.in_flight.push_back((batch, copied));
        Ok(())
    }
}

impl<G: Gpu> Drop for Kept<G> {
    fn drop(&mut self) {
        if self.settle(0).is_err() {
            // The GPU may still use the batches in flight.
            std::mem::take(&mut self.in_flight).into_iter().for_each(std::mem::forget);
            std::mem::take(&mut self.memory).into_iter().for_each(std::mem::forget);
        }
    }
}

impl<G: Gpu> Device for Keep<G> {
    type Host = G::Pinned;
    type Batch = ();

    fn host(&mut self, bytes: usize) -> Result<G::Pinned> {
        self.kept().gpu.pinned(bytes)
    }

    fn upload(&mut self, batch: Batch<G::Pinned>) -> Result<()> {
        self.kept().keep(batch)
    }
}
