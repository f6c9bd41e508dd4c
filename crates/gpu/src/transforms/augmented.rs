//! Turns, changes colours, blurs, erases, mixes, crops, mirrors and normalises pictures of one size.

use super::Fields;
use super::{Commands, DeviceTransform, Output, beside, keys, made, pictures, rows, view};
use crate::kernels::{
    Augment, Blur, CropPosition, Element, Erase, Flip, Image, Jitter, Mix, MixedLabels, Normalize, Pixels, Rotate,
    Tensor,
};
use packhorse_core::{DataType, Error, Result};
use packhorse_read::{FieldOptions, Layout};

/// Converts pictures of one size, `UInt8 [batch, height, width, 3]`, for training: cropped, mirrored, turned, with random colours,
/// blurred, normalised, a part erased, and mixed with the picture before it ([`Augment`]). All is drawn from seed, epoch and sample, whatever the
/// rank and the batch; the other picture is that of the batch.
///
/// ```
/// use packhorse_gpu::transforms::Augmented;
///
/// // Of contrastive training. Two fields have the same draws: for two views take two loaders with seeds of their own.
/// let augmented = Augmented::new("image").random_crop(224).flip(0.5).jitter(0.4, 0.4, 0.2, 0.1, 0.8).grayscale(0.2).blur(23, 0.5);
/// let turned = Augmented::new("image").rotate(15.0, 1.0);
/// let erased = Augmented::new("image").flip(0.5).erase(0.25);
/// let mixed = Augmented::new("image").mix(0.2, 1.0, "label", 1000);
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
    /// Whether pictures turn.
    pub rotate: Rotate,
    /// How colours change.
    pub jitter: Jitter,
    /// The probability that a picture becomes gray.
    pub grayscale: f32,
    /// Whether pictures are blurred.
    pub blur: Blur,
    /// Whether a part is erased.
    pub erase: Erase,
    /// Whether pictures are mixed, and their labels with them: this needs targets.
    pub mix: Mix,
    /// The labels that are mixed with the pictures.
    pub targets: Option<Targets>,
    /// The field of keys for random draws ([`FieldKind::Draws`](packhorse_read::FieldKind::Draws)).
    pub draws: String,
}

/// Labels (`Int64 [batch]`) that become shares of classes (`F32 [batch, classes]`), as a loss of probabilities takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// The field of labels.
    pub from: String,
    /// The field to make.
    pub into: String,
    /// The number of classes.
    pub classes: u32,
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
            rotate: Rotate::NONE,
            jitter: Jitter::NONE,
            grayscale: 0.0,
            blur: Blur::NONE,
            erase: Erase::NONE,
            mix: Mix::NONE,
            targets: None,
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

    /// The same, turned by up to so many degrees either way with this probability.
    pub fn rotate(self, degrees: f32, probability: f32) -> Self {
        Self { rotate: Rotate { probability, degrees: (-degrees, degrees) }, ..self }
    }

    /// The same, blurred with this probability by torchvision's `GaussianBlur(kernel)`: an odd number of pixels.
    pub fn blur(self, kernel: u32, probability: f32) -> Self {
        Self { blur: Blur::new(kernel, probability), ..self }
    }

    /// The same, with a part erased with this probability.
    pub fn erase(self, probability: f32) -> Self {
        Self { erase: Erase::new(probability), ..self }
    }

    /// The same, mixed by MixUp and CutMix with these alphas (0 for none), and the field `labels` with it, of so many classes.
    pub fn mix(self, mixup: f32, cutmix: f32, labels: impl Into<String>, classes: u32) -> Self {
        let from = labels.into();
        let targets = Some(Targets { into: from.clone(), from, classes });
        Self { mix: Mix { probability: 1.0, mixup, cutmix }, targets, ..self }
    }

    fn augment(&self, layout: &Layout) -> Result<(Augment, u32)> {
        let (size, channels, rows) = pictures(layout, &self.from)?;
        beside(layout, &self.draws, DataType::UInt64, rows, &[])?;
        match &self.targets {
            Some(targets) if targets.classes == 0 => {
                return Err(Error::config("labels of no classes can't become shares: give the number of classes"));
            }
            Some(targets) => beside(layout, &targets.from, DataType::Int64, rows, &[])?,
            None if self.mix.is_any() => {
                return Err(Error::config(
                    "pictures are mixed without their labels: name the field of labels, and the number of classes",
                ));
            }
            None => {}
        }
        let Self { place, flip, output, rotate, jitter, grayscale, blur, erase, mix, .. } = *self;
        let image = Image { size, channels, crop: self.crop.unwrap_or(size), place, flip, output };
        Ok((Augment { image, rotate, jitter, grayscale, blur, erase, mix }, rows))
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
        augment.launches(256, 256, 256, 256, (1, None))?;
        let mut outputs = vec![Output::rows(&self.into, augment.output(batch)?)];
        if let Some(Targets { into, classes, .. }) = &self.targets {
            let shape = vec![batch as usize, *classes as usize];
            outputs.push(Output::rows(into, Tensor { element: Element::F32, shape }));
        }
        Ok(outputs)
    }

    fn scratch(&self, layout: &Layout) -> Result<usize> {
        let (augment, batch) = self.augment(layout)?;
        Ok(augment.scratch(batch))
    }

    fn run(&self, fields: &Fields<'_>, scratch: u64, commands: &mut dyn Commands) -> Result<()> {
        let (augment, _) = self.augment(fields.layout())?;
        let (from, keys) = (view(fields, &self.from)?.address, view(fields, &self.draws)?.address);
        let labels = self.targets.as_ref().map(|Targets { from, into, classes }| {
            let (labels, targets) = (view(fields, from)?.address, made(fields, into)?.address);
            Ok(MixedLabels { labels, targets, classes: *classes })
        });
        let rows = (rows(fields), labels.transpose()?);
        let launches = augment.launches(from, keys, made(fields, &self.into)?.address, scratch, rows)?;
        launches.iter().try_for_each(|launch| commands.launch(launch))
    }
}
