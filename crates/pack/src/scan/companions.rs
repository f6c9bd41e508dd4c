//! Companion files, which belong to another file beside them: the `.bin` of an `.idx`.

use packhorse_core::Registry;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Removes the companions of other files from `names`, all file names of a folder, and returns them.
pub(crate) fn take(registry: &Registry, names: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let mains = |name: &Path| registry.mains(name.as_os_str().as_bytes()).collect::<Vec<_>>();
    // Fast path: a folder may have a million files.
    if names.iter().all(|name| mains(name).is_empty()) {
        return Vec::new();
    }
    let all: BTreeSet<Vec<u8>> = names.iter().map(|name| name.as_os_str().as_bytes().to_vec()).collect();
    names.extract_if(.., |name| mains(name).iter().any(|main| all.contains(main))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Format, FormatInfo};

    struct Pairs;

    impl Format for Pairs {
        fn info(&self) -> &'static FormatInfo {
            static INFO: FormatInfo = FormatInfo { id: "pairs", revision: 1, extensions: &["idx"], fields: &[] };
            &INFO
        }

        fn companions(&self) -> &'static [(&'static str, &'static str)] {
            &[("idx", "bin"), ("tar", "idx")]
        }
    }

    #[test]
    fn companions_are_removed_if_their_main_file_exists() {
        let registry = Registry::new().with(Pairs);
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let mut names = paths(&["a.bin", "a.idx", "b.bin", "c.idx", "c.tar", "d.jpg"]);
        assert_eq!(take(&registry, &mut names), paths(&["a.bin", "c.idx"]));
        assert_eq!(names, paths(&["a.idx", "b.bin", "c.tar", "d.jpg"]));
        assert_eq!(take(&Registry::new(), &mut names), paths(&[]));
    }
}
