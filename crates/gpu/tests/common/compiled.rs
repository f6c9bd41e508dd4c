//! Compiles kernels for the host by the system's C++ compiler: one library per module.

use packhorse_gpu::kernels::Module;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A text in a source and its replacement, for planted faults.
pub(crate) type Change<'c> = (Module, &'c str, &'c str);

/// The libraries of all modules; `None`, with a message, without a C++ compiler. They are kept for the next run until a
/// source changes.
pub(crate) fn libraries() -> Option<Vec<PathBuf>> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        // A program built elsewhere may run without the sources or that folder.
        if !home().join("kernels").is_dir() || !Path::new(env!("CARGO_TARGET_TMPDIR")).is_dir() {
            packhorse_testkit::external::skip("the sources of the kernels are not here");
            return None;
        }
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kernels-{:016x}", digest()));
        if kept.is_dir() {
            return Some(kept);
        }
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let all = Module::ALL.into_iter().all(|module| build(module, folder.path(), None));
        // A concurrent run may have put the same libraries there.
        let named = all && (std::fs::rename(folder.path(), &kept).is_ok() || kept.is_dir());
        named.then_some(kept)
    });
    folder.as_ref().map(|folder| Module::ALL.iter().map(|module| library(*module, folder)).collect())
}

/// A digest of all inputs of the libraries.
fn digest() -> u64 {
    let own = [include_str!("host.h").to_owned(), include_str!("compiled.rs").to_owned(), format!("{:?}", compiler())];
    let kernels = home().join("kernels");
    let mut files: Vec<_> = std::fs::read_dir(kernels).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let sources = files.iter().filter(|path| path.extension().is_some_and(|end| end == "cu" || end == "cuh"));
    let texts = own.into_iter().chain(sources.map(|path| std::fs::read_to_string(path).unwrap()));
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    texts.fold(0xcbf2_9ce4_8422_2325, |so_far, text| text.bytes().chain([0]).fold(so_far, hash))
}

/// The folder of the crate, for its own tests and those of the workspace.
fn home() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    if own.join("kernels").is_dir() { own.to_owned() } else { own.join("crates/gpu") }
}

fn compiler() -> OsString {
    std::env::var_os("CXX").unwrap_or_else(|| "c++".into())
}

pub(crate) fn library(module: Module, folder: &Path) -> PathBuf {
    folder.join(format!("{}.so", module.name()))
}

/// Compiles a module. Undefined behaviour (misaligned access among it) is trapped, products are not fused with sums.
pub(crate) fn build(module: Module, folder: &Path, change: Option<Change<'_>>) -> bool {
    let kernels = home().join("kernels");
    let file = folder.join(format!("{}.cu", module.name()));
    std::fs::copy(kernels.join(format!("{}.cu", module.name())), &file).unwrap();
    if let Some((_, from, to)) = change {
        // In the source or in one of its headers, which are all here: a header includes those beside it.
        let headers = ["common.cuh", "crop.cuh", "pixels.cuh"].map(str::to_owned);
        for header in &headers {
            std::fs::copy(kernels.join(header), folder.join(header)).unwrap();
        }
        let names: Vec<String> = [format!("{}.cu", module.name())].into_iter().chain(headers).collect();
        let text = |name: &String| std::fs::read_to_string(kernels.join(name)).unwrap();
        let name = names.iter().find(|name| text(name).contains(from));
        assert!(name.is_some(), "{} has no {from}", module.name());
        let name = name.unwrap();
        std::fs::write(folder.join(name), text(name).replace(from, to)).unwrap();
    }
    let output = Command::new(compiler())
        .args(["-x", "c++", "-std=c++14", if change.is_some() { "-O0" } else { "-O1" }, "-w"])
        .args(["-shared", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-DPACKHORSE_HOST"])
        .args(["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"])
        .arg(format!("-I{}/tests/common", home().display()))
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
            packhorse_testkit::external::skip(&format!("no C++ compiler ({error})"));
            false
        }
    }
}
