//! The format of output pixels: element type, axis order, scale.

use super::Element;
use super::element::Tensor;
use super::launch::{Args, address};
use half::{bf16, f16};
use packhorse_core::{Error, Result};
pub use packhorse_read::Axes;
use std::cell::RefCell;

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

    /// Whether values of 16 bits take divisions.
    pub(super) fn divides(&self) -> bool {
        self.fewer_operations().0.contains(&0.0)
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

    /// `Output` of pixels.cuh, 96 bytes.
    pub(super) fn args(&self, data: u64, rows: u32, (height, width): (u32, u32), channels: u32) -> Result<Args> {
        self.tensor(rows, (height, width), channels)?;
        let data = address("output", data, self.element.width())?;
        let Normalize { mean, std } = self.normalize;
        let (factor, offset) = self.fewer_operations();
        let floats = mean.into_iter().chain(std).chain(factor).chain(offset);
        let args = floats.fold(Args::new().u64(data), Args::f32);
        let vector = width.is_multiple_of(4) && data.is_multiple_of(4 * self.element.width() as u64);
        Ok(args.u32(height).u32(width).u32(channels).u32(rows).flag(self.axes == Axes::Chw).flag(vector))
    }
}

/// For each channel a factor and an offset, or an inverse: what `normalized` of pixels.cuh needs; 0 where it must divide.
type Factors = ([f32; 4], [f32; 4]);

thread_local! {
    /// What was found last: batches of a loader have the same format.
    static LAST: RefCell<Option<(Element, Normalize, Factors)>> = const { RefCell::new(None) };
}

impl Pixels {
    fn fewer_operations(&self) -> Factors {
        let std = self.normalize.std;
        match self.element {
            Element::F32 if std.into_iter().all(divides) && self.normalize.mean.into_iter().all(leaves_no_dust) => {
                (std.map(|std| 1.0 / std), [0.0; 4])
            }
            Element::F16 | Element::Bf16 => LAST.with_borrow_mut(|last| match last {
                Some((element, normalize, found)) if (*element, *normalize) == (self.element, self.normalize) => *found,
                _ => {
                    let each = [0, 1, 2, 3].map(|c: usize| self.line(c));
                    let found = match each {
                        [Some(a), Some(b), Some(c), Some(d)] => ([a.0, b.0, c.0, d.0], [a.1, b.1, c.1, d.1]),
                        _ => ([0.0; 4], [0.0; 4]),
                    };
                    *last = Some((self.element, self.normalize, found));
                    found
                }
            }),
            _ => ([0.0; 4], [0.0; 4]),
        }
    }

    /// A factor and an offset of which byte × factor + offset, rounded to 32 bits and to 16, is for each of the 256 bytes what the three
    /// operations give: those of real numbers, or numbers next to them. For few means and deviations are there none.
    fn line(&self, channel: usize) -> Option<(f32, f32)> {
        let of = |values: [f32; 4]| values.get(channel).copied().map(f64::from);
        let (mean, std) = (of(self.normalize.mean)?, of(self.normalize.std)?);
        let bytes = || (0..=255u8).map(f32::from);
        let wanted: Vec<u16> = bytes().map(|byte| self.short(self.normalize.value(byte, channel))).collect();
        let (factor, offset) = ((1.0 / (255.0 * std)) as f32, (-mean / std) as f32);
        let beside = |value: f32, by: i32| f32::from_bits(value.to_bits().wrapping_add_signed(by));
        let steps = |most: i32| (0..=most).flat_map(|step| [step, -step]).skip(1);
        let all = steps(8).flat_map(|o| steps(4).map(move |f| (beside(factor, f), beside(offset, o))));
        let fits = |factor: f32, offset: f32| {
            let mut found = bytes().map(|byte| self.near(byte.mul_add(factor, offset)));
            factor.is_normal() && wanted.iter().all(|wanted| found.next() == Some(*wanted))
        };
        all.into_iter().find(|(factor, offset)| fits(*factor, *offset))
    }

    /// `of` of `F16` and `BF16` in common.cuh.
    fn short(&self, value: f32) -> u16 {
        if self.element == Element::F16 { f16::from_f32(value).to_bits() } else { bf16::from_f32(value).to_bits() }
    }

    /// `near` of them.
    fn near(&self, value: f32) -> u16 {
        match self.element {
            Element::F16 => f16::from_f32(value).to_bits(),
            _ => (value.to_bits().wrapping_add(0x8000) >> 16) as u16,
        }
    }
}

/// Whether `divided` of pixels.cuh divides by this number as a division does: its inverse has no other exponent than numbers have, and
/// its fraction is not all ones.
fn divides(std: f32) -> bool {
    let ordinary = 2f32.powi(-60)..2f32.powi(60);
    ordinary.contains(&std.abs()) && std.to_bits() & 0x7f_ffff != 0x7f_ffff
}

/// Whether a byte less this mean is 0 or so large that the errors which `divided` corrects are numbers: a mean as small as that is
/// below the distance of two bytes, so only that of 0 is small then.
fn leaves_no_dust(mean: f32) -> bool {
    mean == 0.0 || mean.abs() > 2f32.powi(-60)
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

    /// What datasets are normalised by.
    const USUAL: [Normalize; 5] = [
        Normalize::NONE,
        Normalize::IMAGENET,
        Normalize { mean: [0.5; 4], std: [0.5; 4] },
        Normalize {
            mean: [0.481_454_66, 0.457_827_5, 0.408_210_73, 0.0],
            std: [0.268_629_54, 0.261_302_6, 0.275_777_1, 1.0],
        },
        Normalize { mean: [0.4914, 0.4822, 0.4465, 0.1307], std: [0.247, 0.2435, 0.2616, 0.3081] },
    ];

    #[test]
    fn one_multiplication_gives_the_same_bytes() {
        let mut number = 7u64;
        let mut random = || {
            number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (number >> 40) as f32 / (1 << 24) as f32
        };
        let drawn: Vec<_> = (0..100)
            .map(|_| Normalize { mean: [0; 4].map(|_| random()), std: [0; 4].map(|_| 0.1 + random() / 2.0) })
            .collect();
        let mut found = 0;
        for element in [Element::F16, Element::Bf16] {
            for (case, normalize) in USUAL.into_iter().chain(drawn.iter().copied()).enumerate() {
                let pixels = Pixels::normalized(element, normalize);
                let (factor, offset) = pixels.fewer_operations();
                assert_eq!(pixels.fewer_operations(), (factor, offset), "the same again");
                assert!(case >= USUAL.len() || factor[0] != 0.0, "{element:?}, {normalize:?} take divisions");
                found += usize::from(factor[0] != 0.0);
                for (byte, c) in (0..=255u8).flat_map(|byte| (0..4).map(move |c| (f32::from(byte), c))) {
                    let near = pixels.near(byte.mul_add(factor[c], offset[c]));
                    let wanted = pixels.short(normalize.value(byte, c));
                    assert!(factor[0] == 0.0 || near == wanted, "{element:?}, {normalize:?}: {byte} of channel {c}");
                }
            }
        }
        assert!(found > 190, "{found} of 210");
        // Values that no line has, since they are all 0.
        let flat = Normalize { mean: [0.0; 4], std: [f32::MAX; 4] };
        assert_eq!(Pixels::normalized(Element::F16, flat).fewer_operations(), ([0.0; 4], [0.0; 4]));
    }
}
