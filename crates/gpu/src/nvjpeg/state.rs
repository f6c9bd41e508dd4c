//! The nvJPEG state of a batch that is being decoded.

use super::calls::{Handle, NvjpegImage, RGB_INTERLEAVED, Status};
use super::engine::Shared;
use packhorse_core::{Error, Result};
use packhorse_transform::image::JpegFacts;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// `NVJPEG_CSS_444`.
const ALL_CHROMA: c_int = 0;

/// A batch that is being decoded.
pub(super) struct State {
    shared: Arc<Shared>,
    raw: Handle,
    /// The number of pictures that it was initialised for; 0 if it was not.
    batch: c_int,
    /// The number of pictures, the width and the height that memory was preallocated for.
    foreseen: (c_int, c_int, c_int),
    // The arguments of a call are kept until the next one: the library does not document when it last reads them.
    sources: Vec<*const u8>,
    lengths: Vec<usize>,
    images: Vec<NvjpegImage>,
    /// Widths and heights.
    sizes: Vec<(c_int, c_int)>,
}

// SAFETY: states belong to no thread, and only the library reads the pointers.
unsafe impl Send for State {}

impl State {
    /// Owns a state made by `nvjpegJpegStateCreate`.
    pub(super) fn new(shared: Arc<Shared>, raw: Handle) -> Self {
        let (sources, lengths, images, sizes) = Default::default();
        Self { shared, raw, batch: 0, foreseen: (0, 0, 0), sources, lengths, images, sizes }
    }

    /// Clears the last batch.
    pub(super) fn clear(&mut self) {
        self.sources.clear();
        self.lengths.clear();
        self.images.clear();
        self.sizes.clear();
    }

    /// Adds a picture, whose `width × height × 3` bytes are written to GPU memory at `to`.
    pub(super) fn push(&mut self, bytes: &[u8], facts: &JpegFacts, to: u64) -> Result<()> {
        let bytes = bytes.get(..facts.bytes).unwrap_or_default();
        let side = |side| c_int::try_from(side).map_err(|_| Error::bug("a JPEG that is larger than JPEGs are"));
        let (width, height) = (side(facts.width)?, side(facts.height)?);
        let to = usize::try_from(to).map_err(|_| Error::bug("an address beyond all"))?;
        self.sources.push(bytes.as_ptr());
        self.lengths.push(bytes.len());
        self.images.push(NvjpegImage { channel: [to, 0, 0, 0], pitch: [3 * facts.width as usize, 0, 0, 0] });
        self.sizes.push((width, height));
        Ok(())
    }

    /// Preallocates memory for the largest picture if all are of similar size: else the library reallocates whenever
    /// sizes change, which stalls the GPU. Failure is ignored.
    fn foresee(&mut self, many: c_int) {
        let (batch, widest, highest) = self.foreseen;
        let side = |side: c_int, before: c_int| (side.saturating_add(63) / 64 * 64).max(before);
        let (width, height) = self.sizes.iter().fold((0, 0), |(width, height), (w, h)| (width.max(*w), height.max(*h)));
        // A reserve, so that this seldom happens.
        let foreseen @ (batch, width, height) = (many.max(batch), side(width, widest), side(height, highest));
        let pixels = |(width, height): (c_int, c_int)| f64::from(width) * f64::from(height);
        let needed: f64 = self.sizes.iter().copied().map(pixels).sum();
        if foreseen == self.foreseen || f64::from(batch) * pixels((width, height)) > 4.0 * needed {
            return;
        }
        let (calls, handle) = (&self.shared.calls, self.shared.handle);
        // SAFETY: both handles are valid, and nothing is being decoded with the second.
        let _ = unsafe { (calls.preallocate)(handle, self.raw, batch, width, height, ALL_CHROMA, RGB_INTERLEAVED) };
        self.foreseen = foreseen;
    }

    /// Queues the decoding of all added pictures on a stream, to interleaved RGB.
    ///
    /// # Safety
    ///
    /// Until the stream has passed this, all added bytes must stay valid and unchanged, the output memory must
    /// stay valid, and `self` may not be used. The output memory must be unused *now*: see [`super`].
    pub(super) unsafe fn decode(&mut self, stream: usize) -> Result<Status> {
        let _bound = self.shared.gpu.bind()?;
        let calls = Arc::clone(&self.shared.calls);
        let handle = self.shared.handle;
        let many = c_int::try_from(self.images.len()).map_err(|_| Error::config("a batch of too many pictures"))?;
        if self.batch != many {
            // SAFETY: both handles are valid, and nothing is being decoded with the second.
            let status = unsafe { (calls.initialize)(handle, self.raw, many, 1, RGB_INTERLEAVED) };
            if status != Status::SUCCESS {
                return Ok(status);
            }
        }
        self.foresee(many);
        let (sources, lengths) = (self.sources.as_ptr(), self.lengths.as_ptr());
        let stream = std::ptr::with_exposed_provenance_mut::<c_void>(stream);
        // SAFETY: all arrays have `many` entries; the rest is this function's contract.
        let status = unsafe { (calls.decode)(handle, self.raw, sources, lengths, self.images.as_mut_ptr(), stream) };
        // After a failed batch the state must be initialised again.
        self.batch = if status == Status::SUCCESS { many } else { 0 };
        Ok(status)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Ok(_bound) = self.shared.gpu.bind() {
            // SAFETY: made by `Engine::state`; its owner has waited for its decodes.
            let _ = unsafe { (self.shared.calls.state_destroy)(self.raw) };
        }
    }
}
