//! Pictures of one size: a part of each, mirrored or not, normalised, in one pass.

use super::element::Tensor;
use super::launch::{Args, Launch, Module, address};
use super::pixels::Pixels;
use packhorse_core::{Error, Result};

const ENTRIES: [&str; 4] = ["image_u8", "image_f16", "image_bf16", "image_f32"];

/// `UInt8 [rows, height, width, channels]` to [`Image::output`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Image {
    /// Height and width of what comes in.
    pub size: (u32, u32),
    /// 1, 3 or 4.
    pub channels: u32,
    /// Height and width of the part that goes out.
    pub crop: (u32, u32),
    /// Where it is.
    pub place: Place,
    /// Whether left and right change sides.
    pub flip: Flip,
    /// What goes out.
    pub output: Pixels,
}

/// Where in a picture the part is that goes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In the middle; where there is none, at the even number, as Python rounds.
    #[default]
    Center,
    /// At [`Picks::corners`].
    Given,
    /// Anywhere, each place as likely as any other: drawn from [`Picks::keys`], the top in lane 3, the left in lane 4.
    Drawn,
}

/// Whether a picture is mirrored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Flip {
    /// None is.
    #[default]
    Never,
    /// Those are that [`Picks::flips`] says.
    Given,
    /// With this probability, 0 to 1, drawn from [`Picks::keys`] in lane 0.
    Drawn(f32),
}

impl Flip {
    /// Below which draw of 53 bits pictures are mirrored.
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

/// Addresses of what says, for each row, which part is shown and how; 0 for what the settings don't ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Picks {
    /// `UInt64 [rows]`: the keys of the draws, `draw(seed, epoch, number, 0)` of `packhorse-order` if they must be those
    /// of the loader.
    pub keys: u64,
    /// `Int32 [rows, 2]`: top and left; what lies outside is moved inside.
    pub corners: u64,
    /// `UInt8 [rows]`: not 0 where a picture is mirrored.
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
    /// All of each picture, as it is.
    pub fn new(size: (u32, u32), channels: u32, output: Pixels) -> Self {
        Self { size, channels, crop: size, place: Place::Center, flip: Flip::Never, output }
    }

    /// What comes out of so many pictures.
    pub fn output(&self, rows: u32) -> Result<Tensor> {
        self.output.tensor(rows, self.crop, self.channels)
    }

    /// The launch that reads `rows` pictures at `input`, an address that is a multiple of four, and writes to `output`.
    pub fn launch(&self, input: u64, picks: &Picks, output: u64, rows: u32) -> Result<Launch> {
        Pixels::BYTES.tensor(rows, self.size, self.channels)?;
        let (((height, width), (h, w)), flip_below) = ((self.size, self.crop), self.flip.threshold()?);
        let (Some(down), Some(across)) = (height.checked_sub(h), width.checked_sub(w)) else {
            let message = format!("{h} × {w} pixels can't be cut from {height} × {width}: cut less");
            return Err(Error::config(message));
        };
        let corners = if self.place == Place::Given { address("corners", picks.corners, 4)? } else { 0 };
        let keys = picks.drawn_keys(self.place == Place::Drawn || matches!(self.flip, Flip::Drawn(_)))?;
        let args = self.output.args(output, rows, self.crop, self.channels)?;
        let args = args.u64(address("input", input, 4)?).u64(keys).u64(corners).u64(picks.given_flips(self.flip)?);
        let args = args.u64(flip_below).u32(height).u32(width).u32(middle(down)).u32(middle(across));
        let args: Args = args.flag(self.place == Place::Drawn).u32(0).finish(128)?;
        let groups = u64::from(w.div_ceil(4)) * u64::from(h);
        Launch::rows(Module::Image, self.output.entry(ENTRIES)?, groups, rows, args)
    }
}

/// Half of it, to the even number.
fn middle(space: u32) -> u32 {
    let half = space / 2;
    half + (space % 2) * (half % 2)
}
