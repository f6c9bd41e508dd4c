//! The fields of a batch on a GPU, and where they lie in its slot. Refuses to know who copies the batch.

use super::{DeviceTransform, Output};
use crate::{Element, View};
use packhorse_core::{Error, Result};
use packhorse_read::{ALIGN, BatchMetadata, Layout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The layout of a slot: the slab as on the host, then the outputs of the steps.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) layout: Arc<Layout>,
    /// Outputs of distinct names, with their offsets from the end of the slab.
    outputs: Vec<(Output, usize)>,
    /// Bytes of all outputs.
    pub(crate) bytes: usize,
}

impl Plan {
    pub(crate) fn new(layout: &Arc<Layout>, transforms: &[Arc<dyn DeviceTransform>]) -> Result<Self> {
        let (mut outputs, mut bytes) = (Vec::new(), 0usize);
        for output in transforms.iter().map(|transform| transform.outputs(layout)).collect::<Result<Vec<_>>>()?.concat()
        {
            if outputs.iter().any(|(other, _): &(Output, usize)| other.name == output.name) {
                return Err(Error::config(format!("two steps make a field {}: give one another name", output.name)));
            }
            let width =
                output.tensor.shape.iter().try_fold(output.tensor.element.width(), |bytes, n| bytes.checked_mul(*n));
            let at = bytes.checked_next_multiple_of(ALIGN);
            let end = at.zip(width).and_then(|(at, width)| at.checked_add(width));
            let too_large =
                || Error::config(format!("field {} is larger than memory: make batches smaller", output.name));
            bytes = end.ok_or_else(too_large)?;
            outputs.push((output, at.unwrap_or_default()));
        }
        Ok(Self { layout: Arc::clone(layout), outputs, bytes })
    }
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

    /// The layout of the fields that were copied with the batch.
    pub fn layout(&self) -> &'b Arc<Layout> {
        &self.plan.layout
    }

    /// The names of all fields, those made on the GPU first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'b str> {
        let plan: &'b Plan = self.plan;
        let made = |name: &str| plan.outputs.iter().any(|(output, _)| output.name == name);
        let came = plan.layout.fields().iter().map(|field| field.name.as_str()).filter(move |name| !made(name));
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
        let at = self.plan.layout.position(name)?;
        let field = self.plan.layout.fields().get(at)?;
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
        bytes.get(self.metadata.place(self.plan.layout.position(name)?)?)
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
