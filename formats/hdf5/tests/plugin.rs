//! Filter plugins: our own, correct and faulty, compiled by `cc`; and those of the Python package hdf5plugin, if
//! `PACKHORSE_PYTHON` has it.
//!
//! Each process searches plugins once, so the tests run parts of this program in processes of their own, with
//! `HDF5_PLUGIN_PATH` set.

#![cfg(feature = "hdf5-plugins")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a panic fails the test; plugins are files"
)]

mod large;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use packhorse_core::{DataType, Format, Kind, Limits, MemoryInput, Options, Result, Rows, Sink, bytes_of};
use packhorse_hdf5::Hdf5;
use packhorse_testkit::external::python;
use packhorse_testkit::typed;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Environment variables: the part that a subprocess runs, and the folder of its files.
const PART: &str = "PACKHORSE_TEST_PART";
const FILES: &str = "PACKHORSE_PLUGIN_TEST";

/// Runs one part in a subprocess of the tests below.
#[test]
fn part() {
    let parts: [(&str, fn()); 5] = [
        ("our_own", our_own),
        ("none", none),
        ("the_wheel", the_wheel),
        ("written_by_a_plugin", written_by_a_plugin),
        ("no_wheel", no_wheel),
    ];
    let Ok(wanted) = std::env::var(PART) else { return };
    let (_, part) = parts.iter().find(|(name, _)| *name == wanted).unwrap();
    part();
    println!("{wanted} passed");
}

/// Runs the part `name` in a subprocess with plugins in `folder`.
fn elsewhere(name: &str, folder: &Path, files: &Path) {
    let test = std::env::current_exe().unwrap();
    let mut test = Command::new(test);
    test.args(["part", "--exact", "--nocapture"]).env(PART, name).env("HDF5_PLUGIN_PATH", folder).env(FILES, files);
    let done = test.env_remove("HDF5_PLUGIN_PRELOAD").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains(" passed\n"), "{}: {said}", done.status);
}

fn files() -> PathBuf {
    PathBuf::from(std::env::var_os(FILES).unwrap())
}

fn elements(array: &ArrayRef) -> Vec<u8> {
    match array.data_type() {
        DataType::FixedSizeList(_, _) => elements(array.as_fixed_size_list().values()),
        _ => bytes_of(array).unwrap().to_vec(),
    }
}

/// The bytes of each dataset of a file.
fn read(bytes: Vec<u8>, datasets: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let input = MemoryInput::new("plugin.h5", bytes);
    let options: Options = [("datasets", datasets)].into_iter().collect();
    let source = Hdf5.source(&options, Limits::default())?;
    let mut fields = BTreeMap::<String, Vec<u8>>::new();
    for rows in source.open(Arc::new(&input))?.rows(0..u64::MAX)? {
        let rows = rows?;
        for (field, array) in rows.schema().fields().iter().zip(rows.columns()) {
            fields.entry(field.name().clone()).or_default().extend(elements(array));
        }
    }
    Ok(fields)
}

fn plugin_file() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/plugin.h5")).unwrap()
}

/// Compiles `plugin.c` into `folder`; false without a compiler.
fn compile(folder: &Path, name: &str, defined: &[(&str, &str)]) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plugin.c");
    let all = [("VERSION", "1"), ("TYPE", "0"), ("HOW", "GOOD"), ("ID", "300")];
    let all = all.iter().chain(defined).map(|(key, value)| format!("-U{key}|-D{key}={value}"));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(folder.join(name)).arg(source);
    for define in all {
        cc.args(define.split('|'));
    }
    match cc.output() {
        Ok(done) => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            true
        }
        Err(_) => {
            packhorse_testkit::external::skip("cc is not installed");
            false
        }
    }
}

#[test]
fn plugins_of_our_own() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("liba.so"), b"no library").unwrap();
    std::fs::write(dir.path().join("readme.txt"), b"no library").unwrap();
    let hows = ["SAYS_NO_SIZE", "REFUSES", "CLAIMS_MORE", "NULLS", "TOO_LONG"];
    for (number, how) in (300..).zip(hows) {
        let id = number.to_string();
        if !compile(dir.path(), &format!("libh5{number}.so"), &[("HOW", how), ("ID", &id)]) {
            return;
        }
    }
    // The first plugin of a number wins; plugins of other kinds and versions are skipped.
    compile(dir.path(), "libh5x.so", &[("HOW", "REFUSES")]);
    compile(dir.path(), "libb.so", &[("VERSION", "2")]);
    compile(dir.path(), "libc.so", &[("TYPE", "1")]);
    elsewhere("our_own", dir.path(), dir.path());
    compile(dir.path(), "libh5300.so", &[]);
    elsewhere("our_own", dir.path(), dir.path());
}

