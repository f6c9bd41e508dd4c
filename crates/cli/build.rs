//! Names the commit that the program is built from, for `packhorse --version`.
//!
//! Without git, and where this crate is not a file of a repository (a release from a registry), there is none.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let release = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = commit().map(|commit| format!(" ({commit})")).unwrap_or_default();
    println!("cargo::rustc-env=PACKHORSE_RELEASE={release}{commit}");
}

fn commit() -> Option<String> {
    // The crate's folder may lie in a repository of something else, which does not track it.
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    watch().iter().for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
    Some(commit)
}

/// The files that change with the commit. A file that does not exist would run this program at each build.
fn watch() -> Vec<PathBuf> {
    // Where there is a log, each change of HEAD is a line of it.
    let log = existing("logs/HEAD");
    if !log.is_empty() {
        return log;
    }
    let branch = git(&["symbolic-ref", "-q", "HEAD"]).unwrap_or_default();
    ["HEAD", &branch, "packed-refs"].into_iter().filter(|name| !name.is_empty()).flat_map(existing).collect()
}

/// The file of the repository with this name, if it exists.
fn existing(name: &str) -> Vec<PathBuf> {
    let path = git(&["rev-parse", "--git-path", name]).map(|path| folder().join(path));
    path.into_iter().filter(|path| path.is_file()).collect()
}

fn folder() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| Path::new(".").to_owned(), PathBuf::from)
}

/// A line that git prints; `None` if it fails or prints nothing.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).current_dir(folder()).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}
