//! A kernel launch: kernel, grid and parameters. Owns the encoding of parameters.

use packhorse_core::{Error, Result};
use std::ffi::c_void;

/// Threads per block, as in `__launch_bounds__`.
const THREADS: u32 = 256;

/// Threads that run together.
const WARP: u32 = 32;

/// Groups of neighbours per thread.
const GROUPS: u64 = 4;

/// The arguments of `cuLaunchKernel`, except for the stream. Kernels use no dynamic shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The module of the kernel.
    pub module: Module,
    /// The name of the kernel in it.
    pub entry: &'static str,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads per block in x, y, z.
    pub block: [u32; 3],
    /// Its one parameter, a struct.
    pub args: Args,
}

impl Launch {
    /// One thread per item, or fewer that process several each.
    pub(super) fn flat(module: Module, entry: &'static str, items: u64, args: Args) -> Result<Self> {
        Self::rows(module, entry, items, 1, args)
    }

    /// A few groups of four neighbours of each picture per thread: what it computes for a picture first is worth it then.
    pub(super) fn pictures(
        module: Module,
        entry: &'static str,
        (height, width): (u32, u32),
        rows: u32,
        args: Args,
    ) -> Result<Self> {
        let groups = u64::from(width.div_ceil(4)) * u64::from(height);
        Self::rows(module, entry, groups.div_ceil(GROUPS), rows, args)
    }

    /// One thread per item of each row, or fewer that process several each.
    pub(super) fn rows(module: Module, entry: &'static str, items: u64, rows: u32, args: Args) -> Result<Self> {
        if items == 0 || rows == 0 {
            return Err(Error::config(format!("{entry} has nothing to do: launch it for one row at least")));
        }
        let blocks = items.div_ceil(THREADS.into()).min(1 << 20);
        let grid = [u32::try_from(blocks).unwrap_or(1 << 20), rows.min(65_535), 1];
        // Short rows leave no warps without work.
        let threads = u32::try_from(items).map_or(THREADS, |items| items.min(THREADS).next_multiple_of(WARP));
        Ok(Self { module, entry, grid, block: [threads, 1, 1], args })
    }
}

/// A PTX file with kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Module {
    /// Pictures of one size.
    Image,
    /// Pictures of any size.
    Resize,
    /// Bits, ragged rows, and pieces of memory.
    Ragged,
    /// Rows of tokens.
    Tokens,
    /// Synthetic samples.
    Synthetic,
    /// Checksums and busy waiting.
    Check,
    /// Pictures with random colours.
    Augment,
}

impl Module {
    /// All modules, each at the index `module as usize`.
    pub const ALL: [Module; 7] = [
        Module::Image,
        Module::Resize,
        Module::Ragged,
        Module::Tokens,
        Module::Synthetic,
        Module::Check,
        Module::Augment,
    ];

    /// The name of its file, without `.ptx`.
    pub fn name(self) -> &'static str {
        match self {
            Module::Image => "image",
            Module::Resize => "resize",
            Module::Ragged => "ragged",
            Module::Tokens => "tokens",
            Module::Synthetic => "synthetic",
            Module::Check => "check",
            Module::Augment => "augment",
        }
    }

    /// The PTX; `cuModuleLoadData` needs it with a terminating zero.
    pub fn ptx(self) -> &'static str {
        match self {
            Module::Image => include_str!("../../kernels/image.ptx"),
            Module::Resize => include_str!("../../kernels/resize.ptx"),
            Module::Ragged => include_str!("../../kernels/ragged.ptx"),
            Module::Tokens => include_str!("../../kernels/tokens.ptx"),
            Module::Synthetic => include_str!("../../kernels/synthetic.ptx"),
            Module::Check => include_str!("../../kernels/check.ptx"),
            Module::Augment => include_str!("../../kernels/augment.ptx"),
        }
    }
}

/// The bytes of a kernel's parameter: a C struct, each member at a multiple of its size.
#[derive(Clone, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Args {
    bytes: [u8; Args::MOST],
    len: usize,
}

impl Args {
    /// The maximum size of a parameter.
    const MOST: usize = 400;

