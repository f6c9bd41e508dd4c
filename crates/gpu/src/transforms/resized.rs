//! Pictures, each of its own size.

use super::{Commands, DeviceTransform, Output, batch, beside, field, keys, made, rows, view};
use crate::kernels::{Element, Flip, Normalize, Part, Picks, Pixels, RaggedPictures, Resize};
use crate::upload_stream::Fields;
use packhorse_core::{DataType, Error, Result};
use packhorse_read::{FieldOptions, Layout};

/// Pictures that keep their own sizes in batches (`FieldKind::Picture` with a view of no size), a part of each resampled to one size,
/// mirrored, normalised: what the loader's view does on the CPU, with the same keys the same pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct Resized {
    /// The field that they are in.
    pub from: String,
    /// The field that is made.
    pub into: String,
    /// What becomes of them. Of the flip: never, or drawn. Channels are 3, as the loader decodes pictures.
    pub resize: Resize,
    /// The field of keys that is drawn from ([`FieldKind::Draws`](packhorse_read::FieldKind::Draws)).
    pub draws: String,
}

impl Resized {
    /// The pictures in the field `from` to this height and width: the middle of each, `bf16`, channels first, normalised for
    /// ImageNet, under the same name.
    pub fn new(from: impl Into<String>, size: (u32, u32)) -> Self {
        let from = from.into();
        let output = Pixels::normalized(Element::Bf16, Normalize::IMAGENET);
        let part = Part::Center { short: size.0.max(size.1) };
        let resize = Resize { channels: 3, size, part, flip: Flip::Never, output };
        Self { into: from.clone(), from, resize, draws: "draws".to_owned() }
    }

    fn parts(&self) -> [String; 2] {
        ["offsets", "shape"].map(|part| format!("{}.{part}", self.from))
    }

    fn drawn(&self) -> bool {
        matches!(self.resize.part, Part::Random { .. }) || matches!(self.resize.flip, Flip::Drawn(_))
    }
}

// SAFETY: the kernel stays inside of the arrays whose addresses and sizes it is given, and those are the fields'.
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
            return Err(Error::config("mirrors are drawn from keys here: launch the kernel for others"));
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
