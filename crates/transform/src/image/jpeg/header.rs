//! The marker segments of a JPEG (ITU-T T.81, annex B). Owns the iteration over segments; decodes no pixel.

use super::colors::ColorSigns;
use crate::image::orientation::Orientation;
use packhorse_core::{Error, Result};
use std::borrow::Cow;

/// The prefix of an APP1 segment with an XMP packet (XMP specification, part 3).
pub(super) const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
const SOI: u8 = 0xd8;
pub(super) const EOI: u8 = 0xd9;
pub(super) const SOS: u8 = 0xda;
const DRI: u8 = 0xdd;

/// What the segments before the first scan declare.
#[derive(Debug, Default)]
pub(super) struct JpegHeader<'a> {
    pub(super) width: u16,
    pub(super) height: u16,
    /// Components: 1 gray, 3 colour, 4 CMYK or YCCK.
    pub(super) components: u8,
    /// The TIFF block inside the EXIF segment.
    pub(super) exif: Option<&'a [u8]>,
    xmp: Option<&'a [u8]>,
    /// Low nibble of the SOF marker: 0 to 2 are supported, 9 and up are arithmetic.
    pub(super) process: u8,
    icc: Vec<(u8, u8, &'a [u8])>,
    /// Whether a channel has more samples across than the first.
    is_uneven: bool,
    /// Whether a channel may have fewer samples than the picture has pixels.
    is_subsampled: bool,
    /// Whether the first scan of a picture that is not progressive has some of the channels only.
    is_divided: bool,
    /// Whether scans have restarts.
    has_restarts: bool,
    /// What it says about its colours.
    pub(super) colors: ColorSigns,
    /// Whether more pictures follow this one (CIPA DC-007, Multi-Picture Format): a second lens, depths, a gain map.
    pub(super) more: bool,
}

impl<'a> JpegHeader<'a> {
    /// Reads the segments up to the first scan.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut header = Self::default();
        for segment in Segments::new(bytes) {
            match segment? {
                (SOS, body) if header.components > 0 => {
                    header.is_divided =
                        header.process < 2 && body.first().is_some_and(|channels| *channels < header.components);
                    let mut all = header.is_divided.then(|| Segments::new(bytes)).into_iter().flatten();
                    header.has_restarts = all.any(|segment| segment.is_ok_and(|(marker, _)| marker == DRI));
                    return Ok(header);
                }
                (SOS | EOI, _) => break,
                (marker, body) => header.take(marker, body),
            }
        }
        Err(Error::content("is a JPEG without a picture; get it again or leave it out"))
    }

    fn take(&mut self, marker: u8, body: &'a [u8]) {
        self.colors.take(marker, body);
        match marker {
            _ if is_frame(marker) && self.components == 0 => {
                self.process = marker & 0x0f;
                self.take_frame(body);
            }
            0xe1 => {
                self.exif = self.exif.or(body.strip_prefix(b"Exif\0\0"));
                self.xmp = self.xmp.or(body.strip_prefix(XMP));
            }
            0xe2 if body.starts_with(b"MPF\0") => self.more = true,
            0xe2 => self.icc.extend(body.strip_prefix(b"ICC_PROFILE\0").and_then(chunk)),
            _ => {}
        }
    }

    fn take_frame(&mut self, body: &[u8]) {
        if let [_, h1, h0, w1, w0, components, ..] = *body {
            self.height = u16::from_be_bytes([h1, h0]);
            self.width = u16::from_be_bytes([w1, w0]);
            self.components = components;
            let across = |part: &[u8; 3]| part[1] >> 4;
            let parts = body.get(6..).unwrap_or_default().as_chunks().0;
            self.is_subsampled = parts.iter().any(|part| part[1] != 0x11);
            let mut parts = parts.iter();
            let first = parts.next().map_or(0, across);
            self.is_uneven = parts.take(3).any(|part| across(part) > first);
        }
    }

    /// The bytes of this JPEG, or a copy for a decoder that would take its colours for others.
    pub(super) fn agreed<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        match self.colors.contradict(self.components) {
            true => self.colors.agreed(bytes, self.components).into(),
            false => bytes.into(),
        }
    }

    /// The orientation from EXIF or XMP.
    pub(super) fn orientation(&self) -> Orientation {
        Orientation::of(self.exif, self.xmp)
    }

    /// Refuses coding processes and samplings that zune-jpeg does not support, by name.
    pub(super) fn require_usual(&self) -> Result<()> {
        let name = match self.process {
            0..=2 if self.is_uneven => {
                "a JPEG whose first channel has fewer samples than another, which few programs read"
            }
            0..=2 => return Ok(()),
            9 | 10 => "an arithmetic-coded JPEG, which few programs read",
            3 | 7 | 11 | 15 => "a lossless JPEG, which few programs read",
            _ => "a hierarchical JPEG, which few programs read",
        };
        Err(Error::content(format!("is {name}; convert it or leave it out")))
    }

    /// Refuses scans of single channels that zune-jpeg decodes to noise.
    pub(super) fn require_joined(&self) -> Result<()> {
        match self.is_divided && (self.is_subsampled || self.has_restarts) {
            true => Err(Error::content(
                "is a JPEG with one scan after another for its channels, which few programs write; convert it or leave it out",
            )),
            false => Ok(()),
        }
    }

    /// The ICC profile joined from its chunks; `None` if one is missing.
    pub(super) fn icc(&self) -> Option<Vec<u8>> {
        let mut chunks = self.icc.clone();
        chunks.sort_by_key(|(number, _, _)| *number);
        let numbered = chunks.iter().zip(1u16..).all(|((number, _, _), expected)| u16::from(*number) == expected);
        let whole = numbered && chunks.iter().all(|(_, count, _)| usize::from(*count) == chunks.len());
        (whole && !chunks.is_empty()).then(|| chunks.iter().flat_map(|(_, _, part)| part.iter().copied()).collect())
    }
}

