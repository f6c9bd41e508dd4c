//! What is to be done to images. Owns the settings and their bounds; parses no command line.

use super::Resize;
use packhorse_core::{Error, Limits, Result};
use std::fmt;
use std::str::FromStr;

/// What [`Image`](super::Image) does. The default does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageOptions {
    /// Decode every picture fully, and refuse what does not decode.
    pub check: Option<Check>,
    /// The size to bring pictures to.
    pub resize: Option<Resize>,
    /// JPEG quality of what is rewritten, 1 to 100 on libjpeg's scale. PNG is lossless.
    pub quality: u8,
    /// Rewrite, upright, what EXIF says is to be turned. What is resized is upright in any case.
    pub orient: bool,
    /// What of its metadata a picture that is rewritten keeps.
    pub keep: Keep,
}

/// How closely pictures are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Everything is decoded, and a JPEG in which anything is missing, damaged or left over is refused.
    Strict,
    /// What decodes is accepted, as by Pillow: also a JPEG whose lower half is gray.
    Lenient,
}

/// What of its metadata a picture that is rewritten keeps. All else is dropped: XMP, comments, thumbnails. A picture
/// that is not rewritten keeps everything.
///
/// As text: `icc`, `exif`, `exif,icc` or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The ICC profile, as long as it is about the colours that are written. JPEG, PNG, WebP, TIFF.
    pub icc: bool,
    /// EXIF, places (GPS) included, with the orientation, the size and the thumbnail brought up to date. JPEG, PNG, WebP.
    pub exif: bool,
}

impl Default for Keep {
    /// Colours stay what they are, and no file says where the camera was.
    fn default() -> Self {
        Self { icc: true, exif: false }
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.exif, self.icc) {
            (true, true) => "exif,icc",
            (true, false) => "exif",
            (false, true) => "icc",
            (false, false) => "none",
        })
    }
}

impl FromStr for Keep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut keep = Self { icc: false, exif: false };
        for what in text.split(',').filter(|_| text != "none") {
            match what {
                "icc" => keep.icc = true,
                "exif" => keep.exif = true,
                _ => {
                    let text = format!("can't keep \"{what}\"; give icc, exif, both with a comma, or none");
                    return Err(Error::config(text));
                }
            }
        }
        Ok(keep)
    }
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self { check: None, resize: None, quality: 90, orient: false, keep: Keep::default() }
    }
}

impl ImageOptions {
    /// Refuses, as a `Config` error, settings that make no sense.
    pub(super) fn validate(&self, limits: &Limits) -> Result<()> {
        if !(1..=100).contains(&self.quality) {
            return Err(Error::config(format!("quality is {}; give 1 to 100", self.quality)));
        }
        self.resize.map_or(Ok(()), |resize| resize.validate(limits))
    }

    /// Whether a picture may be rewritten.
    pub(super) fn may_encode(&self) -> bool {
        self.orient || self.resize.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_parses_and_prints() {
        for (text, canonical) in [("icc", "icc"), ("icc,exif", "exif,icc"), ("exif", "exif"), ("none", "none")] {
            assert_eq!(text.parse::<Keep>().unwrap().to_string(), canonical);
        }
        for text in ["", "gps", "none,icc", "icc,", "all"] {
            assert!(text.parse::<Keep>().is_err(), "{text:?}");
        }
    }
}
