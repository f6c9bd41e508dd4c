//! The bytes of a `.npz`: a ZIP archive (APPNOTE 6.3.10, without ZIP64) of `.npy` arrays (NEP 1, version 1.0).
//! Owns both headers; knows no values.

/// Appends an archive to an empty buffer.
pub(super) struct Archive<'a> {
    out: &'a mut Vec<u8>,
    directory: Vec<u8>,
    members: u16,
}

/// Version 2.0, no flags, stored, 1980-01-01 00:00.
const COMMON: [u8; 10] = [20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];

impl<'a> Archive<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, directory: Vec::new(), members: 0 }
    }

    /// Adds the array `name` with NumPy type `descr` and `shape`; `data` are its little-endian values in C order.
    pub(super) fn add(&mut self, name: &str, descr: &str, shape: &str, data: &[u8]) {
        let array = npy(descr, shape, data);
        let name = format!("{name}.npy");
        let offset = self.out.len() as u32;
        let mut facts = COMMON.to_vec();
        facts.extend(crc32(&array).to_le_bytes());
        facts.extend((array.len() as u32).to_le_bytes());
        facts.extend((array.len() as u32).to_le_bytes());
        facts.extend((name.len() as u16).to_le_bytes());
        facts.extend([0; 2]);

        self.out.extend(b"PK\x03\x04");
        self.out.extend(&facts);
        self.out.extend(name.as_bytes());
        self.out.extend(&array);

        // Made by version 2.0 on Unix; no comment, disk 0, mode 0600.
        self.directory.extend(b"PK\x01\x02\x14\x03");
        self.directory.extend(&facts);
        self.directory.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x81]);
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.members += 1;
    }

    /// Writes the central directory.
    pub(super) fn finish(self) {
        let offset = self.out.len() as u32;
        self.out.extend(&self.directory);
        self.out.extend(b"PK\x05\x06\0\0\0\0");
        self.out.extend(self.members.to_le_bytes());
        self.out.extend(self.members.to_le_bytes());
        self.out.extend((self.directory.len() as u32).to_le_bytes());
        self.out.extend(offset.to_le_bytes());
        self.out.extend([0; 2]);
    }
}

/// An `.npy` file; the values are aligned to 64 bytes.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let unpadded = 10 + header.len() + 1;
    header.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    let mut array = b"\x93NUMPY\x01\0".to_vec();
    array.extend((header.len() as u16).to_le_bytes());
    array.extend(header.as_bytes());
    array.extend(data);
    array
}

/// CRC-32 of ZIP.
fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_checksum() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn values_are_aligned() {
        for shape in ["()", "(16, 16)", "(123456,)"] {
            let array = npy("<f4", shape, &[]);
            assert_eq!((array.len() % 64, array.last()), (0, Some(&b'\n')));
        }
    }
}
