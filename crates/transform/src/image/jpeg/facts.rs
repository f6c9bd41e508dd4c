//! Facts for choosing a JPEG decoder. Reads marker segments only; decodes no pixel.

use super::colors::ColorSigns;
use super::header::{EOI, SOS, Segments, XMP, cut_short, is_frame};
use crate::image::orientation::Orientation;
use packhorse_core::{Error, Result};

/// What the marker segments of a complete JPEG declare (ITU-T T.81, annex B): enough to choose a decoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JpegFacts {
    /// Stored width in pixels; not 0.
    pub width: u32,
    /// Stored height in pixels; not 0.
    pub height: u32,
    /// Low nibble of the SOF marker: 0 baseline, 1 extended, 2 progressive, 3 lossless, 9 and up arithmetic.
    pub process: u8,
    /// Bits per channel.
    pub precision: u8,
    /// Channels: 1 gray, 3 colour, 4 CMYK or YCCK.
    pub components: u8,
    /// Horizontal and vertical sampling factors of the first four channels.
    pub sampling: [(u8, u8); 4],
    /// Whether three channels are YCbCr, as in JFIF, and all segments agree on that; otherwise RGB, or in doubt.
    pub luma_chroma: bool,
    /// Number of frames: 1 unless hierarchical or invalid.
    pub frames: u32,
    /// Number of scans.
    pub scans: u32,
    /// Whether EXIF and XMP leave the stored pixels as they are.
    pub upright: bool,
    /// Length of the JPEG in bytes, up to and including EOI; more bytes may follow.
    pub bytes: usize,
}

impl JpegFacts {
    /// Reads the segments of `bytes`.
    ///
    /// # Errors
    /// `Content` for a truncated JPEG, or one without an image or pixels.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut facts = Self { luma_chroma: true, upright: true, ..Self::default() };
        let (mut colors, mut exif, mut xmp) = (ColorSigns::default(), None, None);
        let mut segments = Segments::new(bytes);
        while let Some(segment) = segments.next() {
            let (marker, body) = segment?;
            if facts.scans == 0 {
                colors.take(marker, body);
            }
            match marker {
                _ if is_frame(marker) => facts.take_frame(marker, body),
                0xe1 if facts.scans == 0 => {
                    exif = exif.or(body.strip_prefix(b"Exif\0\0"));
                    xmp = xmp.or(body.strip_prefix(XMP));
                }
                SOS if facts.frames == 0 => break,
                SOS => facts.scans += 1,
                EOI => {
                    facts.bytes = segments.end(bytes);
                    facts.upright = Orientation::of(exif, xmp).is_upright();
                    facts.luma_chroma = colors.luma_chroma() && !colors.contradict(facts.components);
                    return facts.checked();
                }
                _ => {}
            }
        }
        Err(if facts.scans == 0 { no_picture() } else { cut_short() })
    }

    /// Reads the first frame header.
    fn take_frame(&mut self, marker: u8, body: &[u8]) {
        self.frames = self.frames.saturating_add(1);
        let [precision, h1, h0, w1, w0, components, parts @ ..] = body else { return };
        if self.components > 0 {
            return;
        }
        self.process = marker & 0x0f;
        self.precision = *precision;
        self.height = u16::from_be_bytes([*h1, *h0]).into();
        self.width = u16::from_be_bytes([*w1, *w0]).into();
        self.components = *components;
        let parts = parts.as_chunks::<3>().0;
        for (sampling, [_, factors, _]) in self.sampling.iter_mut().zip(parts) {
            *sampling = (factors >> 4, factors & 0x0f);
        }
    }

    fn checked(self) -> Result<Self> {
        match self {
            Self { frames: 0, .. } | Self { scans: 0, .. } => Err(no_picture()),
            Self { width: 0, .. } | Self { height: 0, .. } => {
                Err(Error::content("has no pixels; get it again or leave it out"))
            }
            whole => Ok(whole),
        }
    }
}

fn no_picture() -> Error {
    Error::content("is a JPEG without a picture; get it again or leave it out")
}

#[cfg(test)]
mod tests {
    use super::super::super::samples::{jpeg, jpeg_of};
    use super::*;
    use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

    fn encoded(change: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) -> JpegFacts {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 80);
        change(&mut encoder);
        encoder.encode(&[90; 3 * 20 * 10], 20, 10, ColorType::Rgb).unwrap();
        JpegFacts::read(&bytes).unwrap()
    }

    #[test]
    fn common_structures_are_recognized() {
        let plain = encoded(|encoder| encoder.set_sampling_factor(SamplingFactor::R_4_2_0));
        assert_eq!((plain.width, plain.height, plain.process, plain.precision), (20, 10, 0, 8));
        assert_eq!((plain.components, plain.frames, plain.scans), (3, 1, 1));
        assert!(plain.luma_chroma && plain.upright);
        assert_eq!(plain.sampling[..3], [(2, 2), (1, 1), (1, 1)]);
        let progressive = encoded(|encoder| encoder.set_progressive(true));
        assert!(progressive.process == 2 && progressive.scans > 1);
        let gray = JpegFacts::read(&jpeg_of(9, 7, ColorType::Luma, 0, b"")).unwrap();
        assert_eq!(gray.components, 1);
        let inks = JpegFacts::read(&jpeg_of(9, 7, ColorType::Cmyk, 0, b"")).unwrap();
        assert_eq!(inks.components, 4);
        for turn in 0..=8 {
            let facts = JpegFacts::read(&jpeg_of(9, 7, ColorType::Rgb, turn, b"")).unwrap();
            assert_eq!((facts.upright, facts.width, facts.height), (turn < 2, 9, 7), "{turn}");
        }
    }

    #[test]
    fn bytes_after_the_end_are_not_counted() {
        let mut bytes = jpeg(16, 8);
        let whole = bytes.len();
        bytes.extend(jpeg(8, 8));
        let facts = JpegFacts::read(&bytes).unwrap();
        assert_eq!((facts.bytes, facts.frames), (whole, 1));
    }

    #[test]
    fn segments_that_contradict_each_other_leave_the_colours_in_doubt() {
        let bytes = jpeg(16, 8);
        for (transform, luma_chroma) in [(0, false), (1, true), (2, true), (3, false)] {
            let mut adobe = bytes[..2].to_vec();
            adobe.extend(b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0");
            adobe.push(transform);
            adobe.extend(&bytes[2..]);
            assert_eq!(JpegFacts::read(&adobe).unwrap().luma_chroma, luma_chroma);
        }
    }

    #[test]
    fn cuts_and_flipped_bits_never_panic() {
        let bytes = jpeg_of(20, 12, ColorType::Rgb, 6, b"");
        for end in 0..bytes.len() {
            assert!(JpegFacts::read(&bytes[..end]).is_err(), "{end}");
        }
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let _ = JpegFacts::read(&flipped);
        }
    }
}
