//! Reusable memory for decoding JPEGs and resizing them.

use super::engine::Engine;
use super::state::State;
use crate::{Cuda, DeviceMemory, Gpu, Pinned, Stream};
use packhorse_core::{Error, Result};

/// The memory and states that some pictures of a batch need while they are decoded. It is reused once the GPU has
/// passed their last kernel, which the host waits for: see [`super`].
pub(super) struct Lane {
    gpu: Cuda,
    held: Option<Held>,
    idle: <Cuda as Gpu>::Event,
}

struct Held {
    /// Of each engine, as many as it had calls side by side.
    states: Vec<Vec<State>>,
    /// `None` while it is [lent](Lane::lend).
    pinned: Option<Pinned>,
    memory: DeviceMemory,
    /// The size of `memory`.
    bytes: usize,
}

impl Lane {
    pub(super) fn new(gpu: &Cuda, engines: &[Engine]) -> Result<Self> {
        let states = engines.iter().map(|engine| Ok(vec![engine.state()?])).collect::<Result<_>>()?;
        let held = Held { states, pinned: Some(gpu.pinned(1)?), memory: gpu.memory(1)?, bytes: 1 };
        Ok(Self { idle: gpu.event()?, gpu: gpu.clone(), held: Some(held) })
    }

    fn held(&mut self) -> Result<&mut Held> {
        self.held.as_mut().ok_or_else(|| Error::bug("a lane without memory"))
    }

    /// Blocks until the GPU no longer uses the lane.
    pub(super) fn wait(&self) -> Result<()> {
        self.gpu.synchronize(&self.idle)
    }

    /// Blocks until the GPU is idle.
    pub(super) fn drain(&self) -> Result<()> {
        self.gpu.drain()
    }

    /// Records the end of its use.
    pub(super) fn mark(&self, stream: &Stream) -> Result<()> {
        self.gpu.record(&self.idle, stream)
    }

    /// `many` decoder states of engine number `number`, which is `engine`.
    pub(super) fn states(&mut self, number: usize, engine: &Engine, many: usize) -> Result<&mut [State]> {
        let states = self.held()?.states.get_mut(number).ok_or_else(|| Error::bug("an engine without a state"))?;
        while states.len() < many {
            states.push(engine.state()?);
        }
        Ok(states.get_mut(..many).unwrap_or_default())
    }

    /// The address of `bytes` bytes of GPU memory. Allocates more than `most` only if needed. The GPU must not use the
    /// lane during this call, which may reallocate.
    pub(super) fn memory(&mut self, bytes: usize, most: usize) -> Result<u64> {
        let gpu = self.gpu.clone();
        let held = self.held()?;
        if held.bytes < bytes {
            let larger = grown(bytes).min(most.max(bytes));
            // The old memory is freed first: both may not fit together.
            (held.memory, held.bytes) = (gpu.memory(1)?, 1);
            (held.memory, held.bytes) = (gpu.memory(larger)?, larger);
        }
        Ok(gpu.address(&held.memory))
    }

    /// Takes the lane's pinned memory, of at least `bytes` bytes, until it is [given back](Lane::give_back). The GPU must not use
    /// the lane during this call, which may reallocate.
    pub(super) fn lend(&mut self, bytes: usize) -> Result<Pinned> {
        let gpu = self.gpu.clone();
        let pinned = self.held()?.pinned.take();
        match pinned.filter(|pinned| pinned.as_ref().len() >= bytes) {
            Some(pinned) => Ok(pinned),
            None => gpu.pinned(grown(bytes)),
        }
    }

    /// Takes back what was lent.
    pub(super) fn give_back(&mut self, pinned: Pinned) -> Result<()> {
        self.held()?.pinned = Some(pinned);
        Ok(())
    }

    /// Queues a copy of the pinned bytes `from` to the address `to` in the lane's memory.
    pub(super) fn copy(&mut self, from: std::ops::Range<usize>, to: u64, stream: &Stream) -> Result<()> {
        let gpu = self.gpu.clone();
        let held = self.held()?;
        let pinned = held.pinned.as_ref().map(|pinned| pinned.as_ref()).unwrap_or_default();
        let from = pinned.get(from).ok_or_else(|| Error::bug("a copy from behind pinned memory"))?;
        let start = gpu.address(&held.memory);
        let inside = to.checked_sub(start).and_then(|at| at.checked_add(from.len() as u64));
        if inside.is_none_or(|end| end > held.bytes as u64) {
            return Err(Error::bug("a copy to behind the GPU's memory"));
        }
        // SAFETY: both ends are in memory of the lane, which is reused only after `idle`.
        unsafe { gpu.upload_to(from, to, stream) }
    }
}

/// `bytes` plus a reserve, so that it seldom grows.
fn grown(bytes: usize) -> usize {
    bytes.saturating_add(bytes / 4).checked_next_multiple_of(1 << 16).unwrap_or(bytes)
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.gpu.synchronize(&self.idle).is_err() {
            // Leaked: the GPU may still use it.
            std::mem::forget(self.held.take());
        }
    }
}
