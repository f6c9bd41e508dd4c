//! TIFF 6.0 and BigTIFF. Owns the meaning of the samples.
//!
//! Uses the crate `tiff` rather than `image`, which is built on it but reads no palettes, no gray with alpha, no
//! planar CMYK and fewer bit depths.

mod alpha;
mod directory;
mod encode;
mod lzw;
mod palette;
mod planes;

pub(super) use encode::encode;

use super::{Numbers, Stored, cut_short, too_large, undecodable, unread};
use crate::image::format::ImageFormat;
use crate::image::jpeg::{self, ImageNotes};
use crate::image::orientation::Orientation;
use crate::image::raster::Raster;
use alpha::{divide_by_alpha, without_alpha};
pub(super) use lzw::with_longer_tiles;
use packhorse_core::{Error, Limits, Result};
use palette::{as_gray, colours, with_alpha};
use std::borrow::Cow;
use std::io::Cursor;
use tiff::decoder::{BufferLayoutPreference, Decoder, DecodingResult, Limits as Bounds};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

/// Tag of an XMP packet.
const XMP: Tag = Tag::Unknown(700);

/// Tag of the DNG version; the first image of a DNG is a thumbnail.
const DNG: Tag = Tag::Unknown(50_706);
/// The photometric interpretation in which 0 is white.
const WHITE_IS_ZERO: u16 = 0;
/// The kinds of extra samples that are alpha: one by which the colours were multiplied, and one by which they were not.
const ASSOCIATED: u16 = 1;
const UNASSOCIATED: u16 = 2;
/// The JPEG compression scheme.
const JPEG: u32 = 7;

type Tiff<'a> = Decoder<Cursor<&'a [u8]>>;
type Samples = (DecodingResult, Option<BufferLayoutPreference>);

pub(super) fn header(bytes: &[u8]) -> Result<(u32, u32, Orientation)> {
    let mut decoder = Decoder::new(Cursor::new(bytes)).map_err(refused)?;
    let (width, height) = decoder.dimensions().map_err(refused)?;
    let number = decoder.find_tag_unsigned::<u32>(Tag::Orientation).ok().flatten();
    let mut xmp = || decoder.get_tag_u8_vec(XMP).ok();
    let orientation = match number {
        Some(number) => Orientation::from_number(number),
        None => Orientation::of(None, xmp().as_deref()),
    };
    Ok((width, height, orientation))
}

pub(super) fn notes(bytes: &[u8]) -> ImageNotes<'_> {
    let icc = Decoder::new(Cursor::new(bytes)).and_then(|mut decoder| decoder.get_tag_u8_vec(Tag::IccProfile));
    ImageNotes { icc: icc.ok().map(Cow::Owned), exif: None }
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Stored> {
    let patched = as_gray(bytes);
    let fourth = with_alpha(bytes);
    let bytes = patched.as_deref().or(fourth.as_deref()).unwrap_or(bytes);
    let mut decoder = Decoder::new(Cursor::new(bytes)).map_err(refused)?.with_limits(bounds(limits));
    let (width, height) = decoder.dimensions().map_err(refused)?;
    let color = decoder.colortype().map_err(refused)?;
    require_strips(&mut decoder, color)?;
    let many = usize::from(color.num_samples());
    let (samples, layout) = whole(&mut decoder, color, limits)?;
    let interleave = |data, width| match &layout {
        Some(layout) => interleave(data, layout, width),
        None => data,
    };
    let (data, wide) = match samples {
        DecodingResult::U8(data) if color.bit_depth() < 8 => {
            (unpack(&data, (width, height), many, color.bit_depth()), false)
        }
        DecodingResult::U8(data) => (interleave(data, 1), false),
        DecodingResult::U16(data) => (interleave(data.into_iter().flat_map(u16::to_ne_bytes).collect(), 2), true),
        other => return Err(of_type(&other)),
    };
    if patched.is_some() {
        let palette = colours(&mut decoder)?;
        let raster = Raster::new(width, height, 1, false, data).map_err(|_| contradictory())?;
        return Ok(Stored { raster, palette: Some(palette), exact: true, numbers: None });
    }
    let inverted =
        decoder.find_tag_unsigned::<u16>(Tag::PhotometricInterpretation).ok().flatten() == Some(WHITE_IS_ZERO);
    let numbers = match color {
        ColorType::Gray(bits @ 2..=16) if inverted || ![8, 16].contains(&bits) => {
            Some(numbers(&data, wide, u16::MAX >> (16 - bits), inverted))
        }
        _ => None,
    };
    let mut stored = Stored { numbers, ..meaning(color, (width, height), data, wide)? };
    if fourth.is_some() || color.num_samples() == 2 && alpha_of(&mut decoder).is_none() {
        stored.raster = without_alpha(stored.raster);
    } else if alpha_of(&mut decoder) == Some(ASSOCIATED) {
        divide_by_alpha(&mut stored.raster);
    }
    Ok(stored)
}

