//! PNM: portable bitmaps, graymaps, pixmaps and arbitrary maps (Netpbm). Owns the written header.

use super::{Shown, Stored, pixels, refused};
use crate::image::format::ImageFormat;
use crate::image::orientation::Orientation;
use crate::image::raster::Raster;
use image::codecs::pnm::PnmDecoder;
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
    let most = u16::try_from(decoder.header().maximal_sample()).unwrap_or(u16::MAX);
    let shown = Some(Shown { most, inverted: false }).filter(|_| !exact && ![255, u16::MAX].contains(&most));
    Ok(Stored { exact, shown, ..Stored::plain(pixels(ImageFormat::Pnm, decoder, limits)?) })
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
