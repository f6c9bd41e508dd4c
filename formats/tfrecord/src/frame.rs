//! The frame of a record: its length, and checksums of length and data.

use packhorse_core::{Code, Error, Result, crc32c};

/// Bytes before the data: length and checksum.
pub(crate) const HEADER: usize = 12;
/// Bytes after the data: its checksum.
pub(crate) const FOOTER: usize = 4;
/// Bytes of a frame without its data.
pub(crate) const FRAME: u64 = (HEADER + FOOTER) as u64;
/// The longest record that readers of protocol buffers accept.
pub(crate) const LONGEST: u64 = i32::MAX as u64;

/// TensorFlow's masked CRC-32C. The mask avoids trivial checksums of data that contains checksums.
pub(crate) fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The header of `len` bytes of data.
pub(crate) fn header(len: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let (length, crc) = header.split_at_mut(8);
    length.copy_from_slice(&len.to_le_bytes());
    crc.copy_from_slice(&masked(&len.to_le_bytes()).to_le_bytes());
    header
}

/// The length of the data after `header`; `check` verifies its checksum.
pub(crate) fn length(header: &[u8; HEADER], check: bool) -> Result<u64> {
    let [a, b, c, d, e, f, g, h, crc @ ..] = *header;
    let length = [a, b, c, d, e, f, g, h];
    if check && u32::from_le_bytes(crc) != masked(&length) {
        return Err(Error::content(
            "the checksum of its length is wrong: the file is damaged here, or not a TFRecord file",
        )
        .with_code(Code::ChecksumDiffers));
    }
    let len = u64::from_le_bytes(length);
    match len <= LONGEST {
        true => Ok(len),
        false => Err(Error::content(format!("declares a length of {len} bytes, over the limit of 2 GiB"))),
    }
}

/// Verifies the checksum of the data.
pub(crate) fn check_data(data: &[u8], footer: &[u8]) -> Result<()> {
    match footer == masked(data).to_le_bytes() {
        true => Ok(()),
        false => Err(Error::content("the checksum of its data is wrong: the file is damaged here; fetch it again")
            .with_code(Code::ChecksumDiffers)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_tensorflows() {
        // From tensorflow/core/lib/hash/crc32c_test.cc: the mask of a known sum, and its inverse.
        let crc = crc32c(b"foo");
        let mask = masked(b"foo");
        assert_ne!(crc, mask);
        assert_eq!(mask.wrapping_sub(0xa282_ead8).rotate_left(15), crc);
        // The header of every empty record.
        assert_eq!(header(0), [0, 0, 0, 0, 0, 0, 0, 0, 0x29, 0x03, 0x98, 0x07]);
    }

    #[test]
    fn damage_is_detected() {
        let mut bytes = header(77);
        assert_eq!(length(&bytes, true).unwrap(), 77);
        bytes[0] = 78;
        assert!(length(&bytes, true).is_err());
        assert_eq!(length(&bytes, false).unwrap(), 78);
        assert!(length(&header(1 << 31), true).is_err());
        assert!(check_data(b"abc", &masked(b"abc").to_le_bytes()).is_ok());
        assert!(check_data(b"abd", &masked(b"abc").to_le_bytes()).is_err());
    }
}