/// The kind of alpha that the first channel beyond the colours is; `None` for another meaning, or none that is known.
fn alpha_of(decoder: &mut Tiff<'_>) -> Option<u16> {
    let extra = decoder.find_tag_unsigned_vec::<u16>(Tag::ExtraSamples).ok().flatten()?;
    extra.first().copied().filter(|kind| [ASSOCIATED, UNASSOCIATED].contains(kind))
}

/// All samples, and how they lie if channels are not interleaved.
fn whole(decoder: &mut Tiff<'_>, color: ColorType, limits: &Limits) -> Result<Samples> {
    let error = match samples(decoder, color, limits) {
        Ok(samples) => return Ok(samples),
        Err(error) => error,
    };
    let tile = bytes_of_tile(decoder, color).ok();
    let bytes = *decoder.inner().get_ref();
    let longer = tile.and_then(|tile| with_longer_tiles(bytes, tile)).ok_or(error)?;
    samples(&mut Decoder::new(Cursor::new(&longer[..])).map_err(refused)?.with_limits(bounds(limits)), color, limits)
}

fn samples(decoder: &mut Tiff<'_>, color: ColorType, limits: &Limits) -> Result<Samples> {
    if let Some(samples) = planes::read(decoder, color.num_samples().into(), limits)? {
        return Ok((samples, None));
    }
    let mut samples = DecodingResult::U8(Vec::new());
    let layout = decoder.read_image_to_buffer(&mut samples).map_err(refused)?;
    Ok((samples, Some(layout)))
}

/// The bytes of a whole tile.
fn bytes_of_tile(decoder: &mut Tiff<'_>, color: ColorType) -> Result<usize> {
    let mut number = |tag| decoder.find_tag_unsigned::<u32>(tag).map_err(refused);
    let planar = number(Tag::PlanarConfiguration)? == Some(2);
    let many = if planar { 1 } else { number(Tag::SamplesPerPixel)?.unwrap_or(1) };
    let (across, down) = decoder.chunk_dimensions();
    let bits = u64::from(across).saturating_mul(u64::from(color.bit_depth()) * u64::from(many));
    Ok(usize::try_from(bits.div_ceil(8).saturating_mul(down.into())).unwrap_or(usize::MAX))
}

/// The numbers of the file from those of the decoder, which makes 0 black.
fn numbers(data: &[u8], wide: bool, most: u16, inverted: bool) -> Numbers {
    let number = |value: u16| if inverted { most.saturating_sub(value) } else { value };
    let data = match wide {
        true => data.as_chunks().0.iter().flat_map(|two| number(u16::from_ne_bytes(*two)).to_ne_bytes()).collect(),
        // Numbers of pixels of 8 bits have 8 bits.
        false => data.iter().map(|value| number((*value).into()) as u8).collect(),
    };
    Numbers { data, most }
}

/// The error of samples that no picture here has.
fn of_type(samples: &DecodingResult) -> Error {
    let what = match samples {
        DecodingResult::I8(_) | DecodingResult::I16(_) => "signed integers",
        DecodingResult::F16(_) | DecodingResult::F32(_) | DecodingResult::F64(_) => "floating-point numbers",
        _ => "integers of more than 16 bits",
    };
    let message = format!("is a TIFF of {what}, and pictures have unsigned integers of up to 16 bits");
    Error::content(message).hint("`image=leave=FIELD` leaves the field as it is; arrays (.npy) hold all numbers")
}

