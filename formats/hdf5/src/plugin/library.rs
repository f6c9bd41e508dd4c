//! The one unsafe room: a shared library that is a filter plugin, and calls into it.
//!
//! A plugin exports `H5PLget_plugin_type` (0 for a filter) and `H5PLget_plugin_info`, which returns an `H5Z_class2_t`
//! ([H5PLextern.h, H5Zdevelop.h](https://github.com/HDFGroup/hdf5/tree/develop/src)). Its callbacks `can_apply` and
//! `set_local` need datasets of a libhdf5 and are never called; `filter` needs none.

#![expect(unsafe_code, reason = "foreign code is loaded and called: see each block")]

use libloading::Library as Handle;
use packhorse_core::{Error, Result};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

/// `H5Z_func_t`: flags, parameters and how many, bytes of input, and the buffer: its size and itself, both replaced.
type Call = unsafe extern "C" fn(c_uint, usize, *const c_uint, usize, *mut usize, *mut *mut c_void) -> usize;

/// `H5Z_class2_t`.
#[repr(C)]
struct Class {
    version: c_int,
    id: c_int,
    encoder_present: c_uint,
    decoder_present: c_uint,
    name: *const c_char,
    can_apply: *const c_void,
    set_local: *const c_void,
    filter: Option<Call>,
}

/// `H5Z_CLASS_T_VERS`, `H5PL_TYPE_FILTER`, `H5Z_FLAG_REVERSE`.
const CLASS_VERSION: c_int = 1;
const TYPE_FILTER: c_int = 0;
const REVERSE: c_uint = 0x0100;

/// Plugins read parameters without asking how many there are: so many zeros follow those of the file.
const SPARE: usize = 64;

/// A filter plugin, which stays loaded for as long as this lives.
pub(super) struct Library {
    /// The registered number of its filter.
    pub(super) id: u16,
    call: Call,
    _handle: Handle,
}

impl Library {
    /// The filter plugin in the file `path`; `None` where it is another kind of plugin.
    ///
    /// Errors: it can't be loaded, or is no plugin; in words.
    pub(super) fn load(path: &Path) -> Result<Option<Self>, String> {
        // SAFETY: loading runs the library's initialisers. Its folder is the user's (`HDF5_PLUGIN_PATH`) or the
        // administrator's, who vouch for what lies there, as they do to every program that uses libhdf5.
        let handle = unsafe { Handle::new(path) }.map_err(|e| e.to_string())?;
        // SAFETY: the functions have these types by HDF5's interface, and no other library has their names.
        let class = unsafe {
            let kind =
                handle.get::<unsafe extern "C" fn() -> c_int>(c"H5PLget_plugin_type").map_err(|e| e.to_string())?;
            let info = handle
                .get::<unsafe extern "C" fn() -> *const Class>(c"H5PLget_plugin_info")
                .map_err(|e| e.to_string())?;
            if kind() != TYPE_FILTER {
                return Ok(None);
            }
            // What they return lies in the library, which stays loaded while this is looked at; null is none.
            info().as_ref()
        };
        let Some(Class { version: CLASS_VERSION, id, filter: Some(call), .. }) = class else {
            return Err("it is a filter plugin of another version".to_owned());
        };
        let id = u16::try_from(*id).map_err(|_| format!("there is no filter {id}"))?;
        Ok(Some(Self { id, call: *call, _handle: handle }))
    }

    /// Passes `input` through the filter, back where `reverse`; returns how many bytes came out. They are in `out`, if
    /// it holds as many; else `out` is as it was.
    pub(super) fn run(&self, reverse: bool, parameters: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
        let failed = |what: &str| Error::content(format!("the plugin of filter {} {what}", self.id));
        let values: Vec<c_uint> = parameters.iter().copied().chain([0; SPARE]).collect();
        let mut block = Block::of(input)?;
        let mut size = input.len();
        let flags = if reverse { REVERSE } else { 0 };
        // SAFETY: the types are those of `H5Z_func_t`; the parameters outlive the call; the buffer is one of malloc,
        // of `size` bytes at least, which the plugin may free and replace by another of malloc, as its interface says.
        let made = unsafe {
            (self.call)(flags, parameters.len(), values.as_ptr(), input.len(), &raw mut size, &raw mut block.0)
        };
        if made == 0 {
            return Err(failed(match reverse {
                true => "refuses a chunk: the file is damaged, or was written by a later version of it",
                false => "refuses to compress a chunk",
            }));
        }
        if made > block.len(size) {
            return Err(failed("says that it made more than it did"));
        }
        if let Some(out) = out.get_mut(..made) {
            // SAFETY: the plugin says that `made` bytes are valid in its buffer, which is not null, is this function's
            // alone and so not `out`; `out` has as many.
            unsafe { std::ptr::copy_nonoverlapping(block.0.cast::<u8>(), out.as_mut_ptr(), made) };
        }
        Ok(made)
    }
}

/// Memory of malloc, or null.
struct Block(*mut c_void);

impl Block {
    fn of(bytes: &[u8]) -> Result<Self> {
        // SAFETY: malloc may be called with any size.
        let block = Self(unsafe { libc::malloc(bytes.len().max(1)) });
        if block.0.is_null() {
            return Err(Error::content(format!("there is no memory for a chunk of {} bytes", bytes.len())));
        }
        // SAFETY: the block is new, is not null and has as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.0.cast::<u8>(), bytes.len()) };
        Ok(block)
    }
}

impl Block {
    /// How many bytes there are, of which a plugin says that it is `said`. Not all say it: lz4's leaves that of before.
    fn len(&self, said: usize) -> usize {
        if self.0.is_null() {
            return 0;
        }
        #[cfg(not(target_os = "linux"))]
        return said;
        #[cfg(target_os = "linux")]
        // SAFETY: it is not null and of malloc, which frees it in the end, and so knows its size.
        unsafe {
            let _ = said;
            libc::malloc_usable_size(self.0)
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it is null or of malloc: ours, or what a plugin put in its place.
        unsafe { libc::free(self.0) };
    }
}
