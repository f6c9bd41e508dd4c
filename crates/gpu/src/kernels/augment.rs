//! Turns, changes colours, blurs, erases, mixes, crops, mirrors and normalises pictures of one size.

use super::element::Tensor;
use super::image::{CropPosition, Flip, Image, Picks};
use super::launch::{Args, Launch, Module, address};
use packhorse_core::{Error, Result};

const ENTRIES: [&str; 4] = ["augment_u8", "augment_f16", "augment_bf16", "augment_f32"];

/// Size of the struct that describes what happens to a picture, passed between the kernels.
const PLAN: usize = 104;

/// Of addresses in scratch memory: four values are read together.
const ALIGN: usize = 16;

/// Partial sums of a picture, of which the contrast needs the mean.
const PARTS: usize = 1024;

/// The sums of 32 of them each.
const FOLDS: u64 = 32;

/// The weights of a blur, in scratch memory for each picture.
fn weights_of(radius: u32) -> u64 {
    2 * u64::from(radius).next_multiple_of(4) + 8
}

/// What [`Image`] makes of three channels, changed at random as in training: torchvision's `RandomRotation`, `ColorJitter`,
/// `RandomGrayscale`, `GaussianBlur`, normalisation and `RandomErasing`, in this order and by the same formulas on values from 0 to 1.
///
/// All is drawn from [`Picks::keys`], in lanes of its own (64 to 183), so crops and flips are those of [`Image`] with the same keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Augment {
    /// Crop, flip and output format, of pictures of three channels. Crops and flips may not be given.
    pub image: Image,
    /// Whether pictures turn, after crop and flip.
    pub rotate: Rotate,
    /// How colours change.
    pub jitter: Jitter,
    /// The probability that a picture becomes gray: the weighted mean of its channels in each of them.
    pub grayscale: f32,
    /// Whether pictures are blurred.
    pub blur: Blur,
    /// Whether a part is erased.
    pub erase: Erase,
    /// Whether pictures are mixed, after all else.
    pub mix: Mix,
}

/// Pictures that are mixed with the one before them in the batch (the first with the last): torchvision's `MixUp` blends the two, and
/// its `CutMix` pastes a part of the other one. Each picture has a share of its own, drawn from Beta(alpha, alpha).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// The probability that a picture is mixed.
    pub probability: f32,
    /// The alpha of MixUp; 0 for none.
    pub mixup: f32,
    /// The alpha of CutMix; 0 for none. With both, each is drawn for half of the mixed pictures.
    pub cutmix: f32,
}

impl Mix {
    /// Nothing is mixed.
    pub const NONE: Self = Self { probability: 0.0, mixup: 0.0, cutmix: 0.0 };

    /// Whether any picture is mixed.
    pub fn is_any(&self) -> bool {
        self.probability > 0.0 && (self.mixup > 0.0 || self.cutmix > 0.0)
    }

    /// The share of mixed pictures that get a pasted part.
    fn pastes(&self) -> f32 {
        match (self.mixup > 0.0, self.cutmix > 0.0) {
            (true, true) => 0.5,
            (_, cutmix) => f32::from(u8::from(cutmix)),
        }
    }

    fn check(&self) -> Result<()> {
        for (name, alpha) in [("mixup", self.mixup), ("cutmix", self.cutmix)] {
            if !(0.0..=1000.0).contains(&alpha) {
                return Err(Error::config(format!("{name} is {alpha}; give an alpha above 0, or 0 for none")));
            }
        }
        Ok(())
    }
}

/// The labels of pictures that are mixed, and their shares of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedLabels {
    /// The address of the labels, `Int64 [rows]`. A label beyond the classes has no share.
    pub labels: u64,
    /// The address of the shares, `Float32 [rows, classes]`.
    pub targets: u64,
    /// The number of classes.
    pub classes: u32,
}

