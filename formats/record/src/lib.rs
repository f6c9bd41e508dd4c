//! Binary files of fixed-size records, as C programs write with `fwrite` and Fortran with stream access.
//!
//! * **Specification**: none; the option `record` describes a record as a NumPy structured dtype does.
//! * **Who else reads it**: `numpy.fromfile` and `numpy.memmap` with that dtype.
//! * **The bytes**:
//!
//!   ```text
//!   skip     bytes that are ignored
//!   record   its members in order, packed
//!   record   …                              up to the end of the file
//!   ```
//!
//! * **Options**: `record` (required): members separated by commas. Each has a type, dimensions in brackets
//!   if it is an array (in C order), and a name: `<i4 id, <f4[3] p, |S8 tag, V4 _, >M8[ns] t`.
//!   Types are NumPy's: `b1`, `i1` to `i8`, `u1` to `u8`, `f2` to `f8`, `c8`, `c16`, `S`n, `V`n,
//!   `M8[…]`, `m8[…]`. Types of more than one byte need their byte order, `<` or `>`. Members named `_` are
//!   padding and are dropped. `skip`: bytes to ignore at the start of the file, default 0.
//! * **Revisions**: 1, the first.
//!
//! Each record is one sample. A file that ends within a record is refused.

mod layout;
mod source;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Source};
use std::sync::Arc;

/// The format `record`. It has no usual file extension, so it claims none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record;

static INFO: FormatInfo = FormatInfo { id: "record", revision: 1, extensions: &[], fields: &[] };

impl Format for Record {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        options.only(&["record", "skip"])?;
        let layout = layout::RecordLayout::parse(options.get("record").unwrap_or_default(), &limits)?;
        Ok(Box::new(source::RecordSource { layout: Arc::new(layout), skip: options.parse("skip", 0)? }))
    }
}
