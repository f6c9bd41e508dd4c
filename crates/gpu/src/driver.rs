//! What the ring needs of a GPU.

use packhorse_core::Result;

/// A GPU's queues and memory, as far as sending batches takes them: CUDA, or a simulation of it.
///
/// A *stream* is a queue of work that the GPU does in order, on its own time; an *event* marks a place in a stream. All
/// calls but [`synchronize`](Driver::synchronize), [`drain`](Driver::drain) and those that make something return at once.
pub(crate) trait Driver: Send + Sync + 'static {
    /// A batch in memory of the host that the GPU can read by itself. Dropping it gives the memory back.
    type Host: Send;
    /// Memory of the GPU for a batch, and what is noted of the batch in it.
    type Slot: Send;
    /// A mark in a stream. One that was never recorded is over.
    type Event: Send + Sync;
    /// A queue.
    type Stream: Clone + PartialEq + Send + Sync;

    /// The queue that batches are copied on.
    fn copies(&self) -> &Self::Stream;

    /// Memory that has room for `host`.
    fn slot(&self, host: &Self::Host) -> Result<Self::Slot>;

    /// Whether `slot` has room for `host`.
    fn fits(&self, slot: &Self::Slot, host: &Self::Host) -> bool;

    /// A mark that may be recorded again and again.
    fn event(&self) -> Result<Self::Event>;

    /// Queues the copy of `host` to `slot`, and whatever finishes it there, on [`copies`](Driver::copies). If that fails,
    /// a part may be queued.
    fn send(&self, host: &Self::Host, slot: &mut Self::Slot) -> Result<()>;

    /// Marks the end of what is queued on `stream` now.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Lets what is queued on `stream` from now on begin after what `event` marks now.
    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<()>;

    /// Whether the GPU is past what `event` marks.
    fn over(&self, event: &Self::Event) -> Result<bool>;

    /// Waits until the GPU is past what `event` marks.
    fn synchronize(&self, event: &Self::Event) -> Result<()>;

    /// Waits until the GPU has done all that is queued on any stream.
    fn drain(&self) -> Result<()>;
}
