//! Finds the library and its functions.
//!
//! Signatures and layouts are those of `nvjpeg.h` in CUDA 12 and 13, which agree in everything used here.

use packhorse_core::{Error, Kind, Result};
use std::ffi::{OsString, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;

/// Default names of the library. If the process has loaded one, that is used. The older one comes first, because it
/// also works with older drivers.
const NAMES: [&str; 3] = ["libnvjpeg.so.12", "libnvjpeg.so.13", "libnvjpeg.so"];

/// The environment variable with the path of the library.
const VARIABLE: &str = "PACKHORSE_NVJPEG";

/// `nvjpegStatus_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Status(pub(super) c_int);

impl Status {
    pub(super) const SUCCESS: Self = Self(0);
    pub(super) const ALLOCATOR_FAILURE: Self = Self(5);

    pub(super) fn name(self) -> &'static str {
        match self.0 {
            0 => "NVJPEG_STATUS_SUCCESS",
            1 => "NVJPEG_STATUS_NOT_INITIALIZED",
            2 => "NVJPEG_STATUS_INVALID_PARAMETER",
            3 => "NVJPEG_STATUS_BAD_JPEG",
            4 => "NVJPEG_STATUS_JPEG_NOT_SUPPORTED",
            5 => "NVJPEG_STATUS_ALLOCATOR_FAILURE",
            6 => "NVJPEG_STATUS_EXECUTION_FAILED",
            7 => "NVJPEG_STATUS_ARCH_MISMATCH",
            8 => "NVJPEG_STATUS_INTERNAL_ERROR",
            9 => "NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED",
            10 => "NVJPEG_STATUS_INCOMPLETE_BITSTREAM",
            _ => "a status that nvjpeg.h does not know",
        }
    }

    /// Whether another backend must decode the batch; an error if that can't help.
    pub(super) fn fails(self) -> Result<bool> {
        match self {
            Self::ALLOCATOR_FAILURE => self.context("decode JPEGs").map(|()| true),
            status => Ok(status != Self::SUCCESS),
        }
    }

    /// An error unless the status is success.
    pub(super) fn context(self, what: &str) -> Result<()> {
        match self {
            Self::SUCCESS => Ok(()),
            Self::ALLOCATOR_FAILURE => {
                let advice = "drop batches earlier, make them smaller, or lower `JpegOptions::memory`";
                Err(Error::new(Kind::Environment, format!("{what}: memory is used up ({}): {advice}", self.name())))
            }
            _ => Err(Error::new(Kind::Environment, format!("{what}: {} ({})", self.name(), self.0))),
        }
    }
}

/// `nvjpegImage_t`: the address and pitch of each channel of a picture. An interleaved picture uses the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct NvjpegImage {
    pub(super) channel: [usize; 4],
    pub(super) pitch: [usize; 4],
}

/// `NVJPEG_OUTPUT_RGBI`.
pub(super) const RGB_INTERLEAVED: c_int = 5;

/// An opaque handle of the library.
pub(super) type Handle = *mut c_void;

macro_rules! calls {
    ($($name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The functions of the library.
        pub(super) struct Calls {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Status,)*
            /// Never unloaded: it contains a CUDA runtime, which lives as long as the process.
            _library: ManuallyDrop<libloading::Library>,
        }

        impl Calls {
            fn of(library: libloading::Library) -> Result<Self> {
                let library = ManuallyDrop::new(library);
                Ok(Self {
                    $($name: {
                        // SAFETY: nvjpeg.h declares this function with this type.
                        let found = unsafe { library.get::<unsafe extern "C" fn($($argument),*) -> Status>($symbol) };
                        *found.map_err(|_| missing(format!("it has no {}", $symbol)))?
                    },)*
                    _library: library,
                })
            }
        }
    };
}

calls! {
    property = "nvjpegGetProperty" (c_int, *mut c_int);
    create = "nvjpegCreateEx" (c_int, *mut c_void, *mut c_void, c_uint, *mut Handle);
    destroy = "nvjpegDestroy" (Handle);
    state_create = "nvjpegJpegStateCreate" (Handle, *mut Handle);
    state_destroy = "nvjpegJpegStateDestroy" (Handle);
    stream_create = "nvjpegJpegStreamCreate" (Handle, *mut Handle);
    stream_destroy = "nvjpegJpegStreamDestroy" (Handle);
    stream_parse = "nvjpegJpegStreamParse" (Handle, *const u8, usize, c_int, c_int, Handle);
    stream_size = "nvjpegJpegStreamGetFrameDimensions" (Handle, *mut c_uint, *mut c_uint);
    supported = "nvjpegDecodeBatchedSupported" (Handle, Handle, *mut c_int);
    initialize = "nvjpegDecodeBatchedInitialize" (Handle, Handle, c_int, c_int, c_int);
    preallocate = "nvjpegDecodeBatchedPreAllocate" (Handle, Handle, c_int, c_int, c_int, c_int, c_int);
    decode = "nvjpegDecodeBatched" (Handle, Handle, *const *const u8, *const usize, *mut NvjpegImage, *mut c_void);
}

impl Calls {
    /// The library at `path`; else at the path in the environment; else as found by the system.
    pub(super) fn load(path: Option<&Path>) -> Result<Self> {
        let named = path.map(|path| path.as_os_str().to_owned()).or_else(|| std::env::var_os(VARIABLE));
        let names: Vec<OsString> = named.map_or_else(|| NAMES.iter().map(OsString::from).collect(), |name| vec![name]);
        let mut why = String::new();
        for name in names {
            // SAFETY: loading the library runs its initializers, as intended.
            match unsafe { libloading::Library::new(&name) } {
                Ok(library) => return Self::of(library),
                Err(error) => why = error.to_string(),
            }
        }
        Err(missing(why))
    }
}

/// The error of a machine without the library.
fn missing(why: impl std::fmt::Display) -> Error {
    let advice = "install nvidia-nvjpeg-cu12 (pip) or CUDA's libnvjpeg";
    let where_it_is = format!("say where libnvjpeg.so.12 is ({VARIABLE}=/…/nvidia/nvjpeg/lib/libnvjpeg.so.12)");
    Error::unsupported(format!("JPEGs can't be decoded on the GPU, without nvJPEG: {why}; {advice}, and {where_it_is}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_lie_as_in_the_header() {
        assert_eq!((size_of::<NvjpegImage>(), align_of::<NvjpegImage>()), (64, 8));
        assert_eq!(std::mem::offset_of!(NvjpegImage, pitch), 32);
        assert_eq!(size_of::<Status>(), 4);
    }

    #[test]
    fn a_library_that_is_not_there_or_not_nvjpeg_is_told() {
        for name in ["/nowhere/libnvjpeg.so", "libc.so.6"] {
            let error = Calls::load(Some(Path::new(name))).err().unwrap();
            assert_eq!(error.kind(), Kind::Unsupported);
            assert!(error.message().contains("nvidia-nvjpeg-cu12"), "{error}");
        }
    }
}
