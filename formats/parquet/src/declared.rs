//! Checks page headers and offset indexes before the crate `parquet` reads them: it allocates the sizes that they
//! declare, and trusts that fields have the types of the specification
//! (<https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>).

use crate::thrift::{FALSE, I32, I64, LIST, STRUCT, TRUE, Thrift, VALUES};
use packhorse_core::{Error, Limits, Result};
use parquet::basic::Compression;

/// Checks the page header at the start of `bytes`, in a column compressed by `codec`.
pub(crate) fn page(bytes: &[u8], codec: Compression, limits: Limits) -> Result<()> {
    let damaged = || Error::content("has a damaged page; write the file again");
    let (packed, unpacked) = sizes(bytes).ok_or_else(damaged)?;
    if unpacked > packed.saturating_mul(ratio(codec)).saturating_add(SLACK) {
        let text = format!("has a page of {packed} bytes that claims to unpack to {unpacked}; write the file again");
        return Err(Error::content(text));
    }
    limits.blob(unpacked).map(drop)
}

/// Declared sizes up to this are accepted for any page.
const SLACK: u64 = 1 << 16;

/// An upper bound of the expansion of a codec.
fn ratio(codec: Compression) -> u64 {
    match codec {
        // Uncompressed pages are used in place, whatever size they declare.
        Compression::UNCOMPRESSED => u64::MAX,
        Compression::SNAPPY => 64,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1100,
        _ => 1 << 15,
    }
}

/// The compressed and the uncompressed size in a page header.
fn sizes(bytes: &[u8]) -> Option<(u64, u64)> {
    let (mut packed, mut unpacked) = (None, None);
    Thrift::new(bytes).fields(|thrift, id, kind| {
        match (id, kind) {
            (2, I32) => unpacked = Some(thrift.zigzag()?),
            (3, I32) => packed = Some(thrift.zigzag()?),
            (1 | 4, I32) => drop(thrift.zigzag()?),
            (5, STRUCT) => typed(thrift, &[I32, I32, I32, I32, STRUCT])?,
            (6, STRUCT) => typed(thrift, &[])?,
            (7, STRUCT) => typed(thrift, &[I32, I32, TRUE])?,
            (8, STRUCT) => typed(thrift, &[I32, I32, I32, I32, I32, I32, TRUE, STRUCT])?,
            (1..=8, _) => return None,
            _ => thrift.skip(kind, VALUES)?,
        }
        Some(())
    })?;
    Some((u64::try_from(packed?).ok()?, u64::try_from(unpacked?).ok()?))
}

/// Skips a struct whose fields 1, 2, … must have the types `kinds`.
fn typed(thrift: &mut Thrift<'_>, kinds: &[u8]) -> Option<()> {
    thrift.fields(|thrift, id, kind| {
        let wanted = usize::try_from(id).ok().and_then(|id| kinds.get(id.checked_sub(1)?));
        // A boolean's type encodes its value.
        let kind_of = if kind == FALSE { TRUE } else { kind };
        wanted.is_none_or(|wanted| *wanted == kind_of).then_some(())?;
        thrift.skip(kind, VALUES)
    })
}

/// Whether `bytes` are a valid offset index: a list of as many page locations as it declares.
pub(crate) fn is_offset_index(bytes: &[u8]) -> bool {
    let locations = |thrift: &mut Thrift<'_>, id: i32, kind: u8| {
        if !matches!((id, kind), (1 | 2, LIST)) {
            return (id > 2).then(|| thrift.skip(kind, VALUES))?;
        }
        let (len, kind) = thrift.list()?;
        match (id, kind) {
            (_, _) if len == 0 => Some(()),
            (1, STRUCT) => (0..len).try_for_each(|_| typed(thrift, &[I64, I32, I64])),
            (2, I64) => (0..len).try_for_each(|_| thrift.skip(I64, VALUES)),
            _ => None,
        }
    };
    Thrift::new(bytes).fields(locations).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type 0, unpacked and packed size, and a header of a data page.
    const HEADER: [u8; 20] =
        [0x15, 0, 0x15, 0x80, 0x80, 8, 0x15, 0x80, 1, 0x2c, 0x15, 20, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];

    #[test]
    fn sizes_are_found_and_claims_bounded_by_the_codec() {
        assert_eq!(sizes(&HEADER), Some((64, 65536)));
        let limits = Limits::default();
        assert!(page(&HEADER, Compression::ZSTD(Default::default()), limits).is_ok());
        let mut huge = HEADER;
        (huge[4], huge[5]) = (0xff, 0x7f);
        assert_eq!(page(&huge, Compression::SNAPPY, limits).unwrap_err().kind(), packhorse_core::Kind::Content);
        let small = Limits { blob: 1000, ..limits };
        assert_eq!(page(&HEADER, Compression::SNAPPY, small).unwrap_err().kind(), packhorse_core::Kind::Limit);
    }

    #[test]
    fn a_header_of_other_types_or_cut_short_is_damaged() {
        for end in 0..HEADER.len() {
            assert_eq!(sizes(&HEADER[..end]), None, "{end}");
        }
        // The first number of the data page's header as text.
        let mut text = HEADER;
        text[10] = 0x18;
        assert_eq!(sizes(&text), None);
    }

    #[test]
    fn an_offset_index_has_as_many_pages_as_it_says() {
        let location = [0x16, 8, 0x15, 8, 0x16, 0, 0];
        let index = |head: &[u8], n: usize| [head, &location.repeat(n), &[0]].concat();
        assert!(is_offset_index(&index(&[0x19, 0x2c], 2)));
        assert!(!is_offset_index(&index(&[0x19, 0x3c], 2)));
        assert!(!is_offset_index(&index(&[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 7], 2)));
        assert!(!is_offset_index(&index(&[0x18, 0x2c], 2)));
    }
}