/// Random changes of colours, in a random order. Each factor is drawn evenly between its two ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// The factor of all values; 1 changes nothing.
    pub brightness: (f32, f32),
    /// The factor of the distance to the picture's mean gray; 1 changes nothing.
    pub contrast: (f32, f32),
    /// The factor of the distance to the pixel's gray; 1 changes nothing.
    pub saturation: (f32, f32),
    /// How far the hue turns, as a share of the circle: -0.5 to 0.5.
    pub hue: (f32, f32),
    /// The probability that the colours of a picture change.
    pub probability: f32,
}

impl Jitter {
    /// Colours as they are.
    pub const NONE: Self = Self {
        brightness: (1.0, 1.0),
        contrast: (1.0, 1.0),
        saturation: (1.0, 1.0),
        hue: (0.0, 0.0),
        probability: 0.0,
    };

    /// As torchvision's `ColorJitter(brightness, contrast, saturation, hue)`: factors between 1 less and 1 more of these, at least 0,
    /// and turns of the hue by at most `hue` either way. For every picture.
    pub fn new(brightness: f32, contrast: f32, saturation: f32, hue: f32) -> Self {
        let around = |by: f32| ((1.0 - by).max(0.0), 1.0 + by);
        let [brightness, contrast, saturation] = [brightness, contrast, saturation].map(around);
        Self { brightness, contrast, saturation, hue: (-hue, hue), probability: 1.0 }
    }

    fn ranges(&self) -> [(f32, f32); 4] {
        [self.brightness, self.contrast, self.saturation, self.hue]
    }

    /// Whether the contrast of any picture changes.
    fn needs_means(&self) -> bool {
        self.probability > 0.0 && self.contrast != (1.0, 1.0)
    }

    fn check(&self) -> Result<()> {
        let names = ["brightness", "contrast", "saturation", "hue"];
        for (name, (from, to)) in names.into_iter().zip(self.ranges()) {
            let (least, most) = if name == "hue" { (-0.5, 0.5) } else { (0.0, f32::MAX) };
            if !(from >= least && from <= to && to <= most) {
                let ends = if name == "hue" { "-0.5 to 0.5" } else { "0 or more" };
                return Err(Error::config(format!("{name} is {from} to {to}; give {ends}, the lesser first")));
            }
        }
        Ok(())
    }
}

/// A rectangle of random position, area and aspect ratio whose values are 0 in the output, after normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Erase {
    /// The probability that a part of a picture is erased.
    pub probability: f32,
    /// Minimum and maximum share of the picture's area, above 0, at most 1.
    pub area: (f32, f32),
    /// Minimum and maximum aspect ratio (height / width).
    pub ratio: (f32, f32),
}

impl Erase {
    /// Nothing is erased.
    pub const NONE: Self = Self::new(0.0);

    /// As torchvision's `RandomErasing(p)`: 0.02 to 0.33 of the area, aspect ratios from 0.3 to 3.3.
    pub const fn new(probability: f32) -> Self {
        Self { probability, area: (0.02, 0.33), ratio: (0.3, 3.3) }
    }

    fn check(&self) -> Result<()> {
        let ((least, most), (narrow, wide)) = (self.area, self.ratio);
        if !(least > 0.0 && least <= most && most <= 1.0) {
            let message = format!("area is {least} to {most}; give shares above 0, at most 1, the lesser first");
            return Err(Error::config(message));
        }
        if !(narrow > 0.0 && narrow <= wide && wide.is_finite()) {
            let message = format!("ratio is {narrow} to {wide}; give heights by widths, the lesser first");
            return Err(Error::config(message));
        }
        Ok(())
    }
}

/// Turns pictures around the centre of their crop, by bilinear interpolation. What lies outside of the crop is black.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotate {
    /// The probability that a picture turns.
    pub probability: f32,
    /// The angle is drawn evenly between these: degrees to the left.
    pub degrees: (f32, f32),
}

impl Rotate {
    /// Pictures as they are.
    pub const NONE: Self = Self { probability: 0.0, degrees: (0.0, 0.0) };

    fn check(&self) -> Result<()> {
        let (from, to) = self.degrees;
        if !(from >= -360.0 && from <= to && to <= 360.0) {
            let message = format!("rotate is {from} to {to} degrees; give -360 to 360, the lesser first");
            return Err(Error::config(message));
        }
        Ok(())
    }
}

