//! PNM: portable bitmaps, graymaps, pixmaps and arbitrary maps (Netpbm). Owns the written header.

use super::{Numbers, Stored, pixels, refused};
use crate::image::format::ImageFormat;
use crate::image::orientation::Orientation;
use crate::image::raster::Raster;
use image::codecs::pnm::{PnmDecoder, SampleEncoding};
use image::{ExtendedColorType, ImageDecoder};
use packhorse_core::{Limits, Result};
use std::io::Cursor;

pub(super) fn header(bytes: &[u8]) -> Result<(u32, u32, Orientation)> {
    let (width, height) = decoder(bytes)?.dimensions();
    Ok((width, height, Orientation::default()))
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Stored> {
    let decoder = decoder(bytes)?;
    let exact = matches!(decoder.original_color_type(), ExtendedColorType::L1 | ExtendedColorType::La1);
    let raster = pixels(ImageFormat::Pnm, decoder, limits)?;
    let numbers = if exact { None } else { numbers(bytes, &raster)? };
    Ok(Stored { exact, numbers, ..Stored::plain(raster) })
}

/// The numbers of the file, if its largest number is not that of the pixels' type: the decoder scales them.
fn numbers(bytes: &[u8], raster: &Raster) -> Result<Option<Numbers>> {
    let (rest, header) = decoder(bytes)?.into_inner();
    let most = u16::try_from(header.maximal_sample()).unwrap_or(u16::MAX);
    if [255, u16::MAX].contains(&most) {
        return Ok(None);
    }
    let rest = bytes.get(rest.position() as usize..).unwrap_or_default();
    let data: Vec<u8> = match (header.subtype().sample_encoding(), raster.wide) {
        (SampleEncoding::Binary, false) => rest.iter().copied().take(raster.data.len()).collect(),
        (SampleEncoding::Binary, true) => {
            let numbers = rest.as_chunks().0.iter().take(raster.data.len() / 2);
            numbers.flat_map(|two| u16::from_be_bytes(*two).to_ne_bytes()).collect()
        }
        (SampleEncoding::Ascii, wide) => {
            let text = rest.split(u8::is_ascii_whitespace).filter(|number| !number.is_empty());
            let numbers = text.map_while(|number| std::str::from_utf8(number).ok()?.parse::<u16>().ok());
            match wide {
                true => numbers.take(raster.data.len() / 2).flat_map(u16::to_ne_bytes).collect(),
                false => numbers.take(raster.data.len()).map(|number| number as u8).collect(),
            }
        }
    };
    Ok((data.len() == raster.data.len()).then_some(Numbers { data, most }))
}

/// Gray as P5, RGB as P6, alpha as P7; 8 or 16 bits, big-endian. `most`: the largest number, if that is not the one of the pixels' type.
pub(super) fn encode(raster: &Raster, most: Option<u16>) -> Vec<u8> {
    let Raster { width, height, channels, wide, data } = raster;
    let most = most.unwrap_or(if *wide { u16::MAX } else { 255 });
    let mut out = match channels {
        1 => format!("P5\n{width} {height}\n{most}\n"),
        3 => format!("P6\n{width} {height}\n{most}\n"),
        _ => {
            let tuple = if *channels == 2 { "GRAYSCALE_ALPHA" } else { "RGB_ALPHA" };
            let size = format!("WIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\nMAXVAL {most}");
            format!("P7\n{size}\nTUPLTYPE {tuple}\nENDHDR\n")
        }
    }
    .into_bytes();
    match wide {
        true => out.extend(data.as_chunks().0.iter().flat_map(|two| u16::from_ne_bytes(*two).to_be_bytes())),
        false => out.extend_from_slice(data),
    }
    out
}

fn decoder(bytes: &[u8]) -> Result<PnmDecoder<Cursor<&[u8]>>> {
    PnmDecoder::new(Cursor::new(bytes)).map_err(|error| refused(ImageFormat::Pnm, error))
}
