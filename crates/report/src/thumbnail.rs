//! Small copies of pictures.

use jpeg_encoder::{ColorType, Encoder};
use packhorse_core::{Error, Limits, Result};
use packhorse_transform::image::{Draws, Size, View, ViewDecoder};

/// JPEG quality, 1 to 100.
const QUALITY: u8 = 75;

/// The picture `bytes` as a JPEG whose longer side has at most `side` pixels, upright. Smaller pictures keep their size.
///
/// Errors: `Content` for something that is not a picture, or a damaged one; `Limit` for too many pixels.
pub fn thumbnail(bytes: &[u8], side: u32, limits: Limits) -> Result<Vec<u8>> {
    let (height, width) = ViewDecoder::new(View::default(), limits)?.size(bytes)?;
    let longer = height.max(width).max(1);
    let scaled = |length: u32| match longer > side {
        true => u32::try_from(u64::from(length) * u64::from(side) / u64::from(longer)).unwrap_or(side).max(1),
        false => length,
    };
    let (height, width) = (scaled(height), scaled(width));
    let view = View { size: Size::Squash { height, width }, ..View::default() };
    let mut pixels = vec![0; 3 * height as usize * width as usize];
    ViewDecoder::new(view, limits)?.decode_into(bytes, Draws::new(0), &mut pixels)?;
    let mut jpeg = Vec::new();
    let short = |length: u32| {
        u16::try_from(length).map_err(|_| Error::config(format!("thumbnails of {side} pixels are too large")))
    };
    let encoded = Encoder::new(&mut jpeg, QUALITY).encode(&pixels, short(width)?, short(height)?, ColorType::Rgb);
    encoded.map_err(|e| Error::bug(format!("a thumbnail can't be written: {e}")))?;
    Ok(jpeg)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    fn jpeg(width: u16, height: u16) -> Vec<u8> {
        let mut jpeg = Vec::new();
        let pixels = [200, 30, 90].repeat(usize::from(width) * usize::from(height));
        Encoder::new(&mut jpeg, 90).encode(&pixels, width, height, ColorType::Rgb).unwrap();
        jpeg
    }

    #[test]
    fn proportions_stay() {
        for ((width, height), expected) in
            [((300, 150), (96, 48)), ((10, 400), (2, 96)), ((1, 1000), (1, 96)), ((40, 50), (40, 50))]
        {
            let small = thumbnail(&jpeg(width, height), 96, Limits::default()).unwrap();
            let (height, width) = ViewDecoder::new(View::default(), Limits::default()).unwrap().size(&small).unwrap();
            assert_eq!((width, height), expected);
        }
    }

    #[test]
    fn what_is_not_a_picture_is_an_error() {
        let limits = Limits { pixels: 1000, ..Limits::default() };
        assert_eq!(thumbnail(b"text", 96, limits).unwrap_err().kind(), Kind::Content);
        assert_eq!(thumbnail(&jpeg(100, 100), 96, limits).unwrap_err().kind(), Kind::Limit);
    }
}
