//! EXIF and XMP of a PNG, where programs put them. Decodes no pixel.

use flate2::read::ZlibDecoder;
use std::borrow::Cow;
use std::io::Read;

/// Bytes that a compressed note may have.
const MOST: u64 = 1 << 20;

/// The notes of a PNG that may tell its orientation.
#[derive(Default)]
pub(super) struct Notes<'a> {
    /// The TIFF block of EXIF: of the chunk `eXIf`, before or behind the pixels, else of the text that ImageMagick writes.
    pub(super) exif: Option<Cow<'a, [u8]>>,
    /// The XMP packet, of a chunk `iTXt`.
    pub(super) xmp: Option<Cow<'a, [u8]>>,
}

impl<'a> Notes<'a> {
    /// The notes in the chunks of `bytes`, as far as these are whole.
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let (mut notes, mut text) = (Self::default(), None);
        let mut rest = bytes.get(8..).unwrap_or_default();
        while let Some((kind, body, behind)) = chunk(rest) {
            match kind {
                b"eXIf" if notes.exif.is_none() => notes.exif = Some(Cow::Borrowed(without_name(body))),
                b"tEXt" | b"zTXt" if text.is_none() => text = raw_profile(kind, body),
                b"iTXt" if notes.xmp.is_none() => notes.xmp = packet(body),
                b"IEND" => break,
                _ => {}
            }
            rest = behind;
        }
        notes.exif = notes.exif.or(text.map(Cow::Owned));
        notes
    }
}

/// The first chunk: its type, its data, and what follows it.
fn chunk(bytes: &[u8]) -> Option<(&[u8; 4], &[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (kind, rest) = rest.split_first_chunk()?;
    let (body, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some((kind, body, rest.get(4..)?))
}

/// Some programs begin the block with the name that it has in a JPEG.
pub(super) fn without_name(exif: &[u8]) -> &[u8] {
    exif.strip_prefix(b"Exif\0\0").unwrap_or(exif)
}

/// EXIF in hexadecimal digits, below its name and its length.
fn raw_profile(kind: &[u8; 4], body: &[u8]) -> Option<Vec<u8>> {
    let body = body.strip_prefix(b"Raw profile type ")?;
    let body = body.strip_prefix(b"exif\0").or_else(|| body.strip_prefix(b"APP1\0"))?;
    let text = match kind {
        b"zTXt" => Cow::Owned(inflated(body.strip_prefix(&[0])?)?),
        _ => Cow::Borrowed(body),
    };
    let digits = text.split(|byte| *byte == b'\n').skip(3).flatten();
    let digits: Vec<u8> = digits.filter_map(|digit| char::from(*digit).to_digit(16)).map(|digit| digit as u8).collect();
    let block: Vec<u8> = digits.as_chunks().0.iter().map(|[high, low]| high << 4 | low).collect();
    Some(without_name(&block).to_vec())
}

/// An XMP packet, compressed or not.
fn packet(body: &[u8]) -> Option<Cow<'_, [u8]>> {
    let [compressed, method, rest @ ..] = body.strip_prefix(b"XML:com.adobe.xmp\0")? else { return None };
    let mut parts = rest.splitn(3, |byte| *byte == 0);
    let text = parts.nth(2)?;
    match (compressed, method) {
        (0, _) => Some(Cow::Borrowed(text)),
        (1, 0) => inflated(text).map(Cow::Owned),
        _ => None,
    }
}

fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    ZlibDecoder::new(bytes).take(MOST).read_to_end(&mut out).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::orientation::Orientation;
    use crate::image::samples::exif;
    use std::io::Write;

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn png(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
        let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
        for (kind, body) in chunks {
            out.extend((body.len() as u32).to_be_bytes());
            out.extend([&kind[..], body, &[0; 4]].concat());
        }
        out
    }

    fn orientation(chunks: &[(&[u8; 4], &[u8])]) -> Orientation {
        let png = png(chunks);
        let notes = Notes::of(&png);
        Orientation::of(notes.exif.as_deref(), notes.xmp.as_deref())
    }

    #[test]
    fn orientations_are_found_wherever_programs_write_them() {
        let block = exif(6);
        let named = [b"Exif\0\0", &block[..]].concat();
        let hex: String = named.iter().map(|byte| format!("{byte:02x}")).collect();
        let (head, tail) = hex.split_at(40);
        let text = format!("\nexif\n{:8}\n{head}\n{tail}\n", named.len());
        let plain = [b"Raw profile type exif\0", text.as_bytes()].concat();
        let zipped = [&b"Raw profile type APP1\0\0"[..], &zlib(text.as_bytes())].concat();
        let xmp = b"<x tiff:Orientation=\"6\" />";
        let itxt = [&b"XML:com.adobe.xmp\0\0\0\0\0"[..], xmp].concat();
        let packed = [&b"XML:com.adobe.xmp\0\x01\0en\0\0"[..], &zlib(xmp)].concat();
        let pixels: (&[u8; 4], &[u8]) = (b"IDAT", b"pixels");
        for (kind, body) in [
            (b"eXIf", &block),
            (b"eXIf", &named),
            (b"tEXt", &plain),
            (b"zTXt", &zipped),
            (b"iTXt", &itxt),
            (b"iTXt", &packed),
        ] {
            for chunks in [[(kind, &body[..]), pixels, (b"IEND", b"")], [pixels, (kind, body), (b"IEND", b"")]] {
                assert_eq!(orientation(&chunks), Orientation::from_number(6), "{}", kind.escape_ascii());
            }
            let whole = png(&[(kind, body)]);
            for end in 0..whole.len() {
                Notes::of(&whole[..end]);
            }
        }
        assert!(orientation(&[pixels, (b"IEND", b""), (b"eXIf", &block)]).is_upright());
    }
}
