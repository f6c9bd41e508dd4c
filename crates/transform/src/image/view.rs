//! Settings of the image augmentation in a training loop, and their bounds. Touches no pixel.

mod crop;
mod draws;

pub(super) use crop::Crop;
pub use draws::Draws;

use packhorse_core::{Error, Kind, Limits, Result};

/// How [`ViewDecoder`](super::ViewDecoder) crops, resizes and flips each image. The result is 8-bit RGB, upright as EXIF
/// or XMP says. The default keeps every image's own size.
///
/// ```
/// use packhorse_transform::image::{Filter, View};
///
/// let train = View::random_crop(224).flip(0.5);
/// let evaluation = View { filter: Filter::Bicubic, ..View::center_crop(224) };
/// assert_eq!((train.flip, evaluation.flip), (0.5, 0.0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct View {
    /// The target size, and the crop that fills it.
    pub size: Size,
    /// Probability of a left-right flip, 0 to 1.
    pub flip: f32,
    /// The resampling filter.
    pub filter: Filter,
    /// Whether a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size if the crop then still has twice the sides of the
    /// view: faster for large images, with slightly different pixels. Needs the feature `turbojpeg`.
    pub reduced: bool,
    /// Which random numbers of a sample it takes. Images and masks of one lane are cut and mirrored alike, two views of one image need
    /// two lanes.
    pub lane: u32,
}

/// The size of a view. Heights come first, as in arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Size {
    /// The image's own size.
    #[default]
    Keep,
    /// The image's own size, which must be this one.
    Exact {
        /// Height in pixels.
        height: u32,
        /// Width in pixels.
        width: u32,
    },
    /// The whole image, resized to this size ignoring proportions.
    Squash {
        /// Height in pixels.
        height: u32,
        /// Width in pixels.
        width: u32,
    },
    /// The shorter side is scaled to `short`, the other in proportion (rounded down), and the central `height` × `width`
    /// are cropped: torchvision's `Resize(short)` and `CenterCrop((height, width))`, without resampling the pixels that
    /// are cropped away.
    Center {
        /// The shorter side after scaling; at least `height` and `width`.
        short: u32,
        /// Height in pixels.
        height: u32,
        /// Width in pixels.
        width: u32,
    },
    /// A crop of random position, area and aspect ratio, resized to `height` × `width`: torchvision's
    /// `RandomResizedCrop`, with random numbers from [`Draws`].
    Random {
        /// Height in pixels.
        height: u32,
        /// Width in pixels.
        width: u32,
        /// Least and most fraction of the image's area; usually (0.08, 1).
        scale: (f32, f32),
        /// Least and most aspect ratio (width / height); usually (3/4, 4/3).
        ratio: (f32, f32),
    },
}

/// A resampling filter. Both are antialiased, as in Pillow and in torchvision's `antialias=True`, and match their pixels
/// within 2 of 255. Columns are resampled before rows, which is faster; Pillow uses the other order, which matters only
/// where bicubic overshoots at hard edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// A triangle filter scaled to the target's pixels.
    #[default]
    Bilinear,
    /// Bicubic, a = -1/2 (Catmull-Rom).
    Bicubic,
}

impl View {
    /// A random crop of each image, resized to `side` × `side` pixels: torchvision's `RandomResizedCrop(side)` with its
    /// default areas (0.08 to 1 of the image) and aspect ratios (3/4 to 4/3).
    pub fn random_crop(side: u32) -> Self {
        let (scale, ratio) = ((0.08, 1.0), (3.0 / 4.0, 4.0 / 3.0));
        Self::of(Size::Random { height: side, width: side, scale, ratio })
    }

    /// The central `side` × `side` pixels of each image, after scaling its shorter side to 8/7 of `side`. For 224 this is
    /// torchvision's `Resize(256)` and `CenterCrop(224)`, the usual evaluation on ImageNet.
    pub fn center_crop(side: u32) -> Self {
        let short = u32::try_from(u64::from(side) * 8 / 7).unwrap_or(u32::MAX);
        Self::of(Size::Center { short, height: side, width: side })
    }

    /// The whole image, resized to `side` × `side` pixels ignoring proportions.
    pub fn squash(side: u32) -> Self {
        Self::of(Size::Squash { height: side, width: side })
    }

    fn of(size: Size) -> Self {
        Self { size, ..Self::default() }
    }

    /// Sets the probability of a left-right flip, 0 to 1.
    pub fn flip(self, probability: f32) -> Self {
        Self { flip: probability, ..self }
    }

    /// Takes other random numbers of each sample: for a second view of the same image.
    pub fn lane(self, lane: u32) -> Self {
        Self { lane, ..self }
    }

