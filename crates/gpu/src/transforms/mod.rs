//! Work on a batch on the GPU, before its consumer sees it.
//!
//! A step takes fields by name and makes others; those lie behind the batch in its slot, so they come and go with it. Steps
//! run one after another on the stream of the copies: what a training step of tens of milliseconds hides anyhow, and one
//! event says that all is there.

#![expect(unsafe_code, reason = "kernels are handed addresses, which the compiler can't follow")]

mod padded;
mod pictures;
mod resized;
mod sequences;
mod synthetic;
mod unpacked;

pub use padded::Padded;
pub use pictures::Pictures;
pub use resized::Resized;
pub use sequences::Sequences;
pub use synthetic::{Synthetic, SyntheticField};
pub use unpacked::Unpacked;

use crate::View;
use crate::kernels::{Element, Launch, Tensor};
use crate::upload_stream::Fields;
use packhorse_core::{DataType, Error, Result};
use packhorse_read::{FieldKind, FieldOptions, Layout, SlabField};

/// Makes fields of a batch from others: kernels that run after the copy, on the same stream, into memory that belongs to
/// the batch.
///
/// # Safety
/// What `run` queues reads no more than `fields` and `scratch`, and writes no more than the fields that
/// [`outputs`](DeviceTransform::outputs) promised and so much scratch memory as [`scratch`](DeviceTransform::scratch) asked for; but for memory of
/// the step's own, which it keeps until all that uses it is over.
pub unsafe trait DeviceTransform: Send + Sync {
    /// Fields of samples that it needs, which the loader adds if they were not asked for.
    fn needs(&self) -> Vec<FieldOptions> {
        Vec::new()
    }

    /// The fields that are made of batches with this layout.
    ///
    /// Errors (kind `Config`): fields that are not there, or of another type or shape than the kernels work on.
    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>>;

    /// Bytes of memory that the kernels need beside, at a multiple of 256. All steps have the same, one after another.
    ///
    /// Errors: as for `outputs`.
    fn scratch(&self, layout: &Layout) -> Result<usize> {
        let _ = layout;
        Ok(0)
    }

    /// Queues the work for a batch of one row at least, whose [bytes on the host](Fields::host) and memory on the GPU stay as
    /// they are until that is over.
    fn run(&self, fields: &Fields<'_>, scratch: u64, commands: &mut dyn Commands) -> Result<()>;
}

/// The stream that a batch is sent on: work runs in the order in which it is queued here, after the copy.
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
    /// Its elements, and its shape for a whole batch.
    pub tensor: Tensor,
    /// Whether the first dimension are the rows, of which a batch may have fewer.
    pub by_row: bool,
}

impl Output {
    /// One entry a row.
    pub(crate) fn rows(name: impl Into<String>, tensor: Tensor) -> Self {
        Self { name: name.into(), tensor, by_row: true }
    }
}

/// The field of keys that is drawn from, if `drawn`.
pub(crate) fn keys(name: &str, drawn: bool) -> Vec<FieldOptions> {
    drawn.then(|| FieldOptions::new(name, FieldKind::Draws)).into_iter().collect()
}

/// The field `name`, which must hold elements of one of these types.
pub(crate) fn field<'l>(layout: &'l Layout, name: &str, types: &[DataType]) -> Result<&'l SlabField> {
    let known = || layout.fields().iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = layout.field(name);
    let found = found.ok_or_else(|| Error::config(format!("batches have no field {name}; they have: {}", known())))?;
    match types.contains(&found.data_type) {
        true => Ok(found),
        false => Err(Error::config(format!("field {name} holds {}, not {}", found.data_type, either(types)))),
    }
}

/// The same, but dense and of this shape after the rows, as many as `batch`.
pub(crate) fn beside(layout: &Layout, name: &str, data_type: DataType, batch: u32, inner: &[usize]) -> Result<()> {
    let found = field(layout, name, &[data_type])?;
    if found.ragged || found.shape.split_first() != Some((&(batch as usize), inner)) {
        let message = format!("field {name} has the shape {:?}, not {batch} rows of {inner:?}", found.shape);
        return Err(Error::config(message));
    }
    Ok(())
}

fn either(types: &[DataType]) -> String {
    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

/// The rows of a whole batch, by the first dimension of a field.
pub(crate) fn batch(field: &SlabField) -> Result<u32> {
    let rows = field.shape.first().copied().unwrap_or_default();
    u32::try_from(rows).map_err(|_| Error::config(format!("batches of {rows} rows: make them smaller")))
}

/// Rows of a batch that is there.
pub(crate) fn rows(fields: &Fields<'_>) -> u32 {
    u32::try_from(fields.metadata().rows()).unwrap_or(u32::MAX)
}

/// A field that `outputs` found.
pub(crate) fn view(fields: &Fields<'_>, name: &str) -> Result<View> {
    fields.came(name).ok_or_else(|| Error::bug(format!("no field {name}")))
}

/// A field that `outputs` promised.
pub(crate) fn made(fields: &Fields<'_>, name: &str) -> Result<View> {
    fields.made(name).ok_or_else(|| Error::bug(format!("no output {name}")))
}

/// A size in a shape.
fn side(size: usize) -> Result<u32> {
    u32::try_from(size).map_err(|_| Error::config(format!("arrays of {size} entries in a dimension")))
}

/// The element that fields of this type hold.
fn element(field: &SlabField) -> Result<Element> {
    let found = Element::of(&field.data_type);
    found.ok_or_else(|| Error::config(format!("field {} holds {}, which are not numbers", field.name, field.data_type)))
}
