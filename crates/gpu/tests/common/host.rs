//! Kernels on the host: the same sources, compiled by the system's C++ compiler and run thread by thread.
#![expect(unsafe_code, reason = "a freshly compiled library is loaded and called")]

use super::Runner;
pub(crate) use super::compiled::{Change, libraries};
use super::compiled::{build, library};
use super::edge::Edge;
use libloading::Library;
use packhorse_gpu::kernels::{Launch, Module};
use std::ffi::c_void;
use std::path::Path;

type Kernel = unsafe extern "C" fn(*const c_void, usize, *const u32, *const u32) -> usize;

/// Compiled modules, and the memory of their kernels.
pub(crate) struct Host {
    modules: Vec<Option<Library>>,
    blocks: Vec<Edge>,
}

impl Host {
    /// The unchanged kernels; `None`, with a message, without a C++ compiler.
    pub(crate) fn new() -> Option<Self> {
        let modules = libraries()?.iter().map(|library| Some(load(library))).collect();
        Some(Self { modules, blocks: Vec::new() })
    }

    /// The kernels with a planted fault: only the module that contains it.
    pub(crate) fn planted(change: Change<'_>) -> Option<Self> {
        libraries()?;
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        if !build(change.0, folder.path(), Some(change)) {
            return None;
        }
        let of = |module: &Module| (*module == change.0).then(|| load(&library(*module, folder.path())));
        Some(Self { modules: Module::ALL.iter().map(of).collect(), blocks: Vec::new() })
    }
}

fn load(library: &Path) -> Library {
    // SAFETY: the library is built from the kernels, and loading it runs no code.
    unsafe { Library::new(library) }.unwrap()
}

impl Runner for Host {
    fn alloc(&mut self, bytes: usize) -> u64 {
        self.blocks.push(Edge::new(bytes));
        self.blocks.last().unwrap().first()
    }

    fn edge(&mut self, bytes: usize) -> Option<u64> {
        self.blocks.push(Edge::new(bytes));
        Some(self.blocks.last().unwrap().last(bytes))
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        // SAFETY: all addresses come from `alloc` and `edge`, with space for these bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) }
    }

    fn read(&mut self, address: u64, bytes: usize) -> Vec<u8> {
        // SAFETY: all addresses come from `alloc` and `edge`, with space for these bytes, which are initialised.
        unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec()
    }

    fn launch(&mut self, launch: &Launch) {
        let module = self.modules[launch.module as usize].as_ref().unwrap();
        let args = launch.args.bytes();
        // SAFETY: all kernels have this signature, and do nothing if their parameter is of another size. The tests
        // check that they stay within their memory.
        let size = unsafe {
            let kernel = module.get::<Kernel>(launch.entry).unwrap();
            kernel(launch.args.as_ptr(), args.len(), launch.grid.as_ptr(), launch.block.as_ptr())
        };
        assert_eq!(size, args.len(), "the parameter of {}", launch.entry);
    }

    fn free(&mut self) {
        self.blocks.clear();
    }
}
