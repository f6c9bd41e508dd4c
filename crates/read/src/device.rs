//! Where batches are assembled and sent.

use crate::{Batch, FieldOptions, HeldSamples, Layout};
use packhorse_core::{Error, Result};
use std::sync::Arc;

/// Provides the memory in which batches are assembled, and sends them on: [`Host`](crate::Host) leaves them in place;
/// the device of a GPU provides pinned memory and copies.
///
/// A loader calls it only on the thread that takes the batches.
pub trait Device: Send {
    /// A slab of memory. It is reused when its batch is dropped.
    type Host: AsRef<[u8]> + AsMut<[u8]> + Send + 'static;
    /// A batch as returned to the caller.
    type Batch: Send;

    /// Fields that it needs. A loader of samples asks once, before [`prepare`](Self::prepare), and adds to its fields
    /// those whose names they lack; a field with the name of a needed one and another kind is an error of kind
    /// `Config`. Loaders of tokens and the empty loader do not ask.
    fn needs(&self) -> Vec<FieldOptions> {
        Vec::new()
    }

    /// Takes the positions of the fields in all batches. Every loader calls it once, before the first
    /// [`host`](Self::host).
    ///
    /// Errors: fields that the device can't process.
    fn prepare(&mut self, layout: &Arc<Layout>) -> Result<()> {
        let _ = layout;
        Ok(())
    }

    /// The samples whose fields it holds already. A loader of samples asks once: with `Some` it reads and decodes nothing, and its
    /// batches say where the device finds their fields ([`BatchMetadata::gather`](crate::BatchMetadata::gather)).
    fn held(&self) -> Option<Arc<HeldSamples>> {
        None
    }

    /// Bytes that are free for samples, if the device can [hold](Self::held) them.
    fn room(&self) -> Option<u64> {
        None
    }

    /// A slab of `bytes` bytes with any initialised content, aligned to [`ALIGN`](crate::ALIGN).
    fn host(&mut self, bytes: usize) -> Result<Self::Host>;

    /// Sends a batch. Dropping `batch` returns its slab to the loader, so it must be kept until the copy is complete.
    fn upload(&mut self, batch: Batch<Self::Host>) -> Result<Self::Batch>;
}

/// A slab of `device`.
///
/// Errors: those of the device; a slab that is too short (kind `Config`), for which a loader would wait without an end.
pub(crate) fn slab<D: Device>(device: &mut D, bytes: usize) -> Result<D::Host> {
    let slab = device.host(bytes)?;
    match slab.as_ref().len() {
        len if len < bytes => {
            Err(Error::config(format!("the device gave a slab of {len} bytes where {bytes} are needed")))
        }
        _ => Ok(slab),
    }
}