/// Refuses files that the crate `tiff` does not check and would decode wrong.
fn require_strips(decoder: &mut Tiff<'_>, color: ColorType) -> Result<()> {
    let mut number = |tag| decoder.find_tag_unsigned::<u32>(tag).map_err(refused);
    if number(Tag::FillOrder)? == Some(2) {
        return Err(unread(ImageFormat::Tiff, "its bits stand in reverse order"));
    }
    let predicted = number(Tag::Predictor)?.unwrap_or(1) != 1;
    if predicted && number(Tag::SamplesPerPixel)?.unwrap_or(1) > color.num_samples().into() {
        return Err(unread(ImageFormat::Tiff, "it has channels of no known meaning, and a predictor"));
    }
    let extra = number(Tag::SamplesPerPixel)?.unwrap_or(1) > color.num_samples().into();
    let (width, height) = (number(Tag::ImageWidth)?, number(Tag::ImageLength)?);
    let (across, down) = (number(Tag::TileWidth)?, number(Tag::TileLength)?);
    let cut = |side: Option<u32>, tile: Option<u32>| side.zip(tile).is_some_and(|(side, tile)| side % tile.max(1) > 0);
    if extra && (cut(width, across) || cut(height, down)) {
        return Err(unread(ImageFormat::Tiff, "it has channels of no known meaning, in tiles that go beyond it"));
    }
    if number(Tag::NewSubfileType)?.unwrap_or(0) & 1 == 1 || number(DNG)?.is_some() {
        return Err(unread(ImageFormat::Tiff, "what lies first in it is a thumbnail, or a camera's raw picture"));
    }
    let compression = number(Tag::Compression)?.unwrap_or(1);
    let (offsets, lengths) = if decoder.find_tag(Tag::TileOffsets).map_err(refused)?.is_some() {
        (Tag::TileOffsets, Tag::TileByteCounts)
    } else {
        (Tag::StripOffsets, Tag::StripByteCounts)
    };
    let offsets = decoder.get_tag_u64_vec(offsets).map_err(refused)?;
    let lengths = decoder.get_tag_u64_vec(lengths).map_err(refused)?;
    if compression == JPEG {
        require_jpegs(decoder, &offsets, &lengths)?;
    }
    let all = decoder.inner().get_ref().len() as u64;
    let inside = |(offset, length): (&u64, &u64)| offset.checked_add(*length).is_some_and(|end| end <= all);
    let needed = decoder.image_buffer_layout().map_err(refused)?.complete_len as u64;
    let there = lengths.iter().fold(0u64, |sum, length| sum.saturating_add(*length));
    if offsets.iter().zip(&lengths).all(inside) && (compression != 1 || there >= needed) {
        Ok(())
    } else {
        Err(cut_short(ImageFormat::Tiff))
    }
}

/// Refuses embedded JPEGs that the decoder misreads, and those larger than their strip or tile: it would allocate what they
/// declare.
fn require_jpegs(decoder: &mut Tiff<'_>, offsets: &[u64], lengths: &[u64]) -> Result<()> {
    let (width, height) = decoder.chunk_dimensions();
    let bytes = *decoder.inner().get_ref();
    for (offset, length) in offsets.iter().zip(lengths) {
        let part = usize::try_from(*offset).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
        let part = part.get(..usize::try_from(*length).unwrap_or(usize::MAX).min(part.len())).unwrap_or_default();
        let (w, h, channels) = jpeg::strip(part).map_err(|e| e.subject("one of its parts"))?;
        if channels == 2 {
            return Err(unread(ImageFormat::Tiff, "it has JPEGs of two channels"));
        }
        // The last strip may hold more rows than are left; allow one more row of blocks.
        if w > width.saturating_add(16) || h > height.saturating_add(16) {
            return Err(contradictory());
        }
    }
    Ok(())
}

/// Whether there is a second image.
pub(super) fn has_more(bytes: &[u8]) -> Result<bool> {
    Decoder::new(Cursor::new(bytes)).map(|decoder| decoder.more_images()).map_err(refused)
}

