//! Image orientation. Owns the eight orientations of EXIF (CIPA DC-008, tag 0x0112); knows no container.

use super::mirror::mirror;
use super::raster::Raster;
use exif::{In, Reader, Tag, Value};

/// How stored pixels become the upright image: first transpose, then mirror left-right, then flip top-bottom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Orientation {
    transpose: bool,
    mirror: bool,
    flip: bool,
}

impl Orientation {
    /// From the EXIF number; values other than 2 to 8 are upright.
    pub(super) fn from_number(number: u32) -> Self {
        let (transpose, mirror, flip) = match number {
            2 => (false, true, false),
            3 => (false, true, true),
            4 => (false, false, true),
            5 => (true, false, false),
            6 => (true, false, true),
            7 => (true, true, true),
            8 => (true, true, false),
            _ => (false, false, false),
        };
        Self { transpose, mirror, flip }
    }

    /// From an EXIF block, which starts with the TIFF header, or else from an XMP packet: the same order as Pillow. A
    /// damaged block counts as absent; without either the image is upright.
    pub(super) fn of(exif: Option<&[u8]>, xmp: Option<&[u8]>) -> Self {
        let number = exif.and_then(exif_number).or_else(|| xmp.and_then(xmp_number));
        Self::from_number(number.unwrap_or(1))
    }

    /// Whether the stored pixels are upright.
    pub(super) fn is_upright(self) -> bool {
        self == Self::default()
    }

    /// This orientation followed by a left-right mirror.
    pub(super) fn mirrored(self) -> Self {
        if self.transpose { Self { flip: !self.flip, ..self } } else { Self { mirror: !self.mirror, ..self } }
    }

    /// Whether rows stay rows, in order.
    pub(super) fn keeps_rows(self) -> bool {
        !self.transpose && !self.flip
    }

    /// Maps a box (left, top, width, height) of the upright image to stored pixels of size `stored` (width, height).
    pub(super) fn stored_box(self, shown: [f64; 4], stored: (f64, f64)) -> [f64; 4] {
        let [left, top, width, height] = shown;
        let [left, top, width, height] =
            if self.transpose { [top, left, height, width] } else { [left, top, width, height] };
        let left = if self.mirror { stored.0 - left - width } else { left };
        let top = if self.flip { stored.1 - top - height } else { top };
        [left, top, width, height]
    }

    /// Converts (width, height) between stored and upright.
    pub(super) fn swap(self, (width, height): (u32, u32)) -> (u32, u32) {
        if self.transpose { (height, width) } else { (width, height) }
    }

    /// The upright image.
    pub(super) fn apply(self, stored: Raster) -> Raster {
        if self.is_upright() {
            return stored;
        }
        let (width, height) = self.swap((stored.width, stored.height));
        let mut data = Vec::with_capacity(stored.data.len());
        for y in 0..height {
            for x in 0..width {
                data.extend_from_slice(stored.pixel(self.origin(x, y, &stored)));
            }
        }
        Raster { width, height, data, ..stored }
    }

    /// Writes the upright image of stored RGB pixels of the given (width, height). Both slices have exactly that size.
    pub(super) fn apply_to(self, stored: &[u8], (width, height): (u32, u32), shown: &mut [u8]) {
        let (width, height) = (width as usize, height as usize);
        if width == 0 || height == 0 {
            return;
        }
        let (stored, shown) = (stored.as_chunks::<3>().0, shown.as_chunks_mut::<3>().0);
        let row = |at: usize| if self.flip { height - 1 - at } else { at };
        let stored_row = |at: usize| stored.get(row(at) * width..(row(at) + 1) * width).unwrap_or_default();
        if self.transpose {
            self.transpose(stored_row, height, shown);
            return;
        }
        for (at, shown) in shown.chunks_exact_mut(width).enumerate() {
            copy(stored_row(at), shown);
            if self.mirror {
                mirror(shown);
            }
        }
    }

    /// Transposes in strips of sixteen rows, so that neither side is accessed by columns alone.
    fn transpose<'a>(self, column: impl Fn(usize) -> &'a [[u8; 3]], width: usize, shown: &mut [[u8; 3]]) {
        for (strip, rows) in shown.chunks_mut(16 * width).enumerate() {
            let many = rows.len() / width;
            for x in 0..width {
                let column = column(x);
                let from = if self.mirror { (column.len()).saturating_sub(16 * strip + many) } else { 16 * strip };
                let part = column.get(from..from + many).unwrap_or_default();
                let row = |at: usize| if self.mirror { many - 1 - at } else { at };
                for (at, pixel) in part.iter().enumerate() {
                    if let Some(to) = rows.get_mut(row(at) * width + x) {
                        *to = *pixel;
                    }
                }
            }
        }
    }

    /// Mirrors RGB rows of `width` pixels in place if this orientation mirrors; does not flip or transpose.
    pub(super) fn mirror_rows(self, pixels: &mut [u8], width: u32) {
        if self.mirror {
            for row in pixels.chunks_exact_mut((3 * width as usize).max(3)) {
                mirror(row.as_chunks_mut().0);
            }
        }
    }

    /// The stored position of the upright pixel (x, y).
    fn origin(self, x: u32, y: u32, stored: &Raster) -> (u32, u32) {
        let (x, y) = self.swap((x, y));
        let x = if self.mirror { stored.width - 1 - x } else { x };
        let y = if self.flip { stored.height - 1 - y } else { y };
        (x, y)
    }
}

