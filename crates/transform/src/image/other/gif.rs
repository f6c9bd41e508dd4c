//! GIF (89a). Owns how the first frame is placed on the canvas.
//!
//! Uses the crate `gif` rather than `image` to keep palette indices. Pixels outside the first frame get the
//! transparent colour or else index 0, as in Pillow; `image` makes them black.

use super::{Palette, Stored, Work, cut_short, too_large, undecodable, unencodable};
use crate::image::format::ImageFormat;
use crate::image::orientation::Orientation;
use crate::image::raster::Raster;
use gif::{DecodeOptions, Decoder, DecodingError, Encoder, Frame, MemoryLimit};
use packhorse_core::{Error, Limits, Result};
use std::borrow::Cow;
use std::num::NonZeroU64;

pub(super) fn header(bytes: &[u8]) -> Result<(u32, u32, Orientation)> {
    let decoder = decoder(bytes, &Limits::default())?;
    let orientation = Orientation::of(None, decoder.xmp_metadata());
    Ok((decoder.width().into(), decoder.height().into(), orientation))
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Stored> {
    let mut decoder = decoder(bytes, limits)?;
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    let (numbers, place, clear) = match decoder.read_next_frame().map_err(refused)? {
        Some(frame) => (frame.buffer.to_vec(), Place::of(frame), frame.transparent),
        None => return Err(undecodable(ImageFormat::Gif, "it has no frame")),
    };
    let colours = decoder.palette().map_err(refused)?.as_chunks().0.to_vec();
    let mut data = vec![clear.unwrap_or(0); width * height];
    for (row, numbers) in numbers.chunks_exact(place.width.max(1)).enumerate() {
        let Some(row) = data.chunks_exact_mut(width.max(1)).nth(place.top + row) else { continue };
        row.iter_mut().skip(place.left).zip(numbers).for_each(|(to, number)| *to = *number);
    }
    let raster = Raster::new(width as u32, height as u32, 1, false, data)?;
    Ok(Stored { raster, palette: Some(Palette { colours, clear }), exact: true, numbers: None })
}

/// Where a frame lies on the canvas.
struct Place {
    left: usize,
    top: usize,
    width: usize,
}

impl Place {
    fn of(frame: &Frame<'_>) -> Self {
        Self { left: frame.left.into(), top: frame.top.into(), width: frame.width.into() }
    }
}

pub(super) fn is_animated(bytes: &[u8]) -> Result<bool> {
    let mut options = DecodeOptions::new();
    options.skip_frame_decoding(true);
    let mut decoder = options.read_info(bytes).map_err(refused)?;
    let mut frames = 0;
    while frames < 2 && decoder.next_frame_info().map_err(refused)?.is_some() {
        frames += 1;
    }
    Ok(frames > 1)
}

pub(super) fn check_frames(bytes: &[u8], limits: &Limits) -> Result<()> {
    let mut decoder = decoder(bytes, limits)?;
    let mut work = Work::within(limits);
    while let Some(frame) = decoder.read_next_frame().map_err(refused)? {
        work.take(u64::from(frame.width) * u64::from(frame.height))?;
    }
    Ok(())
}

pub(super) fn encode(raster: &Raster, palette: Option<&Palette>) -> Result<Vec<u8>> {
    let failed = |error| unencodable(ImageFormat::Gif, error);
    let side =
        |side: u32| u16::try_from(side).map_err(|_| unencodable(ImageFormat::Gif, "a side is over 65535 pixels"));
    let (width, height) = (side(raster.width)?, side(raster.height)?);
    let palette = palette.ok_or_else(|| Error::bug("a GIF without a palette"))?;
    let buffer = Cow::Borrowed(&*raster.data);
    let frame = Frame { width, height, buffer, transparent: palette.clear, ..Frame::default() };
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, width, height, palette.colours.as_flattened()).map_err(failed)?;
    encoder.write_frame(&frame).map_err(failed)?;
    drop(encoder);
    Ok(out)
}

fn decoder<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Decoder<&'a [u8]>> {
    let mut options = DecodeOptions::new();
    options.set_memory_limit(NonZeroU64::new(limits.pixels).map_or(MemoryLimit::Unlimited, MemoryLimit::Bytes));
    options.read_info(bytes).map_err(refused)
}

fn refused(error: DecodingError) -> Error {
    match error {
        DecodingError::MemoryLimit | DecodingError::OutOfMemory => too_large(),
        DecodingError::Io(_) => cut_short(ImageFormat::Gif),
        other => undecodable(ImageFormat::Gif, &other.to_string()),
    }
}
