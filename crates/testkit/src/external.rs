//! What some tests need from outside the repository. Owns where they find it, and the list of tests that were skipped.
#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use std::io::Write;
use std::path::PathBuf;

/// A Python with the packages of `tests/interop/requirements.txt`: `PACKHORSE_PYTHON`.
pub fn python() -> Option<PathBuf> {
    path("PACKHORSE_PYTHON")
}

/// The folder with real inputs: `PACKHORSE_TEST_DATA`.
pub fn data() -> Option<PathBuf> {
    path("PACKHORSE_TEST_DATA")
}

/// The folder with the scripts that start and stop a Slurm on this machine: `PACKHORSE_SLURM`.
pub fn slurm() -> Option<PathBuf> {
    path("PACKHORSE_SLURM")
}

/// The program `azurite-blob`, a server of Azure Blob Storage for tests: `PACKHORSE_AZURITE`.
pub fn azurite() -> Option<PathBuf> {
    path("PACKHORSE_AZURITE")
}

/// A Chromium, for `tests/interop/page.js`, which finds its packages by `NODE_PATH`: `PACKHORSE_CHROMIUM`.
pub fn chromium() -> Option<PathBuf> {
    path("PACKHORSE_CHROMIUM")
}

/// The path in the environment variable `name`; the running test is skipped where it is unset or empty.
fn path(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(name).filter(|path| !path.is_empty());
    if found.is_none() {
        skip(&format!("{name} is not set"));
    }
    found.map(PathBuf::from)
}

/// Says how many times the running test did something, such as `kills`: on standard output, and as a line of the file that
/// `PACKHORSE_COUNTS` names.
pub fn count(n: impl std::fmt::Display, what: &str) {
    println!("{n} {what}");
    note("PACKHORSE_COUNTS", &format!("{n} {what}\n"));
}

/// Says that the running test is skipped, and why: on standard output, and as a line of the file that
/// `PACKHORSE_SKIPPED` names.
pub fn skip(why: &str) {
    println!("skipped: {why}");
    let thread = std::thread::current();
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    note("PACKHORSE_SKIPPED", &format!("{package} {}: {why}\n", thread.name().unwrap_or("main")));
}

/// Adds a line to the file that the environment variable `name` has, if it is set.
fn note(name: &str, line: &str) {
    let Some(list) = std::env::var_os(name) else { return };
    // One write a line, since tests run side by side.
    std::fs::File::options().append(true).create(true).open(list).unwrap().write_all(line.as_bytes()).unwrap();
}
