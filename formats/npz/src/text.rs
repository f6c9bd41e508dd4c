//! NumPy's text: UTF-32, padded with zeros to the width of the type.

use arrow_array::builder::StringViewBuilder;
use packhorse_core::{Error, Result};

/// Appends `elements` strings of `width` bytes each, little-endian, without trailing zeros.
pub(crate) fn push_text(units: &[u8], width: usize, elements: usize, text: &mut StringViewBuilder) -> Result<()> {
    let mut one = String::new();
    for i in 0..elements {
        one.clear();
        let (chars, _) = units.get(i * width..(i + 1) * width).unwrap_or_default().as_chunks();
        let used = chars.iter().rposition(|c| *c != [0; 4]).map_or(0, |last| last + 1);
        for unit in chars.iter().take(used) {
            let code = u32::from_le_bytes(*unit);
            one.push(char::from_u32(code).ok_or_else(|| {
                Error::content(format!("holds text with 0x{code:x}, which is not a Unicode character"))
            })?);
        }
        text.append_value(&one);
    }
    Ok(())
}

/// Appends `text` as little-endian UTF-32, padded with zeros to `chars` characters.
pub(crate) fn append_units(text: &str, chars: usize, out: &mut Vec<u8>) {
    let end = out.len() + 4 * chars;
    text.chars().take(chars).for_each(|c| out.extend_from_slice(&u32::from(c).to_le_bytes()));
    out.resize(end, 0);
}
