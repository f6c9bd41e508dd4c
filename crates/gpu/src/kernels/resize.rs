//! Resizes pictures of any size to one size.

use super::element::Tensor;
use super::image::{Flip, Picks};
use super::launch::{Args, Launch, Module, address};
use super::pixels::Pixels;
use packhorse_core::{Error, Result};

const ENTRIES: [&str; 4] = ["resize_u8", "resize_f16", "resize_bf16", "resize_f32"];

/// Sizes of the structs that describe a crop, and what a line or column is made of, passed between the kernels.
const BOX: u64 = 56;
const TAPS: u64 = 16;

/// Ragged pictures (`UInt8`, HWC, one after another) to [`Resize::output`]: crops, and resamples with a triangle filter
/// that covers one pixel of the smaller picture, like Pillow's bilinear filter and torchvision's `antialias=True`.
///
/// With the same key it makes the same picture as the loader's `View` on the CPU: the same crop (except where the last
/// bit of `exp` decides how a side is rounded, once in 10^12 pictures), the same mirroring, pixels within 2 of 255.
/// Values are not rounded to bytes between filter and normalisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resize {
    /// 1, 3 or 4, the same for all pictures.
    pub channels: u32,
    /// Height and width of the output.
    pub size: (u32, u32),
    /// How pictures are cropped.
    pub crop: Crop,
    /// Whether pictures are mirrored horizontally.
    pub flip: Flip,
    /// The format of the output.
    pub output: Pixels,
}

/// The crop of a picture that is resized to the output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Crop {
    /// The whole picture, without keeping its aspect ratio.
    #[default]
    Squash,
    /// The centre: the shorter side is resized to `short`, the other in proportion (rounded down), and the centre is
    /// cropped.
    Center {
        /// At least the height and the width of the output.
        short: u32,
    },
    /// A crop of random position, area and aspect ratio, like torchvision's `RandomResizedCrop`, drawn from
    /// [`Picks::keys`] in lanes 1 to 40.
    Random {
        /// Minimum and maximum share of the picture's area; usually (0.08, 1).
        scale: (f32, f32),
        /// Minimum and maximum aspect ratio (width / height) of the crop; usually (3/4, 4/3).
        ratio: (f32, f32),
    },
}

/// Addresses of ragged pictures in a slab of the loader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaggedPictures {
    /// The pixels.
    pub values: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// `Int64 [rows + 1]`: the start of each in `values`, and the end of the last.
    pub offsets: u64,
    /// `Int32 [rows, 3]`: height, width and channels of each. A picture whose shape does not fit its bytes becomes black.
    pub shapes: u64,
}

impl Resize {
    /// The output of `rows` pictures.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        self.output.tensor(rows, self.size, self.channels)
    }

    /// Bytes of scratch memory that [`Resize::launch`] needs.
    pub fn scratch(&self, rows: u32) -> Result<usize> {
        self.output(rows)?;
        usize::try_from(self.taps(rows) + BOX * u64::from(rows))
            .map_err(|_| Error::config("pictures need more scratch memory than has addresses: make batches smaller"))
    }

    /// Bytes of the lines and columns.
    fn taps(&self, rows: u32) -> u64 {
        TAPS * u64::from(rows) * (u64::from(self.size.0) + u64::from(self.size.1))
    }

    /// The consecutive launches for `rows` pictures. Uses the flips and keys of `picks`. `scratch` has
    /// [`Resize::scratch`] bytes, aligned to sixteen.
    pub fn launch(
        &self,
        from: &RaggedPictures,
        picks: &Picks,
        output: u64,
        scratch: u64,
        rows: u32,
    ) -> Result<[Launch; 3]> {
        let drawn = matches!(self.crop, Crop::Random { .. }) || matches!(self.flip, Flip::Drawn(_));
        let (part, short, bounds) = self.numbers()?;
        let args = self.output.args(output, rows, self.size, self.channels)?;
        let taps = address("scratch", scratch, TAPS as usize)?;
        let args = args
            .u64(address("values", from.values, 1)?)
            .u64(address("offsets", from.offsets, 8)?)
            .u64(address("shapes", from.shapes, 4)?)
            .u64(picks.drawn_keys(drawn)?)
            .u64(picks.given_flips(self.flip)?)
            .u64(taps + self.taps(rows))
            .u64(taps)
            .u64(from.bytes)
            .u64(self.flip.threshold()?);
        let args: Args = bounds.into_iter().fold(args, Args::f64).u32(part).u32(short).finish(224)?;
        let pixels = u64::from(self.size.0) * u64::from(self.size.1);
        Ok([
            Launch::flat(Module::Resize, "resize_boxes", rows.into(), args.clone())?,
            Launch::rows(
                Module::Resize,
                "resize_taps",
                u64::from(self.size.0) + u64::from(self.size.1),
                rows,
                args.clone(),
            )?,
            Launch::rows(Module::Resize, self.output.entry(ENTRIES)?, pixels, rows, args)?,
        ])
    }

    /// The crop as the kernel numbers it, the shorter side, and the bounds of areas, aspect ratios and their
    /// logarithms.
    fn numbers(&self) -> Result<(u32, u32, [f64; 6])> {
        match self.crop {
            Crop::Squash => Ok((0, 0, [0.0; 6])),
            Crop::Center { short } if short < self.size.0.max(self.size.1) => {
                let (height, width) = self.size;
                let text = format!("a shorter side of {short} pixels can't be cut to {height} × {width}");
                Err(Error::config(format!("{text}; give at least {}", height.max(width))))
            }
            Crop::Center { short } => Ok((1, short, [0.0; 6])),
            Crop::Random { scale: (from, to), .. } if !(from > 0.0 && from <= to && to <= 1.0) => {
                Err(Error::config(format!("scale is {from} to {to}; give shares above 0, at most 1, the lesser first")))
            }
            Crop::Random { ratio: (from, to), .. } if !(from > 0.0 && from <= to && to.is_finite()) => {
                Err(Error::config(format!("ratio is {from} to {to}; give widths by heights, the lesser first")))
            }
            Crop::Random { scale, ratio } => {
                let [least, most, narrow, wide] = [scale.0, scale.1, ratio.0, ratio.1].map(f64::from);
                // The last bit of the standard library's logarithm depends on the platform.
                Ok((2, 0, [least, most, narrow, wide, libm::log(narrow), libm::log(wide)]))
            }
        }
    }
}
