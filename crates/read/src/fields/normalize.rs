//! Pixels as models take them: normalised 32-bit floating point, by a table of the 256 values of each channel.

use packhorse_core::{Error, Result};

/// The axis order of a picture in a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Axes {
    /// Channels, height, width.
    #[default]
    Chw,
    /// Height, width, channels: the order of decoded pixels; torch's `channels_last`.
    Hwc,
}

/// Maps a byte `v` of channel `c` to `(v / 255 - mean[c]) / std[c]`.
///
/// The division by 255, the subtraction and the division by `std` are each rounded to 32 bits, as in torchvision's `ToTensor`
/// and `Normalize`, whose values these are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    /// The mean of red, green and blue, for values from 0 to 1.
    pub mean: [f32; 3],
    /// The standard deviation of each channel; not 0.
    pub std: [f32; 3],
    /// The axis order after the dimension of rows.
    pub axes: Axes,
}

impl Normalize {
    /// No normalisation: values from 0 to 1, channels first.
    pub const NONE: Self = Self { mean: [0.0; 3], std: [1.0; 3], axes: Axes::Chw };
    /// The ImageNet statistics, channels first.
    pub const IMAGENET: Self = Self { mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225], axes: Axes::Chw };
}

impl Default for Normalize {
    fn default() -> Self {
        Self::NONE
    }
}

/// The normalised values of all bytes.
pub(crate) struct PixelTable {
    /// For each channel and byte the little-endian value.
    values: [[[u8; 4]; 256]; 3],
    axes: Axes,
}

impl PixelTable {
    /// Errors (kind `Config`): numbers that are not finite, a `std` of 0.
    pub(crate) fn new(normalize: &Normalize) -> Result<Self> {
        let mut values = [[[0; 4]; 256]; 3];
        for ((channel, mean), std) in values.iter_mut().zip(normalize.mean).zip(normalize.std) {
            for (value, byte) in channel.iter_mut().zip(0..=u8::MAX) {
                let normalized = (f32::from(byte) / 255.0 - mean) / std;
                if !normalized.is_finite() || !std.is_finite() {
                    let Normalize { mean, std, .. } = normalize;
                    let message = format!("mean {mean:?} and std {std:?}: give finite numbers, no std of 0");
                    return Err(Error::config(message));
                }
                *value = normalized.to_le_bytes();
            }
        }
        Ok(Self { values, axes: normalize.axes })
    }

    /// Writes RGB pixels, three bytes each, as four bytes a value; `out` has exactly their size.
    pub(crate) fn write(&self, pixels: &[u8], out: &mut [u8]) {
        let (pixels, out) = (pixels.as_chunks::<3>().0, out.as_chunks_mut::<4>().0);
        let [red, green, blue] = &self.values;
        let value = |channel: &[[u8; 4]; 256], byte: u8| channel.get(usize::from(byte)).copied().unwrap_or_default();
        match self.axes {
            Axes::Hwc => {
                for (to, [r, g, b]) in out.as_chunks_mut::<3>().0.iter_mut().zip(pixels) {
                    *to = [value(red, *r), value(green, *g), value(blue, *b)];
                }
            }
            Axes::Chw => {
                // One plane after another: three at a time would write to three places in memory.
                let planes = out.chunks_exact_mut(pixels.len().max(1));
                for (at, (plane, channel)) in planes.zip(&self.values).enumerate() {
                    for (to, pixel) in plane.iter_mut().zip(pixels) {
                        *to = value(channel, pixel.get(at).copied().unwrap_or_default());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_formula() {
        let pixels: Vec<u8> = (0..5 * 7 * 3).map(|at| (at * 37 % 256) as u8).collect();
        for normalize in [Normalize::NONE, Normalize::IMAGENET] {
            for axes in [Axes::Chw, Axes::Hwc] {
                let mut out = vec![0xa5; pixels.len() * 4];
                PixelTable::new(&Normalize { axes, ..normalize }).unwrap().write(&pixels, &mut out);
                for (at, byte) in pixels.iter().enumerate() {
                    let (pixel, channel) = (at / 3, at % 3);
                    let place = if axes == Axes::Chw { channel * 35 + pixel } else { at };
                    let value = f32::from_le_bytes(out.as_chunks().0[place]);
                    let wanted = (f32::from(*byte) / 255.0 - normalize.mean[channel]) / normalize.std[channel];
                    assert_eq!(value.to_bits(), wanted.to_bits(), "{at} {axes:?}");
                }
            }
        }
    }

    #[test]
    fn what_gives_no_numbers_is_refused() {
        let none = Normalize::NONE;
        for bad in [f32::NAN, f32::INFINITY, 0.0, 1e-45] {
            assert!(PixelTable::new(&Normalize { std: [1.0, bad, 1.0], ..none }).is_err(), "{bad}");
            let mean = Normalize { mean: [0.0, 0.0, bad], ..none };
            assert_eq!(PixelTable::new(&mean).is_err(), !bad.is_finite(), "{bad}");
        }
        PixelTable::new(&none).unwrap().write(&[], &mut []);
    }
}
