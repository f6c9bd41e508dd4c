//! Decodes the CPU's pictures.

use packhorse_core::{Error, Limits, Result, contain};
use packhorse_transform::image::{Draws, View, ViewDecoder};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Mutex, PoisonError};

/// Threads, each with a decoder.
pub(super) struct Cpu {
    threads: usize,
    limits: Limits,
    /// Started with the first picture.
    pool: Option<Pool>,
}

struct Pool {
    threads: ThreadPool,
    decoders: Vec<Mutex<ViewDecoder>>,
}

/// A picture to decode.
pub(super) struct Job<'j> {
    /// Its row, for errors.
    pub(super) row: usize,
    pub(super) bytes: &'j [u8],
    /// Three bytes per pixel.
    pub(super) out: &'j mut [u8],
}

/// The most threads, whatever is asked for.
pub(super) const MOST_THREADS: usize = 256;

/// The row of a picture, and why it was not decoded.
type Failed = (usize, Error);

impl Cpu {
    pub(super) fn new(threads: usize, limits: Limits) -> Self {
        Self { threads: threads.clamp(1, MOST_THREADS), limits, pool: None }
    }

    /// Starts the threads, if they don't run.
    pub(super) fn start(&mut self) -> Result<()> {
        if self.pool.is_none() {
            self.pool = Some(Pool::new(self.threads, self.limits)?);
        }
        Ok(())
    }

    /// Decodes all pictures on the threads, which [run](Self::start), and calls `meanwhile` on this one. An error has the row of the
    /// first that fails.
    pub(super) fn decode<R>(&mut self, jobs: Vec<Job<'_>>, meanwhile: impl FnOnce() -> R) -> (R, Result<(), Failed>) {
        let Some(pool) = self.pool.as_ref().filter(|_| !jobs.is_empty()) else {
            let missing = jobs.first().map(|job| (job.row, Error::bug("threads that do not run")));
            return (meanwhile(), missing.map_or(Ok(()), Err));
        };
        let failed: Mutex<Option<Failed>> = Mutex::default();
        let (decoders, failure) = (&pool.decoders, &failed);
        let made = pool.threads.in_place_scope(|scope| {
            for job in jobs {
                scope.spawn(move |_| {
                    let row = job.row;
                    let panicked = || Err((row, Error::bug("a decoder panicked")));
                    if let Err(error) = contain(|| decode(decoders, job)).unwrap_or_else(panicked) {
                        let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
                        if first.as_ref().is_none_or(|(row, _)| error.0 < *row) {
                            *first = Some(error);
                        }
                    }
                });
            }
            meanwhile()
        });
        (made, failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err))
    }
}

impl Pool {
    fn new(threads: usize, limits: Limits) -> Result<Self> {
        let decoder = || ViewDecoder::new(View::default(), limits).map(Mutex::new);
        let decoders = (0..threads).map(|_| decoder()).collect::<Result<_>>()?;
        let name = |number| format!("packhorse-jpeg-{number}");
        let started = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build();
        let refused = |error| Error::io("start threads", std::io::Error::other(error));
        Ok(Self { threads: started.map_err(refused)?, decoders })
    }
}

/// Decodes a picture with the decoder of this thread.
fn decode(decoders: &[Mutex<ViewDecoder>], Job { row, bytes, out }: Job<'_>) -> Result<(), Failed> {
    let own = rayon::current_thread_index().and_then(|number| decoders.get(number));
    let decoder = own.ok_or_else(|| (row, Error::bug("a thread without a decoder")))?;
    let mut decoder = decoder.lock().unwrap_or_else(PoisonError::into_inner);
    decoder.decode_into(bytes, Draws::default(), out).map(drop).map_err(|error| (row, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    fn picture(seed: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        let encoder = jpeg_encoder::Encoder::new(&mut bytes, 80);
        encoder.encode(&[seed; 3 * 8 * 8], 8, 8, jpeg_encoder::ColorType::Rgb).unwrap();
        bytes
    }

    #[test]
    fn any_number_of_threads_decodes_the_same_and_finds_the_first_error() {
        let mut pictures: Vec<Vec<u8>> = (0..10).map(|seed| picture(20 * seed)).collect();
        for broken in [false, true] {
            if broken {
                pictures[3].truncate(100);
                pictures[7].truncate(100);
            }
            for threads in [0, 1, 2, 3, 10, 30] {
                let mut cpu = Cpu::new(threads, Limits::default());
                let mut out = vec![0; 192 * pictures.len()];
                let jobs = pictures.iter().zip(out.chunks_mut(192)).enumerate();
                let jobs = jobs.map(|(row, (bytes, out))| Job { row: 5 + row, bytes, out }).collect();
                cpu.start().unwrap();
                let (said, outcome) = cpu.decode(jobs, || "meanwhile");
                assert_eq!(said, "meanwhile");
                match outcome {
                    Ok(()) => assert!(
                        !broken && out.chunks(192).enumerate().all(|(i, out)| out[0].abs_diff(20 * i as u8) < 3)
                    ),
                    Err((row, error)) => assert!(broken && row == 8 && error.kind() == Kind::Content, "{row} {error}"),
                }
            }
        }
        let (said, outcome) = Cpu::new(4, Limits::default()).decode(Vec::new(), || 7);
        assert!(said == 7 && outcome.is_ok());
    }
}
