//! The TIFF encoder: one image, deflate; horizontal predictor except for palette indices.

use super::{Tiff, UNASSOCIATED, alpha_of};
use crate::image::Keep;
use crate::image::format::ImageFormat;
use crate::image::other::{Palette, unencodable};
use crate::image::raster::Raster;
use packhorse_core::{Error, Result};
use std::io::Cursor;
use tiff::TiffResult;
use tiff::decoder::Decoder;
use tiff::encoder::colortype::{ColorType, Gray8, Gray16, RGB8, RGB16, RGBA8, RGBA16};
use tiff::encoder::{Compression, DeflateLevel, TiffEncoder, TiffValue};
use tiff::tags::{PhotometricInterpretation, Predictor, SampleFormat, Tag};

/// Palette indices.
struct Numbers;

impl ColorType for Numbers {
    type Inner = u8;
    const TIFF_VALUE: PhotometricInterpretation = PhotometricInterpretation::RGBPalette;
    const BITS_PER_SAMPLE: &'static [u16] = &[8];
    const SAMPLE_FORMAT: &'static [SampleFormat] = &[SampleFormat::Uint];

    fn horizontal_predict(row: &[u8], result: &mut Vec<u8>) {
        result.extend_from_slice(row);
    }
}

/// Encodes the image. Gray with alpha becomes RGBA, which every reader supports.
///
/// Errors: channels of no known meaning, which would be lost.
pub(in crate::image::other) fn encode(
    raster: &Raster,
    palette: Option<&Palette>,
    from: &[u8],
    keep: Keep,
) -> Result<Vec<u8>> {
    let mut source = Decoder::new(Cursor::new(from)).ok();
    let mut number = |tag| source.as_mut().and_then(|source| source.find_tag_unsigned::<u16>(tag).ok().flatten());
    let stored = number(Tag::SamplesPerPixel);
    // Palettes have a colour type that the decoder does not know.
    let known = source.as_mut().and_then(|source| {
        let color = source.colortype().ok()?.num_samples();
        Some(if color == 2 && alpha_of(source).is_none() { 1 } else { color })
    });
    if let (Some(stored), Some(known)) = (stored, known)
        && stored > known
    {
        let message =
            format!("has {stored} channels, and only {known} of a known meaning, which a rewritten picture would keep");
        return Err(Error::unsupported(message).hint("`image=leave=FIELD` leaves the field as it is"));
    }
    let icc = source.as_mut().and_then(|source| profile(source, raster)).filter(|_| keep.icc);
    let tags = (icc.as_deref(), UNASSOCIATED);
    let written = match (raster.channels, raster.wide) {
        (1, false) if palette.is_some() => write::<Numbers>(raster, &raster.data, palette, tags),
        (1, false) => write::<Gray8>(raster, &raster.data, None, tags),
        (1, true) => write::<Gray16>(raster, &wide(&raster.data), None, tags),
        (2, false) => write::<RGBA8>(raster, &with_alpha(&raster.data), None, tags),
        (2, true) => write::<RGBA16>(raster, &with_alpha(&wide(&raster.data)), None, tags),
        (3, false) => write::<RGB8>(raster, &raster.data, None, tags),
        (3, true) => write::<RGB16>(raster, &wide(&raster.data), None, tags),
        (_, false) => write::<RGBA8>(raster, &raster.data, None, tags),
        (_, true) => write::<RGBA16>(raster, &wide(&raster.data), None, tags),
    };
    written.map_err(|error| unencodable(ImageFormat::Tiff, error))
}

/// The ICC profile, if it is for this many channels.
fn profile(decoder: &mut Tiff<'_>, raster: &Raster) -> Option<Vec<u8>> {
    let profile = decoder.get_tag_u8_vec(Tag::IccProfile).ok()?;
    crate::image::jpeg::describes(&profile, if raster.channels < 3 { 1 } else { 3 }).then_some(profile)
}

fn write<C: ColorType>(
    raster: &Raster,
    data: &[C::Inner],
    palette: Option<&Palette>,
    (icc, alpha): (Option<&[u8]>, u16),
) -> TiffResult<Vec<u8>>
where
    [C::Inner]: TiffValue,
{
    let mut out = Cursor::new(Vec::new());
    let predictor = if palette.is_some() { Predictor::None } else { Predictor::Horizontal };
    let mut encoder = TiffEncoder::new(&mut out)?
        .with_compression(Compression::Deflate(DeflateLevel::Balanced))
        .with_predictor(predictor);
    let mut image = encoder.new_image::<C>(raster.width, raster.height)?;
    if let Some(palette) = palette {
        image.encoder().write_tag(Tag::ColorMap, &*color_map(palette))?;
    }
    if C::BITS_PER_SAMPLE.len() == 4 {
        image.encoder().write_tag(Tag::ExtraSamples, &[alpha][..])?;
    }
    if let Some(icc) = icc {
        image.encoder().write_tag(Tag::IccProfile, icc)?;
    }
    image.write_data(data)?;
    Ok(out.into_inner())
}

/// The ColorMap tag: 256 reds, then greens, then blues, 16 bits each.
fn color_map(palette: &Palette) -> Vec<u16> {
    let value = |part: usize, at: usize| palette.colours.get(at).and_then(|colour| colour.get(part)).copied();
    let all = (0..3).flat_map(|part| (0..256).map(move |at| (part, at)));
    all.map(|(part, at)| u16::from(value(part, at).unwrap_or_default()) * 257).collect()
}

fn wide(data: &[u8]) -> Vec<u16> {
    data.as_chunks().0.iter().map(|two| u16::from_ne_bytes(*two)).collect()
}

fn with_alpha<T: Copy>(pairs: &[T]) -> Vec<T> {
    pairs.as_chunks().0.iter().flat_map(|[gray, alpha]| [*gray, *gray, *gray, *alpha]).collect()
}
