//! What is to be done to images. Owns the settings and their bounds; parses no command line.

use super::Resize;
use packhorse_core::{Error, Limits, Result};

/// What [`Image`](super::Image) does. The default does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageOptions {
    /// Decode every picture fully, and refuse what does not decode.
    pub check: bool,
    /// The size to bring pictures to.
    pub resize: Option<Resize>,
    /// JPEG quality of what is written anew, 1 to 100 on libjpeg's scale. PNG is lossless.
    pub quality: u8,
    /// Write anew, upright, what EXIF says is to be turned. What is resized is upright in any case.
    pub orient: bool,
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self { check: false, resize: None, quality: 90, orient: false }
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

    /// Whether a picture may be written anew.
    pub(super) fn may_encode(&self) -> bool {
        self.orient || self.resize.is_some()
    }
}
