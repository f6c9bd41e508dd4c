//! The marker segments of a JPEG (ITU-T T.81, annex B). Owns the walk from segment to segment;
//! decodes no pixel.

use crate::image::orientation::Orientation;
use packhorse_core::{Error, Result};

/// What an APP1 segment with an XMP packet begins with (XMP specification, part 3).
pub(super) const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
const SOI: u8 = 0xd8;
pub(super) const EOI: u8 = 0xd9;
pub(super) const SOS: u8 = 0xda;

/// What is known before the first scan.
#[derive(Debug, Default)]
pub(super) struct JpegHeader<'a> {
    pub(super) width: u16,
    pub(super) height: u16,
    /// Components: 1 gray, 3 colour, 4 CMYK or YCCK.
    pub(super) components: u8,
    /// The TIFF block of EXIF.
    pub(super) exif: Option<&'a [u8]>,
    xmp: Option<&'a [u8]>,
    /// The lower half of the frame's marker: 0 to 2 are read, 9 and more are arithmetic.
    pub(super) process: u8,
    icc: Vec<(u8, &'a [u8])>,
}

impl<'a> JpegHeader<'a> {
    /// Reads up to the first scan.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut header = Self::default();
        for segment in Segments::new(bytes) {
            match segment? {
                (SOS, _) if header.components > 0 => return Ok(header),
                (SOS | EOI, _) => break,
                (marker, body) => header.take(marker, body),
            }
        }
        Err(Error::content("is a JPEG without a picture; get it again or leave it out"))
    }

    fn take(&mut self, marker: u8, body: &'a [u8]) {
        match marker {
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) && self.components == 0 => {
                self.process = marker & 0x0f;
                self.take_frame(body);
            }
            0xe1 => {
                self.exif = self.exif.or(body.strip_prefix(b"Exif\0\0"));
                self.xmp = self.xmp.or(body.strip_prefix(XMP));
            }
            0xe2 => self.icc.extend(body.strip_prefix(b"ICC_PROFILE\0").and_then(chunk)),
            _ => {}
        }
    }

    fn take_frame(&mut self, body: &[u8]) {
        if let [_, h1, h0, w1, w0, components, ..] = *body {
            self.height = u16::from_be_bytes([h1, h0]);
            self.width = u16::from_be_bytes([w1, w0]);
            self.components = components;
        }
    }

    /// Which way up the picture is.
    pub(super) fn orientation(&self) -> Orientation {
        Orientation::of(self.exif, self.xmp)
    }

    /// Refuses by name the processes that no decoder here knows.
    pub(super) fn require_huffman(&self) -> Result<()> {
        let name = match self.process {
            0..=2 => return Ok(()),
            9 | 10 => "an arithmetic-coded JPEG, which few programs read",
            3 | 7 | 11 | 15 => "a lossless JPEG, which few programs read",
            _ => "a hierarchical JPEG, which few programs read",
        };
        Err(Error::content(format!("is {name}; convert it or leave it out")))
    }

    /// The ICC profile, put together from its chunks; `None` if one is missing.
    pub(super) fn icc(&self) -> Option<Vec<u8>> {
        let mut chunks = self.icc.clone();
        chunks.sort_by_key(|(number, _)| *number);
        let whole = chunks.iter().zip(1..).all(|((number, _), expected)| *number == expected);
        (whole && !chunks.is_empty()).then(|| chunks.iter().flat_map(|(_, part)| part.iter().copied()).collect())
    }
}

/// A chunk of a profile: its number, how many there are, its bytes.
fn chunk(body: &[u8]) -> Option<(u8, &[u8])> {
    match body {
        [number, _, part @ ..] => Some((*number, part)),
        _ => None,
    }
}

/// Refuses a JPEG without its end marker: it was cut short. Decoders don't see a cut that lies in
/// the last rows or between the scans of a progressive JPEG.
pub(super) fn require_end(bytes: &[u8]) -> Result<()> {
    for segment in Segments::new(bytes) {
        if segment?.0 == EOI {
            return Ok(());
        }
    }
    Err(cut_short())
}

/// Marker and body of each segment, in order; what a scan holds is passed over. Ends at EOI.
pub(super) struct Segments<'a> {
    rest: &'a [u8],
    in_scan: bool,
    /// Bytes behind EOI.
    behind: usize,
}

impl<'a> Segments<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, in_scan: false, behind: 0 }
    }

    /// How many bytes of `bytes` there are up to and with EOI, once that was met.
    pub(super) fn end(&self, bytes: &[u8]) -> usize {
        bytes.len() - self.behind
    }

    /// The next marker that is not part of a scan, leaving `rest` behind it.
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
    Error::content("is cut short: the end of the JPEG is missing; get it again or leave it out")
}