/// Convolves pictures with a Gaussian, mirrored at their borders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blur {
    /// The probability that a picture is blurred.
    pub probability: f32,
    /// The side of the square of pixels that count, an odd number up to 127.
    pub kernel: u32,
    /// The standard deviation is drawn evenly between these, in pixels, above 0.
    pub sigma: (f32, f32),
}

impl Blur {
    /// Pictures as they are.
    pub const NONE: Self = Self::new(1, 0.0);

    /// As torchvision's `GaussianBlur(kernel)`: standard deviations from 0.1 to 2.
    pub const fn new(kernel: u32, probability: f32) -> Self {
        Self { probability, kernel, sigma: (0.1, 2.0) }
    }

    /// Pixels that count on each side; `None` if nothing is blurred.
    fn radius(&self) -> Option<u32> {
        (self.probability > 0.0 && self.kernel > 1).then_some(self.kernel / 2)
    }

    fn check(&self, (height, width): (u32, u32)) -> Result<()> {
        let Self { kernel, sigma: (from, to), .. } = *self;
        if kernel.is_multiple_of(2) || kernel > 127 || kernel / 2 >= height.min(width) {
            let message = format!(
                "blur has a kernel of {kernel} pixels, pictures have {height} × {width}: give an odd number up to 127, less than twice their sides"
            );
            return Err(Error::config(message));
        }
        if !(from > 0.0 && from <= to && to.is_finite()) {
            let message = format!("blur has a sigma of {from} to {to}; give numbers above 0, the lesser first");
            return Err(Error::config(message));
        }
        Ok(())
    }
}

/// The addresses of what kernels pass on, and where it ends.
struct Scratch {
    plans: u64,
    sums: u64,
    smooth: u64,
    between: u64,
    weights: u64,
    end: u64,
}

impl Augment {
    /// `image` without any changes.
    pub fn new(image: Image) -> Self {
        Self {
            image,
            rotate: Rotate::NONE,
            jitter: Jitter::NONE,
            grayscale: 0.0,
            blur: Blur::NONE,
            erase: Erase::NONE,
            mix: Mix::NONE,
        }
    }