    /// Sets the resampling filter.
    pub fn filter(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// Height and width of every view; `None` if each image keeps its own.
    pub fn shape(&self) -> Option<(u32, u32)> {
        match self.size {
            Size::Keep => None,
            Size::Exact { height, width }
            | Size::Squash { height, width }
            | Size::Center { height, width, .. }
            | Size::Random { height, width, .. } => Some((height, width)),
        }
    }

    /// Whether this crops each image as `other` does, at any size of the result.
    pub fn crops_like(&self, other: &View) -> bool {
        match (self.size, other.size) {
            (Size::Random { scale, ratio, .. }, Size::Random { scale: other_scale, ratio: other_ratio, .. }) => {
                (scale, ratio, self.lane) == (other_scale, other_ratio, other.lane)
            }
            (size, other) => size == other,
        }
    }

    /// Whether two draws give two views of the same picture.
    pub fn is_random(&self) -> bool {
        matches!(self.size, Size::Random { .. }) || self.flip > 0.0
    }

    /// A `Config` error for invalid settings.
    pub(super) fn validate(&self, limits: &Limits) -> Result<()> {
        if !(0.0..=1.0).contains(&self.flip) {
            return Err(Error::config(format!("flip is {}; give a probability from 0 to 1", self.flip)));
        }
        if self.reduced && !cfg!(feature = "turbojpeg") {
            return Err(Error::unsupported("decoding at a reduced size needs a build with the feature turbojpeg"));
        }
        if let Some((height, width)) = self.shape() {
            area(height, width, limits)?;
        }
        match self.size {
            Size::Center { short, height, width } if short < height.max(width) => {
                let text = format!("a shorter side of {short} pixels can't be cut to {height} × {width}");
                Err(Error::config(format!("{text}; give at least {}", height.max(width))))
            }
            Size::Random { scale: (from, to), .. } if !(from > 0.0 && from <= to && to <= 1.0) => {
                Err(Error::config(format!("scale is {from} to {to}; give shares above 0, at most 1, the lesser first")))
            }
            Size::Random { ratio: (from, to), .. } if !(from > 0.0 && from <= to && to.is_finite()) => {
                Err(Error::config(format!("ratio is {from} to {to}; give widths by heights, the lesser first")))
            }
            _ => Ok(()),
        }
    }
}

fn area(height: u32, width: u32, limits: &Limits) -> Result<()> {
    if height == 0 || width == 0 {
        return Err(Error::config(format!("a size of {height} × {width} has no pixels; give at least 1 × 1")));
    }
    if u64::from(height) * u64::from(width) > limits.pixels {
        let text = format!("{height} × {width} pixels are over the limit of {} pixels", limits.pixels);
        return Err(Error::new(Kind::Config, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(size: Size, flip: f32) -> String {
        let view = View { size, flip, ..View::default() };
        let error = view.validate(&Limits::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        error.message().to_owned()
    }

    #[test]
    fn invalid_views_are_refused() {
        let random = |scale, ratio| Size::Random { height: 8, width: 8, scale, ratio };
        for flip in [-0.1, 1.1, f32::NAN] {
            assert!(refused(Size::Keep, flip).starts_with("flip is "));
        }
        for scale in [(0.0, 1.0), (0.5, 0.4), (0.1, 1.5), (f32::NAN, 1.0)] {
            assert!(refused(random(scale, (1.0, 1.0)), 0.0).starts_with("scale is "));
        }
        for ratio in [(0.0, 1.0), (2.0, 1.0), (1.0, f32::INFINITY), (1.0, f32::NAN)] {
            assert!(refused(random((0.1, 1.0), ratio), 0.0).starts_with("ratio is "));
        }
        assert!(refused(Size::Squash { height: 0, width: 5 }, 0.0).contains("no pixels"));
        assert!(refused(Size::Exact { height: u32::MAX, width: u32::MAX }, 0.0).contains("over the limit"));
        assert!(refused(Size::Center { short: 223, height: 224, width: 10 }, 0.0).ends_with("give at least 224"));
    }

    #[test]
    fn constructors_are_the_usual_views() {
        let random = Size::Random { height: 224, width: 224, scale: (0.08, 1.0), ratio: (3.0 / 4.0, 4.0 / 3.0) };
        let view = View { size: random, flip: 0.5, filter: Filter::Bicubic, reduced: false, lane: 0 };
        assert_eq!(View::random_crop(224).flip(0.5).filter(Filter::Bicubic), view);
        assert_eq!(View::center_crop(224).size, Size::Center { short: 256, height: 224, width: 224 });
        assert_eq!(View::squash(32).size, Size::Squash { height: 32, width: 32 });
        for view in [View::random_crop(1), View::center_crop(1), View::squash(1)] {
            view.validate(&Limits::default()).unwrap();
        }
        assert!(View::center_crop(u32::MAX).validate(&Limits::default()).is_err());
    }

    #[test]
    fn usual_views_are_accepted() {
        let (height, width) = (224, 224);
        for size in [
            Size::Keep,
            Size::Exact { height, width },
            Size::Squash { height, width },
            Size::Center { short: 256, height, width },
            Size::Random { height, width, scale: (0.08, 1.0), ratio: (0.75, 4.0 / 3.0) },
        ] {
            let view = View { size, flip: 0.5, ..View::default() };
            view.validate(&Limits::default()).unwrap();
            assert_eq!(view.shape().is_none(), size == Size::Keep);
        }
    }
}
