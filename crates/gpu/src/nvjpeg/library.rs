//! The loaded library.

use super::calls::Calls;
use super::engine::version;
use packhorse_core::Result;
use std::path::Path;
use std::sync::Arc;

/// nvJPEG. Clones share it; it stays loaded until the process ends.
#[derive(Clone)]
pub struct NvJpeg {
    pub(super) calls: Arc<Calls>,
}

impl NvJpeg {
    /// The library at `path`; else the one that `PACKHORSE_NVJPEG` names; else `libnvjpeg.so.12`, `libnvjpeg.so.13` or
    /// `libnvjpeg.so` as found by the system. Needs no GPU.
    ///
    /// Errors: no library, or one that lacks a function (kind `Unsupported`; the message names the package to install).
    pub fn load(path: Option<&Path>) -> Result<Self> {
        Ok(Self { calls: Arc::new(Calls::load(path)?) })
    }

    /// Its version: major, minor and patch level; `None` if unknown.
    pub fn version(&self) -> Option<[i32; 3]> {
        version(&self.calls)
    }
}

impl std::fmt::Debug for NvJpeg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NvJpeg").field("version", &self.version()).finish()
    }
}