fn our_own() {
    let wanted: Vec<u8> = (0..200i32).flat_map(i32::to_le_bytes).collect();
    assert_eq!(read(plugin_file(), "filter300").unwrap()["filter300"], wanted);
    for (number, words) in
        (301..).zip(["can't decode a chunk", "more bytes than its buffer", "more bytes than its buffer", "of 320"])
    {
        let error = read(plugin_file(), &format!("filter{number}")).unwrap_err();
        assert!(error.kind() == Kind::Content && error.to_string().contains(words), "{number}: {error}");
    }
    for at in 0..plugin_file().len() {
        let mut damaged = plugin_file();
        damaged[at] ^= 1 << (at % 8);
        read(damaged, "*").ok();
    }
}

#[test]
fn without_plugins() {
    let dir = tempfile::tempdir().unwrap();
    elsewhere("none", dir.path(), dir.path());
    elsewhere("none", Path::new("/there/is/none"), dir.path());
}

fn none() {
    let error = read(plugin_file(), "filter300").unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported);
    assert!(error.to_string().contains("filter 300"), "{error}");
    assert!(error.to_string().contains("HDF5_PLUGIN_PATH"), "{error}");
    let error = Hdf5.sink(&[("filter", "blosc2")].into_iter().collect()).err().unwrap();
    assert!(error.kind() == Kind::Config && error.to_string().contains("pip install hdf5plugin"), "{error}");
}

#[test]
fn plugins_of_the_wheel() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/make_plugin_files.py");
    let found = Command::new(python).arg(script).arg(dir.path()).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let folder = String::from_utf8(found.stdout).unwrap();
    elsewhere("the_wheel", Path::new(folder.trim()), dir.path());
    elsewhere("written_by_a_plugin", Path::new(folder.trim()), dir.path());
    elsewhere("no_wheel", dir.path(), dir.path());
}

/// The files of a folder with this extension.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "h5")).collect();
    files.sort();
    assert!(files.len() > 18);
    files
}

fn the_wheel() {
    let folder = files();
    for path in listed(&folder) {
        let bytes = std::fs::read(&path).unwrap();
        let found = read(bytes.clone(), "*").unwrap();
        assert!(found.len() >= 8, "{}", path.display());
        for (field, values) in &found {
            let wanted = std::fs::read(path.with_extension(field)).unwrap();
            assert!(*values == wanted, "{}: {field} differs", path.display());
        }
    }
}

fn written_by_a_plugin() {
    let folder = files();
    for pairs in [
        &[("filter", "blosc2"), ("chunk", "7")][..],
        &[("filter", "blosc2-lz4"), ("level", "9"), ("shuffle", "on")],
        &[("filter", "blosc2"), ("shuffle", "off"), ("level", "1")],
    ] {
        let settings: Options = pairs.iter().copied().collect();
        let (sink, plain) = (Hdf5.sink(&settings).unwrap(), Hdf5.sink(&Options::new()).unwrap());
        let names: Vec<&str> = typed::corpus().into_iter().map(|(name, _)| name).collect();
        typed::round_trips(&Hdf5, &settings, &names);
        let mut paths = [Vec::new(), Vec::new()];
        for (name, rows) in corpus() {
            let with = |sink: &dyn Sink, threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| typed::write(sink, &rows, &[rows.num_rows()]).remove(".h5").unwrap())
            };
            let bytes = with(&*sink, 5);
            assert!(with(&*sink, 1) == bytes && with(&*sink, 5) == bytes, "{name} with {pairs:?}: bytes differ");
            for (paths, (what, bytes)) in paths.iter_mut().zip([("plain", with(&*plain, 2)), ("blosc2", bytes)]) {
                paths.push(folder.join(format!("written-{name}.{what}")));
                std::fs::write(paths.last().unwrap(), bytes).unwrap();
            }
        }
        let [plain, packed] = paths.map(|paths| dump(&paths));
        assert!(plain == packed, "h5py reads other values with {pairs:?}");
    }
}

/// All test rows, the large ones shortened for Python.
fn corpus() -> Vec<(&'static str, Rows)> {
    let large = large::corpus().into_iter().map(|(name, rows, _)| {
        let most = if name == "pieces" { 2 } else { 2000 };
        (name, rows.slice(0, rows.num_rows().min(most)))
    });
    typed::corpus().into_iter().chain(large).collect()
}

/// The values that h5py reads from our files.
fn dump(paths: &[PathBuf]) -> Vec<u8> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dump.py");
    let found = Command::new(python().unwrap()).arg(script).args(paths).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    found.stdout
}

fn no_wheel() {
    let folder = files();
    for path in listed(&folder) {
        let name = path.file_stem().unwrap().to_string_lossy();
        let error = read(std::fs::read(&path).unwrap(), "*").unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported, "{name}: {error}");
        let filter = name.split('-').next().unwrap();
        assert!(error.to_string().contains(&format!("{filter} (filter 320")) || filter == "blosc", "{name}: {error}");
        assert!(error.to_string().contains("pip install hdf5plugin"), "{name}: {error}");
        println!("{error}");
    }
}
