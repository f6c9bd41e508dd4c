//! Recognizes image columns and image formats. Owns extensions and signatures; decodes nothing.

use packhorse_core::{Error, Result};

/// A supported image format. Content decides, not the field's name: a PNG called `.jpg` is a PNG, as in other readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageFormat {
    Jpeg,
    Png,
    WebP,
    Tiff,
    Bmp,
    Gif,
    Pnm,
}

/// Image extensions. A field with one of them must hold images; formats that can't be decoded are refused by name.
const EXTENSIONS: [&str; 42] = [
    "jpg", "jpeg", "jpe", "jfif", "png", "apng", "webp", "tif", "tiff", "bmp", "dib", "gif", "ppm", "pgm", "pbm",
    "pnm", "pam", "avif", "avifs", "heic", "heif", "hif", "jxl", "jp2", "j2k", "j2c", "jpx", "jpf", "jxr", "ico",
    "cur", "icns", "tga", "psd", "pcx", "qoi", "dds", "exr", "hdr", "svg", "svgz", "xcf",
];

/// Extensions of JPEGs, of those above.
const JPEG_EXTENSIONS: [&str; 4] = ["jpg", "jpeg", "jpe", "jfif"];

/// Extensions of camera raw formats. Here the name decides: many look like TIFFs whose first image is a thumbnail.
const RAW: [&str; 12] = ["dng", "cr2", "cr3", "nef", "nrw", "arw", "sr2", "orf", "rw2", "raf", "pef", "srw"];

/// Signatures (`.` matches any byte) and what they identify.
const SIGNATURES: [(&[u8], &str); 24] = [
    (b"\xff\xd8", "a JPEG"),
    (b"\x89PNG\r\n\x1a\n", "a PNG"),
    (b"GIF87a", "a GIF"),
    (b"GIF89a", "a GIF"),
    (b"RIFF....WEBP", "a WebP"),
    (b"II*\0", "a TIFF"),
    (b"MM\0*", "a TIFF"),
    (b"II+\0", "a TIFF"),
    (b"MM\0+", "a TIFF"),
    (b"....ftypavi", "an AVIF"),
    (b"....ftyphei", "a HEIC"),
    (b"....ftyphev", "a HEIC"),
    (b"....ftypmif1", "a HEIF (HEIC or AVIF)"),
    (b"....ftypmsf1", "a HEIF (HEIC or AVIF)"),
    (b"....ftyp", "an MP4"),
    (b"....JXL ", "a JPEG XL"),
    (b"\xff\x0a", "a JPEG XL"),
    (b"....jP  ", "a JPEG 2000"),
    (b"\xff\x4f\xff\x51", "a JPEG 2000"),
    (b"8BPS", "a Photoshop file"),
    (b"<!", "a web page"),
    (b"<h", "a web page"),
    (b"<s", "an SVG"),
    (b"version https://git-lfs", "a Git LFS pointer"),
];

/// Valid sizes of a BMP's second header: the two letters alone match too many texts.
const BMP_HEADERS: [u8; 8] = [12, 16, 40, 52, 56, 64, 108, 124];

impl ImageFormat {
    /// Whether the last extension of column `name` is an image extension.
    pub(super) fn is_claimed(name: &str) -> bool {
        EXTENSIONS.iter().chain(&RAW).any(|known| extension(name).eq_ignore_ascii_case(known))
    }

    /// The name of a field whose images become JPEGs: an image extension becomes `jpg`.
    pub(super) fn name_of_jpegs(field: &str) -> String {
        match Self::is_claimed(field) && !JPEG_EXTENSIONS.contains(&&*extension(field).to_ascii_lowercase()) {
            true => format!("{}jpg", field.strip_suffix(extension(field)).unwrap_or_default()),
            false => field.to_owned(),
        }
    }

    /// Refuses camera raw columns by name.
    pub(super) fn require_developed(name: &str) -> Result<()> {
        match RAW.iter().any(|known| extension(name).eq_ignore_ascii_case(known)) {
            true => {
                Err(Error::content("is a camera's raw picture, which is not decoded here; convert it or leave it out"))
            }
            false => Ok(()),
        }
    }

