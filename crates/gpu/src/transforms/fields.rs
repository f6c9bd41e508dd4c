//! The fields of a batch on a GPU, and where they lie in its slot. Refuses to know who copies the batch.

use super::{DeviceTransform, Output};
use crate::kernels::Tensor;
use crate::{Element, View};
use packhorse_core::{Error, Result};
use packhorse_read::{ALIGN, BatchMetadata, Layout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The layout of a slot: the slab as on the host, then the outputs of the steps.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The fields that are copied.
    pub(crate) sent: Arc<Layout>,
    /// The fields that steps read: those that are copied, and those of other names that steps make.
    pub(crate) layout: Arc<Layout>,
    /// Outputs of distinct names, with their offsets from the end of the slab.
    outputs: Vec<(Output, usize)>,
    /// Bytes of all outputs.
    pub(crate) bytes: usize,
}

impl Plan {
    pub(crate) fn new(sent: &Arc<Layout>, transforms: &[Arc<dyn DeviceTransform>]) -> Result<Self> {
        let (mut layout, mut outputs, mut bytes) = (Layout::clone(sent), Vec::new(), 0usize);
        for transform in transforms {
            for output in transform.outputs(&layout)? {
                if outputs.iter().any(|(other, _): &(Output, usize)| other.name == output.name) {
                    let message = format!("two steps make a field {}: give one another name", output.name);
                    return Err(Error::config(message));
                }
                let Tensor { element, shape } = &output.tensor;
                let width = shape.iter().try_fold(element.width(), |bytes, n| bytes.checked_mul(*n));
                let at = bytes.checked_next_multiple_of(ALIGN);
                let end = at.zip(width).and_then(|(at, width)| at.checked_add(width));
                let too_large =
                    || Error::config(format!("field {} is larger than memory: make batches smaller", output.name));
                bytes = end.ok_or_else(too_large)?;
                // Steps read what was copied, where both have one name. No layout of the host has a `bf16`.
                if let (None, Some(data_type)) = (layout.field(&output.name), element.data_type()) {
                    layout.push(&output.name, data_type, element.width(), shape.clone())?;
                }
                outputs.push((output, at.unwrap_or_default()));
            }
        }
        Ok(Self { sent: Arc::clone(sent), layout: Arc::new(layout), outputs, bytes })
    }
}

/// What these steps, one after another, make of batches with this layout.
///
/// Errors: those of [`DeviceTransform::outputs`]; a name that two steps make (kind `Config`).
pub fn outputs(layout: &Arc<Layout>, transforms: &[Arc<dyn DeviceTransform>]) -> Result<Vec<Output>> {
    Ok(Plan::new(layout, transforms)?.outputs.into_iter().map(|(output, _)| output).collect())
}

/// The fields of a batch that is on a GPU or being sent there.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'b> {
    /// The bytes in pinned host memory, and whether they were asked for.
    pub(crate) host: Option<(&'b [u8], &'b AtomicBool)>,
    pub(crate) plan: &'b Plan,
    pub(crate) metadata: &'b BatchMetadata,
    pub(crate) address: u64,
    pub(crate) slab: usize,
}

