//! Memory on the way from JPEGs to pictures of one size, used again and again.

use super::engine::Engine;
use super::state::State;
use crate::{Cuda, DeviceMemory, Gpu, Pinned, Stream};
use packhorse_core::{Error, Result};

/// What some pictures of a batch need while they are decoded. It is used again once the GPU is past their last kernel, which the
/// host waits for: see [`super`].
pub(super) struct Lane {
    gpu: Cuda,
    held: Option<Held>,
    idle: <Cuda as Gpu>::Event,
}

struct Held {
    /// One for each engine.
    states: Vec<State>,
    pinned: Pinned,
    memory: DeviceMemory,
    /// Of `memory`.
    bytes: usize,
}

impl Lane {
    pub(super) fn new(gpu: &Cuda, engines: &[Engine]) -> Result<Self> {
        let states = engines.iter().map(Engine::state).collect::<Result<_>>()?;
        let held = Held { states, pinned: gpu.pinned(1)?, memory: gpu.memory(1)?, bytes: 1 };
        Ok(Self { idle: gpu.event()?, gpu: gpu.clone(), held: Some(held) })
    }

    fn held(&mut self) -> Result<&mut Held> {
        self.held.as_mut().ok_or_else(|| Error::bug("a lane without memory"))
    }

    /// Waits, in this thread, until the GPU uses nothing of it.
    pub(super) fn wait(&self) -> Result<()> {
        self.gpu.synchronize(&self.idle)
    }

    /// Waits until the GPU has nothing to do at all.
    pub(super) fn drain(&self) -> Result<()> {
        self.gpu.drain()
    }

    /// Marks the end of the use of it.
    pub(super) fn mark(&self, stream: &Stream) -> Result<()> {
        self.gpu.record(&self.idle, stream)
    }

    /// For each engine what it keeps.
    pub(super) fn states(&mut self) -> Result<&mut [State]> {
        Ok(&mut self.held()?.states)
    }

    /// The address of so many bytes of the GPU's memory, of which it takes more than `most` only if that many are needed. Nothing
    /// may use it when it grows.
    pub(super) fn memory(&mut self, bytes: usize, most: usize) -> Result<u64> {
        let gpu = self.gpu.clone();
        let held = self.held()?;
        if held.bytes < bytes {
            let larger = grown(bytes).min(most.max(bytes));
            // First the old, then the new: they need not fit together.
            (held.memory, held.bytes) = (gpu.memory(1)?, 1);
            (held.memory, held.bytes) = (gpu.memory(larger)?, larger);
        }
        Ok(gpu.address(&held.memory))
    }

    /// So many bytes of the host's. Nothing may use it when it grows.
    pub(super) fn pinned(&mut self, bytes: usize) -> Result<&mut [u8]> {
        let gpu = self.gpu.clone();
        let held = self.held()?;
        if held.pinned.as_ref().len() < bytes {
            held.pinned = gpu.pinned(1)?;
            held.pinned = gpu.pinned(grown(bytes))?;
        }
        held.pinned.as_mut().get_mut(..bytes).ok_or_else(|| Error::bug("pinned memory that is too small"))
    }

    /// Queues a copy of the host's bytes at `from` to `to`, which is in the lane's memory.
    pub(super) fn copy(&mut self, from: std::ops::Range<usize>, to: u64, stream: &Stream) -> Result<()> {
        let gpu = self.gpu.clone();
        let held = self.held()?;
        let from = held.pinned.as_ref().get(from).ok_or_else(|| Error::bug("a copy from behind pinned memory"))?;
        let start = gpu.address(&held.memory);
        let inside = to.checked_sub(start).and_then(|at| at.checked_add(from.len() as u64));
        if inside.is_none_or(|end| end > held.bytes as u64) {
            return Err(Error::bug("a copy to behind the GPU's memory"));
        }
        // SAFETY: both ends are in memory of the lane, which is used again only after `idle`.
        unsafe { gpu.upload_to(from, to, stream) }
    }
}

/// A size that need not grow again soon.
fn grown(bytes: usize) -> usize {
    bytes.saturating_add(bytes / 4).checked_next_multiple_of(1 << 16).unwrap_or(bytes)
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.gpu.synchronize(&self.idle).is_err() {
            // The GPU may still use it.
            std::mem::forget(self.held.take());
        }
    }
}
