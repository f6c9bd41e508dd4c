//! The PNG codec (ISO/IEC 15948). Owns the codec settings; decides no size.
//!
//! Decoder: verifies the checksums of all chunks and of the pixels, up to IEND. Encoder: zlib level 6 through
//! zlib-rs, adaptive filters; no filter for palettes.

mod notes;

use super::jpeg::ImageNotes;
use super::orientation::Orientation;
use super::pixel_buffer::PixelBuffer;
use super::raster::{Raster, rgb_of};
use super::{Keep, exif};
use notes::Notes;
use packhorse_core::{Error, Kind, Result};
use png::{BitDepth, ColorType, DecodeOptions, Decoder, DecodingError, Encoder, Filter, Info, Reader, Transformations};
use std::borrow::Cow;
use std::io::Cursor;

/// Size and orientation.
pub(super) fn header(bytes: &[u8]) -> Result<(u32, u32, Orientation)> {
    let reader = decoder(bytes).read_info().map_err(refused)?;
    let info = reader.info();
    let notes = Notes::of(bytes);
    Ok((info.width, info.height, Orientation::of(notes.exif.as_deref(), notes.xmp.as_deref())))
}

/// Pixels as stored, 8 bits per channel, or 8 or 16 with `deep`. Palettes become colours.
pub(super) fn decode(bytes: &[u8], deep: bool) -> Result<Raster> {
    let mut decoder = decoder(bytes);
    let depth = if deep { Transformations::IDENTITY } else { Transformations::STRIP_16 };
    decoder.set_transformations(Transformations::EXPAND | depth);
    read(&mut decoder.read_info().map_err(refused)?)
}

/// Values as stored: palette indices, grays of fewer than 8 bits unscaled.
pub(super) fn numbers(bytes: &[u8]) -> Result<Raster> {
    let mut decoder = decoder(bytes);
    decoder.set_transformations(Transformations::IDENTITY);
    read(&mut decoder.read_info().map_err(refused)?)
}

/// The ICC profile, and EXIF.
pub(super) fn notes(bytes: &[u8]) -> Result<ImageNotes<'_>> {
    let reader = decoder(bytes).read_info().map_err(refused)?;
    let icc = reader.info().icc_profile.as_deref().map(|profile| Cow::Owned(profile.to_vec()));
    Ok(ImageNotes { icc, exif: Notes::of(bytes).exif })
}

/// Whether there is a second frame; decodes none.
pub(super) fn has_more(bytes: &[u8]) -> Result<bool> {
    let reader = decoder(bytes).read_info().map_err(refused)?;
    Ok(reader.info().animation_control.is_some_and(|control| control.num_frames > 1))
}

/// Decodes to 8-bit RGB of the given (width, height) as stored. `out` has exactly the needed size; `spare` is scratch
/// space for other layouts. The content of `out` is undefined after an error.
pub(super) fn decode_into(bytes: &[u8], size: (u32, u32), spare: &mut PixelBuffer, out: &mut [u8]) -> Result<()> {
    let mut decoder = decoder(bytes);
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(refused)?;
    let need = reader.output_buffer_size().ok_or_else(|| undecodable("it is too large"))?;
    let (color, depth) = reader.output_color_type();
    let direct = color == ColorType::Rgb && need == out.len();
    let frame = reader.next_frame(if direct { &mut *out } else { spare.room(need) }).map_err(refused)?;
    reader.finish().map_err(refused)?;
    if (frame.width, frame.height) != size || depth != BitDepth::Eight {
        return Err(undecodable("its first frame is not all of it"));
    }
    if !direct {
        rgb_of(spare.room(need), color.samples(), out);
    }
    Ok(())
}

/// Decodes, applies `edit` (`true`: values must not be mixed), and encodes. With `numbers`, `edit` mixes no values, and grays of
/// fewer than 8 bits keep their depth; grays of one bit always do.
pub(super) fn rewrite(
    bytes: &[u8],
    keep: Keep,
    numbers: bool,
    edit: impl FnOnce(Raster, bool) -> Result<Raster>,
) -> Result<Vec<u8>> {
    let mut decoder = decoder(bytes);
    let info = decoder.read_header_info().map_err(refused)?;
    let (indexed, gray) = (info.color_type == ColorType::Indexed, info.color_type == ColorType::Grayscale);
    let exact = indexed || info.bit_depth == BitDepth::One;
    let as_stored = indexed || gray && (exact || numbers && matches!(info.bit_depth, BitDepth::Two | BitDepth::Four));
    decoder.set_transformations(if as_stored { Transformations::IDENTITY } else { Transformations::EXPAND });
    let mut reader = decoder.read_info().map_err(refused)?;
    if reader.info().animation_control.is_some() {
        return Err(Error::content("is an animated PNG, which can't be resized or turned; leave it out"));
    }
    let raster = edit(read(&mut reader)?, exact)?;
    let exif = keep.exif.then(|| Notes::of(bytes).exif).flatten();
    encode(&raster, reader.info(), exif.as_deref(), as_stored, keep)
}

fn decoder(bytes: &[u8]) -> Decoder<Cursor<&[u8]>> {
    let mut options = DecodeOptions::default();
    options.set_ignore_adler32(false);
    options.set_ignore_crc(false);
    options.set_skip_ancillary_crc_failures(false);
    options.set_ignore_text_chunk(true);
    Decoder::new_with_options(Cursor::new(bytes), options)
}

