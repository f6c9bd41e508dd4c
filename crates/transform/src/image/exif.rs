//! The one number wanted of EXIF (CIPA DC-008; a TIFF 6.0 directory). Owns the way to it; knows not what it
//! means.

/// The tag of the orientation.
const ORIENTATION: u16 = 0x0112;

/// The value of the tag in the first directory of a TIFF block; of several, the last. `None` where that
/// can't be read.
pub(super) fn orientation(tiff: &[u8]) -> Option<u32> {
    let reader = Tiff { bytes: tiff, little: tiff.starts_with(b"II") };
    if !(reader.little || tiff.starts_with(b"MM")) || reader.short(2)? != 42 {
        return None;
    }
    let directory = usize::try_from(reader.long(4)?).ok()?;
    let entries = tiff.get(directory.checked_add(2)?..)?.chunks_exact(12).take(reader.short(directory)?.into());
    entries.filter_map(|entry| reader.number(entry)).next_back()
}

struct Tiff<'a> {
    bytes: &'a [u8],
    little: bool,
}

impl Tiff<'_> {
    /// The first number of an entry (tag, type, count, value or where it is), if it is the orientation.
    fn number(&self, entry: &[u8]) -> Option<u32> {
        let entry = Tiff { bytes: entry, little: self.little };
        let count = entry.long(4)?;
        if entry.short(0)? != ORIENTATION || count == 0 {
            return None;
        }
        let (kind, inline) = (entry.short(2)?, |most| count <= most);
        let far = || usize::try_from(entry.long(8)?).ok();
        match kind {
            1 if inline(4) => entry.bytes.get(8).copied().map(u32::from),
            1 => self.bytes.get(far()?).copied().map(u32::from),
            3 if inline(2) => entry.short(8).map(u32::from),
            3 => self.short(far()?).map(u32::from),
            4 if inline(1) => entry.long(8),
            4 => self.long(far()?),
            _ => None,
        }
    }

    fn short(&self, at: usize) -> Option<u16> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn long(&self, at: usize) -> Option<u32> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::exif::{In, Reader, Tag};
    use proptest::prelude::*;

    /// What another reader finds.
    fn oracle(tiff: &[u8]) -> Option<u32> {
        let exif = Reader::new().read_raw(tiff.to_vec()).ok()?;
        exif.get_field(Tag::Orientation, In::PRIMARY)?.value.get_uint(0)
    }

    /// A block of three entries, the orientation in the middle with `field` for its value; the numbers 6
    /// that follow may be what it points to.
    fn block(little: bool, kind: u16, count: u32, field: [u8; 4]) -> Vec<u8> {
        let short = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
        let long = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
        let mut bytes = if little { b"II".to_vec() } else { b"MM".to_vec() };
        bytes.extend(short(42));
        bytes.extend(long(8));
        bytes.extend(short(3));
        for (tag, kind, count, field) in
            [(0x0100, 4, 1, long(7)), (ORIENTATION, kind, count, field), (0x0128, 3, 1, [0; 4])]
        {
            bytes.extend([short(tag), short(kind)].concat());
            bytes.extend(long(count));
            bytes.extend(field);
        }
        bytes.extend([0; 4]);
        bytes.extend([0, 6].repeat(16));
        bytes
    }

    #[test]
    fn numbers_of_every_width_are_found() {
        for (little, field) in [(true, [6, 0, 0, 0]), (false, [0, 6, 0, 0])] {
            assert_eq!(orientation(&block(little, 3, 1, field)), Some(6));
        }
        assert_eq!(orientation(&block(false, 1, 1, [8, 0, 0, 0])), Some(8));
        assert_eq!(orientation(&block(false, 4, 1, [0, 0, 0, 3])), Some(3));
        assert_eq!(orientation(&block(false, 3, 5, [0, 0, 0, 60])), Some(6));
        assert_eq!(orientation(&block(false, 2, 1, [0, 0, 0, 3])), None);
        assert_eq!(orientation(&block(false, 3, 0, [0, 3, 0, 3])), None);
    }

    proptest! {
        #[test]
        fn another_reader_finds_the_same(little: bool, kind in 0u16..14, count in 0u32..9, field: [u8; 4], far: bool) {
            let field = if far { if little { [54, 0, 0, 0] } else { [0, 0, 0, 54] } } else { field };
            let block = block(little, kind, count, field);
            // What points outside makes the other reader give up on the block.
            if let Some(expected) = oracle(&block) {
                prop_assert_eq!(orientation(&block), Some(expected));
            }
        }

        #[test]
        fn damage_is_survived(little: bool, at in 0usize..80, value: u8, cut in 0usize..100) {
            let mut block = block(little, 3, 1, [0, 6, 0, 0]);
            let len = block.len();
            block[at % len] = value;
            let _ = orientation(&block[..cut.min(len)]);
        }
    }
}
