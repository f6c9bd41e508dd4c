//! A fake NVIDIA driver for machines without a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A `libcuda.so` that simulates a GPU with threads, and aborts the process on invalid memory accesses. The head of
/// its source documents what it supports and its environment variables. A fake `libnvjpeg.so` lies beside it.
pub struct FakeDriver {
    folder: tempfile::TempDir,
}

impl FakeDriver {
    /// Compiles the libraries; prints why and returns `None` without a C compiler.
    pub fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let built = build(folder.path(), "libcuda", include_str!("libcuda.c"))
            && build(folder.path(), "libnvjpeg", include_str!("libnvjpeg.c"));
        built.then_some(Self { folder })
    }

    /// The fake `libnvjpeg.so`, which pretends to decode on its streams.
    pub fn nvjpeg(&self) -> PathBuf {
        self.folder.path().join("libnvjpeg.so")
    }

    /// Makes `command` load the fake driver.
    pub fn drive(&self, command: &mut Command) {
        command.env("LD_LIBRARY_PATH", self.folder.path()).env("FAKE_CUDA_REPORT", self.report());
        command.env("PACKHORSE_NVJPEG", self.nvjpeg());
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report")
    }

    /// Calls by name in processes that have ended, and leaks as `left.pinned`, `left.device`, `left.contexts`,
    /// `left.nvjpeg`. Resets the counts.
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

/// Compiles a library; prints why and returns `false` without a C compiler.
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

/// Call counts by name.
#[derive(Debug)]
pub struct Calls(Vec<(String, u64)>);

impl Calls {
    /// Calls of `name` in all processes.
    pub fn of(&self, name: &str) -> u64 {
        self.0.iter().filter(|(found, _)| found == name).map(|(_, calls)| calls).sum()
    }

    /// Whether no process reported anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
