//! Resizes pictures of different sizes.

use super::Fields;
use super::{Commands, DeviceTransform, Output, batch, beside, field, keys, made, rows, view};
use crate::kernels::{Crop, Element, Flip, Normalize, Picks, Pixels, RaggedPictures, Resize};
use packhorse_core::{DataType, Error, Result};
use packhorse_read::{FieldOptions, Layout};

/// Crops, resamples to one size, mirrors and normalises pictures that keep their own sizes in batches
/// (`FieldKind::Picture` with a view of no size). With the same keys the loader's view makes the same pictures on the
/// CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Resized {
    /// The field to read.
    pub from: String,
    /// The field to make.
    pub into: String,
    /// How they are resized. The flip must be never or random; channels are 3, as the loader decodes pictures.
    pub resize: Resize,
    /// The field of keys for random draws ([`FieldKind::Draws`](packhorse_read::FieldKind::Draws)).
    pub draws: String,
}

impl Resized {
    /// Resizes the centre of each picture in the field `from` to this height and width, as `bf16`, channels first,
    /// normalised for ImageNet, under the same name.
    pub fn new(from: impl Into<String>, size: (u32, u32)) -> Self {
        let from = from.into();
        let output = Pixels::normalized(Element::Bf16, Normalize::IMAGENET);
        let crop = Crop::Center { short: size.0.max(size.1) };
        let resize = Resize { channels: 3, size, crop, flip: Flip::Never, output };
        Self { into: from.clone(), from, resize, draws: "draws".to_owned() }
    }

    fn parts(&self) -> [String; 2] {
        ["offsets", "shape"].map(|part| format!("{}.{part}", self.from))
    }

    fn drawn(&self) -> bool {
        matches!(self.resize.crop, Crop::Random { .. }) || matches!(self.resize.flip, Flip::Drawn(_))
    }
}

// SAFETY: the kernel accesses only the arrays whose addresses and sizes it is given, which are those of the fields.
unsafe impl DeviceTransform for Resized {
    fn needs(&self) -> Vec<FieldOptions> {
        keys(&self.draws, self.drawn())
    }

    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>> {
        let from = field(layout, &self.from, &[DataType::UInt8])?;
        let [_, shapes] = self.parts();
        if !from.ragged || layout.field(&shapes).is_none() {
            let message = format!("field {} has no pictures of their own sizes: ask for a view of no size", self.from);
            return Err(Error::config(message));
        }
        let rows = batch(field(layout, &shapes, &[DataType::Int32])?)?;
        beside(layout, &shapes, DataType::Int32, rows, &[3])?;
        if self.resize.flip == Flip::Given {
            return Err(Error::config("flips are drawn from keys here: launch the kernel yourself to give them"));
        }
        if self.drawn() {
            beside(layout, &self.draws, DataType::UInt64, rows, &[])?;
        }
        // Refuses invalid settings early.
        let somewhere = RaggedPictures { values: 256, bytes: 0, offsets: 256, shapes: 256 };
        self.resize.launch(&somewhere, &Picks { keys: 256, ..Picks::default() }, 256, 256, 1)?;
        Ok(vec![Output::rows(&self.into, self.resize.output(rows)?)])
    }

    fn scratch(&self, layout: &Layout) -> Result<usize> {
        let [_, shapes] = self.parts();
        self.resize.scratch(batch(field(layout, &shapes, &[DataType::Int32])?)?)
    }

    fn run(&self, fields: &Fields<'_>, scratch: u64, commands: &mut dyn Commands) -> Result<()> {
        let [offsets, shapes] = self.parts();
        let values = view(fields, &self.from)?;
        let from = RaggedPictures {
            values: values.address,
            bytes: values.bytes() as u64,
            offsets: view(fields, &offsets)?.address,
            shapes: view(fields, &shapes)?.address,
        };
        let keys = if self.drawn() { view(fields, &self.draws)?.address } else { 0 };
        let picks = Picks { keys, ..Picks::default() };
        let to = made(fields, &self.into)?.address;
        self.resize
            .launch(&from, &picks, to, scratch, rows(fields))?
            .iter()
            .try_for_each(|launch| commands.launch(launch))
    }
}
