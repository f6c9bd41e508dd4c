//! Which kind of picture a blob should be, and which it is. Owns signatures; decodes nothing.

use packhorse_core::{Error, Result};

/// A kind of picture that is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Jpeg,
    Png,
}

/// First bytes (`.` stands for any byte) and what begins with them.
const SIGNATURES: [(&[u8], &str); 15] = [
    (b"\xff\xd8", "a JPEG"),
    (b"\x89PNG\r\n\x1a\n", "a PNG"),
    (b"GIF8", "a GIF"),
    (b"RIFF....WEBP", "a WebP"),
    (b"....ftyp", "a HEIC, AVIF or MP4"),
    (b"BM", "a BMP"),
    (b"II*\0", "a TIFF"),
    (b"MM\0*", "a TIFF"),
    (b"8BPS", "a Photoshop file"),
    (b"....JXL ", "a JPEG XL"),
    (b"....jP  ", "a JPEG 2000"),
    (b"<!", "a web page"),
    (b"<h", "a web page"),
    (b"<s", "an SVG"),
    (b"version https://git-lfs", "a Git LFS pointer"),
];

impl Kind {
    /// What the column `name` holds, by the last extension in the name.
    pub(super) fn of_field(name: &str) -> Option<Self> {
        let extension = name.rsplit('.').next().unwrap_or(name);
        let is = |other: &str| extension.eq_ignore_ascii_case(other);
        match () {
            () if is("jpg") || is("jpeg") => Some(Kind::Jpeg),
            () if is("png") => Some(Kind::Png),
            () => None,
        }
    }

    /// What `bytes` are, by their signature.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        match name_of(bytes) {
            Some("a JPEG") => Some(Kind::Jpeg),
            Some("a PNG") => Some(Kind::Png),
            _ => None,
        }
    }

    /// Refuses `bytes` that are something else than this, and says what.
    pub(super) fn expect(self, bytes: &[u8]) -> Result<()> {
        if Self::of_bytes(bytes) == Some(self) {
            return Ok(());
        }
        Err(Error::content(match name_of(bytes) {
            _ if bytes.is_empty() => "is empty; get it again or leave it out".to_owned(),
            Some(other) => format!("is {other}, not {}; rename it, convert it or leave it out", self.name()),
            None => format!("is not {}; get it again or leave it out", self.name()),
        }))
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Jpeg => "a JPEG",
            Kind::Png => "a PNG",
        }
    }
}

fn name_of(bytes: &[u8]) -> Option<&'static str> {
    let begins = |signature: &[u8]| {
        bytes.len() >= signature.len() && bytes.iter().zip(signature).all(|(b, s)| b == s || *s == b'.')
    };
    SIGNATURES.iter().find(|(signature, _)| begins(signature)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_extension_of_a_field_decides() {
        for name in ["jpg", "JPEG", "left.jpg"] {
            assert_eq!(Kind::of_field(name), Some(Kind::Jpeg));
        }
        assert_eq!(Kind::of_field("seg.png"), Some(Kind::Png));
        for name in ["cls", "jpg.txt", "", "png2", "__key__"] {
            assert_eq!(Kind::of_field(name), None);
        }
    }

    #[test]
    fn a_wrong_name_is_called_out() {
        let text = |kind: Kind, bytes: &[u8]| kind.expect(bytes).unwrap_err().message().to_owned();
        assert!(text(Kind::Jpeg, b"GIF89a\x01\0").starts_with("is a GIF, not a JPEG; "));
        assert!(text(Kind::Jpeg, b"\x89PNG\r\n\x1a\n").starts_with("is a PNG, not a JPEG; "));
        assert!(text(Kind::Png, b"\xff\xd8\xff").starts_with("is a JPEG, not a PNG; "));
        assert!(text(Kind::Jpeg, b"<!DOCTYPE html>").starts_with("is a web page, not a JPEG; "));
        assert!(text(Kind::Png, b"").starts_with("is empty"));
        assert!(text(Kind::Png, b"\0\0\0").starts_with("is not a PNG"));
    }
}
