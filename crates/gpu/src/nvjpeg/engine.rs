//! A backend of nvJPEG, and its decoder states.

use super::calls::{Calls, Handle, Status};
use super::state::State;
use crate::Cuda;
use packhorse_core::{Error, Result};
use packhorse_transform::image::JpegFacts;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

/// A backend of nvJPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The hardware JPEG engines of A100, H100 and similar GPUs: baseline pictures of one scan.
    Hardware,
    /// Multiprocessors and the calling thread: large batches of baseline pictures take little time of that thread,
    /// progressive pictures much.
    Hybrid,
}

impl Backend {
    /// `nvjpegBackend_t`.
    fn number(self) -> c_int {
        match self {
            Self::Hardware => 3,
            Self::Hybrid => 2,
        }
    }

    /// Whether nvJPEG should try. JPEGs that are rotated or have unusual colours or coding are left to the CPU.
    pub(super) fn takes(self, facts: &JpegFacts) -> bool {
        let [luma, blue, red, _] = facts.sampling;
        let usual = facts.precision == 8 && facts.frames == 1 && facts.upright;
        let sampled =
            [luma.0, luma.1].iter().all(|factor| matches!(factor, 1 | 2 | 4)) && blue == (1, 1) && red == (1, 1);
        let coded = match self {
            Self::Hardware => facts.process == 0 && facts.scans == 1,
            Self::Hybrid => facts.process <= 2,
        };
        let colors = facts.components == 1 || (facts.components == 3 && facts.luma_chroma && sampled);
        usual && colors && coded
    }
}

/// `NVJPEG_FLAGS_BITSTREAM_STRICT`: damaged JPEGs are refused, and the CPU decoder then reports the error.
const STRICT: u32 = 1 << 2;

/// `NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION`: chroma is interpolated linearly, like on the CPU, instead of repeated.
const INTERPOLATED: u32 = 1 << 5;

/// A library handle for a backend.
pub(super) struct Engine {
    pub(super) backend: Backend,
    shared: Arc<Shared>,
}

/// nvJPEG's parser of headers for an engine; each thread has its own.
pub(super) struct Parser {
    backend: Backend,
    shared: Arc<Shared>,
    /// A parsed header, reused for each picture.
    parsed: Handle,
}

/// The library handle, which states keep alive.
pub(super) struct Shared {
    pub(super) calls: Arc<Calls>,
    pub(super) gpu: Cuda,
    pub(super) handle: Handle,
}

// SAFETY: the library's handles belong to no thread; one thread at a time uses that of a parser.
unsafe impl Send for Parser {}
// SAFETY: several threads make only thread-safe calls with the handle: all but those that create and destroy it.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Engine {
    /// The engine for a backend.
    ///
    /// Errors: a GPU without usable hardware for it (kind `Unsupported`); those of the GPU.
    pub(super) fn new(gpu: &Cuda, calls: &Arc<Calls>, backend: Backend) -> Result<Self> {
        let _bound = gpu.bind()?;
        let create = |flags| {
            let mut handle = null_mut();
            // SAFETY: no allocators are passed; a successful call writes `handle`.
            let status = unsafe { (calls.create)(backend.number(), null_mut(), null_mut(), flags, &raw mut handle) };
            (status, handle)
        };
        // Older libraries don't support all flags, and refuse them with one status or another.
        let (mut status, mut handle) = create(STRICT | INTERPOLATED);
        for flags in [STRICT, 0] {
            if matches!(status, Status::SUCCESS | Status::ALLOCATOR_FAILURE) {
                break;
            }
            (status, handle) = create(flags);
        }
        if backend == Backend::Hardware && !matches!(status, Status::SUCCESS | Status::ALLOCATOR_FAILURE) {
            let text = format!("this GPU does not decode JPEGs by hardware ({})", status.name());
            return Err(Error::unsupported(format!("{text}; allow Backend::Hybrid too")));
        }
        status.context("start nvJPEG")?;
        Ok(Self { backend, shared: Arc::new(Shared { calls: Arc::clone(calls), gpu: gpu.clone(), handle }) })
    }

    /// A new parser.
    pub(super) fn parser(&self) -> Result<Parser> {
        let _bound = self.shared.gpu.bind()?;
        let mut parsed = null_mut();
        // SAFETY: the handle is valid; a successful call writes `parsed`.
        unsafe { (self.shared.calls.stream_create)(self.shared.handle, &raw mut parsed) }
            .context("start nvJPEG's parser")?;
        Ok(Parser { backend: self.backend, shared: Arc::clone(&self.shared), parsed })
    }

    /// A new state for decoding a batch.
    pub(super) fn state(&self) -> Result<State> {
        let _bound = self.shared.gpu.bind()?;
        let mut raw = null_mut();
        // SAFETY: the handle is valid; a successful call writes `raw`.
        unsafe { (self.shared.calls.state_create)(self.shared.handle, &raw mut raw) }
            .context("make a state of nvJPEG")?;
        Ok(State::new(Arc::clone(&self.shared), raw))
    }
}

