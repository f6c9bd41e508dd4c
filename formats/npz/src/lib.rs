//! NumPy's files: `.npy`, one array, and `.npz`, a zip archive of them.
//!
//! * **Specification**: [numpy.lib.format](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html)
//!   1.0, 2.0, 3.0; zip as of [APPNOTE](https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT),
//!   stored and deflated, zip64 too.
//! * **Who else reads it**: NumPy and all that is built on it.
//! * **The bytes we write** (`.npy` only, the same as `numpy.save`):
//!
//!   ```text
//!   \x93NUMPY 1 0   8 B
//!   length          u16, of what follows up to the data
//!   header          {'descr': '<f4', 'fortran_order': False, 'shape': (3, 224, 224), }
//!                   room for 21 digits, spaces and a line feed up to a multiple of 64
//!   data            C order, little-endian
//!   ```
//!
//! * **What we read**: versions 1.0 to 3.0; every number (`f2` to `f8`, complex too), bool, `U`, `S`,
//!   `V`, `datetime64`, `timedelta64`, structures of these (a field a member: `x.a`, `x.a.b`; padding
//!   and titles left out), either byte order, C and Fortran order, any shape. Long doubles and pickled
//!   object arrays are refused by name; no pickle is ever run.
//!   Members of a `.npz` file that do not end in `.npy` are no arrays, and left out.
//! * **Options**: `arrays`, a list of the arrays of `.npz` files to read, separated by commas; default
//!   all. `rows` of the source: `false` (default), a file is one sample; `true`, each entry of the
//!   first dimension is one, and all arrays (that `arrays` names) must have the same first dimension.
//! * **Revisions**: 1, the first.

mod bytes;
mod codec;
mod column;
mod dtype;
mod element;
mod encode;
mod file;
mod gather;
mod header;
mod known;
mod literal;
mod load;
mod member;
mod reader;
mod source;
mod text;
mod zip;

use known::Known;
use packhorse_core::{Codec, Format, FormatInfo, Limits, Options, Pool, Result, Source};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The format `npz`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Npz;

static INFO: FormatInfo = FormatInfo { id: "npz", revision: 1, extensions: &[], fields: &["npz", "npy"] };

impl Format for Npz {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        options.only(&["arrays", "rows"])?;
        Ok(Box::new(source::NpzSource {
            limits,
            chosen: chosen(options).map(Arc::from),
            rows: options.parse("rows", false)?,
            pool: Pool::default(),
            known: Arc::default(),
        }))
    }

    fn codec(&self, options: &Options, limits: Limits) -> Result<Box<dyn Codec>> {
        options.only(&["arrays"])?;
        Ok(Box::new(codec::NpzCodec {
            limits,
            chosen: chosen(options),
            pool: Pool::default(),
            known: Known::default(),
            lead: AtomicUsize::new(0),
        }))
    }
}

fn chosen(options: &Options) -> Option<Vec<String>> {
    let names = options.get("arrays")?.split(',').map(str::trim).filter(|name| !name.is_empty());
    Some(names.map(str::to_owned).collect())
}
