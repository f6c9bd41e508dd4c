//! Crops, mirrors and normalises pictures of one size in one pass.

use super::element::{Element, Tensor};
use super::launch::{Args, Launch, Module, address};
use super::pixels::{Axes, Pixels};
use packhorse_core::{Error, Result};

const ENTRIES: [&str; 4] = ["image_u8", "image_f16", "image_bf16", "image_f32"];

/// Neighbours that a thread of some kernels makes.
const GROUP: u32 = 8;

/// `UInt8 [rows, height, width, channels]` to [`Image::output`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Image {
    /// Height and width of the input.
    pub size: (u32, u32),
    /// 1, 3 or 4.
    pub channels: u32,
    /// Height and width of the crop.
    pub crop: (u32, u32),
    /// Its position.
    pub place: CropPosition,
    /// Whether pictures are mirrored horizontally.
    pub flip: Flip,
    /// The format of the output.
    pub output: Pixels,
}

/// The position of a crop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CropPosition {
    /// Centred; an offset halfway between two integers is rounded to the even one, as in Python.
    #[default]
    Center,
    /// Given by [`Picks::corners`].
    Given,
    /// Uniformly random, drawn from [`Picks::keys`]: the top in lane 3, the left in lane 4.
    Drawn,
}

/// Whether a picture is mirrored horizontally.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Flip {
    /// Never.
    #[default]
    Never,
    /// Given by [`Picks::flips`].
    Given,
    /// With this probability, 0 to 1, drawn from [`Picks::keys`] in lane 0.
    Drawn(f32),
}

impl Flip {
    /// Pictures are mirrored if their draw of 53 bits is below this.
    pub(super) fn threshold(self) -> Result<u64> {
        match self {
            Flip::Drawn(probability) if !(0.0..=1.0).contains(&probability) => {
                Err(Error::config(format!("flip is {probability}; give a probability from 0 to 1")))
            }
            // Exact: a probability has 24 bits.
            Flip::Drawn(probability) => Ok((f64::from(probability) * (1u64 << 53) as f64).ceil() as u64),
            Flip::Never | Flip::Given => Ok(0),
        }
    }
}

/// Addresses of the random keys, corners and flips of each row; 0 for those that the settings don't use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Picks {
    /// `UInt64 [rows]`: the keys of the draws, `draw(seed, epoch, number, 0)` of `packhorse-order` to match the loader.
    pub keys: u64,
    /// `Int32 [rows, 2]`: top and left of each crop, clamped to the picture.
    pub corners: u64,
    /// `UInt8 [rows]`: not 0 if the picture is mirrored.
    pub flips: u64,
}

impl Picks {
    pub(super) fn given_flips(&self, flip: Flip) -> Result<u64> {
        if flip == Flip::Given { address("flips", self.flips, 1) } else { Ok(0) }
    }

    pub(super) fn drawn_keys(&self, drawn: bool) -> Result<u64> {
        if drawn { address("keys", self.keys, 8) } else { Ok(0) }
    }
}

impl Image {
    /// The whole of each picture, unmirrored.
    pub fn new(size: (u32, u32), channels: u32, output: Pixels) -> Self {
        Self { size, channels, crop: size, place: CropPosition::Center, flip: Flip::Never, output }
    }

    /// The output of `rows` pictures.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        self.output.tensor(rows, self.crop, self.channels)
    }

    /// The launch that reads `rows` pictures at `input`, aligned to four bytes, and writes to `output`.
    pub fn launch(&self, input: u64, picks: &Picks, output: u64, rows: u32) -> Result<Launch> {
        let args = self.args(input, picks, output, rows, false)?.finish(160)?;
        let (height, width) = self.crop;
        match self.in_groups(output) {
            Some(entry) => Launch::rows(Module::Image, entry, u64::from(width / GROUP) * u64::from(height), rows, args),
            None => Launch::pictures(Module::Image, self.output.entry(ENTRIES)?, self.crop, rows, args),
        }
    }

    /// The kernel that makes eight neighbours at once, if one can make this: three channels, without divisions, of lines that are whole
    /// groups. They read words around the pixels, so pictures must end with a word.
    fn in_groups(&self, output: u64) -> Option<&'static str> {
        let planes = self.output.axes == Axes::Chw && !self.output.divides();
        let entry = match self.output.element {
            Element::U8 => "move_u8",
            Element::F16 if planes => "planes_f16",
            Element::Bf16 if planes => "planes_bf16",
            _ => return None,
        };
        let words = (u64::from(self.size.0) * u64::from(self.size.1)).is_multiple_of(4);
        let whole = self.crop.1.is_multiple_of(GROUP) && output.is_multiple_of(16);
        (words && whole && self.channels == 3).then_some(entry)
    }

    /// `ImageParams` of crop.cuh, 160 bytes. With `drawn` keys are needed in any case.
    pub(super) fn args(&self, input: u64, picks: &Picks, output: u64, rows: u32, drawn: bool) -> Result<Args> {
        Pixels::BYTES.tensor(rows, self.size, self.channels)?;
        let (((height, width), (h, w)), flip_below) = ((self.size, self.crop), self.flip.threshold()?);
        let (Some(down), Some(across)) = (height.checked_sub(h), width.checked_sub(w)) else {
            let message = format!("{h} × {w} pixels can't be cut from {height} × {width}: cut less");
            return Err(Error::config(message));
        };
        let corners = if self.place == CropPosition::Given { address("corners", picks.corners, 4)? } else { 0 };
        let drawn = drawn || self.place == CropPosition::Drawn || matches!(self.flip, Flip::Drawn(_));
        let keys = picks.drawn_keys(drawn)?;
        let args = self.output.args(output, rows, self.crop, self.channels)?;
        let args = args.u64(address("input", input, 4)?).u64(keys).u64(corners).u64(picks.given_flips(self.flip)?);
        let args = args.u64(flip_below).u32(height).u32(width).u32(middle(down)).u32(middle(across));
        Ok(args.flag(self.place == CropPosition::Drawn).u32(0))
    }
}

/// Half of `space`, ties to even.
fn middle(space: u32) -> u32 {
    let half = space / 2;
    half + (space % 2) * (half % 2)
}
