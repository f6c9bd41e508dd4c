//! A 512-byte tar header: written in one canonical form, read in every common dialect.

use packhorse_core::{Error, Kind, Result};

pub(crate) const BLOCK: usize = 512;
pub(crate) const BLOCK_U64: u64 = BLOCK as u64;

/// The longest member name: the name field of a plain header. Longer names need a prefix, PAX or GNU extensions, and
/// each of these breaks some reader.
pub(crate) const NAME_LIMIT: usize = 100;

/// The length of the shortest hashed key: `~` and 16 digits.
const SHORTEST_KEY: usize = 17;

/// The largest member: 11 octal digits.
pub(crate) const SIZE_LIMIT: u64 = (8 << 30) - 1;

/// `len` rounded up to whole blocks; saturates.
pub(crate) fn padded(len: u64) -> u64 {
    len.checked_next_multiple_of(BLOCK_U64).unwrap_or(u64::MAX)
}

/// A header without name, size and checksum: mode 0644, owner 0, time 0, a regular file.
const TEMPLATE: [u8; BLOCK] = template();
const TEMPLATE_SUM: u32 = sum(&TEMPLATE);

const fn template() -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let fields: [(usize, &[u8]); 9] = [
        (100, b"0000644\0"),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (136, b"00000000000\0"),
        (148, b"        "),
        (156, b"0"),
        (257, b"ustar\x0000"),
        (329, b"0000000\0"),
        (337, b"0000000\0"),
    ];
    let mut f = 0;
    while f < fields.len() {
        let (at, bytes) = fields[f];
        let mut i = 0;
        while i < bytes.len() {
            block[at + i] = bytes[i];
            i += 1;
        }
        f += 1;
    }
    block
}

const fn sum(block: &[u8; BLOCK]) -> u32 {
    let mut total = 0;
    let mut i = 0;
    while i < BLOCK {
        total += block[i] as u32;
        i += 1;
    }
    total
}

/// The header of a regular file `key.field` of `size` bytes. The caller checks name and size with [`admit`].
pub(crate) fn encode(key: &str, field: &str, size: u64) -> [u8; BLOCK] {
    let mut block = TEMPLATE;
    let mut total = TEMPLATE_SUM;
    let name = key.bytes().chain(*b".").chain(field.bytes());
    for (to, from) in block.iter_mut().take(NAME_LIMIT).zip(name) {
        *to = from;
        total += u32::from(from);
    }
    total += octal(&mut block, 124, 11, size);
    octal(&mut block, 148, 6, total.into());
    put(&mut block, 154, 0);
    block
}

/// Writes `value` as `digits` octal digits at `at`; returns the sum of these bytes.
fn octal(block: &mut [u8; BLOCK], at: usize, digits: usize, value: u64) -> u32 {
    let mut total = 0;
    for i in 0..digits {
        let digit = b'0' + ((value >> (3 * (digits - 1 - i))) & 7) as u8;
        put(block, at + i, digit);
        total += u32::from(digit);
    }
    total
}

fn put(block: &mut [u8; BLOCK], at: usize, byte: u8) {
    if let Some(to) = block.get_mut(at) {
        *to = byte;
    }
}

/// Refuses a member that a plain header can't hold.
pub(crate) fn admit(key: &str, field: &str, size: u64) -> Result<()> {
    let len = key.len() + 1 + field.len();
    if field.len() + SHORTEST_KEY + 1 > NAME_LIMIT {
        return Err(Error::content(format!(
            "the field {field} has a name of {} bytes, and readers of WebDataset carry at most {NAME_LIMIT} bytes of key \
             and field; rename it with `field`",
            field.len()
        ))
        .in_sample(key));
    }
    if len > NAME_LIMIT {
        return Err(Error::content(format!(
            "the member name {key}.{field} has {len} bytes, and readers of WebDataset carry at most {NAME_LIMIT}; \
             shorten it, or pass `long-keys=hash`"
        ))
        .in_sample(key));
    }
    if size > SIZE_LIMIT {
        let message =
            format!("field {field} has {size} bytes, and a member of a tar shard at most {SIZE_LIMIT}; split it");
        return Err(Error::new(Kind::Limit, message).in_sample(key));
    }
    Ok(())
}

/// The kind of the label of a volume, a member without data.
pub(crate) const LABEL: u8 = b'V';

/// The header of any tar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TarHeader {
    pub(crate) name: Vec<u8>,
    /// The `prefix` field of USTAR; in other dialects the bytes in its place.
    pub(crate) prefix: Vec<u8>,
    pub(crate) kind: u8,
    pub(crate) size: u64,
    pub(crate) magic: [u8; 8],
    /// Whether a block with more parts of an old sparse file follows.
    pub(crate) extended: bool,
}

impl TarHeader {
    /// Parses a header; `None` for a block of zeros, which ends an archive.
    pub(crate) fn decode(block: &[u8; BLOCK]) -> Result<Option<Self>> {
        if block.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        let stored =
            number(slice(block, 148, 8)).ok_or_else(|| Error::content("has a tar header without a checksum"))?;
        if !is_sum(block, stored) {
            return Err(Error::content("has a damaged tar header: wrong checksum"));
        }
        let kind = slice(block, 156, 1).first().copied().unwrap_or_default();
        let size = match slice(block, 124, 12) {
            // GNU tar writes no size of a volume's label.
            [0, ..] if kind == LABEL => Some(0),
            field => number(field),
        };
        let size = size.ok_or_else(|| Error::content("has a tar header with an unreadable size"))?;
        let magic: [u8; 8] = slice(block, 257, 8).try_into().unwrap_or_default();
        let prefix = text(slice(block, 345, 155));
        let extended = kind == b'S' && slice(block, 482, 1) != [0];
        Ok(Some(Self { name: text(slice(block, 0, NAME_LIMIT)), prefix, kind, size, magic, extended }))
    }

