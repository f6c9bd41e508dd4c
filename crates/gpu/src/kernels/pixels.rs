//! What pixels become: elements, order, scale.

use super::Element;
use super::element::Tensor;
use super::launch::{Args, address};
use packhorse_core::{Error, Result};

/// Which dimension of a picture comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Axes {
    /// Height, width, channels: as pixels are decoded; torch's `channels_last`.
    Hwc,
    /// Channels, height, width.
    #[default]
    Chw,
}

/// Of a byte `v` of channel `c` comes `(v / 255 - mean[c]) / std[c]`.
///
/// It is computed as `scale · v + bias`, rounded once to 32 bits (a fused multiplication and addition), and once more to the
/// element: scale and bias are `1 / (255 · std)` and `-mean / std`, rounded to 32 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    /// Of values from 0 to 1, a channel each.
    pub mean: [f32; 4],
    /// Not 0.
    pub std: [f32; 4],
}

impl Normalize {
    /// Values from 0 to 1.
    pub const NONE: Self = Self { mean: [0.0; 4], std: [1.0; 4] };
    /// As networks for ImageNet expect it: red, green, blue; the fourth channel from 0 to 1.
    pub const IMAGENET: Self = Self { mean: [0.485, 0.456, 0.406, 0.0], std: [0.229, 0.224, 0.225, 1.0] };

    /// What a byte is multiplied with, and what is added.
    pub fn scale_bias(&self) -> ([f32; 4], [f32; 4]) {
        let (mut scale, mut bias) = ([0.0; 4], [0.0; 4]);
        for (((mean, std), scale), bias) in self.mean.iter().zip(&self.std).zip(&mut scale).zip(&mut bias) {
            let (mean, std) = (f64::from(*mean), f64::from(*std));
            *scale = (1.0 / (255.0 * std)) as f32;
            *bias = (-mean / std) as f32;
        }
        (scale, bias)
    }
}

impl Default for Normalize {
    fn default() -> Self {
        Self::NONE
    }
}

/// What comes out of kernels that make pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pixels {
    /// `U8`, `F16`, `Bf16` or `F32`. Of bytes nothing is normalised: they stay, or are rounded where pixels are resampled.
    pub element: Element,
    /// Which dimension comes first after that of the rows.
    pub axes: Axes,
    /// The scale of elements that are not bytes.
    pub normalize: Normalize,
}

impl Pixels {
    /// Bytes, in the order they came.
    pub const BYTES: Self = Self { element: Element::U8, axes: Axes::Hwc, normalize: Normalize::NONE };

    /// Channels first, normalised.
    pub fn normalized(element: Element, normalize: Normalize) -> Self {
        Self { element, axes: Axes::Chw, normalize }
    }

    /// The place in an array of entries, one for each element.
    pub(super) fn entry(&self, entries: [&'static str; 4]) -> Result<&'static str> {
        let [bytes, half, brain, single] = entries;
        match self.element {
            Element::U8 => Ok(bytes),
            Element::F16 => Ok(half),
            Element::Bf16 => Ok(brain),
            Element::F32 => Ok(single),
            other => {
                let message = format!("pixels can't be {}: ask for u8, f16, bf16 or f32", other.name());
                Err(Error::config(message))
            }
        }
    }

    /// The tensor that so many pictures become.
    pub(super) fn tensor(&self, rows: u32, (height, width): (u32, u32), channels: u32) -> Result<Tensor> {
        self.check((height, width), channels)?;
        let [rows, height, width, channels] = [rows, height, width, channels].map(u64::from);
        match self.axes {
            Axes::Hwc => Tensor::new(self.element, &[rows, height, width, channels]),
            Axes::Chw => Tensor::new(self.element, &[rows, channels, height, width]),
        }
    }

    fn check(&self, (height, width): (u32, u32), channels: u32) -> Result<()> {
        if !matches!(channels, 1 | 3 | 4) {
            return Err(Error::config(format!("pixels of {channels} channels: give 1, 3 or 4")));
        }
        if height == 0 || width == 0 || u64::from(height) * u64::from(width) > 1 << 30 {
            return Err(Error::config(format!("pictures of {height} × {width} pixels: give 1 to 2^30 of them")));
        }
        self.entry([""; 4])?;
        let Normalize { mean, std } = self.normalize;
        if self.element == Element::U8 && self.normalize != Normalize::NONE {
            return Err(Error::config(
                "bytes can't be normalised: ask for f16, bf16 or f32, or leave out mean and std",
            ));
        }
        let (scale, bias) = self.normalize.scale_bias();
        if !mean.iter().chain(&std).chain(&scale).chain(&bias).all(|number| number.is_finite()) {
            return Err(Error::config(format!("mean {mean:?} and std {std:?}: give finite numbers, no std of 0")));
        }
        Ok(())
    }

    /// `Output` of pixels.cuh, 64 bytes.
    pub(super) fn args(&self, data: u64, rows: u32, (height, width): (u32, u32), channels: u32) -> Result<Args> {
        self.tensor(rows, (height, width), channels)?;
        let data = address("output", data, self.element.width())?;
        let (scale, bias) = match self.element {
            Element::U8 => ([1.0; 4], [0.0; 4]),
            _ => self.normalize.scale_bias(),
        };
        let args = scale.into_iter().chain(bias).fold(Args::new().u64(data), Args::f32);
        let vector = width.is_multiple_of(4) && data.is_multiple_of(4 * self.element.width() as u64);
        Ok(args.u32(height).u32(width).u32(channels).u32(rows).flag(self.axes == Axes::Chw).flag(vector))
    }
}
