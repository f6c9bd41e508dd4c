//! The format of output pixels: element type, axis order, scale.

use super::Element;
use super::element::Tensor;
use super::launch::{Args, address};
use packhorse_core::{Error, Result};

/// The axis order of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Axes {
    /// Height, width, channels: the order of decoded pixels; torch's `channels_last`.
    Hwc,
    /// Channels, height, width.
    #[default]
    Chw,
}

/// Maps a byte `v` of channel `c` to `(v / 255 - mean[c]) / std[c]`.
///
/// The three operations are each rounded to 32 bits, as in the loader's [`Normalize`](packhorse_read::Normalize), whose
/// values these are; the result once more to the element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    /// The mean of each channel, for values from 0 to 1.
    pub mean: [f32; 4],
    /// The standard deviation of each channel; not 0.
    pub std: [f32; 4],
}

impl Normalize {
    /// No normalisation: values from 0 to 1.
    pub const NONE: Self = Self { mean: [0.0; 4], std: [1.0; 4] };
    /// The ImageNet statistics of red, green and blue; the fourth channel stays from 0 to 1.
    pub const IMAGENET: Self = Self { mean: [0.485, 0.456, 0.406, 0.0], std: [0.229, 0.224, 0.225, 1.0] };

    /// What a byte of a channel becomes, before it is rounded to the element.
    pub fn value(&self, byte: f32, channel: usize) -> f32 {
        let of = |values: &[f32; 4]| values.get(channel).copied().unwrap_or(f32::NAN);
        (byte / 255.0 - of(&self.mean)) / of(&self.std)
    }
}

impl Default for Normalize {
    fn default() -> Self {
        Self::NONE
    }
}

/// The output format of kernels that make pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pixels {
    /// `U8`, `F16`, `Bf16` or `F32`. Bytes are not normalised: they stay the same, or are rounded after resampling.
    pub element: Element,
    /// The axis order after the dimension of rows.
    pub axes: Axes,
    /// The normalisation of elements that are not bytes.
    pub normalize: Normalize,
}

impl Pixels {
    /// Bytes, in HWC order.
    pub const BYTES: Self = Self { element: Element::U8, axes: Axes::Hwc, normalize: Normalize::NONE };

    /// Channels first, normalised.
    pub fn normalized(element: Element, normalize: Normalize) -> Self {
        Self { element, axes: Axes::Chw, normalize }
    }

    /// The entry for this element type.
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

    /// The output tensor of `rows` pictures.
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
        let ends = (0..4).flat_map(|channel| [0.0, 255.0].map(|byte| self.normalize.value(byte, channel)));
        if !mean.into_iter().chain(std).chain(ends).all(f32::is_finite) {
            return Err(Error::config(format!("mean {mean:?} and std {std:?}: give finite numbers, no std of 0")));
        }
        Ok(())
    }

    /// `Output` of pixels.cuh, 80 bytes.
    pub(super) fn args(&self, data: u64, rows: u32, (height, width): (u32, u32), channels: u32) -> Result<Args> {
        self.tensor(rows, (height, width), channels)?;
        let data = address("output", data, self.element.width())?;
        let Normalize { mean, std } = self.normalize;
        let inverse = if std.into_iter().all(divides) { std.map(|std| 1.0 / std) } else { [0.0; 4] };
        let args = mean.into_iter().chain(std).chain(inverse).fold(Args::new().u64(data), Args::f32);
        let vector = width.is_multiple_of(4) && data.is_multiple_of(4 * self.element.width() as u64);
        Ok(args.u32(height).u32(width).u32(channels).u32(rows).flag(self.axes == Axes::Chw).flag(vector))
    }
}

/// Whether `divided` of pixels.cuh divides by this number as a division does: its inverse has no other exponent than numbers have, and
/// its fraction is not all ones.
fn divides(std: f32) -> bool {
    let ordinary = 2f32.powi(-60)..2f32.powi(60);
    ordinary.contains(&std.abs()) && std.to_bits() & 0x7f_ffff != 0x7f_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `divided` of pixels.cuh.
    fn divided(steps: u32, a: f32, b: f32) -> f32 {
        let inverse = 1.0 / b;
        (0..steps).fold(a * inverse, |quotient, _| (-quotient).mul_add(b, a).mul_add(inverse, quotient))
    }

    #[test]
    fn quotients_are_those_of_divisions() {
        for byte in 0..=255u8 {
            let byte = f32::from(byte);
            assert_eq!(divided(1, byte, 255.0).to_bits(), (byte / 255.0).to_bits());
        }
        // All bytes with means and deviations of all kinds, among them the next to 1 and to powers of two.
        let mut number = 1u64;
        for case in 0..20_000u32 {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let mean = (number >> 40) as f32 / (1 << 24) as f32;
            let exponent = 127 - 20 + case % 40;
            let fraction = if case % 3 == 0 {
                [0, 1, 0x7f_fffe][case as usize / 3 % 3]
            } else {
                (number >> 20) as u32 & 0x7f_ffff
            };
            let std = f32::from_bits(exponent << 23 | fraction);
            for byte in (0..=255u8).step_by(5).filter(|_| divides(std)) {
                let centred = f32::from(byte) / 255.0 - mean;
                assert_eq!(divided(2, centred, std).to_bits(), (centred / std).to_bits(), "{centred} / {std}");
            }
        }
        for wrong in [0.0, f32::MIN_POSITIVE, 1e30, f32::from_bits(0x3f7f_ffff)] {
            assert!(!divides(wrong) && divides(0.229) && divides(-2.0));
        }
    }
}
