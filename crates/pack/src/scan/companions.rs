//! Companion files, which belong to another file beside them (the `.bin` of an `.idx`) or describe the files of a folder.

use packhorse_core::{Error, Registry};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Removes the companions of other files from `names`, all file names of a folder, and returns them.
pub(crate) fn take(registry: &Registry, names: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let mains = |name: &Path| registry.mains(name.as_os_str().as_bytes()).collect::<Vec<_>>();
    let mut described = described(registry, names);
    described.extend(of_img2dataset(names));
    // Fast path: a folder may have a million files.
    if described.is_empty() && names.iter().all(|name| mains(name).is_empty()) {
        return Vec::new();
    }
    let all: BTreeSet<Vec<u8>> = names.iter().map(|name| name.as_os_str().as_bytes().to_vec()).collect();
    let belongs = |name: &Path| described.contains(name) || mains(name).iter().any(|main| all.contains(main));
    names.extract_if(.., |name| belongs(name)).collect()
}

/// The files of a folder that describe the others, and those that do not belong to what these describe: beside a file of their format, or
/// among folders alone.
fn described(registry: &Registry, names: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for format in registry.iter() {
        let files = format.folder_files();
        let there: Vec<&'static str> =
            files.iter().copied().filter(|file| names.iter().any(|name| name == Path::new(file))).collect();
        let others = || names.iter().filter(|name| !files.iter().any(|file| *name == Path::new(file)));
        let takes = |name: &PathBuf| {
            let extension = name.extension().unwrap_or_default();
            format.info().extensions.iter().any(|known| extension == *known)
        };
        let folders = || others().count() > 0 && others().all(|name| name.extension().is_none());
        if !there.is_empty() && (others().any(takes) || folders()) {
            let beside = |name: &&PathBuf| name.to_str().is_some_and(|name| format.is_beside(name));
            found.extend(names.iter().filter(beside).cloned());
            found.extend(there.into_iter().map(PathBuf::from));
        }
    }
    found
}

/// The error of the folder `path` with these names, if it is a store of Zarr, version 2 or 3, of which files are `taken`: its chunks would
/// become samples, without the hidden files that say how to decode them.
pub(crate) fn zarr(path: &Path, names: &[PathBuf], taken: impl Fn(&Path) -> bool) -> Option<Error> {
    const DOCUMENTS: [&str; 4] = [".zarray", ".zgroup", ".zmetadata", "zarr.json"];
    let is_document = |name: &PathBuf| DOCUMENTS.iter().any(|document| name.as_os_str() == *document);
    names.iter().find(|name| is_document(name) && taken(name))?;
    let error = Error::content("is a Zarr store, which packhorse does not read").in_input(path.display());
    let way =
        "write it as HDF5 or NetCDF first, such as with xarray's `open_zarr` and `to_netcdf`; `exclude` leaves it out";
    Some(error.hint(way))
}

/// The report and the table that [img2dataset](https://github.com/rom1504/img2dataset) writes beside each of its tars or folders: what
/// they hold is in the samples too.
fn of_img2dataset(names: &[PathBuf]) -> Vec<PathBuf> {
    let stem = |name: &PathBuf| name.to_str()?.strip_suffix("_stats.json").map(str::to_owned);
    let stems: Vec<String> = names.iter().filter_map(stem).collect();
    if stems.is_empty() {
        return Vec::new();
    }
    let there: BTreeSet<&Path> = names.iter().map(PathBuf::as_path).collect();
    let has = |name: &str| there.contains(Path::new(name));
    let holds = |stem: &String| has(stem) || has(&format!("{stem}.tar"));
    let described = stems.into_iter().filter(|stem| holds(stem) && has(&format!("{stem}.parquet")));
    described.flat_map(|stem| [format!("{stem}_stats.json"), format!("{stem}.parquet")].map(PathBuf::from)).collect()
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

        fn folder_files(&self) -> &'static [&'static str] {
            &["info.json", "state.json"]
        }

        fn is_beside(&self, name: &str) -> bool {
            name.starts_with("cache-")
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

    #[test]
    fn reports_of_img2dataset_are_no_samples() {
        let registry = Registry::new().with(Pairs);
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let reports = ["0.parquet", "0_stats.json"];
        for (names, taken) in [
            (&["0.parquet", "0.tar", "0_stats.json", "1.parquet"][..], &reports[..]),
            (&["0", "0.parquet", "0_stats.json"], &reports),
            (&["0.parquet", "0_stats.json"], &[]),
            (&["0.parquet", "0.tar"], &[]),
            (&["0", "0_stats.json"], &[]),
        ] {
            assert_eq!(take(&registry, &mut paths(names)), paths(taken), "{names:?}");
        }
    }

    #[test]
    fn files_that_describe_a_folder_are_removed_beside_what_they_describe() {
        let registry = Registry::new().with(Pairs);
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        for (names, taken) in [
            (&["a.idx", "info.json", "x.json"][..], &["info.json"][..]),
            (&["info.json", "state.json", "test", "train"], &["info.json", "state.json"]),
            (&["a.jpg", "info.json", "state.json"], &[]),
            (&["a.idx", "cache-1.idx", "state.json"], &["cache-1.idx", "state.json"]),
            (&["a.idx", "cache-1.idx"], &[]),
            (&["info.json"], &[]),
        ] {
            assert_eq!(take(&registry, &mut paths(names)), paths(taken), "{names:?}");
        }
    }
}
