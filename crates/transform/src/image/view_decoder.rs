//! Decodes images into a batch's memory. Owns the steps from bytes to slab and the scratch memory they need.

use super::crop_window::{CropWindow, reduced};
use super::decode::header;
use super::format::ImageFormat;
use super::jpeg::JpegReader;
use super::orientation::Orientation;
use super::pixel_buffer::PixelBuffer;
use super::view::{Crop, Draws, Filter, View};
use super::{other, png};
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use packhorse_core::{Error, Limits, Result};

/// Makes views of images, one after another, on one thread. Input: whatever [`decode`](super::decode) reads. Output:
/// 8-bit RGB (height × width × 3, no padding), upright as EXIF or XMP says. Gray becomes three equal channels, CMYK
/// and YCCK become RGB (inverted, as Adobe writes them), palettes become colours; alpha is dropped; 16 bits are cut
/// to the high 8. No colour profile is applied.
///
/// An image that needs neither resizing nor rotation is decoded directly into the caller's memory, and mirrored
/// there. Other images pass once through reusable memory.
pub struct ViewDecoder {
    view: View,
    limits: Limits,
    options: ResizeOptions,
    resizer: Resizer,
    jpegs: JpegReader,
    /// Pixels as stored, if they are not yet the view.
    stored: PixelBuffer,
    /// Intermediate pixels: other layouts than RGB, or not yet rotated.
    spare: PixelBuffer,
}

impl ViewDecoder {
    /// A `Config` error for an invalid `view`. Images over `limits.pixels` are not decoded.
    pub fn new(view: View, limits: Limits) -> Result<Self> {
        view.validate(&limits)?;
        let filter = match view.filter {
            Filter::Bilinear => FilterType::Bilinear,
            Filter::Bicubic => FilterType::CatmullRom,
        };
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter)).use_alpha(false);
        let (stored, spare) = Default::default();
        Ok(Self { view, limits, options, resizer: Resizer::new(), jpegs: JpegReader::new()?, stored, spare })
    }

    /// Height and width of an image's view; reads the header if the view does not fix them.
    ///
    /// # Errors
    /// `Content` for something that is not an image, `Limit` for too many pixels.
    pub fn size(&mut self, bytes: &[u8]) -> Result<(u32, u32)> {
        if let Some(shape) = self.view.shape() {
            return Ok(shape);
        }
        let (width, height) = Stored::open(bytes, &self.limits)?.shown();
        Ok((height, width))
    }

    /// Decodes `bytes` into `out`, whose length must match [`ViewDecoder::size`]; returns height and width. Pure:
    /// equal bytes, view and draws give equal pixels.
    ///
    /// # Errors
    /// `Content` for a truncated or damaged image, for something that is not an image, and for a size that violates
    /// [`Size::Exact`](super::Size::Exact); `Limit` for too many pixels. The content of `out` is then undefined.
    pub fn decode_into(&mut self, bytes: &[u8], draws: Draws, out: &mut [u8]) -> Result<(u32, u32)> {
        let draws = draws.lane(self.view.lane);
        let stored = Stored::open(bytes, &self.limits)?;
        let crop = Crop::new(self.view.size, stored.shown(), draws)?;
        let (width, height) = crop.target;
        if Some(out.len()) != rgb(crop.target) {
            let text = format!("{} bytes do not hold {height} × {width} pixels", out.len());
            return Err(Error::config(format!("{text}; give three for each")));
        }
        let mirror = draws.unit(0) < f64::from(self.view.flip);
        let turn = if mirror { stored.orientation.mirrored() } else { stored.orientation };
        self.fill(bytes, &stored, &crop, turn, out)?;
        self.jpegs.trim();
        self.stored.trim();
        self.spare.trim();
        Ok((height, width))
    }

    fn fill(&mut self, bytes: &[u8], stored: &Stored, crop: &Crop, turn: Orientation, out: &mut [u8]) -> Result<()> {
        if !crop.is_all(stored.shown()) {
            return self.resample(bytes, stored, crop, turn, out);
        }
        if turn.keeps_rows() {
            stored.decode(bytes, &self.limits, &mut self.jpegs, &mut self.spare, out)?;
            turn.mirror_rows(out, stored.width);
        } else {
            let room = self.stored.room(out.len());
            stored.decode(bytes, &self.limits, &mut self.jpegs, &mut self.spare, room)?;
            turn.apply_to(room, stored.size(), out);
        }
        Ok(())
    }

    fn resample(
        &mut self,
        bytes: &[u8],
        stored: &Stored,
        crop: &Crop,
        turn: Orientation,
        out: &mut [u8],
    ) -> Result<()> {
        let target = turn.swap(crop.target);
        let mut window = CropWindow::new(crop, stored.orientation, stored.size());
        let reduction =
            if self.view.reduced && stored.kind == ImageFormat::Jpeg { window.reduction(target) } else { 1 };
        let mut size = reduced(stored.size(), reduction);
        let room = self.stored.room(rgb(size).ok_or_else(too_large)?);
        let pixels = if reduction > 1 && self.jpegs.decode_reduced(bytes, reduction, room)? {
            window.shrink(stored.size(), size);
            room
        } else {
            size = stored.size();
            let room = self.stored.room(rgb(size).ok_or_else(too_large)?);
            stored.decode(bytes, &self.limits, &mut self.jpegs, &mut self.spare, room)?;
            room
        };
        let source = (pixels, size);
        if turn.keeps_rows() {
            window.resample(&mut self.resizer, &self.options, source, (out, target))?;
            turn.mirror_rows(out, target.0);
        } else {
            let spare = self.spare.room(out.len());
            window.resample(&mut self.resizer, &self.options, source, (spare, target))?;
            turn.apply_to(spare, target, out);
        }
        Ok(())
    }
}

/// An image's header.
struct Stored {
    kind: ImageFormat,
    width: u32,
    height: u32,
    orientation: Orientation,
}

impl Stored {
    fn open(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let kind = ImageFormat::of(bytes)?;
        let (width, height, orientation) = header(kind, bytes, limits)?;
        Ok(Self { kind, width, height, orientation })
    }

    fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// Width and height of the upright image.
    fn shown(&self) -> (u32, u32) {
        self.orientation.swap(self.size())
    }

    fn decode(
        &self,
        bytes: &[u8],
        limits: &Limits,
        jpegs: &mut JpegReader,
        spare: &mut PixelBuffer,
        out: &mut [u8],
    ) -> Result<()> {
        match self.kind {
            ImageFormat::Jpeg => jpegs.decode(bytes, out),
            ImageFormat::Png => png::decode_into(bytes, self.size(), spare, out),
            _ => other::decode(self.kind, bytes, limits)?.to_rgb(out),
        }
    }
}

/// Bytes of RGB pixels.
fn rgb((width, height): (u32, u32)) -> Option<usize> {
    (width as usize).checked_mul(height as usize)?.checked_mul(3)
}

fn too_large() -> Error {
    Error::new(packhorse_core::Kind::Limit, "is too large for this machine's addresses")
}

#[cfg(test)]
mod tests;
