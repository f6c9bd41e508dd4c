//! Which way up an image is. Owns the eight orientations of EXIF (CIPA DC-008, tag 0x0112); knows
//! no container.

use super::raster::Raster;
use exif::{In, Reader, Tag};

/// How stored pixels become the picture: first transpose, then mirror.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Orientation {
    transpose: bool,
    mirror: bool,
    flip: bool,
}

impl Orientation {
    /// From EXIF's number; everything but 2 to 8 is upright.
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

    /// From an EXIF block, which begins with the TIFF header. A block that is damaged or silent
    /// means upright, as everywhere.
    pub(super) fn from_exif(tiff: &[u8]) -> Self {
        let mut reader = Reader::new();
        reader.continue_on_error(true);
        let parsed = reader.read_raw(tiff.to_vec()).or_else(|error| error.distill_partial_result(|_| ()));
        let number = parsed.ok().and_then(|exif| exif.get_field(Tag::Orientation, In::PRIMARY)?.value.get_uint(0));
        Self::from_number(number.unwrap_or(1))
    }

    /// Whether the stored pixels are the picture.
    pub(super) fn is_upright(self) -> bool {
        self == Self::default()
    }

    /// Stored (width, height) as shown, and the other way round.
    pub(super) fn swap(self, (width, height): (u32, u32)) -> (u32, u32) {
        if self.transpose { (height, width) } else { (width, height) }
    }

    /// The picture from the stored pixels.
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

    /// Where the picture's pixel (x, y) is stored.
    fn origin(self, x: u32, y: u32, stored: &Raster) -> (u32, u32) {
        let (x, y) = self.swap((x, y));
        let x = if self.mirror { stored.width - 1 - x } else { x };
        let y = if self.flip { stored.height - 1 - y } else { y };
        (x, y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What EXIF's numbers make of the rows `ab`, `cd`, `ef`, as Pillow's `exif_transpose` does it.
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
            assert!(Orientation::from_exif(bytes).is_upright());
        }
        assert_eq!(Orientation::from_exif(&super::super::samples::exif(6)), Orientation::from_number(6));
        assert!(Orientation::from_number(0).is_upright() && Orientation::from_number(9).is_upright());
    }
}
