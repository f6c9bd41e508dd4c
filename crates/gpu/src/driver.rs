//! The operations of a GPU that the ring needs.

use packhorse_core::Result;

/// The queues and memory of a GPU, as needed to send batches: CUDA or a simulation.
///
/// A *stream* is a queue of work that the GPU executes asynchronously in order; an *event* marks a position in a
/// stream. Only [`synchronize`](Driver::synchronize), [`drain`](Driver::drain) and calls that allocate may block.
pub(crate) trait Driver: Send + Sync + 'static {
    /// A batch in host memory that the GPU can read directly. Dropping it releases the memory.
    type Host: Send;
    /// GPU memory for a batch, and the metadata of the batch in it.
    type Slot: Send;
    /// A mark in a stream. One that was never recorded counts as past.
    type Event: Send + Sync;
    /// A queue.
    type Stream: Clone + PartialEq + Send + Sync;

    /// The stream of copies.
    fn copies(&self) -> &Self::Stream;

    /// The stream of the transforms after copies; that of copies if there are none.
    fn transforms(&self) -> &Self::Stream;

    /// Whether the transforms that were queued last read host memory, so that it is kept until they are over.
    fn transforms_read_host(&self) -> bool;

    /// Allocates memory that fits `host`.
    fn slot(&self, host: &Self::Host) -> Result<Self::Slot>;

    /// Whether `host` fits `slot`.
    fn fits(&self, slot: &Self::Slot, host: &Self::Host) -> bool;

    /// An event, which may be recorded repeatedly.
    fn event(&self) -> Result<Self::Event>;

    /// Queues the copy of `host` to `slot` on [`copies`](Driver::copies). After an error, a part of it may be queued.
    fn copy(&self, host: &Self::Host, slot: &mut Self::Slot) -> Result<()>;

    /// Queues the transforms of the batch that was copied last on [`transforms`](Driver::transforms). After an error, a
    /// part of it may be queued.
    fn transform(&self, host: &Self::Host, slot: &mut Self::Slot) -> Result<()>;

    /// Whether work that is queued on `stream` now is not done, but captured into a graph, which repeats it later.
    fn is_capturing(&self, stream: &Self::Stream) -> Result<bool>;

    /// Records `event` after all work that is queued on `stream`.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;

    /// Makes work queued on `stream` after this call wait for the position that `event` marks now.
    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<()>;

    /// Whether the GPU has passed `event`.
    fn over(&self, event: &Self::Event) -> Result<bool>;

    /// Blocks until the GPU has passed `event`.
    fn synchronize(&self, event: &Self::Event) -> Result<()>;

    /// Blocks until the GPU has finished all queued work on all streams.
    fn drain(&self) -> Result<()>;
}