    /// Whether the fields after the magic are those of POSIX. Readers ignore the version.
    pub(crate) fn is_ustar(&self) -> bool {
        self.magic.starts_with(b"ustar\0")
    }

    /// The name with its prefix.
    pub(crate) fn full_name(&self) -> Vec<u8> {
        match self.prefix.is_empty() {
            true => self.name.clone(),
            false => [&self.prefix[..], b"/", &self.name].concat(),
        }
    }
}

fn slice(block: &[u8; BLOCK], at: usize, len: usize) -> &[u8] {
    block.get(at..at + len).unwrap_or_default()
}

fn text(field: &[u8]) -> Vec<u8> {
    field.split(|b| *b == 0).next().unwrap_or_default().to_vec()
}

/// Parses octal digits with blanks around, or GNU's base-256: a byte 0x80, then a big-endian number. A field without
/// digits is invalid: Python reads it as 0, GNU tar refuses it.
fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, rest @ ..] = field {
        return rest.iter().try_fold(0u64, |n, b| n.checked_mul(256)?.checked_add(u64::from(*b)));
    }
    let digits = field.split(|b| *b == 0).next()?.trim_ascii();
    digits.iter().try_fold((!digits.is_empty()).then_some(0u64)?, |n, b| match b {
        b'0'..=b'7' => n.checked_mul(8)?.checked_add(u64::from(b - b'0')),
        _ => None,
    })
}

/// Whether `stored` is the checksum over unsigned bytes, or over signed bytes as some old tars computed it. The field of the
/// checksum itself counts as blanks.
fn is_sum(block: &[u8; BLOCK], stored: u64) -> bool {
    let sum = |bytes: &[u8]| bytes.iter().map(|b| u32::from(*b)).sum::<u32>();
    let field = slice(block, 148, 8);
    let unsigned = sum(block) - sum(field) + 8 * u32::from(b' ');
    // A signed byte from 128 on counts as 256 less.
    let upper = |bytes: &[u8]| bytes.iter().map(|b| u32::from(*b >> 7)).sum::<u32>();
    let less = || 256 * u64::from(upper(block) - upper(field));
    stored == u64::from(unsigned) || stored.checked_add(less()) == Some(unsigned.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tar_crate_reads_our_header() {
        for (key, field, size) in
            [("dress/0001", "jpg", 12345), (&"k".repeat(96), "cls", 0), ("größe", "x", SIZE_LIMIT)]
        {
            let ours = encode(key, field, size);
            let theirs = tar::Header::from_byte_slice(&ours);
            assert_eq!(theirs.path_bytes().as_ref(), format!("{key}.{field}").as_bytes());
            assert_eq!((theirs.size().unwrap(), theirs.mode().unwrap(), theirs.mtime().unwrap()), (size, 0o644, 0));
            assert_eq!(theirs.entry_type(), tar::EntryType::Regular);
            let header = TarHeader::decode(&ours).unwrap().unwrap();
            assert_eq!((header.full_name(), header.size), (format!("{key}.{field}").into_bytes(), size));
        }
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let good = encode("a", "jpg", 7);
        for at in 0..BLOCK {
            for bit in 0..8 {
                let mut bad = good;
                bad[at] ^= 1 << bit;
                // Only the blanks and zeros around the checksum's digits may vary.
                let harmless = (148..156).contains(&at)
                    && TarHeader::decode(&bad).unwrap_or_default() == TarHeader::decode(&good).unwrap();
                assert!(TarHeader::decode(&bad).is_err() || harmless, "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn checksums_of_signed_bytes_are_known() {
        let mut block = encode("größe", "x", 3);
        let bytes = (0..BLOCK).map(|i| if (148..156).contains(&i) { b' ' } else { block[i] });
        let signed = bytes.map(|b| i64::from(i8::from_ne_bytes([b]))).sum::<i64>() as u64;
        assert!(is_sum(&block, signed) && is_sum(&block, signed + 4 * 256) && !is_sum(&block, signed + 256));
        octal(&mut block, 148, 6, signed);
        assert_eq!(TarHeader::decode(&block).unwrap().unwrap().full_name(), "größe.x".as_bytes());
        // A negative sum can't be written down.
        assert!(is_sum(&[255; BLOCK], 504 * 255 + 256) && !is_sum(&[255; BLOCK], u64::MAX));
    }

    #[test]
    fn names_and_sizes_at_the_limit() {
        assert!(admit(&"k".repeat(96), "cls", SIZE_LIMIT).is_ok());
        assert!(admit(&"k".repeat(97), "cls", 0).unwrap_err().message().contains("101 bytes"));
        assert!(admit("k", "cls", SIZE_LIMIT + 1).is_err());
        // A shorter key helps only if the field leaves room for one.
        assert!(admit(&"k".repeat(20), &"f".repeat(82), 0).unwrap_err().message().contains("`long-keys=hash`"));
        assert!(admit("k", &"f".repeat(83), 0).unwrap_err().message().contains("`field`"));
    }
}