/// Reads all pixels, and verifies all later chunks.
fn read(reader: &mut Reader<Cursor<&[u8]>>) -> Result<Raster> {
    let size = reader.output_buffer_size().ok_or_else(|| undecodable("it is too large"))?;
    let mut data = vec![0; size];
    let frame = reader.next_frame(&mut data).map_err(refused)?;
    reader.finish().map_err(refused)?;
    let channels = u8::try_from(frame.color_type.samples()).unwrap_or_default();
    match frame.bit_depth {
        BitDepth::Sixteen => data.as_chunks_mut::<2>().0.iter_mut().for_each(to_native),
        BitDepth::Eight => {}
        depth => data = unpack(&data, frame.line_size, frame.width as usize, depth as u8),
    }
    Raster::new(frame.width, frame.height, channels, frame.bit_depth == BitDepth::Sixteen, data)
}

fn to_native(sample: &mut [u8; 2]) {
    *sample = u16::from_be_bytes(*sample).to_ne_bytes();
}

fn to_big_endian(sample: [u8; 2]) -> [u8; 2] {
    u16::from_ne_bytes(sample).to_be_bytes()
}

/// Expands packed samples of 1, 2 or 4 bits to one byte each, most significant bits first.
fn unpack(packed: &[u8], line: usize, width: usize, bits: u8) -> Vec<u8> {
    let of_byte = |byte: u8| (0..8 / bits).rev().map(move |i| (byte >> (i * bits)) & ((1 << bits) - 1));
    packed.chunks(line.max(1)).flat_map(|line| line.iter().copied().flat_map(of_byte).take(width)).collect()
}

/// Packs samples of one byte each to 1, 2 or 4 bits, each line from a whole byte on.
fn pack(samples: &[u8], width: usize, bits: usize) -> Vec<u8> {
    let byte = |some: &[u8]| (0..8 / bits).fold(0, |byte, i| byte << bits | some.get(i).copied().unwrap_or_default());
    samples.chunks(width.max(1)).flat_map(|line| line.chunks(8 / bits).map(byte)).collect()
}

fn encode(raster: &Raster, from: &Info<'_>, exif: Option<&[u8]>, as_stored: bool, keep: Keep) -> Result<Vec<u8>> {
    let failed = |error| Error::content(format!("can't be encoded as a PNG ({error}); leave it out"));
    let mut out = Vec::with_capacity(raster.data.len() / 2 + 1024);
    let mut info = info(raster, from, as_stored, keep);
    let exif = exif.and_then(|tiff| exif::upright(tiff, (raster.width, raster.height)));
    info.exif_metadata = exif.map(Cow::Owned);
    let (indexed, bits) = (info.color_type == ColorType::Indexed, info.bit_depth as u8);
    let mut encoder = Encoder::with_info(&mut out, info).map_err(failed)?;
    encoder.set_filter(if indexed { Filter::NoFilter } else { Filter::Adaptive });
    let mut writer = encoder.write_header().map_err(failed)?;
    if bits < 8 {
        writer.write_image_data(&pack(&raster.data, raster.width as usize, bits.into())).map_err(failed)?;
    } else if raster.wide {
        let data: Vec<u8> = raster.data.as_chunks::<2>().0.iter().copied().flat_map(to_big_endian).collect();
        writer.write_image_data(&data).map_err(failed)?;
    } else {
        writer.write_image_data(&raster.data).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    Ok(out)
}

/// The header of the new image, with the metadata that stays valid.
fn info<'a>(raster: &Raster, from: &'a Info<'_>, as_stored: bool, keep: Keep) -> Info<'a> {
    let borrow = |chunk: &'a Option<Cow<'_, [u8]>>| chunk.as_deref().map(Cow::Borrowed);
    let mut info = Info::with_size(raster.width, raster.height);
    let indexed = from.color_type == ColorType::Indexed;
    info.bit_depth = match raster.wide {
        true => BitDepth::Sixteen,
        false if as_stored && !indexed => from.bit_depth,
        false => BitDepth::Eight,
    };
    info.color_type = match raster.channels {
        1 if indexed => ColorType::Indexed,
        1 => ColorType::Grayscale,
        2 => ColorType::GrayscaleAlpha,
        3 => ColorType::Rgb,
        _ => ColorType::Rgba,
    };
    if as_stored {
        info.palette = borrow(&from.palette);
        // The transparent gray has two bytes, of which the decoder keeps the lower one.
        let gray = |chunk: &[u8]| Cow::Owned(vec![0, chunk.last().copied().unwrap_or_default()]);
        info.trns = if indexed { borrow(&from.trns) } else { from.trns.as_deref().map(gray) };
    }
    info.icc_profile = if keep.icc { borrow(&from.icc_profile) } else { None };
    info.source_gamma = from.gama_chunk;
    info.source_chromaticities = from.chrm_chunk;
    info.srgb = from.srgb;
    info
}

fn refused(error: DecodingError) -> Error {
    match error {
        DecodingError::LimitsExceeded => {
            Error::new(Kind::Limit, "has a row or a metadata chunk over 64 MiB; leave it out")
        }
        DecodingError::IoError(_) => Error::cut_short("the end of the PNG is missing; get it again or leave it out"),
        other => undecodable(&other.to_string()),
    }
}

fn undecodable(why: &str) -> Error {
    Error::content(format!("can't be decoded as a PNG ({why}); get it again or leave it out"))
}

#[cfg(test)]
mod tests;