impl<'b> Fields<'b> {
    /// The metadata of their samples.
    pub fn metadata(&self) -> &'b BatchMetadata {
        self.metadata
    }

    /// The layout of the fields that steps read: those that were copied with the batch, then those of other names that steps made.
    pub fn layout(&self) -> &'b Arc<Layout> {
        &self.plan.layout
    }

    /// The names of all fields, those made on the GPU first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'b str> {
        let plan: &'b Plan = self.plan;
        let made = |name: &str| plan.outputs.iter().any(|(output, _)| output.name == name);
        let came = plan.sent.fields().iter().map(|field| field.name.as_str()).filter(move |name| !made(name));
        plan.outputs.iter().map(|(output, _)| output.name.as_str()).chain(came)
    }

    /// The field of this name: one made on the GPU, else one copied with the batch.
    pub fn view(&self, name: &str) -> Option<View> {
        self.made(name).or_else(|| self.came(name))
    }

    /// Whether the memory of a view lies in the slot.
    pub(crate) fn hold(&self, view: &View) -> bool {
        let all = self.address..=self.address + (self.slab + self.plan.bytes) as u64;
        let end = view.address.checked_add(view.bytes() as u64);
        all.contains(&view.address) && end.is_some_and(|end| all.contains(&end))
    }

    /// A field copied with the batch, even if one made on the GPU has the same name.
    pub(crate) fn came(&self, name: &str) -> Option<View> {
        let at = self.plan.sent.position(name)?;
        let field = self.plan.sent.fields().get(at)?;
        let place = self.metadata.place(at)?;
        let stride = field.strides.first().copied().unwrap_or(0).max(1);
        let mut shape = field.shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows = place.len() / stride;
        }
        let address = self.address + place.start as u64;
        Some(View { address, element: Element::of(&field.data_type)?, shape })
    }

    /// The bytes of a copied field in pinned host memory; only while the batch is being sent. They stay valid until the work
    /// of all transforms has finished, not just the copy, because they were asked for.
    pub fn host(&self, name: &str) -> Option<&'b [u8]> {
        let (bytes, asked) = self.host?;
        asked.store(true, Ordering::Relaxed);
        bytes.get(self.metadata.place(self.plan.sent.position(name)?)?)
    }

    /// A field made on the GPU.
    pub(crate) fn made(&self, name: &str) -> Option<View> {
        let (output, offset) = self.plan.outputs.iter().find(|(output, _)| output.name == name)?;
        let mut shape = output.tensor.shape.clone();
        // Batches without rows have no outputs.
        let most = if output.by_row || self.metadata.rows() == 0 { self.metadata.rows() } else { usize::MAX };
        if let Some(entries) = shape.first_mut() {
            *entries = (*entries).min(most);
        }
        Some(View { address: self.address + (self.slab + offset) as u64, element: output.tensor.element, shape })
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "transforms are declared, which access no memory")]
mod tests {
    use super::*;
    use crate::transforms::{Commands, field};
    use packhorse_core::DataType;

    /// Makes a field of another one's shape.
    struct Copies(&'static str, &'static str);

    // SAFETY: it queues nothing.
    unsafe impl DeviceTransform for Copies {
        fn outputs(&self, layout: &Layout) -> Result<Vec<Output>> {
            let from = field(layout, self.0, &[DataType::UInt8, DataType::Int32])?;
            let element = Element::of(&from.data_type).unwrap();
            Ok(vec![Output::rows(self.1, Tensor { element, shape: from.shape.clone() })])
        }

        fn run(&self, _: &Fields<'_>, _: u64, _: &mut dyn Commands) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn steps_read_what_steps_before_them_made() {
        let mut layout = Layout::default();
        layout.push("a", DataType::UInt8, 1, vec![4, 3]).unwrap();
        layout.push("b", DataType::Int32, 4, vec![4]).unwrap();
        let layout = Arc::new(layout);
        let made = |steps: &[(&'static str, &'static str)]| {
            let steps: Vec<Arc<dyn DeviceTransform>> =
                steps.iter().map(|(from, into)| Arc::new(Copies(from, into)) as _).collect();
            outputs(&layout, &steps)
        };
        let shapes = |outputs: Vec<Output>| outputs.into_iter().map(|output| output.tensor.shape).collect::<Vec<_>>();
        assert_eq!(
            shapes(made(&[("a", "c"), ("c", "a"), ("b", "b"), ("b", "d")]).unwrap()),
            [vec![4, 3], vec![4, 3], vec![4], vec![4]]
        );
        // A copied field is read even if a step made one of its name.
        assert_eq!(shapes(made(&[("b", "a"), ("a", "c")]).unwrap()), [vec![4], vec![4, 3]]);
        let message = made(&[("c", "d"), ("a", "c")]).unwrap_err().to_string();
        assert!(message.contains("no field c; they have: a, b"), "{message}");
        assert!(made(&[("a", "c"), ("b", "c")]).unwrap_err().to_string().contains("two steps make a field c"));
    }
}
