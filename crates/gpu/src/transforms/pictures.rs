//! Pictures of one size.

use super::{Commands, DeviceTransform, Output, batch, beside, field, keys, made, rows, side, view};
use crate::kernels::{Element, Flip, Image, Normalize, Picks, Pixels, Place};
use crate::upload_stream::Fields;
use packhorse_core::{DataType, Error, Result};
use packhorse_read::{FieldOptions, Layout};

/// Pictures of one size, `UInt8 [batch, height, width, channels]`, as a network takes them: cut, mirrored, in other types and
/// order, normalised.
#[derive(Clone, Debug, PartialEq)]
pub struct Pictures {
    /// The field that they are in.
    pub from: String,
    /// The field that is made.
    pub into: String,
    /// What becomes of pixels.
    pub output: Pixels,
    /// Height and width of the part that is kept; all if `None`.
    pub crop: Option<(u32, u32)>,
    /// Where the part is: in the middle, or drawn.
    pub place: Place,
    /// Whether pictures are mirrored: never, or drawn.
    pub flip: Flip,
    /// The field of keys that is drawn from ([`FieldKind::Draws`](packhorse_read::FieldKind::Draws)).
    pub draws: String,
}

impl Pictures {
    /// All of each picture in the field `from`, as `bf16`, channels first, normalised for ImageNet, under the same name.
    pub fn new(from: impl Into<String>) -> Self {
        let from = from.into();
        let output = Pixels::normalized(Element::Bf16, Normalize::IMAGENET);
        let (place, flip) = (Place::Center, Flip::Never);
        Self { into: from.clone(), from, output, crop: None, place, flip, draws: "draws".to_owned() }
    }

    /// The same, with `side` × `side` pixels of random position in each.
    pub fn random_crop(self, side: u32) -> Self {
        Self { crop: Some((side, side)), place: Place::Drawn, ..self }
    }

    /// The same, mirrored with this probability, 0 to 1.
    pub fn flip(self, probability: f32) -> Self {
        Self { flip: Flip::Drawn(probability), ..self }
    }

    fn image(&self, layout: &Layout) -> Result<(Image, u32)> {
        let from = field(layout, &self.from, &[DataType::UInt8])?;
        let [_, height, width, channels] = from.shape[..] else {
            return Err(Error::config(format!("field {} has no pictures of one size: {:?}", self.from, from.shape)));
        };
        if self.place == Place::Given || self.flip == Flip::Given {
            return Err(Error::config("parts and mirrors are drawn from keys here: launch the kernel for others"));
        }
        if self.drawn() {
            beside(layout, &self.draws, DataType::UInt64, batch(from)?, &[])?;
        }
        let size = (side(height)?, side(width)?);
        let crop = self.crop.unwrap_or(size);
        let Self { place, flip, output, .. } = *self;
        Ok((Image { size, channels: side(channels)?, crop, place, flip, output }, batch(from)?))
    }

    fn drawn(&self) -> bool {
        self.place == Place::Drawn || matches!(self.flip, Flip::Drawn(_))
    }
}

// SAFETY: the kernel stays inside of the arrays whose addresses and sizes it is given, and those are the fields'.
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
