//! Decodes one JPEG after another to RGB in the caller's memory. Owns the choice of decoder.
//!
//! zune-jpeg decides whether a JPEG is valid. With the feature `turbojpeg`, libjpeg-turbo decodes first; a result
//! without warnings is final, and equals Pillow's bit for bit. Its warnings do not tell damage from harmless
//! oddities, so zune-jpeg decides about those images.

use super::header::{JpegHeader, require_end};
use super::{decoder, undecodable};
use packhorse_core::{Result, contain};
use zune_jpeg::zune_core::colorspace::ColorSpace;

/// A decoder with reusable memory.
pub(in crate::image) struct JpegReader {
    #[cfg(feature = "turbojpeg")]
    turbo: super::turbo::Turbo,
}

impl JpegReader {
    pub(in crate::image) fn new() -> Result<Self> {
        Ok(Self {
            #[cfg(feature = "turbojpeg")]
            turbo: super::turbo::Turbo::new()?,
        })
    }

    /// Decodes to RGB as stored. `out` has exactly the needed size; its content is undefined after an error.
    pub(in crate::image) fn decode(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<()> {
        let header = JpegHeader::read(bytes)?;
        require_end(bytes)?;
        if !matches!(header.components, 1 | 3 | 4) {
            return Err(undecodable(&format!("it has {} components", header.components)));
        }
        #[cfg(feature = "turbojpeg")]
        if self.turbo.decode(bytes, &header, 1, out) {
            return Ok(());
        }
        header.require_usual()?;
        header.require_joined()?;
        // zune-jpeg can panic on contradictory sampling factors.
        contain(|| decode_filled(&header.agreed(bytes), ColorSpace::RGB, out))
            .unwrap_or_else(|| Err(undecodable("the decoder gave up on its structure")))
    }

    /// Like [`decode`](Self::decode) at 1/`part` of the size, rounded up. Returns `false` if the decoder can't do
    /// that. `part` is 1, 2, 4 or 8.
    pub(in crate::image) fn decode_reduced(&mut self, bytes: &[u8], part: u32, out: &mut [u8]) -> Result<bool> {
        #[cfg(feature = "turbojpeg")]
        {
            let header = JpegHeader::read(bytes)?;
            require_end(bytes)?;
            Ok(self.turbo.decode(bytes, &header, part, out))
        }
        #[cfg(not(feature = "turbojpeg"))]
        {
            let _ = (bytes, part, out);
            Ok(false)
        }
    }

    /// Frees memory that only a very large image needed.
    pub(in crate::image) fn trim(&mut self) {
        #[cfg(feature = "turbojpeg")]
        self.turbo.trim();
    }
}

/// A sentinel where the last pixels go; no real image ends with these bytes.
const UNWRITTEN: [u8; 24] =
    *b"\x9d\x03\xf8\x41\xe6\x1a\x77\xb0\x5c\xd4\x2f\x88\x13\xeb\x60\xa5\x39\xc7\x0e\x92\x5b\xfd\x24\x86";

/// zune-jpeg accepts some truncated scans and leaves the missing rows unwritten. They become gray, as in scans whose
/// end it notices.
pub(super) fn decode_filled(bytes: &[u8], space: ColorSpace, out: &mut [u8]) -> Result<()> {
    let end = out.len().saturating_sub(UNWRITTEN.len());
    let last = UNWRITTEN.get(..out.len() - end).unwrap_or_default();
    out.get_mut(end..).unwrap_or_default().copy_from_slice(last);
    decode_into(bytes, space, out)?;
    if out.ends_with(last) {
        out.fill(128);
        decode_into(bytes, space, out)?;
    }
    Ok(())
}

fn decode_into(bytes: &[u8], space: ColorSpace, out: &mut [u8]) -> Result<()> {
    let mut decoder = decoder(bytes, space);
    let failed = |error| undecodable(format!("{error:?}").trim_matches('"'));
    decoder.decode_headers().map_err(failed)?;
    if decoder.output_buffer_size() != Some(out.len()) {
        return Err(undecodable("its parts contradict each other"));
    }
    decoder.decode_into(out).map_err(failed)
}
