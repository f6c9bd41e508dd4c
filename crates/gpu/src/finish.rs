//! What is made of a batch on the GPU, before its consumer sees it.

use crate::Element;
use crate::kernels::Launch;
use crate::line::Fields;
use packhorse_core::Result;
use packhorse_read::Layout;

/// Makes fields of a batch from others: kernels that run after the copy, on the same stream, into memory that belongs to
/// the batch.
pub trait Finish: Send + Sync {
    /// The fields that are made of batches with this layout, and the memory that is needed for it.
    ///
    /// Errors: fields that are not there, or of another type or shape than the kernels work on.
    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>>;

    /// Queues the work for a batch, whose [bytes on the host](Fields::host) and memory on the GPU stay as they are until
    /// that is over.
    fn run(&self, fields: &Fields<'_>, commands: &mut dyn Commands) -> Result<()>;
}

/// The stream that a batch is sent on: what is queued here is done in this order, after the copy.
pub trait Commands {
    /// Queues a kernel.
    fn launch(&mut self, launch: &Launch) -> Result<()>;

    /// The stream's handle (`cudaStream_t`), for libraries that take one; `None` where the GPU is simulated.
    fn stream(&self) -> Option<usize>;
}

/// A field that is made on the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name. A field of the same name that came with the batch is covered by it.
    pub name: String,
    /// What its elements are.
    pub element: Element,
    /// Elements in each dimension, for a whole batch.
    pub shape: Vec<usize>,
    /// Whether the first dimension are the rows, of which a batch may have fewer.
    pub by_row: bool,
}
