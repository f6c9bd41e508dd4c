//! Crops, mirrors and normalises pictures of one size.

use super::Fields;
use super::{Commands, DeviceTransform, Output, beside, keys, made, pictures, rows, view};
use crate::kernels::{CropPosition, Element, Flip, Image, Normalize, Picks, Pixels};
use packhorse_core::{DataType, Error, Result};
use packhorse_read::{FieldOptions, Layout};

/// Converts pictures of one size, `UInt8 [batch, height, width, channels]`, for a network: cropped, mirrored,
/// normalised, in another element type and axis order.
#[derive(Clone, Debug, PartialEq)]
pub struct Pictures {
    /// The field to read.
    pub from: String,
    /// The field to make.
    pub into: String,
    /// The format of the output pixels.
    pub output: Pixels,
    /// Height and width of the crop; `None` for the whole picture.
    pub crop: Option<(u32, u32)>,
    /// The position of the crop: the centre, or random.
    pub place: CropPosition,
    /// Whether pictures are mirrored: never, or at random.
    pub flip: Flip,
    /// The field of keys for random draws ([`FieldKind::Draws`](packhorse_read::FieldKind::Draws)).
    pub draws: String,
}

impl Pictures {
    /// Converts whole pictures of the field `from` to `bf16`, channels first, normalised for ImageNet, under the same
    /// name.
    pub fn new(from: impl Into<String>) -> Self {
        let from = from.into();
        let output = Pixels::normalized(Element::Bf16, Normalize::IMAGENET);
        let (place, flip) = (CropPosition::Center, Flip::Never);
        Self { into: from.clone(), from, output, crop: None, place, flip, draws: "draws".to_owned() }
    }

    /// The same, with a random crop of `side` × `side` pixels.
    pub fn random_crop(self, side: u32) -> Self {
        Self { crop: Some((side, side)), place: CropPosition::Drawn, ..self }
    }

    /// The same, mirrored with this probability, 0 to 1.
    pub fn flip(self, probability: f32) -> Self {
        Self { flip: Flip::Drawn(probability), ..self }
    }

    fn image(&self, layout: &Layout) -> Result<(Image, u32)> {
        let (size, channels, rows) = pictures(layout, &self.from)?;
        if self.place == CropPosition::Given || self.flip == Flip::Given {
            return Err(Error::config(
                "crops and flips are drawn from keys here: launch the kernel yourself to give them",
            ));
        }
        if self.drawn() {
            beside(layout, &self.draws, DataType::UInt64, rows, &[])?;
        }
        let crop = self.crop.unwrap_or(size);
        let Self { place, flip, output, .. } = *self;
        Ok((Image { size, channels, crop, place, flip, output }, rows))
    }

    fn drawn(&self) -> bool {
        self.place == CropPosition::Drawn || matches!(self.flip, Flip::Drawn(_))
    }
}

// SAFETY: the kernel accesses only the arrays whose addresses and sizes it is given, which are those of the fields.
unsafe impl DeviceTransform for Pictures {
    fn needs(&self) -> Vec<FieldOptions> {
        keys(&self.draws, self.drawn())
    }

    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>> {
        let (image, batch) = self.image(layout)?;
        // Refuses invalid settings early.
        image.launch(256, &Picks { keys: 256, ..Picks::default() }, 256, 1)?;
        Ok(vec![Output::rows(&self.into, image.output(batch)?)])
    }

    fn run(&self, fields: &Fields<'_>, _: u64, commands: &mut dyn Commands) -> Result<()> {
        let (image, _) = self.image(fields.layout())?;
        let keys = if self.drawn() { view(fields, &self.draws)?.address } else { 0 };
        let picks = Picks { keys, ..Picks::default() };
        let (from, to) = (view(fields, &self.from)?.address, made(fields, &self.into)?.address);
        commands.launch(&image.launch(from, &picks, to, rows(fields))?)
    }
}
