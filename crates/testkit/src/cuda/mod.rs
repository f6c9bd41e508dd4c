//! A driver of NVIDIA GPUs for machines without one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// `libcuda.so` that does with threads what a GPU does, and ends the process where a GPU would read or write what it must not:
/// what it knows and is told by the environment stands at the head of its source. Beside it is a `libnvjpeg.so` of the same kind.
pub struct FakeDriver {
    folder: tempfile::TempDir,
}

impl FakeDriver {
    /// Compiles it; `None`, with a word why, where there is no C compiler.
    pub fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let built = build(folder.path(), "libcuda", include_str!("libcuda.c"))
            && build(folder.path(), "libnvjpeg", include_str!("libnvjpeg.c"));
        built.then_some(Self { folder })
    }

    /// `libnvjpeg.so`, which pretends to decode on its streams.
    pub fn nvjpeg(&self) -> PathBuf {
        self.folder.path().join("libnvjpeg.so")
    }

    /// Lets `command` find it before any other.
    pub fn drive(&self, command: &mut Command) {
        command.env("LD_LIBRARY_PATH", self.folder.path()).env("FAKE_CUDA_REPORT", self.report());
        command.env("PACKHORSE_NVJPEG", self.nvjpeg());
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report")
    }

    /// How often the processes that ended called `name`, and `left.pinned`, `left.device`, `left.contexts`, `left.nvjpeg`: what
    /// they did not give back. Then it is forgotten.
    pub fn calls(&self) -> Calls {
        let text = std::fs::read_to_string(self.report()).unwrap_or_default();
        let _ = std::fs::remove_file(self.report());
        Calls(
            text.lines()
                .filter_map(|line| line.rsplit_once(' '))
                .map(|(n, c)| (n.into(), c.parse().unwrap()))
                .collect(),
        )
    }
}

/// Compiles a library; `false`, with a word why, where there is no C compiler.
fn build(folder: &Path, name: &str, source: &str) -> bool {
    let file = folder.join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler)
        .args(["-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread", "-o"])
        .arg(folder.join(format!("{name}.so")))
        .arg(&file)
        .arg("-ldl")
        .output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(error) => {
            crate::external::skip(&format!("no C compiler ({error})"));
            false
        }
    }
}

/// Calls by name.
#[derive(Debug)]
pub struct Calls(Vec<(String, u64)>);

impl Calls {
    /// Of this name, all processes together.
    pub fn of(&self, name: &str) -> u64 {
        self.0.iter().filter(|(found, _)| found == name).map(|(_, calls)| calls).sum()
    }

    /// Whether any process said anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
