//! What lies in a folder: names and contents, and which files were replaced.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Every file below a folder with the digest of its bytes; a folder's name ends with a slash.
pub(crate) type Tree = BTreeMap<String, String>;

/// Looks at everything below `dir`.
pub(crate) fn tree(dir: &Path) -> Tree {
    let mut tree = Tree::new();
    walk(dir, "", &mut |name, path| {
        let digest = if path.is_dir() { "folder".to_owned() } else { digest(path) };
        tree.insert(name.to_owned(), digest);
    });
    tree
}

fn digest(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    format!("{} bytes {}", bytes.len(), blake3::hash(&bytes).to_hex())
}

fn walk(dir: &Path, prefix: &str, each: &mut dyn FnMut(&str, &Path)) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let entry = entry.unwrap();
        let (name, path) = (format!("{prefix}{}", entry.file_name().to_str().unwrap()), entry.path());
        match entry.file_type().unwrap().is_dir() {
            true => {
                each(&format!("{name}/"), &path);
                walk(&path, &format!("{name}/"), each);
            }
            false => each(&name, &path),
        }
    }
}

/// `now` must be `expected`, name by name and byte by byte.
#[track_caller]
pub(crate) fn assert_equal(expected: &Tree, now: &Tree, when: &str) {
    let missing: Vec<_> = expected.keys().filter(|name| !now.contains_key(*name)).collect();
    let stray: Vec<_> = now.keys().filter(|name| !expected.contains_key(*name)).collect();
    let other: Vec<_> = now.iter().filter(|(n, d)| expected.get(*n).is_some_and(|e| e != *d)).collect();
    assert!(expected == now, "{when}: missing {missing:?}, stray {stray:?}, with other bytes {other:?}");
}

/// Whether a file has its final name: unfinished files are in `.staging`, and the last errors of tasks in `.errors`.
pub(crate) fn is_final(name: &str) -> bool {
    ![".staging/", ".errors/"].iter().any(|folder| name.starts_with(folder))
}

/// Asserts that files with final names in an unfinished dataset equal those of the finished one. A dataset that was not
/// begun has no folder.
#[track_caller]
pub(crate) fn assert_no_half_file(expected: &Tree, out: &Path, when: &str) {
    if !out.exists() {
        return;
    }
    for (name, digest) in tree(out).iter().filter(|(name, _)| is_final(name)) {
        assert_eq!(expected.get(name), Some(digest), "{when}: {name} is not as in the finished dataset");
    }
}

/// Inode and modification time of the files of every shard that has a receipt.
pub(crate) type Committed = BTreeMap<String, (u64, i64, i64)>;

/// The shards that are complete: their receipts are there, and the files that these name.
pub(crate) fn committed(out: &Path) -> Committed {
    let mut names = Vec::new();
    if out.exists() {
        walk(out, "", &mut |name, path| {
            if name.ends_with(".receipt.json") && !name.contains('/') {
                let receipt: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
                let files = receipt["files"].as_array().unwrap();
                names.push(name.to_owned());
                names.extend(files.iter().map(|file| file["name"].as_str().unwrap().to_owned()));
            }
        });
    }
    let stamp = |name: String| {
        let meta = std::fs::metadata(out.join(&name)).unwrap_or_else(|e| panic!("{name} of a receipt: {e}"));
        (name, (meta.ino(), meta.mtime(), meta.mtime_nsec()))
    };
    names.into_iter().map(stamp).collect()
}

/// What was complete before is the same file now, not one written again.
#[track_caller]
pub(crate) fn assert_kept(before: &Committed, out: &Path, when: &str) {
    let now = committed(out);
    for (name, stamp) in before {
        assert_eq!(now.get(name), Some(stamp), "{when}: {name} was complete and was written again");
    }
}