    /// The format of `bytes`, by signature.
    ///
    /// # Errors
    /// `Content` for anything else; the message names what it is.
    pub(super) fn of(bytes: &[u8]) -> Result<Self> {
        Err(Error::content(match name_of(bytes) {
            Some("a JPEG") => return Ok(ImageFormat::Jpeg),
            Some("a PNG") => return Ok(ImageFormat::Png),
            Some("a GIF") => return Ok(ImageFormat::Gif),
            Some("a WebP") => return Ok(ImageFormat::WebP),
            Some("a TIFF") => return Ok(ImageFormat::Tiff),
            Some("a BMP") => return Ok(ImageFormat::Bmp),
            Some("a PNM") => return Ok(ImageFormat::Pnm),
            Some("a web page") => "is a web page, as failed downloads are; get it again or leave it out".to_owned(),
            Some(other) => {
                format!("is {other}, which is not decoded here; convert it to JPEG, PNG or WebP, or leave it out")
            }
            None if bytes.is_empty() => "is empty; get it again or leave it out".to_owned(),
            None => "is not a known image format; get it again or leave it out".to_owned(),
        }))
    }
}

fn extension(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn name_of(bytes: &[u8]) -> Option<&'static str> {
    let begins = |signature: &[u8]| {
        bytes.len() >= signature.len() && bytes.iter().zip(signature).all(|(b, s)| b == s || *s == b'.')
    };
    match bytes {
        [b'B', b'M', ..] if matches!(bytes.get(14..18), Some([size, 0, 0, 0]) if BMP_HEADERS.contains(size)) => {
            Some("a BMP")
        }
        [b'P', b'1'..=b'7', b' ' | b'\t' | b'\n' | b'\r' | b'#', ..] => Some("a PNM"),
        _ => SIGNATURES.iter().find(|(signature, _)| begins(signature)).map(|(_, name)| *name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_extension_marks_an_image_column() {
        for name in ["jpg", "JPEG", "left.jpg", "seg.png", "webp", "a.TIFF", "gif", "pgm", "avif", "heic", "jxl", "jp2"]
        {
            assert!(ImageFormat::is_claimed(name), "{name}");
        }
        for name in ["cls", "jpg.txt", "", "png2", "__key__", "mp4", "npy"] {
            assert!(!ImageFormat::is_claimed(name), "{name}");
        }
    }

    #[test]
    fn names_of_jpegs_end_in_jpg() {
        for (name, of_jpegs) in
            [("png", "jpg"), ("left.TIFF", "left.jpg"), ("jpeg", "jpeg"), ("a.JPG", "a.JPG"), ("image", "image")]
        {
            assert_eq!(ImageFormat::name_of_jpegs(name), of_jpegs);
        }
    }

    #[test]
    fn camera_raw_is_refused_by_name() {
        assert!(
            ImageFormat::require_developed("a.DNG").unwrap_err().message().starts_with("is a camera's raw picture")
        );
        assert!(ImageFormat::require_developed("tif").is_ok());
    }

    #[test]
    fn signatures_decide_the_format() {
        let mut bmp = b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
        assert_eq!(ImageFormat::of(&bmp).unwrap(), ImageFormat::Bmp);
        bmp[14] = b'x';
        assert!(ImageFormat::of(&bmp).is_err());
        for (bytes, kind) in [
            (&b"\xff\xd8\xff"[..], ImageFormat::Jpeg),
            (b"\x89PNG\r\n\x1a\n", ImageFormat::Png),
            (b"GIF89a\x01\0", ImageFormat::Gif),
            (b"RIFF\0\0\0\0WEBPVP8 ", ImageFormat::WebP),
            (b"MM\0*", ImageFormat::Tiff),
            (b"P5\n1 1\n255\n\0", ImageFormat::Pnm),
        ] {
            assert_eq!(ImageFormat::of(bytes).unwrap(), kind);
        }
    }

    #[test]
    fn unsupported_formats_are_named() {
        let text = |bytes: &[u8]| ImageFormat::of(bytes).unwrap_err().message().to_owned();
        assert!(text(b"\0\0\0\x1cftypavif").starts_with("is an AVIF, which is not decoded here; "));
        assert!(text(b"\0\0\0\x18ftypheic").starts_with("is a HEIC, which is not decoded here; "));
        assert!(text(b"\0\0\0\x0cJXL \r\n\x87\n").starts_with("is a JPEG XL, "));
        assert!(text(b"\0\0\0\x0cjP  \r\n\x87\n").starts_with("is a JPEG 2000, "));
        assert!(text(b"<!DOCTYPE html>").starts_with("is a web page, "));
        assert!(text(b"").starts_with("is empty"));
        assert!(text(b"junk").starts_with("is not a known image"));
    }
}