impl Parser {
    /// Whether the engine can decode `bytes`, whose header says `facts`. Pictures that it can't parse don't count.
    pub(super) fn takes(&mut self, bytes: &[u8], facts: &JpegFacts) -> Result<bool> {
        let Some(bytes) = bytes.get(..facts.bytes).filter(|_| self.backend.takes(facts)) else { return Ok(false) };
        let _bound = self.shared.gpu.bind()?;
        let (calls, handle) = (&self.shared.calls, self.shared.handle);
        let (mut width, mut height, mut refused) = (0, 0, 1);
        // SAFETY: both handles are valid, and the second has no other user; the bytes are valid, and read only during
        // this call; successful calls write the numbers.
        let status = unsafe {
            let parsed = (calls.stream_parse)(handle, bytes.as_ptr(), bytes.len(), 0, 0, self.parsed);
            match parsed {
                Status::SUCCESS => match (calls.stream_size)(self.parsed, &raw mut width, &raw mut height) {
                    Status::SUCCESS => (calls.supported)(handle, self.parsed, &raw mut refused),
                    other => other,
                },
                other => other,
            }
        };
        // The space for the pixels follows from packhorse's own header parser: if nvJPEG sees another size, it must not
        // decode.
        Ok(status == Status::SUCCESS && refused == 0 && (width, height) == (facts.width, facts.height))
    }
}

impl Drop for Parser {
    fn drop(&mut self) {
        if let Ok(_bound) = self.shared.gpu.bind() {
            // SAFETY: made by `Engine::parser` and not used after this.
            let _ = unsafe { (self.shared.calls.stream_destroy)(self.parsed) };
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Ok(_bound) = self.gpu.bind() {
            // SAFETY: made by `Engine::new`; all its states and parsers are gone.
            let _ = unsafe { (self.calls.destroy)(self.handle) };
        }
    }
}

/// Major and minor version and patch level of the library.
pub(super) fn version(calls: &Calls) -> Option<[c_int; 3]> {
    let mut version = [0; 3];
    for (part, number) in (0..).zip(&mut version) {
        // SAFETY: a successful call writes the number.
        if unsafe { (calls.property)(part, number) } != Status::SUCCESS {
            return None;
        }
    }
    Some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_jpegs_are_worth_asking_for() {
        let base = JpegFacts {
            precision: 8,
            components: 3,
            frames: 1,
            scans: 1,
            luma_chroma: true,
            upright: true,
            ..JpegFacts::default()
        };
        let sampled = |luma: (u8, u8), chroma: (u8, u8)| JpegFacts { sampling: [luma, chroma, chroma, (0, 0)], ..base };
        let usual = sampled((2, 2), (1, 1));
        let gray = JpegFacts { components: 1, luma_chroma: false, ..base };
        for (facts, hardware, hybrid) in [
            (usual, true, true),
            (sampled((1, 1), (1, 1)), true, true),
            (sampled((4, 1), (1, 1)), true, true),
            (gray, true, true),
            (JpegFacts { scans: 3, ..usual }, false, true),
            (JpegFacts { process: 1, ..usual }, false, true),
            (JpegFacts { process: 2, scans: 9, ..usual }, false, true),
            (JpegFacts { process: 3, ..usual }, false, false),
            (JpegFacts { process: 9, ..usual }, false, false),
            (JpegFacts { precision: 12, ..usual }, false, false),
            (JpegFacts { components: 4, ..usual }, false, false),
            (JpegFacts { components: 2, ..usual }, false, false),
            (JpegFacts { luma_chroma: false, ..usual }, false, false),
            (JpegFacts { upright: false, ..usual }, false, false),
            (JpegFacts { frames: 2, ..usual }, false, false),
            (sampled((3, 1), (1, 1)), false, false),
            (sampled((2, 2), (2, 1)), false, false),
        ] {
            assert_eq!(
                (Backend::Hardware.takes(&facts), Backend::Hybrid.takes(&facts)),
                (hardware, hybrid),
                "{facts:?}"
            );
        }
    }
}
