//! Where batches are put together and where they end up.

use crate::{Batch, FieldOptions, Layout};
use packhorse_core::Result;
use std::sync::Arc;

/// Gives the memory that batches are put together in, and takes them from there: [`Host`](crate::Host) leaves
/// them where they are; a GPU's gives pinned memory and copies.
///
/// A loader calls it on the thread that takes the batches, never on its own threads.
pub trait Device: Send {
    /// A slab of memory. It is used again when the batch in it is dropped.
    type Host: AsRef<[u8]> + AsMut<[u8]> + Send + 'static;
    /// A batch as the caller gets it.
    type Batch: Send;

    /// Fields that it needs beside those that were asked for: a loader of samples adds those that are missing by name.
    fn needs(&self) -> Vec<FieldOptions> {
        Vec::new()
    }

    /// Called once, before all other calls, with the positions of the fields in all batches.
    ///
    /// Errors: fields that the device can't use as it must.
    fn prepare(&mut self, layout: &Arc<Layout>) -> Result<()> {
        let _ = layout;
        Ok(())
    }

    /// `bytes` bytes of zeros, or of what was there, at an address that is a multiple of [`ALIGN`](crate::ALIGN).
    fn host(&mut self, bytes: usize) -> Result<Self::Host>;

    /// Sends a batch on its way. Dropping `batch` gives its slab back to the loader: not before the copy is over.
    fn upload(&mut self, batch: Batch<Self::Host>) -> Result<Self::Batch>;
}
