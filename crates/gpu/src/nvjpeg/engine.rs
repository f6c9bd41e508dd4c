//! One of nvJPEG's ways to decode, and what it keeps for batches that are being decoded.

use super::calls::{Calls, Handle, Status};
use super::state::State;
use crate::Cuda;
use packhorse_core::{Error, Result};
use packhorse_transform::image::JpegFacts;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

/// A way to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The JPEG engines of A100, H100 and their kin: baseline pictures of one scan.
    Hardware,
    /// Multiprocessors, with help from the calling thread: large batches of baseline pictures need little of that, progressive
    /// pictures much.
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

    /// Whether nvJPEG should try. JPEGs that are rotated, have unusual colours or an unusual form are the CPU's.
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

/// `NVJPEG_FLAGS_BITSTREAM_STRICT`: damaged JPEGs are refused, and then the CPU's decoder says what is wrong.
const STRICT: u32 = 1 << 2;

/// `NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION`: chroma between samples is that of a line through them, as the CPU's decoders have
/// it, not that of the nearest.
const INTERPOLATED: u32 = 1 << 5;

/// A library handle for a backend.
pub(super) struct Engine {
    pub(super) backend: Backend,
    shared: Arc<Shared>,
    /// A parsed header, used again for each picture.
    parsed: Handle,
}

/// What states need to the end.
pub(super) struct Shared {
    pub(super) calls: Arc<Calls>,
    pub(super) gpu: Cuda,
    pub(super) handle: Handle,
}

// SAFETY: the library's handles belong to no thread; one at a time has them.
unsafe impl Send for Engine {}
// SAFETY: of the handle only calls that are safe for threads are made by several: making and destroying states.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Engine {
    /// The engine for a backend.
    ///
    /// Errors: a GPU without hardware for it, or with such that can't be used (kind `Unsupported`); what the GPU says.
    pub(super) fn new(gpu: &Cuda, calls: &Arc<Calls>, backend: Backend) -> Result<Self> {
        let _bound = gpu.bind()?;
        let create = |flags| {
            let mut handle = null_mut();
            // SAFETY: no allocators are given; `handle` is written by a call that succeeds.
            let status = unsafe { (calls.create)(backend.number(), null_mut(), null_mut(), flags, &raw mut handle) };
            (status, handle)
        };
        // Older libraries don't know all flags.
        let flags = [STRICT | INTERPOLATED, STRICT, 0].into_iter().map(create);
        let known = flags.into_iter().find(|(status, _)| *status != Status::INVALID_PARAMETER);
        let (status, handle) = known.unwrap_or((Status::INVALID_PARAMETER, null_mut()));
        if backend == Backend::Hardware && !matches!(status, Status::SUCCESS | Status::ALLOCATOR_FAILURE) {
            let text = format!("this GPU does not decode JPEGs by hardware ({})", status.name());
            return Err(Error::unsupported(format!("{text}; allow Backend::Hybrid too")));
        }
        status.context("start nvJPEG")?;
        let shared = Arc::new(Shared { calls: Arc::clone(calls), gpu: gpu.clone(), handle });
        let mut parsed = null_mut();
        // SAFETY: the handle was just made; `parsed` is written by a call that succeeds.
        unsafe { (calls.stream_create)(handle, &raw mut parsed) }.context("start nvJPEG's parser")?;
        Ok(Self { backend, shared, parsed })
    }

    /// Whether it can decode `bytes`, of which `facts` are known. What it can't even parse it can't.
    pub(super) fn takes(&mut self, bytes: &[u8], facts: &JpegFacts) -> Result<bool> {
        let Some(bytes) = bytes.get(..facts.bytes).filter(|_| self.backend.takes(facts)) else { return Ok(false) };
        let _bound = self.shared.gpu.bind()?;
        let (calls, handle) = (&self.shared.calls, self.shared.handle);
        let (mut width, mut height, mut refused) = (0, 0, 1);
        // SAFETY: both handles are there, and the second has no other user; so many bytes are there, and read by this call alone;
        // the numbers are written by calls that succeed.
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
        // The room for the pixels comes from our own parser of the header: a decoder that sees another size refuses.
        Ok(status == Status::SUCCESS && refused == 0 && (width, height) == (facts.width, facts.height))
    }

    /// What it keeps for a batch that is being decoded.
    pub(super) fn state(&self) -> Result<State> {
        let _bound = self.shared.gpu.bind()?;
        let mut raw = null_mut();
        // SAFETY: the handle is there; `raw` is written by a call that succeeds.
        unsafe { (self.shared.calls.state_create)(self.shared.handle, &raw mut raw) }
            .context("make a state of nvJPEG")?;
        Ok(State::new(Arc::clone(&self.shared), raw))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Ok(_bound) = self.shared.gpu.bind() {
            // SAFETY: made by `new`, and gone after this.
            let _ = unsafe { (self.shared.calls.stream_destroy)(self.parsed) };
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Ok(_bound) = self.gpu.bind() {
            // SAFETY: made by `Engine::new`; nothing of it is left.
            let _ = unsafe { (self.calls.destroy)(self.handle) };
        }
    }
}

/// Major and minor version and patch level of the library.
pub(super) fn version(calls: &Calls) -> Option<[c_int; 3]> {
    let mut version = [0; 3];
    for (part, number) in (0..).zip(&mut version) {
        // SAFETY: the number is written by a call that succeeds.
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
