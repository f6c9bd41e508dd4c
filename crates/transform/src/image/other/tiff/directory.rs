//! The first directory of a TIFF, for corrections before the decoder reads it.

/// Where the entries of the directory lie. Offsets are of 4 bytes, or of 8 in BigTIFF.
pub(super) struct Directory {
    little: bool,
    big: bool,
    first: usize,
    entries: usize,
}

/// The values of an entry.
pub(super) struct EntryValues {
    at: usize,
    /// Bytes of a value.
    width: usize,
    count: usize,
}

impl Directory {
    /// The first directory of `bytes`, if they are a TIFF.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let little = bytes.starts_with(b"II");
        let start = Self { little, big: false, first: 0, entries: 0 };
        let big = start.number(bytes, 2, 2)? == 43;
        let directory = start.number(bytes, if big { 8 } else { 4 }, if big { 8 } else { 4 })?;
        let count = if big { 8 } else { 2 };
        let entries = start.number(bytes, directory, count)?.min(65_535);
        Some(Self { big, first: directory.checked_add(count)?, entries, ..start })
    }

    /// The values of the entry of a tag, if they are whole numbers that lie in `bytes`.
    pub(super) fn values(&self, bytes: &[u8], tag: u16) -> Option<EntryValues> {
        let (size, offset) = if self.big { (20, 8) } else { (12, 4) };
        let mut entries = (0..self.entries).map_while(|i| self.first.checked_add(i * size));
        let at = entries.find(|at| self.number(bytes, *at, 2) == Some(tag.into()))?;
        let width = match self.number(bytes, at + 2, 2)? {
            3 => 2,
            4 => 4,
            16 => 8,
            _ => return None,
        };
        let count = self.number(bytes, at + 4, offset)?;
        let inside = at + 4 + offset;
        let at = if count.checked_mul(width)? <= offset { inside } else { self.number(bytes, inside, offset)? };
        bytes.get(at..at.checked_add(count * width)?)?;
        Some(EntryValues { at, width, count })
    }

    /// The numbers of an entry.
    pub(super) fn numbers(&self, bytes: &[u8], values: &EntryValues) -> Vec<usize> {
        (0..values.count).map_while(|i| self.number(bytes, values.at + i * values.width, values.width)).collect()
    }

    /// Replaces a number of an entry; `None` if it does not fit.
    pub(super) fn put(&self, bytes: &mut [u8], values: &EntryValues, index: usize, number: u64) -> Option<()> {
        let at = values.at + index * values.width;
        let place = bytes.get_mut(at..at + values.width)?;
        if values.width < 8 && number >> (8 * values.width) != 0 {
            return None;
        }
        let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
        let new = if self.little { little.get(..values.width) } else { big.get(8 - values.width..) };
        place.copy_from_slice(new?);
        Some(())
    }

    fn number(&self, bytes: &[u8], at: usize, width: usize) -> Option<usize> {
        let bytes = bytes.get(at..at.checked_add(width)?)?;
        let shifted = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
        Some(if self.little { bytes.iter().rev().fold(0, shifted) } else { bytes.iter().fold(0, shifted) })
    }
}
