//! Plain binary files of fixed records: what C programs `fwrite` and Fortran streams write.
//!
//! * **Specification**: none; the option `record` says what a record is, as a NumPy structured type does.
//! * **Who else reads it**: `numpy.fromfile` and `numpy.memmap` with that type.
//! * **The bytes**:
//!
//!   ```text
//!   skip     bytes that are passed over
//!   record   its members one after the other, without padding
//!   record   …                                  up to the end of the file
//!   ```
//!
//! * **Options**: `record`, needed: members separated by commas, each a type, dimensions in brackets
//!   where it is an array (in C order), and a name: `<i4 id, <f4[3] p, |S8 tag, V4 _, >M8[ns] t`.
//!   Types are NumPy's (`b1`, `i1` to `i8`, `u1` to `u8`, `f2` to `f8`, `c8`, `c16`, `S`n, `V`n,
//!   `M8[…]`, `m8[…]`) with their byte order, `<` or `>`, wherever it matters. A member called `_` is
//!   padding, and left out. `skip`, a number of bytes, default 0.
//! * **Revisions**: 1, the first.
//!
//! Each record is one sample. A file that does not end with a whole record is refused.

mod layout;
mod source;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Source};
use std::sync::Arc;

/// The format `record`. No file name says that a file is one, so it claims no extension.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record;

static INFO: FormatInfo = FormatInfo { id: "record", revision: 1, extensions: &[], fields: &[] };

impl Format for Record {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        options.only(&["record", "skip"])?;
        let layout = layout::Layout::parse(options.get("record").unwrap_or_default(), &limits)?;
        Ok(Box::new(source::RecordSource { layout: Arc::new(layout), skip: options.parse("skip", 0)? }))
    }
}
