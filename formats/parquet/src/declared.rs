//! Checks page headers and offset indexes before the crate `parquet` reads them: it allocates the sizes that they
//! declare, and trusts that fields have the types of the specification
//! (<https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>).

use crate::thrift::{FALSE, I32, I64, LIST, STRUCT, TRUE, Thrift, VALUES};
use packhorse_core::{Error, Limits, Result};
use parquet::basic::Compression;

/// Checks the page header at the start of `bytes`, in a column compressed by `codec`.
pub(crate) fn page(bytes: &[u8], codec: Compression, limits: Limits) -> Result<()> {
    let damaged = || Error::content("has a damaged page; write the file again");
    let PageHeader { packed, unpacked, .. } = header(bytes).ok_or_else(damaged)?;
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

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// Values, nulls among them: in a column without lists as many as rows.
    Data {
        values: u64,
    },
    Dictionary,
    Other,
}

/// What a page header says.
pub(crate) struct PageHeader {
    /// Its own length.
    pub(crate) bytes: u64,
    pub(crate) kind: PageKind,
    /// The length of what follows, and that of it unpacked.
    pub(crate) packed: u64,
    unpacked: u64,
}

/// The page header at the start of `bytes`.
pub(crate) fn header(bytes: &[u8]) -> Option<PageHeader> {
    let (mut packed, mut unpacked, mut kind) = (None, None, None);
    let mut values = None;
    let mut thrift = Thrift::new(bytes);
    thrift.fields(|thrift, id, of| {
        match (id, of) {
            (1, I32) => kind = Some(thrift.zigzag()?),
            (2, I32) => unpacked = Some(thrift.zigzag()?),
            (3, I32) => packed = Some(thrift.zigzag()?),
            (4, I32) => drop(thrift.zigzag()?),
            (5, STRUCT) => values = first(thrift, &[I32, I32, I32, I32, STRUCT])?,
            (6, STRUCT) => drop(first(thrift, &[])?),
            (7, STRUCT) => drop(first(thrift, &[I32, I32, TRUE])?),
            (8, STRUCT) => values = first(thrift, &[I32, I32, I32, I32, I32, I32, TRUE, STRUCT])?,
            (1..=8, _) => return None,
            _ => thrift.skip(of, VALUES)?,
        }
        Some(())
    })?;
    let values = values.and_then(|values| u64::try_from(values).ok());
    let kind = match (kind?, values) {
        (0 | 3, Some(values)) => PageKind::Data { values },
        (2, _) => PageKind::Dictionary,
        _ => PageKind::Other,
    };
    let bytes = (bytes.len() - thrift.rest()) as u64;
    Some(PageHeader { bytes, kind, packed: u64::try_from(packed?).ok()?, unpacked: u64::try_from(unpacked?).ok()? })
}

/// Skips a struct whose fields 1, 2, … must have the types `kinds`; field 1, if it is a number of 32 bits.
fn first(thrift: &mut Thrift<'_>, kinds: &[u8]) -> Option<Option<i32>> {
    let mut found = None;
    thrift.fields(|thrift, id, kind| {
        let wanted = usize::try_from(id).ok().and_then(|id| kinds.get(id.checked_sub(1)?));
        // A boolean's type encodes its value.
        let kind_of = if kind == FALSE { TRUE } else { kind };
        wanted.is_none_or(|wanted| *wanted == kind_of).then_some(())?;
        if (id, kind) == (1, I32) {
            found = Some(thrift.zigzag()?);
            return Some(());
        }
        thrift.skip(kind, VALUES)
    })?;
    Some(found)
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
            (1, STRUCT) => (0..len).try_for_each(|_| first(thrift, &[I64, I32, I64]).map(drop)),
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
        let found = header(&HEADER).unwrap();
        assert_eq!((found.bytes, found.packed, found.unpacked), (20, 64, 65536));
        assert_eq!(found.kind, PageKind::Data { values: 10 });
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
            assert!(header(&HEADER[..end]).is_none(), "{end}");
        }
        // The first number of the data page's header as text.
        let mut text = HEADER;
        text[10] = 0x18;
        assert!(header(&text).is_none());
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
