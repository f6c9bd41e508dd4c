//! From bytes to a place in a batch. Owns the way of a picture into the slab, and the memory that it
//! needs on the way.

use super::decode::header;
use super::kind::Kind;
use super::orientation::Orientation;
use super::scratch::Scratch;
use super::view::{Draws, Filter, Part, View};
use super::{jpeg, png};
use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use packhorse_core::{Error, Limits, Result};

/// Makes views of pictures, one after another, for one thread: JPEG or PNG in, RGB of 8 bits out
/// (height × width × 3, no padding), upright as EXIF says. Gray becomes three equal channels, CMYK and
/// YCCK become RGB (inverted, as Adobe writes them), palettes colours; alpha is dropped; of 16 bits the
/// high ones stay. Profiles are not applied.
///
/// Where a picture needs neither resizing nor turning, its decoder writes into the caller's memory;
/// a mirror image is made there. Otherwise the pixels go once through memory that is kept for the next
/// picture.
pub struct ViewDecoder {
    view: View,
    limits: Limits,
    options: ResizeOptions,
    resizer: Resizer,
    /// The pixels as stored, where they are not yet the view.
    stored: Scratch,
    /// Pixels on their way, of layouts that are not RGB or before they are turned.
    spare: Scratch,
}

impl ViewDecoder {
    /// A `Config` error if `view` makes no sense. No picture over `limits.pixels` is decoded.
    pub fn new(view: View, limits: Limits) -> Result<Self> {
        view.validate(&limits)?;
        let filter = match view.filter {
            Filter::Bilinear => FilterType::Bilinear,
            Filter::Bicubic => FilterType::CatmullRom,
        };
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter)).use_alpha(false);
        let (stored, spare) = Default::default();
        Ok(Self { view, limits, options, resizer: Resizer::new(), stored, spare })
    }

    /// Height and width of the view of a picture, from its header where the view does not fix them.
    ///
    /// # Errors
    /// `Content` for what is no picture, `Limit` for one of too many pixels.
    pub fn size(&mut self, bytes: &[u8]) -> Result<(u32, u32)> {
        if let Some(shape) = self.view.shape() {
            return Ok(shape);
        }
        let (width, height) = Stored::open(bytes, &self.limits)?.shown();
        Ok((height, width))
    }

    /// Decodes the picture `bytes` into `out`, which has just the size that [`ViewDecoder::size`]
    /// says; returns height and width. Pure: equal bytes, view and draws, equal pixels.
    ///
    /// # Errors
    /// `Content` for what is cut short, damaged or no picture, and for another size than
    /// [`Size::Exact`](super::Size::Exact) asks for; `Limit` for too many pixels. `out` then holds anything.
    pub fn decode_into(&mut self, bytes: &[u8], draws: Draws, out: &mut [u8]) -> Result<(u32, u32)> {
        let stored = Stored::open(bytes, &self.limits)?;
        let part = Part::new(self.view.size, stored.shown(), draws)?;
        let (width, height) = part.target;
        if Some(out.len()) != rgb(part.target) {
            let text = format!("{} bytes are not the room for {height} × {width} pixels", out.len());
            return Err(Error::config(format!("{text}; give three for each")));
        }
        let mirror = draws.unit(0) < f64::from(self.view.flip);
        let turn = if mirror { stored.orientation.mirrored() } else { stored.orientation };
        self.fill(bytes, &stored, &part, turn, out)?;
        self.stored.trim();
        self.spare.trim();
        Ok((height, width))
    }

    fn fill(&mut self, bytes: &[u8], stored: &Stored, part: &Part, turn: Orientation, out: &mut [u8]) -> Result<()> {
        let all = part.is_all(stored.shown());
        if all && turn.keeps_rows() {
            stored.decode(bytes, &mut self.spare, out)?;
            turn.mirror_rows(out, stored.width);
            return Ok(());
        }
        let room = self.stored.room(rgb(stored.size()).ok_or_else(too_large)?);
        stored.decode(bytes, &mut self.spare, room)?;
        if all {
            turn.apply_to(room, stored.size(), out);
            return Ok(());
        }
        let source = ImageRef::new(stored.width, stored.height, room, PixelType::U8x3).map_err(misfit)?;
        let window = stored.window(part);
        if turn.keeps_rows() {
            resample(&mut self.resizer, &self.options, &source, window, part.target, out)?;
            turn.mirror_rows(out, part.target.0);
        } else {
            let target = turn.swap(part.target);
            let spare = self.spare.room(out.len());
            resample(&mut self.resizer, &self.options, &source, window, target, spare)?;
            turn.apply_to(spare, target, out);
        }
        Ok(())
    }
}

/// What a header says.
struct Stored {
    kind: Kind,
    width: u32,
    height: u32,
    orientation: Orientation,
}

impl Stored {
    fn open(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let kind = Kind::of_bytes(bytes)
            .ok_or_else(|| Error::content("is neither a JPEG nor a PNG; convert it or leave it out"))?;
        let (width, height, orientation) = header(kind, bytes, limits)?;
        Ok(Self { kind, width, height, orientation })
    }

    fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// Width and height as shown.
    fn shown(&self) -> (u32, u32) {
        self.orientation.swap(self.size())
    }

    fn decode(&self, bytes: &[u8], spare: &mut Scratch, out: &mut [u8]) -> Result<()> {
        match self.kind {
            Kind::Jpeg => jpeg::decode_into(bytes, out),
            Kind::Png => png::decode_into(bytes, self.size(), spare, out),
        }
    }

    /// Where `part` of the shown picture is stored.
    fn window(&self, part: &Part) -> Window {
        let shown = [part.left, part.top, part.width, part.height];
        let size = (f64::from(self.width), f64::from(self.height));
        Window { sides: self.orientation.stored_box(shown, size), alone: part.alone }
    }
}

/// A box (left, top, width, height) of the stored pixels, and whether it is cut out before it is resized.
struct Window {
    sides: [f64; 4],
    alone: bool,
}

fn resample(
    resizer: &mut Resizer,
    options: &ResizeOptions,
    source: &ImageRef<'_>,
    window: Window,
    (width, height): (u32, u32),
    out: &mut [u8],
) -> Result<()> {
    let mut target = Image::from_slice_u8(width, height, out, PixelType::U8x3).map_err(misfit)?;
    let [left, top, w, h] = window.sides;
    if window.alone {
        let whole = |side: f64| side as u32;
        let cut = CroppedImage::new(source, whole(left), whole(top), whole(w), whole(h)).map_err(misfit)?;
        return resizer.resize(&cut, &mut target, options).map_err(misfit);
    }
    resizer.resize(source, &mut target, &options.crop(left, top, w, h)).map_err(misfit)
}

/// Bytes of so many RGB pixels.
fn rgb((width, height): (u32, u32)) -> Option<usize> {
    (width as usize).checked_mul(height as usize)?.checked_mul(3)
}

fn too_large() -> Error {
    Error::new(packhorse_core::Kind::Limit, "is too large for this machine's addresses")
}

fn misfit(error: impl std::fmt::Display) -> Error {
    Error::bug(format!("pixels that can't be resampled: {error}"))
}

#[cfg(test)]
mod tests;
