//! Files and tars for tests that plan and pack them.

use packhorse_testkit::hostile::tar::TarMember;
use std::path::Path;

/// Writes a file, and the folders above it.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// A tar whose members hold their names.
pub(crate) fn tar(names: &[&str]) -> Vec<u8> {
    let mut bytes: Vec<u8> = names.iter().flat_map(|name| TarMember::file(*name, *name).encode()).collect();
    bytes.extend([0; 1024]);
    bytes
}