/// Whether a marker begins a frame (SOF).
pub(super) fn is_frame(marker: u8) -> bool {
    matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc)
}

/// Sequence number, number of chunks and bytes of an ICC chunk.
fn chunk(body: &[u8]) -> Option<(u8, u8, &[u8])> {
    match body {
        [number, count, part @ ..] => Some((*number, *count, part)),
        _ => None,
    }
}

/// Refuses a JPEG without EOI: it is truncated. Decoders miss truncation in the last rows and between progressive
/// scans.
pub(super) fn require_end(bytes: &[u8]) -> Result<()> {
    for segment in Segments::new(bytes) {
        if segment?.0 == EOI {
            return Ok(());
        }
    }
    Err(cut_short())
}

/// Iterates over (marker, body) of the segments in order, up to EOI. Entropy-coded data is skipped.
pub(super) struct Segments<'a> {
    rest: &'a [u8],
    in_scan: bool,
    /// Bytes after EOI.
    behind: usize,
}

impl<'a> Segments<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, in_scan: false, behind: 0 }
    }

    /// Length of `bytes` up to and including EOI, once EOI was reached.
    pub(super) fn end(&self, bytes: &[u8]) -> usize {
        bytes.len() - self.behind
    }

    /// Where the segment that came last ends in `bytes`, before EOI.
    pub(super) fn position(&self, bytes: &[u8]) -> usize {
        bytes.len() - self.rest.len()
    }

    /// The next marker outside entropy-coded data; advances `rest` past it.
    fn marker(&mut self) -> Option<u8> {
        loop {
            let at = memchr::memchr(0xff, self.rest)?;
            let tail = self.rest.get(at + 1..)?;
            let fill = tail.iter().position(|byte| *byte != 0xff)?;
            let marker = *tail.get(fill)?;
            self.rest = tail.get(fill + 1..)?;
            let of_scan = marker == 0 || (self.in_scan && matches!(marker, 0xd0..=0xd7));
            if !of_scan {
                return Some(marker);
            }
        }
    }

    fn body(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<2>()?;
        let (body, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)).checked_sub(2)?)?;
        self.rest = rest;
        Some(body)
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Result<(u8, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let marker = self.marker()?;
        if marker == EOI {
            self.behind = self.rest.len();
            self.rest = &[];
        }
        if matches!(marker, SOI | EOI | 0x01 | 0xd0..=0xd7) {
            return Some(Ok((marker, &[])));
        }
        self.in_scan = marker == SOS;
        let body = self.body();
        if body.is_none() {
            self.rest = &[];
        }
        Some(body.map(|body| (marker, body)).ok_or_else(cut_short))
    }
}

pub(super) fn cut_short() -> Error {
    Error::cut_short("the end of the JPEG is missing; get it again or leave it out")
}
