//! The JPEG codec. Owns the codec settings; decides no size.
//!
//! Decoder: zune-jpeg in strict mode. Encoder: jpeg-encoder, baseline, 4:2:0 with averaged chroma, the tables of T.81
//! annex K; without SIMD, whose output differs between machines.

mod colors;
mod facts;
mod header;
mod reader;
mod strict;
#[cfg(feature = "turbojpeg")]
mod turbo;

pub use facts::JpegFacts;
pub(super) use reader::JpegReader;
pub(super) use strict::verify;

use super::orientation::Orientation;
use super::raster::Raster;
use super::{Keep, exif};
use header::{JpegHeader, require_end};
use jpeg_encoder::{ChromaSubsamplingMethod, ColorType, Encoder, SamplingFactor};
use packhorse_core::{Error, Result, contain};
use std::borrow::Cow;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The most bytes of EXIF that a segment holds beside its name.
const LONGEST_EXIF: usize = 65_533 - 6;

/// Size and orientation from the header.
pub(super) fn header(bytes: &[u8]) -> Result<(u32, u32, Orientation)> {
    let header = JpegHeader::read(bytes)?;
    Ok((header.width.into(), header.height.into(), header.orientation()))
}

/// Refuses coding processes and samplings that zune-jpeg does not support: arithmetic, lossless, hierarchical, a
/// first channel with fewer samples than another.
pub(super) fn require_usual(bytes: &[u8]) -> Result<()> {
    JpegHeader::read(bytes)?.require_usual()
}

/// Width, height and channels of a strip or tile of a TIFF. Refuses what zune-jpeg does not decode.
#[cfg(feature = "image")]
pub(super) fn strip(bytes: &[u8]) -> Result<(u32, u32, u8)> {
    let header = JpegHeader::read(bytes)?;
    header.require_usual()?;
    header.require_joined()?;
    Ok((header.width.into(), header.height.into(), header.components))
}

/// Whether the file has more pictures than the first.
pub(super) fn has_more(bytes: &[u8]) -> bool {
    JpegHeader::read(bytes).is_ok_and(|header| header.more)
}

/// The pixels as stored: gray or RGB.
pub(super) fn decode(bytes: &[u8]) -> Result<Raster> {
    let header = JpegHeader::read(bytes)?;
    header.require_usual()?;
    header.require_joined()?;
    require_end(bytes)?;
    let (space, channels) = match header.components {
        1 => (ColorSpace::Luma, 1),
        3 | 4 => (ColorSpace::RGB, 3),
        n => return Err(undecodable(&format!("it has {n} components"))),
    };
    // zune-jpeg can panic on contradictory sampling factors.
    let mut data = vec![0; usize::from(header.width) * usize::from(header.height) * usize::from(channels)];
    contain(|| reader::decode_filled(&header.agreed(bytes), space, &mut data))
        .unwrap_or_else(|| Err(undecodable("the decoder gave up on its structure")))?;
    Raster::new(header.width.into(), header.height.into(), channels, false, data)
        .map_err(|_| undecodable("its parts contradict each other"))
}

fn decoder(bytes: &[u8], space: ColorSpace) -> JpegDecoder<ZCursor<&[u8]>> {
    let options = DecoderOptions::new_fast()
        .set_strict_mode(true)
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_out_colorspace(space);
    JpegDecoder::new_with_options(ZCursor::new(bytes), options)
}

fn undecodable(why: &str) -> Error {
    Error::content(format!("can't be decoded as a JPEG ({why}); get it again or leave it out"))
}

/// Decodes, applies `edit`, and encodes with `quality`.
pub(super) fn rewrite(
    bytes: &[u8],
    quality: u8,
    keep: Keep,
    edit: impl FnOnce(Raster) -> Result<Raster>,
) -> Result<Vec<u8>> {
    let header = JpegHeader::read(bytes)?;
    let raster = edit(decode(bytes)?)?;
    let notes = ImageNotes { icc: header.icc().map(Cow::Owned), exif: header.exif.map(Cow::Borrowed) };
    write(&raster, quality, keep, &notes)
}

/// What a picture says of itself beside its pixels.
#[derive(Default)]
pub(super) struct ImageNotes<'a> {
    /// The ICC profile.
    pub(super) icc: Option<Cow<'a, [u8]>>,
    /// The TIFF block of EXIF.
    pub(super) exif: Option<Cow<'a, [u8]>>,
}

/// Encodes gray or RGB of 8 bits, with the notes that `keep` selects and that fit the pixels and a JPEG: EXIF of over
/// 64 KiB does not.
pub(super) fn write(raster: &Raster, quality: u8, keep: Keep, notes: &ImageNotes<'_>) -> Result<Vec<u8>> {
    let icc = notes.icc.as_deref().filter(|profile| keep.icc && describes(profile, raster.channels));
    let exif = notes.exif.as_deref().filter(|_| keep.exif);
    let exif = exif.and_then(|tiff| exif::upright(tiff, (raster.width, raster.height)));
    let exif = exif.filter(|block| block.len() <= LONGEST_EXIF);
    encode(raster, quality, icc, exif.as_deref())
}

/// Whether an ICC profile is for this many channels (ICC.1, bytes 16 to 19).
pub(super) fn describes(profile: &[u8], channels: u8) -> bool {
    profile.get(16..20) == Some(if channels == 1 { b"GRAY" } else { b"RGB " })
}

fn encode(raster: &Raster, quality: u8, icc: Option<&[u8]>, exif: Option<&[u8]>) -> Result<Vec<u8>> {
    let failed = |error| Error::content(format!("can't be encoded as a JPEG ({error}); leave it out"));
    let side = |side: u32| {
        u16::try_from(side)
            .map_err(|_| Error::content(format!("is {side} pixels long, too long for a JPEG; leave it out")))
    };
    let (width, height) = (side(raster.width)?, side(raster.height)?);
    let mut out = Vec::with_capacity(raster.data.len() / 8 + 1024);
    let mut encoder = Encoder::new(&mut out, quality);
    encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
    encoder.set_chroma_subsampling_method(ChromaSubsamplingMethod::Average);
    if let Some(block) = exif {
        encoder.add_exif_metadata(block).map_err(failed)?;
    }
    if let Some(profile) = icc {
        encoder.add_icc_profile(profile).map_err(failed)?;
    }
    let color = if raster.channels == 1 { ColorType::Luma } else { ColorType::Rgb };
    encoder.encode(&raster.data, width, height, color).map_err(failed)?;
    Ok(out)
}

#[cfg(test)]
mod tests;
