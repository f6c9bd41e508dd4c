//! Converts errors of the driver.

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::CUresult;
use packhorse_core::{Code, Error, Kind, Result};

/// Adds the failed operation to an error.
pub(super) trait CudaResultExt<T> {
    fn context(self, what: &str) -> Result<T>;
}

impl<T> CudaResultExt<T> for std::result::Result<T, DriverError> {
    fn context(self, what: &str) -> Result<T> {
        self.map_err(|error| {
            let name = name(error);
            match error.0 {
                CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                    let advice = "drop batches earlier, make them smaller, or take fewer ahead";
                    Error::new(Kind::Environment, format!("{what}: memory is used up ({name}): {advice}"))
                }
                _ => Error::new(Kind::Environment, format!("{what}: {name}")).with_code(Code::GpuFailed),
            }
        })
    }
}

/// The name and the description of an error.
pub(super) fn name(error: DriverError) -> String {
    let text = |text: std::result::Result<&std::ffi::CStr, DriverError>| {
        text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
    };
    format!("{}, {}", text(error.error_name()), text(error.error_string()))
}
