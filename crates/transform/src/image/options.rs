//! Image settings and their bounds.

use super::Resize;
use packhorse_core::{Error, Limits, Result};
use std::fmt;
use std::str::FromStr;

/// The settings of [`Image`](super::Image). The default does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageOptions {
    /// Decode every image fully and refuse those that fail.
    pub check: Option<Check>,
    /// The target size.
    pub resize: Option<Resize>,
    /// JPEG quality of rewritten images, 1 to 100 on libjpeg's scale. Other formats are written lossless.
    pub quality: u8,
    /// Rotate images upright as EXIF or XMP says, and rewrite them. Resized images are upright in any case.
    pub orient: bool,
    /// Which metadata a rewritten image keeps.
    pub keep: Keep,
    /// The fields whose images are resized to the nearest pixel, sorted: masks, whose values are numbers.
    pub nearest: Vec<String>,
    /// The fields whose images are written as JPEGs, sorted. A name that ends in an extension of pictures then ends in `jpg`.
    pub jpeg: Vec<String>,
    /// The fields whose images are left as they are, sorted.
    pub leave: Vec<String>,
}

/// How strictly images are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Decode everything, and refuse a JPEG with missing, damaged or extra data.
    Strict,
    /// Accept whatever decodes, as Pillow does, including a JPEG whose lower half is gray.
    Lenient,
}

/// Which metadata a rewritten image keeps. All else is dropped: XMP, comments, thumbnails. An image that is not
/// rewritten keeps everything.
///
/// As text: `icc`, `exif`, `exif,icc` or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The ICC profile, if it matches the written colours. JPEG, PNG, WebP, TIFF.
    pub icc: bool,
    /// EXIF, including GPS, with updated orientation and size and without the thumbnail. JPEG, PNG, WebP.
    pub exif: bool,
}

impl Default for Keep {
    /// Keeps colours correct, and drops GPS coordinates.
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
        Self {
            check: None,
            resize: None,
            quality: 90,
            orient: false,
            keep: Keep::default(),
            nearest: Vec::new(),
            jpeg: Vec::new(),
            leave: Vec::new(),
        }
    }
}

impl ImageOptions {
    /// A `Config` error for invalid settings.
    pub(super) fn validate(&self, limits: &Limits) -> Result<()> {
        if !(1..=100).contains(&self.quality) {
            return Err(Error::config(format!("quality is {}; give 1 to 100", self.quality)));
        }
        let odd = |name: &&String| name.is_empty() || name.contains(|c: char| c == ',' || c.is_whitespace());
        if let Some(name) = self.nearest.iter().chain(&self.jpeg).chain(&self.leave).find(odd) {
            return Err(Error::config(format!("\"{name}\" can't name a field of pictures; give names without spaces")));
        }
        let lists = [("leave", &self.leave), ("nearest", &self.nearest), ("jpeg", &self.jpeg)];
        for ((one, names), (other, others)) in [(lists[0], lists[1]), (lists[0], lists[2]), (lists[1], lists[2])] {
            if let Some(name) = names.iter().find(|name| others.contains(name)) {
                let message = format!("`image={one}` and `image={other}` both name {name}; give one of the two");
                return Err(Error::config(message));
            }
        }
        self.resize.map_or(Ok(()), |resize| resize.validate(limits))
    }

    /// Whether they leave every image as it is: none is checked or rewritten.
    pub fn do_nothing(&self) -> bool {
        self.check.is_none() && !self.may_rewrite()
    }

    /// Whether an image may be rewritten.
    pub fn may_rewrite(&self) -> bool {
        self.orient || self.resize.is_some() || !self.jpeg.is_empty()
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
