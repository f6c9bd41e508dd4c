//! Loads a filter plugin (a shared library) and calls it. The crate's only module with `unsafe`.
//!
//! A plugin exports `H5PLget_plugin_type` (0 for a filter) and `H5PLget_plugin_info`, which returns an `H5Z_class2_t`
//! ([H5PLextern.h, H5Zdevelop.h](https://github.com/HDFGroup/hdf5/tree/develop/src)). Its callbacks `can_apply` and
//! `set_local` need libhdf5's objects and are never called; `filter` does not need them.

#![expect(unsafe_code, reason = "loads and calls foreign code; see each block")]

use libloading::Library as Handle;
use packhorse_core::{Error, Kind, Result};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

/// `H5Z_func_t`: flags, number of parameters, parameters, bytes of input, and size and address of the buffer, both
/// in and out.
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

/// Zeros appended to the file's parameters, since plugins read parameters without checking their number.
const SPARE: usize = 64;

/// A loaded filter plugin; dropping it unloads the library.
pub(super) struct Library {
    /// The registered number of its filter.
    pub(super) id: u16,
    call: Call,
    _handle: Handle,
}

impl Library {
    /// Loads the filter plugin in the file `path`; `None` if it is another kind of plugin.
    ///
    /// The error says why the file can't be loaded or is not a plugin.
    pub(super) fn load(path: &Path) -> Result<Option<Self>, String> {
        // SAFETY: loading runs the library's initializers. The user (`HDF5_PLUGIN_PATH`) or the administrator chose its
        // folder and vouches for its content, as for every program that uses libhdf5.
        let handle = unsafe { Handle::new(path) }.map_err(|e| e.to_string())?;
        // SAFETY: HDF5's plugin interface gives functions of these names these types.
        let class = unsafe {
            let kind =
                handle.get::<unsafe extern "C" fn() -> c_int>(c"H5PLget_plugin_type").map_err(|e| e.to_string())?;
            let info = handle
                .get::<unsafe extern "C" fn() -> *const Class>(c"H5PLget_plugin_info")
                .map_err(|e| e.to_string())?;
            if kind() != TYPE_FILTER {
                return Ok(None);
            }
            // The result lies in the library, which stays loaded while it is used; null becomes `None`.
            info().as_ref()
        };
        let Some(Class { version: CLASS_VERSION, id, filter: Some(call), .. }) = class else {
            return Err("its plugin interface has another version".to_owned());
        };
        let id = u16::try_from(*id).map_err(|_| format!("its filter number {id} is not valid"))?;
        Ok(Some(Self { id, call: *call, _handle: handle }))
    }

    /// Runs `input` through the filter, backwards if `reverse`, and returns the number of bytes of the result. The
    /// result is in `out` if it fits; otherwise `out` is unchanged.
    pub(super) fn run(&self, reverse: bool, parameters: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
        let failed = |what: &str| Error::content(format!("the plugin of filter {} {what}", self.id));
        let values: Vec<c_uint> = parameters.iter().copied().chain([0; SPARE]).collect();
        let mut block = MallocBuffer::of(input)?;
        let mut size = input.len();
        let flags = if reverse { REVERSE } else { 0 };
        // SAFETY: the types are those of `H5Z_func_t`; the parameters outlive the call; the buffer is from malloc and
        // has at least `size` bytes. The interface lets the plugin free it and replace it by another from malloc.
        let made = unsafe {
            (self.call)(flags, parameters.len(), values.as_ptr(), input.len(), &raw mut size, &raw mut block.0)
        };
        if made == 0 {
            return Err(failed(match reverse {
                true => "can't decode a chunk: the file is damaged, or a later version of the plugin wrote it",
                false => "can't compress a chunk",
            }));
        }
        if made > block.len(size) {
            return Err(failed("reports more bytes than its buffer has"));
        }
        if let Some(out) = out.get_mut(..made) {
            // SAFETY: `made` bytes are valid in the buffer, by the plugin's result and the check above. The buffer is
            // not null and belongs to this function, so it does not overlap `out`, which has `made` bytes.
            unsafe { std::ptr::copy_nonoverlapping(block.0.cast::<u8>(), out.as_mut_ptr(), made) };
        }
        Ok(made)
    }
}

/// Memory from malloc, or null.
struct MallocBuffer(*mut c_void);

impl MallocBuffer {
    fn of(bytes: &[u8]) -> Result<Self> {
        // SAFETY: malloc may be called with any size.
        let block = Self(unsafe { libc::malloc(bytes.len().max(1)) });
        if block.0.is_null() {
            let message = format!("not enough memory for a chunk of {} bytes", bytes.len());
            return Err(Error::new(Kind::Environment, message));
        }
        // SAFETY: the block is new, not null, and has that many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.0.cast::<u8>(), bytes.len()) };
        Ok(block)
    }
}

impl MallocBuffer {
    /// The usable bytes. `said` is the size that the plugin reports, which some (lz4) do not update.
    fn len(&self, said: usize) -> usize {
        if self.0.is_null() {
            return 0;
        }
        #[cfg(not(target_os = "linux"))]
        return said;
        #[cfg(target_os = "linux")]
        // SAFETY: it is not null and from malloc.
        unsafe {
            let _ = said;
            libc::malloc_usable_size(self.0)
        }
    }
}

impl Drop for MallocBuffer {
    fn drop(&mut self) {
        // SAFETY: it is null or from malloc: our own, or the plugin's replacement.
        unsafe { libc::free(self.0) };
    }
}