/// Converts samples to gray or colours.
fn meaning(color: ColorType, (width, height): (u32, u32), data: Vec<u8>, wide: bool) -> Result<Stored> {
    let raster = |channels, data| Raster::new(width, height, channels, wide, data).map_err(|_| contradictory());
    let narrow = |data| Raster::new(width, height, 3, false, data).map_err(|_| contradictory());
    Ok(match color {
        ColorType::Gray(bits @ 1..=8) => {
            let most = u8::MAX >> (8 - bits);
            let data = data.into_iter().map(|value| value * (255 / most)).collect();
            Stored { exact: bits == 1, ..Stored::plain(raster(1, data)?) }
        }
        ColorType::Gray(16) => Stored::plain(raster(1, data)?),
        ColorType::GrayA(8 | 16) | ColorType::Multiband { bit_depth: 8 | 16, num_samples: 2 } => {
            Stored::plain(raster(2, data)?)
        }
        ColorType::RGB(8 | 16) => Stored::plain(raster(3, data)?),
        ColorType::RGBA(8 | 16) => Stored::plain(raster(4, data)?),
        ColorType::CMYK(8 | 16) => Stored::plain(narrow(inks(&data, wide, 4))?),
        ColorType::CMYKA(8 | 16) => Stored::plain(narrow(inks(&data, wide, 5))?),
        ColorType::YCbCr(8) => Stored::plain(narrow(data.as_chunks().0.iter().copied().flat_map(light).collect())?),
        other => return Err(unread(ImageFormat::Tiff, &format!("its colours are {other:?}"))),
    })
}

/// CMYK to RGB as in Pillow. Of 16 bits the high 8 count.
fn inks(data: &[u8], wide: bool, many: usize) -> Vec<u8> {
    let narrow = if wide { super::high_bytes(data) } else { data.to_vec() };
    let share = |a: u8, b: u8| {
        let product = u32::from(a) * u32::from(b) + 128;
        ((product + (product >> 8)) >> 8) as u8
    };
    let rgb = |inks: &[u8]| match *inks {
        [c, m, y, k, ..] => [c, m, y].map(|ink| (255 - k).saturating_sub(share(ink, 255 - k))),
        _ => [0; 3],
    };
    narrow.chunks_exact(many).flat_map(rgb).collect()
}

/// Full-range YCbCr to RGB (ITU-T T.871).
fn light([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    let (y, cb, cr) = (f32::from(y), f32::from(cb) - 128.0, f32::from(cr) - 128.0);
    let rgb = [y + 1.402 * cr, y - 0.344_136 * cb - 0.714_136 * cr, y + 1.772 * cb];
    rgb.map(|value| value.round().clamp(0.0, 255.0) as u8)
}

/// Expands rows of packed samples to one byte each, most significant bits first.
fn unpack(packed: &[u8], (width, height): (u32, u32), many: usize, bits: u8) -> Vec<u8> {
    let row = width as usize * many;
    let stride = (row * usize::from(bits)).div_ceil(8).max(1);
    let most = u8::MAX >> (8 - bits);
    let value = |row: &[u8], at: usize| {
        let bit = at * usize::from(bits);
        let two = u16::from_be_bytes([
            row.get(bit / 8).copied().unwrap_or_default(),
            row.get(bit / 8 + 1).copied().unwrap_or_default(),
        ]);
        (two >> (16 - bit % 8 - usize::from(bits))) as u8 & most
    };
    let rows = packed.chunks(stride).take(height as usize);
    rows.flat_map(|bytes| (0..row).map(move |at| value(bytes, at))).collect()
}

/// Converts planar to interleaved samples.
fn interleave(data: Vec<u8>, layout: &BufferLayoutPreference, width: usize) -> Vec<u8> {
    let plane = layout.plane_stride.map_or(0, |stride| stride.get());
    if layout.planes < 2 || plane == 0 || data.len() < layout.complete_len {
        return data;
    }
    let mut pixels = Vec::with_capacity(data.len());
    for at in (0..plane).step_by(width) {
        for plane in data.chunks_exact(plane) {
            pixels.extend_from_slice(plane.get(at..at + width).unwrap_or_default());
        }
    }
    pixels
}

fn bounds(limits: &Limits) -> Bounds {
    let pixels = usize::try_from(limits.pixels).unwrap_or(usize::MAX);
    let mut bounds = Bounds::default();
    bounds.decoding_buffer_size = pixels.saturating_mul(10);
    bounds.intermediate_buffer_size = pixels.saturating_mul(10);
    bounds
}

fn contradictory() -> Error {
    undecodable(ImageFormat::Tiff, "its parts contradict each other")
}

fn refused(error: TiffError) -> Error {
    match error {
        TiffError::LimitsExceeded => too_large(),
        TiffError::IoError(_) => cut_short(ImageFormat::Tiff),
        TiffError::UnsupportedError(error) => unread(ImageFormat::Tiff, &error.to_string()),
        other => undecodable(ImageFormat::Tiff, &other.to_string()),
    }
}
