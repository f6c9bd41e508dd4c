//! Transforms of a batch on the GPU, before its consumer sees it.
//!
//! A step reads fields by name and makes others, which are stored after the batch in its slot and live as long as it. It reads what
//! steps before it made, too, under names that no copied field has.
//! Steps run one after another on a stream of their own, which waits for the copy of their batch, while the next batch is copied.
//! One event marks the end of copy and steps.

#![expect(unsafe_code, reason = "the compiler can't check the addresses that kernels use")]

mod augmented;
mod fields;
mod finished;
mod padded;
mod pictures;
mod resized;
mod sequences;
mod synthetic;
mod unpacked;

pub use augmented::{Augmented, Targets};
pub(crate) use fields::Plan;
pub use fields::{Fields, outputs};
pub(crate) use finished::pixels;
pub use finished::{Colors, Finished, finished, finished_of_resident};
pub use padded::Padded;
pub use pictures::Pictures;
pub use resized::Resized;
pub use sequences::Sequences;
pub use synthetic::{Synthetic, SyntheticField};
pub use unpacked::Unpacked;

use crate::View;
use crate::kernels::{Element, Launch, Tensor};
use packhorse_core::{DataType, Error, Result};
use packhorse_read::{FieldKind, FieldOptions, Layout, SlabField};

/// Makes fields of a batch from others, by kernels that run after the copy and write memory that belongs to the batch.
///
/// # Safety
///
/// Work that `run` queues reads only `fields` and `scratch`, and writes only the fields that
/// [`outputs`](DeviceTransform::outputs) declares and as many scratch bytes as [`scratch`](DeviceTransform::scratch)
/// returns. It may also use memory that the step owns and keeps until that work has finished.
pub unsafe trait DeviceTransform: Send + Sync {
    /// Fields of samples that it needs, which the loader adds if they were not requested.
    fn needs(&self) -> Vec<FieldOptions> {
        Vec::new()
    }

    /// The fields that it makes of batches with this layout, which also has what steps before it made.
    ///
    /// Errors (kind `Config`): missing fields, or a type or shape that the kernels don't support.
    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>>;

    /// Bytes of scratch memory that the kernels need, aligned to 256. All steps share it, one after another.
    ///
    /// Errors: as for `outputs`.
    fn scratch(&self, layout: &Layout) -> Result<usize> {
        let _ = layout;
        Ok(0)
    }

    /// Queues the work for a batch of at least one row. Its memory on the GPU stays valid and unchanged until that work has
    /// finished; and so do its [bytes on the host](Fields::host), if this call asked for them.
    fn run(&self, fields: &Fields<'_>, scratch: u64, commands: &mut dyn Commands) -> Result<()>;
}

/// The stream of transforms: work runs after the copy, in the order in which it is queued.
pub trait Commands {
    /// Queues a kernel.
    fn launch(&mut self, launch: &Launch) -> Result<()>;

    /// The stream's handle (`cudaStream_t`), for libraries that take one; `None` where the GPU is simulated.
    fn stream(&self) -> Option<usize>;
}

/// A field made on the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name. It shadows a field of the same name that was copied with the batch.
    pub name: String,
    /// Its element type, and its shape for a full batch.
    pub tensor: Tensor,
    /// Whether the first dimension is the rows, of which a batch may have fewer.
    pub by_row: bool,
}

impl Output {
    /// One entry per row.
    pub(crate) fn rows(name: impl Into<String>, tensor: Tensor) -> Self {
        Self { name: name.into(), tensor, by_row: true }
    }
}

/// The field of keys for random draws, if `drawn`.
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

/// The field `name`, which must be dense, with `batch` rows of the shape `inner`.
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

/// Height and width, channels, and rows of a full batch: of the field `name`, which must hold pictures of one size.
pub(crate) fn pictures(layout: &Layout, name: &str) -> Result<((u32, u32), u32, u32)> {
    let found = field(layout, name, &[DataType::UInt8])?;
    if found.ragged && found.shape.len() == 4 {
        let message = format!("field {name} has several pictures a sample, and a GPU finishes one of each");
        return Err(Error::config(message)
            .in_field(name)
            .hint("as a field that is not required the processors normalise it"));
    }
    let [_, height, width, channels] = found.shape[..] else {
        return Err(Error::config(format!("field {name} has no pictures of one size: {:?}", found.shape)));
    };
    Ok(((side(height)?, side(width)?), side(channels)?, batch(found)?))
}

/// The rows of a full batch, by the first dimension of a field.
pub(crate) fn batch(field: &SlabField) -> Result<u32> {
    let rows = field.shape.first().copied().unwrap_or_default();
    u32::try_from(rows).map_err(|_| Error::config(format!("batches of {rows} rows: make them smaller")))
}

/// The rows of a batch that hold samples.
pub(crate) fn rows(fields: &Fields<'_>) -> u32 {
    u32::try_from(fields.metadata().rows()).unwrap_or(u32::MAX)
}

/// A field that `outputs` has checked.
pub(crate) fn view(fields: &Fields<'_>, name: &str) -> Result<View> {
    fields.came(name).or_else(|| fields.made(name)).ok_or_else(|| Error::bug(format!("no field {name}")))
}

/// A field that `outputs` declared.
pub(crate) fn made(fields: &Fields<'_>, name: &str) -> Result<View> {
    fields.made(name).ok_or_else(|| Error::bug(format!("no output {name}")))
}

/// A size in a shape.
fn side(size: usize) -> Result<u32> {
    u32::try_from(size).map_err(|_| Error::config(format!("arrays of {size} entries in a dimension")))
}

/// The element type of a field.
fn element(field: &SlabField) -> Result<Element> {
    let found = Element::of(&field.data_type);
    found.ok_or_else(|| Error::config(format!("field {} holds {}, which are not numbers", field.name, field.data_type)))
}
