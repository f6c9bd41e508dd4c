//! The library, loaded.

use super::calls::Calls;
use super::engine::version;
use packhorse_core::Result;
use std::path::Path;
use std::sync::Arc;

/// nvJPEG. Clones are the same one; it stays loaded until the process ends.
#[derive(Clone)]
pub struct NvJpeg {
    pub(super) calls: Arc<Calls>,
}

impl NvJpeg {
    /// The library at `path`; without one that which `PACKHORSE_NVJPEG` names; else `libnvjpeg.so.12`, `.13` or without a number,
    /// wherever the system finds it. A GPU is not needed for that.
    ///
    /// Errors: no library, or one that lacks a function (kind `Unsupported`, says what to install).
    pub fn load(path: Option<&Path>) -> Result<Self> {
        Ok(Self { calls: Arc::new(Calls::load(path)?) })
    }

    /// Its version, major, minor and patch level; `None` if it does not say.
    pub fn version(&self) -> Option<[i32; 3]> {
        version(&self.calls)
    }
}

impl std::fmt::Debug for NvJpeg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NvJpeg").field("version", &self.version()).finish()
    }
}
