//! WebP, TIFF, BMP, GIF and PNM. Owns what they share; each format has its own module.
//!
//! Decoders come from the crate `image`, or from `gif` and `tiff` below it where palette indices are needed. A
//! rewritten image keeps its format, without loss:
//!
//! | | reads | writes |
//! | --- | --- | --- |
//! | WebP | lossy, lossless, first frame | lossless, 8 bits |
//! | TIFF | first image; 1 to 16 bits, palettes, CMYK, YCbCr as JPEG | deflate; palettes stay, CMYK becomes RGB |
//! | BMP | whatever `image` reads | uncompressed; palettes stay |
//! | GIF | first frame on its canvas | that frame, with palette and transparency |
//! | PNM | P1 to P7 | P5, P6, P7 of 8 or 16 bits |

mod bmp;
mod gif;
mod pnm;
mod tiff;
mod webp;

use super::Keep;
use super::format::ImageFormat;
use super::jpeg::ImageNotes;
use super::orientation::Orientation;
use super::raster::Raster;
use image::{ColorType, ImageDecoder, ImageError, Limits as Bounds};
use packhorse_core::{Error, Limits, Result, contain};

/// Decoded pixels as stored.
struct Stored {
    /// Palette indices of one byte each if there is a palette.
    raster: Raster,
    palette: Option<Palette>,
    /// Whether resampling must not mix values: palettes and bilevel images.
    exact: bool,
    /// The numbers of the file, if pixels show them otherwise.
    numbers: Option<Numbers>,
}

/// The numbers of a file in the form of its raster's data.
struct Numbers {
    data: Vec<u8>,
    /// The number that is shown as the largest one of a pixel's type.
    most: u16,
}

/// Up to 256 colours.
struct Palette {
    colours: Vec<[u8; 3]>,
    /// The transparent index.
    clear: Option<u8>,
}

impl Stored {
    fn plain(raster: Raster) -> Self {
        Self { raster, palette: None, exact: false, numbers: None }
    }

    /// With the numbers of the file as pixels, and 0 and 1 in the place of black and white in a bilevel image.
    fn into_numbers(mut self) -> Self {
        if self.exact && self.palette.is_none() {
            self.raster.data.iter_mut().for_each(|value| *value = u8::from(*value > 0));
        } else if let Some(numbers) = self.numbers.take() {
            self.raster.data = numbers.data;
        }
        self
    }

    /// Gray or RGB of 8 bits.
    fn into_colours(self) -> Result<Raster> {
        let Raster { width, height, channels, wide, data } = self.raster;
        if let Some(palette) = self.palette {
            let colour = |number: &u8| palette.colours.get(usize::from(*number)).copied().unwrap_or_default();
            return Raster::new(width, height, 3, false, data.iter().flat_map(colour).collect());
        }
        let data = if wide { high_bytes(&data) } else { data };
        Raster::new(width, height, channels, false, data)
    }
}

fn high_bytes(wide: &[u8]) -> Vec<u8> {
    wide.as_chunks::<2>().0.iter().map(|two| (u16::from_ne_bytes(*two) >> 8) as u8).collect()
}

/// Stored size, and orientation.
pub(super) fn header(kind: ImageFormat, bytes: &[u8]) -> Result<(u32, u32, Orientation)> {
    guarded(kind, || match kind {
        ImageFormat::WebP => webp::header(bytes),
        ImageFormat::Tiff => tiff::header(bytes),
        ImageFormat::Bmp => bmp::header(bytes),
        ImageFormat::Gif => gif::header(bytes),
        _ => pnm::header(bytes),
    })
}

/// All pixels, 8 bits per channel. The caller has checked the limits.
pub(super) fn decode(kind: ImageFormat, bytes: &[u8], limits: &Limits) -> Result<Raster> {
    guarded(kind, || stored(kind, bytes, limits)?.into_colours())
}

/// Values as stored: palette indices, 0 and 1 of a bilevel image.
pub(super) fn numbers(kind: ImageFormat, bytes: &[u8], limits: &Limits) -> Result<Raster> {
    guarded(kind, || Ok(stored(kind, bytes, limits)?.into_numbers().raster))
}

/// Decodes, applies `edit` (`true`: values must not be mixed), and encodes. With `numbers` the numbers of the file stay, and a bilevel
/// image becomes grays 0 and 1, as a mask has them; else pixels look as before.
pub(super) fn rewrite(
    kind: ImageFormat,
    bytes: &[u8],
    limits: &Limits,
    (keep, numbers): (Keep, bool),
    edit: impl FnOnce(Raster, bool) -> Result<Raster>,
) -> Result<Vec<u8>> {
    guarded(kind, || {
        let stored = stored(kind, bytes, limits)?;
        let most = stored.numbers.as_ref().map(|numbers| numbers.most).filter(|_| numbers);
        let Stored { raster, palette, exact, .. } = if numbers { stored.into_numbers() } else { stored };
        let raster = edit(raster, exact)?;
        match kind {
            ImageFormat::WebP => webp::encode(&raster, bytes, keep),
            ImageFormat::Tiff => tiff::encode(&raster, palette.as_ref(), bytes, keep),
            ImageFormat::Bmp => bmp::encode(&raster, palette.as_ref()),
            ImageFormat::Gif => gif::encode(&raster, palette.as_ref()),
            _ => Ok(pnm::encode(&raster, most)),
        }
    })
}

/// Whether there is a second frame or image; decodes none.
pub(super) fn has_more(kind: ImageFormat, bytes: &[u8]) -> Result<bool> {
    guarded(kind, || match kind {
        ImageFormat::WebP => webp::is_animated(bytes),
        ImageFormat::Gif => gif::is_animated(bytes),
        ImageFormat::Tiff => tiff::has_more(bytes),
        _ => Ok(false),
    })
}

