//! Changes colours, erases, crops, mirrors and normalises pictures of one size.

use super::Fields;
use super::{Commands, DeviceTransform, Output, beside, keys, made, pictures, rows, view};
use crate::kernels::{Augment, CropPosition, Element, Erase, Flip, Image, Jitter, Normalize, Pixels};
use packhorse_core::{DataType, Result};
use packhorse_read::{FieldOptions, Layout};

/// Converts pictures of one size, `UInt8 [batch, height, width, 3]`, for training: cropped, mirrored, with random colours,
/// normalised, and a part erased ([`Augment`]). All is drawn from seed, epoch and sample, whatever the rank and the batch.
///
/// ```
/// use packhorse_gpu::transforms::Augmented;
///
/// // Of contrastive training, without the blur. Two fields have the same draws: for two views take two loaders with seeds of their own.
/// let augmented = Augmented::new("image").random_crop(224).flip(0.5).jitter(0.4, 0.4, 0.2, 0.1, 0.8).grayscale(0.2);
/// let erased = Augmented::new("image").flip(0.5).erase(0.25);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Augmented {
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
    /// How colours change.
    pub jitter: Jitter,
    /// The probability that a picture becomes gray.
    pub grayscale: f32,
    /// Whether a part is erased.
    pub erase: Erase,
    /// The field of keys for random draws ([`FieldKind::Draws`](packhorse_read::FieldKind::Draws)).
    pub draws: String,
}

impl Augmented {
    /// Converts whole pictures of the field `from` to `bf16`, channels first, normalised for ImageNet, under the same name.
    pub fn new(from: impl Into<String>) -> Self {
        let from = from.into();
        Self {
            into: from.clone(),
            from,
            output: Pixels::normalized(Element::Bf16, Normalize::IMAGENET),
            crop: None,
            place: CropPosition::Center,
            flip: Flip::Never,
            jitter: Jitter::NONE,
            grayscale: 0.0,
            erase: Erase::NONE,
            draws: "draws".to_owned(),
        }
    }

    /// The same, with a random crop of `side` × `side` pixels.
    pub fn random_crop(self, side: u32) -> Self {
        Self { crop: Some((side, side)), place: CropPosition::Drawn, ..self }
    }

    /// The same, mirrored with this probability, 0 to 1.
    pub fn flip(self, probability: f32) -> Self {
        Self { flip: Flip::Drawn(probability), ..self }
    }

    /// The same, with colours that change with this probability by torchvision's `ColorJitter(brightness, contrast, saturation, hue)`.
    pub fn jitter(self, brightness: f32, contrast: f32, saturation: f32, hue: f32, probability: f32) -> Self {
        Self { jitter: Jitter { probability, ..Jitter::new(brightness, contrast, saturation, hue) }, ..self }
    }

    /// The same, gray with this probability.
    pub fn grayscale(self, probability: f32) -> Self {
        Self { grayscale: probability, ..self }
    }

    /// The same, with a part erased with this probability.
    pub fn erase(self, probability: f32) -> Self {
        Self { erase: Erase::new(probability), ..self }
    }

    fn augment(&self, layout: &Layout) -> Result<(Augment, u32)> {
        let (size, channels, rows) = pictures(layout, &self.from)?;
        beside(layout, &self.draws, DataType::UInt64, rows, &[])?;
        let Self { place, flip, output, jitter, grayscale, erase, .. } = *self;
        let image = Image { size, channels, crop: self.crop.unwrap_or(size), place, flip, output };
        Ok((Augment { image, jitter, grayscale, erase }, rows))
    }
}

// SAFETY: the kernels access only the arrays whose addresses and sizes they are given: those of fields and scratch memory.
unsafe impl DeviceTransform for Augmented {
    fn needs(&self) -> Vec<FieldOptions> {
        keys(&self.draws, true)
    }

    fn outputs(&self, layout: &Layout) -> Result<Vec<Output>> {
        let (augment, batch) = self.augment(layout)?;
        // Refuses invalid settings early.
        augment.launches(256, 256, 256, 256, 1)?;
        Ok(vec![Output::rows(&self.into, augment.output(batch)?)])
    }

    fn scratch(&self, layout: &Layout) -> Result<usize> {
        let (augment, batch) = self.augment(layout)?;
        Ok(augment.scratch(batch))
    }

    fn run(&self, fields: &Fields<'_>, scratch: u64, commands: &mut dyn Commands) -> Result<()> {
        let (augment, _) = self.augment(fields.layout())?;
        let (from, keys) = (view(fields, &self.from)?.address, view(fields, &self.draws)?.address);
        let launches = augment.launches(from, keys, made(fields, &self.into)?.address, scratch, rows(fields))?;
        launches.iter().try_for_each(|launch| commands.launch(launch))
    }
}
