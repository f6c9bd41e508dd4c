//! Decodes and resizes a field of JPEGs.

use super::callers::Callers;
use super::chunk::{Picture, fitting};
use super::cpu::{Cpu, MOST_THREADS};
use super::engine::Engine;
use super::lane::Lane;
use super::lane_batch::LaneBatch;
use super::source::Source;
use super::survey::{Surveyor, is_here};
use super::{Backend, JpegOptions, NvJpeg};
use crate::Cuda;
use crate::kernels::{Flip, Picks, RaggedPictures};
use crate::transforms::Fields;
use crate::transforms::{Commands, DeviceTransform, Output, batch, beside, field, keys};
use packhorse_core::{DataType, Error, Kind, Result};
use packhorse_read::{FieldOptions, Layout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The fewest headers for a thread of its own.
const LOOKED_AT: usize = 16;

/// Decodes the JPEGs of each batch and resizes them to one size.
pub struct Jpegs {
    gpu: Cuda,
    options: JpegOptions,
    work: Mutex<Work>,
    counts: Counts,
}

struct Work {
    /// In the order of their last use.
    lanes: [Lane; 2],
    engines: Vec<Engine>,
    /// As many as looked at a batch side by side.
    surveyors: Vec<Surveyor>,
    callers: Callers,
    cpu: Cpu,
    pictures: Vec<Picture>,
}

impl Jpegs {
    /// A decoder for batches that an [`Upload`](crate::Upload) sends to this GPU.
    ///
    /// Errors: invalid settings (kind `Config`); none of the backends on this GPU (kind `Unsupported`); those of the
    /// GPU.
    pub fn new(gpu: &Cuda, library: &NvJpeg, options: JpegOptions) -> Result<Self> {
        let resize = &options.resize;
        if resize.channels != 3 || resize.flip == Flip::Given {
            return Err(Error::config("JPEGs become three channels, and flips are drawn or never: ask for that"));
        }
        if !(0.0..=1.0).contains(&options.cpu_share) {
            return Err(Error::config(format!("a share of {} for the CPU: give 0 to 1", options.cpu_share)));
        }
        // Refuses invalid settings early.
        let somewhere = RaggedPictures { values: 256, bytes: 0, offsets: 256, shapes: 256 };
        resize.launch(&somewhere, &Picks { keys: 256, ..Picks::default() }, 256, 256, 1)?;
        let (mut engines, mut refusal) = (Vec::new(), None);
        for backend in &options.backends {
            match Engine::new(gpu, &library.calls, *backend) {
                Ok(engine) => engines.push(engine),
                Err(error) if error.kind() == Kind::Unsupported => refusal = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let Some(refusal) = refusal.filter(|_| engines.is_empty()) {
            return Err(refusal);
        }
        let cpu = Cpu::new(options.threads, options.limits);
        let lanes = [Lane::new(gpu, &engines)?, Lane::new(gpu, &engines)?];
        let (callers, surveyors) = (Callers::new(options.calls), vec![Surveyor::new(&engines, options.limits)?]);
        let work = Mutex::new(Work { lanes, engines, surveyors, callers, cpu, pictures: Vec::new() });
        Ok(Self { gpu: gpu.clone(), options, work, counts: Counts::default() })
    }

    /// Rows of a full batch.
    fn rows(&self, layout: &Layout) -> Result<u32> {
        let name = &self.options.from;
        let from = field(layout, name, &[DataType::UInt8])?;
        let described = |part: &str| layout.field(&format!("{name}.{part}")).is_some_and(|field| field.part);
        if described("lengths") {
            return Err(Error::config(format!(
                "field {name} has several pictures a sample, and the GPU decodes one of each"
            )));
        }
        if !from.ragged || from.shape.len() != 1 || described("shape") {
            let text = "holds no JPEGs: ask the loader for its bytes as they are (FieldKind::Bytes)";
            return Err(Error::config(format!("field {name} {text}")));
        }
        Ok(batch(field(layout, &format!("{name}.offsets"), &[DataType::Int64])?)?.saturating_sub(1))
    }

    /// The backends in use.
    pub fn backends(&self) -> Vec<Backend> {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.engines.iter().map(|engine| engine.backend).collect()
    }

    /// The number of pictures decoded by each backend.
    pub fn counts(&self) -> JpegCounts {
        let [hardware, hybrid, cpu, failed] = self.counts.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        JpegCounts { hardware, hybrid, cpu, failed }
    }

    /// Looks at all pictures, on several threads.
    fn survey(&self, source: &Source<'_>, work: &mut Work, rows: usize) -> Result<()> {
        let Work { engines, surveyors, callers, pictures, .. } = work;
        let parts = self.options.calls.min(MOST_THREADS).min(rows / LOOKED_AT).max(1);
        while surveyors.len() < parts {
            surveyors.push(Surveyor::new(engines, self.options.limits)?);
        }
        let JpegOptions { required, cpu_share, .. } = self.options;
        let each = rows.div_ceil(parts).max(1);
        let mut shares: Vec<_> = surveyors
            .iter_mut()
            .zip((0..rows).step_by(each))
            .map(|(surveyor, first)| (surveyor, first..rows.min(first + each), Ok(Vec::new())))
            .collect();
        callers.each(&mut shares, |(surveyor, rows, found)| {
            let look = |row| {
                let place = source.place(row)?;
                let bytes = source.bytes(place.clone());
                let picture = surveyor.look(bytes, place, required, is_here(row, cpu_share));
                picture.map_err(|error| source.named(error, row))
            };
            *found = rows.clone().map(look).collect();
        })?;
        pictures.clear();
        for (.., found) in shares {
            pictures.extend(found?);
        }
        Ok(())
    }

    /// Decodes the first of `pictures` that fit into a lane; returns how many.
    fn part(
        &self,
        source: &Source<'_>,
        work: &mut Work,
        first: usize,
        scratch: u64,
        commands: &mut dyn Commands,
    ) -> Result<usize> {
        let stream = commands.stream().ok_or_else(|| Error::unsupported("nvJPEG needs a GPU of NVIDIA's"))?;
        let Work { lanes, engines, callers, cpu, pictures, .. } = work;
        lanes.rotate_left(1);
        let [_, lane] = lanes;
        let pictures = pictures.get_mut(first..).unwrap_or_default();
        let (pictures, _) = pictures.split_at_mut(fitting(pictures, self.options.memory));
        let count = pictures.len();
        // SAFETY: it is the stream of transforms, which lives as long as batches are sent.
        let stream = unsafe { self.gpu.stream_from_raw(stream) }?;
        lane.wait()?;
        let (options, counts) = (&self.options, &self.counts);
        let stream = &stream;
        let mut rows = LaneBatch { options, counts, source, lane, engines, callers, pictures, first, stream, scratch };
        let outcome = rows.run(cpu, commands);
        // Even after an error, some of it may be queued.
        rows.lane.mark(stream)?;
        outcome.map(|()| count)
    }
}

// SAFETY: the kernels access only the arrays whose addresses and sizes they are given: those of fields, scratch memory
// and a lane. nvJPEG gets the part of a lane that the pictures take, whose sizes it has confirmed, and bytes of the
// batch on the host. A lane is freed only after waiting for its last use.
unsafe impl DeviceTransform for Jpegs {
    fn needs(&self) -> Vec<FieldOptions> {
        keys(&self.options.draws, self.options.drawn())
    }

    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>> {
        let JpegOptions { into, resize, draws, .. } = &self.options;
        let rows = self.rows(layout)?;
        if self.options.drawn() {
            beside(layout, draws, DataType::UInt64, rows, &[])?;
        }
        Ok(vec![Output::rows(into, resize.output(rows)?)])
    }

    fn scratch(&self, layout: &Layout) -> Result<usize> {
        self.options.resize.scratch(self.rows(layout)?)
    }

    fn run(&self, fields: &Fields<'_>, scratch: u64, commands: &mut dyn Commands) -> Result<()> {
        let source = Source::new(&self.options.from, fields)?;
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = fields.metadata().rows();
        self.survey(&source, &mut work, rows)?;
        let mut first = 0;
        while first < rows {
            first += self.part(&source, &mut work, first, scratch, commands)?;
        }
        Ok(())
    }
}

/// The number of pictures decoded so far by each backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JpegCounts {
    /// Decoded by the hardware JPEG engines.
    pub hardware: u64,
    /// Decoded by multiprocessors.
    pub hybrid: u64,
    /// Decoded by the CPU.
    pub cpu: u64,
    /// Batches, or parts of them, of which a call of nvJPEG failed; their pictures count for who decoded them then.
    pub failed: u64,
}

/// The running counts.
#[derive(Debug, Default)]
pub(super) struct Counts([AtomicU64; 4]);

impl Counts {
    pub(super) const CPU: usize = 2;
    pub(super) const FAILED: usize = 3;

    /// Adds `more` to a count; the index of a backend is its number.
    pub(super) fn add(&self, place: usize, more: usize) -> Result<()> {
        let count = self.0.get(place).ok_or_else(|| Error::bug("a count that is not kept"))?;
        count.fetch_add(more as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl std::fmt::Debug for Jpegs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jpegs").field("options", &self.options).field("counts", &self.counts()).finish_non_exhaustive()
    }
}