    pub(super) fn new() -> Self {
        Self { bytes: [0; Self::MOST], len: 0 }
    }

    /// The bytes, aligned to eight.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Their address: the only element of `kernelParams`.
    pub fn as_ptr(&self) -> *const c_void {
        self.bytes.as_ptr().cast()
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        let start = self.len.next_multiple_of(bytes.len().max(1));
        let end = start + bytes.len();
        if let Some(place) = self.bytes.get_mut(start..end) {
            place.copy_from_slice(bytes);
        }
        self.len = end;
        self
    }

    pub(super) fn u64(self, value: u64) -> Self {
        self.put(&value.to_ne_bytes())
    }

    pub(super) fn i64(self, value: i64) -> Self {
        self.put(&value.to_ne_bytes())
    }

    pub(super) fn u32(self, value: u32) -> Self {
        self.put(&value.to_ne_bytes())
    }

    pub(super) fn f32(self, value: f32) -> Self {
        self.put(&value.to_ne_bytes())
    }

    pub(super) fn f64(self, value: f64) -> Self {
        self.put(&value.to_ne_bytes())
    }

    /// Appends 1 if set, else 0.
    pub(super) fn flag(self, yes: bool) -> Self {
        self.u32(yes.into())
    }

    /// Checks that the parameter has `size` bytes, as the kernel's source asserts.
    pub(super) fn finish(mut self, size: usize) -> Result<Self> {
        self.len = self.len.next_multiple_of(8);
        if self.len != size || size > Self::MOST {
            return Err(Error::bug(format!("a kernel's parameter of {} bytes, not {size}", self.len)));
        }
        Ok(self)
    }
}

impl std::fmt::Debug for Args {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Args").field(&self.bytes()).finish()
    }
}

/// `address`, which must not be 0 and must be aligned to `align`.
pub(super) fn address(of: &str, address: u64, align: usize) -> Result<u64> {
    if address == 0 {
        return Err(Error::config(format!("{of} has no address on the device: reserve memory for it")));
    }
    optional(of, address, align)
}

/// `address`, which may be 0 and must be aligned to `align`.
pub(super) fn optional(of: &str, address: u64, align: usize) -> Result<u64> {
    if !address.is_multiple_of(align as u64) {
        return Err(Error::config(format!("{of} is at {address:#x}: put it at a multiple of {align} bytes")));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    #[test]
    fn members_lie_as_in_c() {
        let args = Args::new().u32(1).u64(2).f32(1.0).flag(true).u32(3).finish(32).unwrap();
        let numbers: Vec<u32> = args.bytes().as_chunks().0.iter().map(|four| u32::from_ne_bytes(*four)).collect();
        assert_eq!(numbers, [1, 0, 2, 0, 0x3f80_0000, 1, 3, 0]);
        assert_eq!(args.as_ptr() as usize % 8, 0);
        assert_eq!(Args::new().u32(1).finish(16).unwrap_err().kind(), Kind::Bug);
        assert_eq!((0..51).fold(Args::new(), |args, n| args.u64(n)).finish(408).unwrap_err().kind(), Kind::Bug);
    }

    #[test]
    fn grids_stay_within_what_devices_take() {
        let of = |items, rows| Launch::rows(Module::Check, "fold", items, rows, Args::new()).map(|launch| launch.grid);
        assert_eq!(of(257, 3).unwrap(), [2, 3, 1]);
        let threads = |items| Launch::rows(Module::Check, "fold", items, 1, Args::new()).map(|launch| launch.block[0]);
        assert_eq!([1, 33, 250, 256, 300, u64::MAX].map(|items| threads(items).unwrap()), [32, 64, 256, 256, 256, 256]);
        assert_eq!(of(u64::MAX, u32::MAX).unwrap(), [1 << 20, 65_535, 1]);
        assert_eq!((of(0, 1).unwrap_err().kind(), of(1, 0).unwrap_err().kind()), (Kind::Config, Kind::Config));
    }

    #[test]
    fn modules_are_at_their_places() {
        for (place, module) in Module::ALL.into_iter().enumerate() {
            assert_eq!(module as usize, place);
            assert!(module.ptx().contains(".version 8.0"), "{}", module.name());
        }
    }
}
