//! Kernels on the host: the same sources, compiled by the system's C++ compiler, run thread by thread.
#![expect(unsafe_code, reason = "a library that was compiled a moment ago is loaded and called")]

use super::Runner;
use super::edge::Edge;
use libloading::Library;
use packhorse_gpu::kernels::{Launch, Module};
use std::ffi::{OsString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A text in a source, and what to put there instead, for tests of the tests.
pub(crate) type Change<'c> = (Module, &'c str, &'c str);

type Kernel = unsafe extern "C" fn(*const c_void, usize, *const u32, *const u32) -> usize;

/// Compiled modules, and the memory that their kernels work on.
pub(crate) struct Host {
    modules: Vec<Option<Library>>,
    blocks: Vec<Edge>,
}

/// The libraries of all modules; `None`, with a word why, where there is no C++ compiler. They are kept for the next run, until
/// a source changes.
pub(crate) fn libraries() -> Option<Vec<PathBuf>> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kernels-{:016x}", digest()));
        if kept.is_dir() {
            return Some(kept);
        }
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let all = Module::ALL.into_iter().all(|module| build(module, folder.path(), None));
        // Whoever came first, what is there is the same.
        let named = all && (std::fs::rename(folder.path(), &kept).is_ok() || kept.is_dir());
        named.then_some(kept)
    });
    folder.as_ref().map(|folder| Module::ALL.iter().map(|module| library(*module, folder)).collect())
}

/// Of all that libraries are made from.
fn digest() -> u64 {
    let own = [include_str!("host.h").to_owned(), include_str!("host.rs").to_owned(), format!("{:?}", compiler())];
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let mut files: Vec<_> = std::fs::read_dir(kernels).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let sources = files.iter().filter(|path| path.extension().is_some_and(|end| end == "cu" || end == "cuh"));
    let texts = own.into_iter().chain(sources.map(|path| std::fs::read_to_string(path).unwrap()));
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    texts.fold(0xcbf2_9ce4_8422_2325, |so_far, text| text.bytes().chain([0]).fold(so_far, hash))
}

fn compiler() -> OsString {
    std::env::var_os("CXX").unwrap_or_else(|| "c++".into())
}

impl Host {
    /// The kernels as they are; `None`, with a word why, where there is no C++ compiler.
    pub(crate) fn new() -> Option<Self> {
        let modules = libraries()?.iter().map(|library| Some(load(library))).collect();
        Some(Self { modules, blocks: Vec::new() })
    }

    /// The kernels with a fault planted: only the module that it is in.
    pub(crate) fn planted(change: Change<'_>) -> Option<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        if !build(change.0, folder.path(), Some(change)) {
            return None;
        }
        let of = |module: &Module| (*module == change.0).then(|| load(&library(*module, folder.path())));
        Some(Self { modules: Module::ALL.iter().map(of).collect(), blocks: Vec::new() })
    }
}

fn library(module: Module, folder: &Path) -> PathBuf {
    folder.join(format!("{}.so", module.name()))
}

fn load(library: &Path) -> Library {
    // SAFETY: the library is ours, and its loading runs no code.
    unsafe { Library::new(library) }.unwrap()
}

/// Compiles a module. Undefined behaviour (misaligned access among it) is trapped, products are not fused with sums.
fn build(module: Module, folder: &Path, change: Option<Change<'_>>) -> bool {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let mut source = std::fs::read_to_string(kernels.join(format!("{}.cu", module.name()))).unwrap();
    if let Some((_, from, to)) = change {
        assert!(source.contains(from), "{} has no {from}", module.name());
        source = source.replace(from, to);
    }
    let file = folder.join(format!("{}.cu", module.name()));
    std::fs::write(&file, source).unwrap();
    let output = Command::new(compiler())
        .args(["-x", "c++", "-std=c++14", if change.is_some() { "-O0" } else { "-O1" }, "-w"])
        .args(["-shared", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-DPACKHORSE_HOST"])
        .args(["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"])
        .arg(format!("-I{}/tests/common", env!("CARGO_MANIFEST_DIR")))
        .arg(format!("-I{}", kernels.display()))
        .arg(&file)
        .arg("-o")
        .arg(library(module, folder))
        .output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) => {
            println!("skipped: no C++ compiler ({error})");
            false
        }
    }
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
        // SAFETY: all addresses come from `alloc` and `edge`, with room for so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) }
    }

    fn read(&mut self, address: u64, bytes: usize) -> Vec<u8> {
        // SAFETY: all addresses come from `alloc` and `edge`, with room for so many bytes, which are numbers from the start.
        unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }.to_vec()
    }

    fn launch(&mut self, launch: &Launch) {
        let module = self.modules[launch.module as usize].as_ref().unwrap();
        let args = launch.args.bytes();
        // SAFETY: all kernels have this signature, and do nothing if their parameter is of another size. That they stay
        // within their memory is what is tested.
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
