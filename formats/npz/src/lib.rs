//! NumPy's files: `.npy`, one array, and `.npz`, a zip archive of `.npy` files.
//!
//! * **Specification**: [numpy.lib.format](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html)
//!   1.0, 2.0, 3.0; zip as in [APPNOTE](https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT):
//!   stored and deflated members, zip64 included.
//! * **Who else reads it**: NumPy and everything built on it.
//! * **The bytes we write** (`.npy` only, the same as `numpy.save`):
//!
//!   ```text
//!   \x93NUMPY 1 0   8 B
//!   length          u16, bytes of the header
//!   header          {'descr': '<f4', 'fortran_order': False, 'shape': (3, 224, 224), }
//!                   padded: room for a 21-digit dimension, then spaces and a line feed to a multiple of 64
//!   data            C order, little-endian
//!   ```
//!
//! * **What we read**: versions 1.0 to 3.0; all numeric types (`f2` to `f8`, complex included), bool, `U`, `S`,
//!   `V`, `datetime64`, `timedelta64`, structured dtypes of these (one field per member: `x.a`, `x.a.b`; padding
//!   and titles are dropped), both byte orders, C and Fortran order, any shape. Long doubles and pickled
//!   object arrays are refused by name; pickles are never executed.
//!   Members of an `.npz` file whose names do not end in `.npy` are not arrays; they are omitted and reported.
//! * **Options**: `arrays`: the arrays of `.npz` files to read, separated by commas; default all.
//!   `rows` (source only): `false` (default), a file is one sample; `true`, each entry of the first dimension is
//!   a sample, and all selected arrays must have the same first dimension.
//! * **Revisions**: 1, the first.

mod array_reader;
mod bytes;
mod codec;
mod column;
mod dtype;
mod element;
mod encode;
mod file;
mod gather;
mod header_cache;
mod literal;
mod load;
mod member;
mod npy_header;
mod source;
mod text;
mod zip;

use header_cache::HeaderCache;
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
            known: HeaderCache::default(),
            alignment_padding: AtomicUsize::new(0),
        }))
    }
}

fn chosen(options: &Options) -> Option<Vec<String>> {
    let names = options.get("arrays")?.split(',').map(str::trim).filter(|name| !name.is_empty());
    Some(names.map(str::to_owned).collect())
}
