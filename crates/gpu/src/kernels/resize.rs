//! Pictures of any size to one size.

use super::element::Tensor;
use super::image::{Flip, Picks};
use super::launch::{Args, Launch, Module, address};
use super::pixels::Pixels;
use packhorse_core::{Error, Result};

const ENTRIES: [&str; 4] = ["resize_u8", "resize_f16", "resize_bf16", "resize_f32"];

/// Bytes of a part of a picture between the two kernels.
const BOX: usize = 56;

/// Ragged pictures (`UInt8`, HWC, one after another) to [`Resize::output`]: a part of each, resampled with a triangle as wide as a
/// pixel of the smaller picture, as Pillow's bilinear filter and torchvision's `antialias=True`.
///
/// It is the picture that the loader's `View` makes on the CPU with the same key: the same part (but where the last bit of `exp`
/// decides how a side is rounded, once in 10^12 pictures), the same side, pixels within 2 of 255. Between filter and normalising
/// nothing is rounded to bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resize {
    /// 1, 3 or 4, the same for all pictures.
    pub channels: u32,
    /// Height and width of what goes out.
    pub size: (u32, u32),
    /// What of a picture is shown.
    pub part: Part,
    /// Whether left and right change sides.
    pub flip: Flip,
    /// What goes out.
    pub output: Pixels,
}

/// Which part of a picture fills what goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Part {
    /// All of it, squeezed or stretched.
    #[default]
    Squash,
    /// The centre: the shorter side is brought to `short`, the other in proportion (rounded down), and the middle is cut out.
    Center {
        /// At least the height and the width of what goes out.
        short: u32,
    },
    /// A part of random place, area and proportions, as torchvision's `RandomResizedCrop`, drawn from [`Picks::keys`] in lanes 1
    /// to 40.
    Random {
        /// Share of the picture's area, least and most; usually (0.08, 1).
        scale: (f32, f32),
        /// Width by height of the part, least and most; usually (3/4, 4/3).
        ratio: (f32, f32),
    },
}

/// Addresses of ragged pictures, as a loader leaves them in a slab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaggedPictures {
    /// The pixels.
    pub values: u64,
    /// How many bytes they are.
    pub bytes: u64,
    /// `Int64 [rows + 1]`: where each begins in `values`, and where the last one ends.
    pub offsets: u64,
    /// `Int32 [rows, 3]`: height, width and channels of each. A picture whose shape does not fit its bytes becomes black.
    pub shapes: u64,
}

impl Resize {
    /// What comes out of so many pictures.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        self.output.tensor(rows, self.size, self.channels)
    }

    /// Bytes that [`Resize::launch`] needs beside what it reads and writes.
    pub fn scratch(&self, rows: u32) -> Result<usize> {
        Ok(BOX * rows as usize)
    }

    /// The launches, one after another, for `rows` pictures. Of `picks` flips and keys count. `scratch` has [`Resize::scratch`]
    /// bytes, at a multiple of eight.
    pub fn launch(
        &self,
        from: &RaggedPictures,
        picks: &Picks,
        output: u64,
        scratch: u64,
        rows: u32,
    ) -> Result<[Launch; 2]> {
        let drawn = matches!(self.part, Part::Random { .. }) || matches!(self.flip, Flip::Drawn(_));
        let (part, short, bounds) = self.numbers()?;
        let args = self.output.args(output, rows, self.size, self.channels)?;
        let args = args
            .u64(address("values", from.values, 1)?)
            .u64(address("offsets", from.offsets, 8)?)
            .u64(address("shapes", from.shapes, 4)?)
            .u64(picks.drawn_keys(drawn)?)
            .u64(picks.given_flips(self.flip)?)
            .u64(address("scratch", scratch, 8)?)
            .u64(from.bytes)
            .u64(self.flip.threshold()?);
        let args: Args = bounds.into_iter().fold(args, Args::f64).u32(part).u32(short).finish(184)?;
        let pixels = u64::from(self.size.0) * u64::from(self.size.1);
        Ok([
            Launch::flat(Module::Resize, "resize_boxes", rows.into(), args.clone())?,
            Launch::rows(Module::Resize, self.output.entry(ENTRIES)?, pixels, rows, args)?,
        ])
    }

    /// The part as the kernel numbers it, a shorter side, and bounds of areas, proportions and their logarithms.
    fn numbers(&self) -> Result<(u32, u32, [f64; 6])> {
        match self.part {
            Part::Squash => Ok((0, 0, [0.0; 6])),
            Part::Center { short } if short < self.size.0.max(self.size.1) => {
                let (height, width) = self.size;
                let text = format!("a shorter side of {short} pixels can't be cut to {height} × {width}");
                Err(Error::config(format!("{text}; give at least {}", height.max(width))))
            }
            Part::Center { short } => Ok((1, short, [0.0; 6])),
            Part::Random { scale: (from, to), .. } if !(from > 0.0 && from <= to && to <= 1.0) => {
                Err(Error::config(format!("scale is {from} to {to}; give shares above 0, at most 1, the lesser first")))
            }
            Part::Random { ratio: (from, to), .. } if !(from > 0.0 && from <= to && to.is_finite()) => {
                Err(Error::config(format!("ratio is {from} to {to}; give widths by heights, the lesser first")))
            }
            Part::Random { scale, ratio } => {
                let [least, most, narrow, wide] = [scale.0, scale.1, ratio.0, ratio.1].map(f64::from);
                // Not the standard library's, whose last bit is the platform's.
                Ok((2, 0, [least, most, narrow, wide, libm::log(narrow), libm::log(wide)]))
            }
        }
    }
}