/// The orientation number in EXIF.
fn exif_number(tiff: &[u8]) -> Option<u32> {
    let mut reader = Reader::new();
    reader.continue_on_error(true);
    let parsed = reader.read_raw(tiff.to_vec()).or_else(|error| error.distill_partial_result(|_| ()));
    match &parsed.ok()?.get_field(Tag::Orientation, In::PRIMARY)?.value {
        // Some programs write it with a sign.
        Value::SByte(numbers) => u32::try_from(*numbers.first()?).ok(),
        Value::SShort(numbers) => u32::try_from(*numbers.first()?).ok(),
        Value::SLong(numbers) => u32::try_from(*numbers.first()?).ok(),
        number => number.get_uint(0),
    }
}

/// The orientation number in XMP: `tiff:Orientation="6"` or `<tiff:Orientation>6</…`.
fn xmp_number(packet: &[u8]) -> Option<u32> {
    const NAME: &[u8] = b"tiff:Orientation";
    memchr::memmem::find_iter(packet, NAME).find_map(|at| match packet.get(at + NAME.len()..)? {
        [b'=', b'"', digit @ b'0'..=b'9', ..] | [b'>', digit @ b'0'..=b'9', ..] => Some(u32::from(digit - b'0')),
        _ => None,
    })
}

fn copy(from: &[[u8; 3]], to: &mut [[u8; 3]]) {
    if from.len() == to.len() {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_apply_an_orientation_agree() {
        let (width, height) = (37, 53);
        let data: Vec<u8> = (0..width * height * 3).map(|at| (at * 7 % 251) as u8).collect();
        let stored = Raster { width, height, channels: 3, wide: false, data };
        for number in 1..=8 {
            let turn = Orientation::from_number(number);
            let shown = turn.apply(stored.clone());
            let mut out = vec![0; stored.data.len()];
            turn.apply_to(&stored.data, (width, height), &mut out);
            assert_eq!(out, shown.data, "orientation {number}");
            let [x, y, ..] = turn.stored_box([5.0, 9.0, 1.0, 1.0], (width.into(), height.into()));
            assert_eq!(shown.pixel((5, 9)), stored.pixel((x as u32, y as u32)), "orientation {number}");
            for row in out.chunks_exact_mut(3 * shown.width as usize) {
                row.as_chunks_mut::<3>().0.reverse();
            }
            assert_eq!(turn.mirrored().apply(stored.clone()).data, out, "orientation {number}");
        }
    }

    /// The rows `ab`, `cd`, `ef` under each EXIF number, as in Pillow's `exif_transpose`.
    #[test]
    fn all_eight_orientations() {
        let expected = ["ab/cd/ef", "ba/dc/fe", "fe/dc/ba", "ef/cd/ab", "ace/bdf", "eca/fdb", "fdb/eca", "bdf/ace"];
        for (number, rows) in (1..).zip(expected) {
            let stored = Raster { width: 2, height: 3, channels: 1, wide: false, data: b"abcdef".to_vec() };
            let shown = Orientation::from_number(number).apply(stored);
            let text: Vec<_> =
                shown.data.chunks(shown.width as usize).map(|row| String::from_utf8_lossy(row).into_owned()).collect();
            assert_eq!(text.join("/"), rows, "orientation {number}");
        }
    }

    #[test]
    fn damaged_exif_means_upright() {
        for bytes in [&b""[..], b"II*\0", b"II*\0\xff\xff\xff\xff", b"MM\0*\0\0\0\x08\0\x01\x01\x12"] {
            assert!(Orientation::of(Some(bytes), None).is_upright());
        }
        let exif = super::super::samples::exif(6);
        assert_eq!(Orientation::of(Some(&exif), None), Orientation::from_number(6));
        assert!(Orientation::from_number(0).is_upright() && Orientation::from_number(9).is_upright());
    }

    /// Types of whole numbers, with the bytes of 6 in each.
    #[test]
    fn numbers_of_any_type_tell_the_orientation() {
        let usual = super::super::samples::exif(6);
        let entry = usual.windows(4).position(|bytes| bytes == [0x01, 0x12, 0, 3]).unwrap();
        for kind in [1, 3, 4, 6, 8, 9] {
            let mut exif = usual.clone();
            exif[entry + 3] = kind;
            let value = 6u32
                << match kind {
                    1 | 6 => 24,
                    3 | 8 => 16,
                    _ => 0,
                };
            exif[entry + 8..entry + 12].copy_from_slice(&value.to_be_bytes());
            assert_eq!(Orientation::of(Some(&exif), None), Orientation::from_number(6), "{kind}");
            let upright = super::super::exif::upright(&exif, (1, 1)).unwrap();
            assert!(Orientation::of(Some(&upright), None).is_upright(), "{kind}");
        }
    }

    #[test]
    fn xmp_is_the_fallback_for_exif() {
        let exif = super::super::samples::exif(1);
        for packet in
            [&b"<x tiff:Orientation=\"8\" />"[..], b"tiff:Orientations <tiff:Orientation>8</tiff:Orientation>"]
        {
            assert_eq!(Orientation::of(None, Some(packet)), Orientation::from_number(8));
            assert_eq!(Orientation::of(Some(b"II*\0"), Some(packet)), Orientation::from_number(8));
            assert!(Orientation::of(Some(&exif), Some(packet)).is_upright());
        }
        assert!(Orientation::of(None, Some(b"tiff:Orientation")).is_upright());
    }
}
