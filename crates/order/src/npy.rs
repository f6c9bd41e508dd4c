//! `.npy` files, limited to the arrays that indices use: written in version 1.0 like `numpy.save`.
//!
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use crate::IntView;
use packhorse_core::{Context, Error, Result};
use std::io::Write;

const MAGIC: &[u8; 8] = b"\x93NUMPY\x01\x00";
/// numpy pads the header for a first dimension of this many digits, so that a file can grow in place.
const DIGITS: usize = 21;

/// The magic, version and header, padded to a multiple of 64 bytes.
fn header(descr: &str, rows: usize, columns: usize) -> Vec<u8> {
    let shape = if columns == 1 { format!("({rows},)") } else { format!("({rows}, {columns})") };
    let spare = DIGITS.saturating_sub(rows.to_string().len());
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    text.extend(std::iter::repeat_n(' ', spare));
    let before = MAGIC.len() + 2 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', before.next_multiple_of(64) - before));
    text.push('\n');
    // The header never exceeds 192 bytes.
    [MAGIC.as_slice(), &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
}

/// Writes header and integers, a block at a time.
pub(crate) fn write<T: Copy, const N: usize>(
    descr: &str,
    columns: usize,
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
    out: &mut dyn Write,
) -> Result<()> {
    let columns = columns.max(1);
    out.write_all(&header(descr, values.len() / columns, columns)).context("write an index")?;
    let mut block = vec![[0; N]; values.len().min(1 << 16)];
    for part in values.chunks(1 << 16) {
        for (place, value) in block.iter_mut().zip(part) {
            *place = bytes(*value);
        }
        let filled = block.get(..part.len()).unwrap_or_default();
        out.write_all(filled.as_flattened()).context("write an index")?;
    }
    Ok(())
}

/// A view of the integers in the bytes of a `.npy` file, and how many a row has.
///
/// Supported: C order, one or two dimensions, `<i2`, `<i4`, `<u4`, `<i8`. Errors: anything else, or data whose size
/// contradicts the header.
pub fn read_npy(bytes: &[u8]) -> Result<(IntView<'_>, usize)> {
    let (header, rest) =
        split(bytes).ok_or_else(|| Error::content("is not an .npy file of version 1 to 3, or is truncated"))?;
    let parsed = parse(header);
    let (descr, rows, columns) =
        parsed.ok_or_else(|| Error::unsupported("has a .npy header that no index of whole numbers has"))?;
    let view = IntView::from_bytes(descr, rest)?;
    if rows.checked_mul(columns) != Some(view.len()) {
        return Err(Error::content(format!("holds {} numbers and claims {rows} rows of {columns}", view.len())));
    }
    Ok((view, columns))
}

/// The header's text, and the bytes after it.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (version, rest) = rest.split_first_chunk::<2>()?;
    let (len, rest) = if version[0] == 1 {
        let (len, rest) = rest.split_first_chunk()?;
        (usize::from(u16::from_le_bytes(*len)), rest)
    } else {
        let (len, rest) = rest.split_first_chunk()?;
        (usize::try_from(u32::from_le_bytes(*len)).ok()?, rest)
    };
    let (header, rest) = rest.split_at_checked(len)?;
    let known = matches!(version, [1..=3, 0]);
    known.then_some((std::str::from_utf8(header).ok()?, rest))
}

/// Type, rows, columns.
fn parse(header: &str) -> Option<(&str, usize, usize)> {
    let after = |key: &str| Some(header.split_once(key)?.1.trim_start());
    let descr = after("'descr':")?.strip_prefix('\'')?.split_once('\'')?.0;
    if !after("'fortran_order':")?.starts_with("False") {
        return None;
    }
    let shape = after("'shape':")?.strip_prefix('(')?.split_once(')')?.0;
    let mut sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty()).map(str::parse);
    let rows = sizes.next()?.ok()?;
    let columns = sizes.next().transpose().ok()?.unwrap_or(1);
    sizes.next().is_none().then_some((descr, rows, columns))
}

#[cfg(test)]
mod tests {
    use crate::{Array, IntView, read_npy};

    fn file(array: &Array, columns: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        array.write_npy(columns, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn comes_back() {
        for (array, columns) in [
            (Array::I16(vec![-1, 7]), 1),
            (Array::I32(vec![i32::MIN, 2, 3, 4]), 2),
            (Array::U32(vec![u32::MAX]), 1),
            (Array::I64((0..200_000).map(|v| v - 7).collect()), 2),
            (Array::U32(vec![]), 1),
        ] {
            let bytes = file(&array, columns);
            assert_eq!((bytes.len() - 128) % array.len().max(1), 0);
            let (view, width) = read_npy(&bytes).unwrap();
            assert_eq!((view.len(), width), (array.len(), columns));
            assert!((0..=view.len()).all(|i| view.get(i) == array.view().get(i)));
        }
    }

    #[test]
    fn cut_and_changed_files_never_panic() {
        let bytes = file(&Array::I32(vec![1, 2, 3, 4]), 2);
        for len in 0..bytes.len() {
            assert!(read_npy(&bytes[..len]).is_err(), "{len}");
        }
        for (at, bit) in (0..128).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            let _ = read_npy(&changed);
        }
    }

    #[test]
    fn bytes_at_any_alignment() {
        let bytes = [9, 1, 0, 0, 0, 255, 255, 255, 255];
        let view = IntView::from_bytes("<i4", &bytes[1..]).unwrap();
        assert_eq!([view.get(0), view.get(1), view.get(2)], [Some(1), Some(-1), None]);
        assert!(IntView::from_bytes("<i4", &bytes).is_err());
    }
}