    /// The output of `rows` pictures.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        self.image.output(rows)
    }

    /// Bytes of scratch memory that [`Augment::launches`] needs: where pictures are blurred, 24 a pixel of the output and a little more.
    pub fn scratch(&self, rows: u32) -> usize {
        self.scratch_at(0, rows).end as usize
    }

    fn scratch_at(&self, plans: u64, rows: u32) -> Scratch {
        let rows = u64::from(rows);
        let (height, width) = self.image.crop;
        let pixels = (u64::from(height) * u64::from(width)).saturating_mul(12 * rows);
        let pictures = |any: bool| if any { pixels } else { 0 };
        let (radius, means) = (self.blur.radius(), self.jitter.needs_means());
        // Pictures larger than memory are refused with the output.
        let after = |address: u64, bytes: u64| (address.saturating_add(bytes) | (ALIGN as u64 - 1)).saturating_add(1);
        let sums = after(plans, rows * PLAN as u64);
        let smooth = after(sums, if means { rows * 8 * PARTS as u64 } else { 0 });
        let between = after(smooth, pictures(radius.is_some()));
        let weights = after(between, pictures(radius.is_some()));
        let end = weights.saturating_add(radius.map_or(0, |radius| rows * 4 * weights_of(radius)));
        let [sums, smooth, between] = [(sums, means), (smooth, radius.is_some()), (between, radius.is_some())]
            .map(|(address, is)| if is { address } else { 0 });
        Scratch { plans, sums, smooth, between, weights, end }
    }

    /// The consecutive launches for `rows` pictures at `input`, aligned to four bytes, whose keys are at `keys`. `scratch` has
    /// [`Augment::scratch`] bytes, aligned to sixteen. With `labels` their shares are made too.
    pub fn launches(
        &self,
        input: u64,
        keys: u64,
        output: u64,
        scratch: u64,
        (rows, labels): (u32, Option<MixedLabels>),
    ) -> Result<Vec<Launch>> {
        let Self { image, rotate, jitter, grayscale, blur, erase, mix } = self;
        if image.channels != 3 || image.place == CropPosition::Given || image.flip == Flip::Given {
            return Err(Error::config("colours need three channels, and crops and flips are drawn here: ask for that"));
        }
        rotate.check()?;
        jitter.check()?;
        blur.check(image.crop)?;
        erase.check()?;
        mix.check()?;
        let below = |what: &str, probability: f32| {
            let wrong = |_| Error::config(format!("{what} is {probability}; give a probability from 0 to 1"));
            Flip::Drawn(probability).threshold().map_err(wrong)
        };
        let (jitter_below, gray_below) = (below("jitter", jitter.probability)?, below("grayscale", *grayscale)?);
        let erase_below = below("erase", erase.probability)?;
        let (turn_below, blur_below) = (below("rotate", rotate.probability)?, below("blur", blur.probability)?);
        let mix_below = below("mix", mix.probability)?;
        let mix_below = if mix.is_any() { mix_below } else { 0 };
        let paste_below = below("cutmix", mix.pastes())?;
        let args = image.args(input, &Picks { keys, ..Picks::default() }, output, rows, true)?;
        let Scratch { plans, sums, smooth, between, weights, .. } =
            self.scratch_at(address("scratch", scratch, ALIGN)?, rows);
        let args = args.u64(plans).u64(sums);
        let args = jitter.ranges().into_iter().fold(args, |args, (from, to)| args.f32(from).f32(to));
        let args = args.u64(jitter_below).u64(gray_below).u64(erase_below);
        let args = args.f64(erase.area.0.into()).f64(erase.area.1.into());
        // The last bit of the standard library's logarithm depends on the platform.
        let args =
            [erase.ratio.0, erase.ratio.1].into_iter().fold(args, |args, ratio| args.f64(libm::log(ratio.into())));
        let args = args.u64(mix_below).u64(paste_below).f64(mix.mixup.into()).f64(mix.cutmix.into());
        let (of, targets, classes) = match labels {
            Some(MixedLabels { labels, targets, classes }) => {
                (address("labels", labels, 8)?, address("targets", targets, 4)?, classes)
            }
            None => (0, 0, 0),
        };
        let args = args.u64(of).u64(targets).u64(classes.into()).u64(turn_below).u64(blur_below);
        let halves = [rotate.degrees.0, rotate.degrees.1].map(|degrees| f64::from(degrees) / 180.0);
        let args = halves.into_iter().fold(args, Args::f64).f64(blur.sigma.0.into()).f64(blur.sigma.1.into());
        let args = args.u64(smooth).u64(between).u64(weights).u64(blur.radius().unwrap_or(0).into()).finish(400)?;
        let of_rows = |entry| Launch::flat(Module::Augment, entry, rows.into(), args.clone());
        let mut launches = vec![of_rows("augment_plans")?];
        if sums != 0 {
            launches.push(Launch::rows(Module::Augment, "augment_sums", PARTS as u64, rows, args.clone())?);
            launches.push(Launch::rows(Module::Augment, "augment_folds", FOLDS, rows, args.clone())?);
            launches.push(of_rows("augment_means")?);
        }
        let of_pixels = |entry| Launch::pictures(Module::Augment, entry, image.crop, rows, args.clone());
        if smooth != 0 {
            let (height, groups) = (u64::from(image.crop.0), u64::from(image.crop.1.div_ceil(4)));
            launches.push(of_rows("augment_weights")?);
            launches.push(of_pixels("augment_colors")?);
            for (entry, threads) in [("augment_across", height), ("augment_down", 3 * height.div_ceil(4))] {
                launches.push(Launch::rows(Module::Augment, entry, threads * groups, rows, args.clone())?);
            }
        }
        launches.push(of_pixels(image.output.entry(ENTRIES)?)?);
        if labels.is_some() {
            launches.push(Launch::rows(Module::Augment, "augment_targets", classes.into(), rows, args)?);
        }
        Ok(launches)
    }
}