/// Whether a picture has pixels of its palette's transparent colour.
pub(super) fn shows_clear(kind: ImageFormat, bytes: &[u8], limits: &Limits) -> Result<bool> {
    guarded(kind, || {
        let Stored { raster, palette, .. } = stored(kind, bytes, limits)?;
        Ok(palette.and_then(|palette| palette.clear).is_some_and(|clear| raster.data.contains(&clear)))
    })
}

/// The ICC profile of a WebP or TIFF, and EXIF of a WebP.
pub(super) fn notes(kind: ImageFormat, bytes: &[u8]) -> ImageNotes<'_> {
    match kind {
        ImageFormat::WebP => webp::notes(bytes),
        ImageFormat::Tiff => tiff::notes(bytes),
        _ => ImageNotes::default(),
    }
}

/// Refuses an image with a frame that does not decode.
pub(super) fn check_frames(kind: ImageFormat, bytes: &[u8], limits: &Limits) -> Result<()> {
    guarded(kind, || match kind {
        ImageFormat::WebP => webp::check_frames(bytes, limits),
        ImageFormat::Gif => gif::check_frames(bytes, limits),
        _ => Ok(()),
    })
}

fn stored(kind: ImageFormat, bytes: &[u8], limits: &Limits) -> Result<Stored> {
    match kind {
        ImageFormat::WebP => webp::read(bytes, limits),
        ImageFormat::Tiff => tiff::read(bytes, limits),
        ImageFormat::Bmp => bmp::read(bytes, limits),
        ImageFormat::Gif => gif::read(bytes, limits),
        _ => pnm::read(bytes, limits),
    }
}

/// Turns a decoder's panic into a `Content` error.
fn guarded<T>(kind: ImageFormat, work: impl FnOnce() -> Result<T>) -> Result<T> {
    contain(work).unwrap_or_else(|| Err(undecodable(kind, "the decoder gave up on its structure")))
}

/// All pixels from a decoder of the crate `image`.
fn pixels(kind: ImageFormat, mut decoder: impl ImageDecoder, limits: &Limits) -> Result<Raster> {
    let (width, height) = decoder.dimensions();
    let (channels, wide) = match decoder.color_type() {
        ColorType::L8 => (1, false),
        ColorType::La8 => (2, false),
        ColorType::Rgb8 => (3, false),
        ColorType::Rgba8 => (4, false),
        ColorType::L16 => (1, true),
        ColorType::La16 => (2, true),
        ColorType::Rgb16 => (3, true),
        ColorType::Rgba16 => (4, true),
        other => return Err(undecodable(kind, &format!("its values are {other:?}"))),
    };
    decoder.set_limits(bounds(limits)).map_err(|error| refused(kind, error))?;
    let size = usize::try_from(decoder.total_bytes()).map_err(|_| too_large())?;
    let mut data = vec![0; size];
    decoder.read_image(&mut data).map_err(|error| refused(kind, error))?;
    Raster::new(width, height, channels, wide, data)
}

/// A decoder may allocate 16 bytes per pixel: twice the largest pixel.
fn bounds(limits: &Limits) -> Bounds {
    let mut bounds = Bounds::no_limits();
    bounds.max_alloc = Some(limits.pixels.saturating_mul(16));
    bounds
}

/// Limits the total pixels of an animation's frames, which may compress to almost nothing.
struct Work {
    left: u64,
}

impl Work {
    /// A total of 16 maximal images.
    fn within(limits: &Limits) -> Self {
        Self { left: limits.pixels.saturating_mul(16) }
    }

    fn take(&mut self, pixels: u64) -> Result<()> {
        self.left = self.left.checked_sub(pixels).ok_or_else(|| {
            let text = "has frames with more pixels in total than 16 images of the limit; leave it out";
            Error::new(packhorse_core::Kind::Limit, text)
        })?;
        Ok(())
    }
}

fn refused(kind: ImageFormat, error: ImageError) -> Error {
    match error {
        ImageError::Limits(_) => too_large(),
        ImageError::IoError(_) => cut_short(kind),
        ImageError::Unsupported(error) => unread(kind, &error.to_string()),
        other => undecodable(kind, &other.to_string()),
    }
}

fn too_large() -> Error {
    Error::new(packhorse_core::Kind::Limit, "takes more memory than the limit of pixels allows; leave it out")
}

fn cut_short(kind: ImageFormat) -> Error {
    Error::cut_short(format!("the end of the {} is missing; get it again or leave it out", name(kind)))
}

fn undecodable(kind: ImageFormat, why: &str) -> Error {
    Error::content(format!("can't be decoded as a {} ({why}); get it again or leave it out", name(kind)))
}

/// The error of a whole picture of a kind that no decoder here reads.
fn unread(kind: ImageFormat, why: &str) -> Error {
    Error::content(format!(
        "is a {} of a kind that packhorse does not read ({why}); convert it or leave it out",
        name(kind)
    ))
}

fn unencodable(kind: ImageFormat, why: impl std::fmt::Display) -> Error {
    Error::content(format!("can't be encoded as a {} ({why}); leave it out", name(kind)))
}

fn name(kind: ImageFormat) -> &'static str {
    match kind {
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::Png => "PNG",
        ImageFormat::WebP => "WebP",
        ImageFormat::Tiff => "TIFF",
        ImageFormat::Bmp => "BMP",
        ImageFormat::Gif => "GIF",
        ImageFormat::Pnm => "PNM",
    }
}

#[cfg(test)]
mod tests;
