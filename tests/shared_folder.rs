//! A dataset's folder that others can write to: whatever links and folders they put there, nothing of theirs is
//! followed, written or removed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

#[expect(dead_code, reason = "every test takes a part of what they share")]
mod common {
    pub(crate) mod process;
    pub(crate) mod tree;
}

use common::process::{Ended, packhorse};
use common::tree::{Tree, assert_equal, tree};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Inputs, a folder for the dataset, and another user's folders beside it.
struct Shared {
    dir: TempDir,
    before: Tree,
}

impl Shared {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for i in 0..6 {
            write(&dir.path().join(format!("in/{i}.txt")), &[b'x'; 100]);
        }
        let victim = dir.path().join("victim");
        for name in
            ["sub/file", "0/file", "0/shard-000000.tar", "host,1,1,1/0/file", "packhorse-staging", "dataset.json"]
        {
            write(&victim.join(name), b"precious");
        }
        for name in ["plan.jsonl.zst", "shard-000000.tar", "shard-000000.receipt.json", "index.uuid", "split.yaml"] {
            write(&victim.join(name), b"precious");
        }
        let before = tree(&victim);
        Self { dir, before }
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn victim(&self) -> PathBuf {
        self.dir.path().join("victim")
    }

    fn pack(&self) -> Ended {
        let [input, out] = [self.dir.path().join("in"), self.out()];
        let paths = [input.to_str().unwrap(), out.to_str().unwrap()];
        let flags = ["--samples-per-shard", "2", "--index", "wids,dali,energon"];
        packhorse(&[&["pack", paths[0], "--to", "webdataset", "--out", paths[1]], &flags[..]].concat()).run()
    }

    fn command(&self, name: &str) -> Ended {
        packhorse(&[name, self.out().to_str().unwrap()]).run()
    }

    #[track_caller]
    fn check(&self, what: &str, ended: &Ended) {
        assert!(!ended.said.contains("panicked"), "{what}: {ended:?}");
        assert_equal(&self.before, &tree(&self.victim()), what);
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// A planted link in the folder: its name, and its target below `victim`.
const LINKS: [(&str, &str); 14] = [
    (".staging", ""),
    (".staging", "sub"),
    (".staging/host,1,1,1", ""),
    (".staging/host,1,1,1", "host,1,1,1"),
    (".staging/host,1,1,1/0", "0"),
    (".staging/mine", ""),
    (".staging/lock,1", "sub/file"),
    ("plan.jsonl.zst", "plan.jsonl.zst"),
    ("dataset.json", "dataset.json"),
    ("shard-000000.tar", "shard-000000.tar"),
    ("shard-000000.receipt.json", "shard-000000.receipt.json"),
    (".nv-meta", ""),
    (".nv-meta", "sub"),
    ("skipped.jsonl", "sub/file"),
];

#[test]
fn links_are_not_followed_from_the_start() {
    for (name, target) in LINKS {
        let shared = Shared::new();
        let path = shared.out().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if name.starts_with(".staging/host") {
            write(&shared.out().join(".staging/host,1,1,2/packhorse-staging"), b"");
        }
        symlink(shared.victim().join(target), &path).unwrap();
        let what = format!("{name} -> victim/{target}");
        shared.check(&what, &shared.pack());
        for command in ["seal", "status", "verify"] {
            shared.check(&what, &shared.command(command));
        }
    }
}

#[test]
fn links_are_not_followed_in_a_dataset_that_is_there() {
    for (name, target) in LINKS {
        let shared = Shared::new();
        assert_eq!(shared.pack().code(), 0);
        let path = shared.out().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        symlink(shared.victim().join(target), &path).unwrap();
        let what = format!("{name} -> victim/{target}");
        for command in ["seal", "status", "verify"] {
            shared.check(&what, &shared.command(command));
        }
        shared.check(&what, &shared.pack());
    }
}

/// Folders that are really there, with names that ours begin with too.
#[test]
fn folders_of_others_stay() {
    let shared = Shared::new();
    let theirs = ["mine/file", "host,1,1,1/results/file", "host,1,1,1/file", "a,b,c,d/0/file"];
    theirs.iter().for_each(|name| write(&shared.out().join(".staging").join(name), b"precious"));
    assert_eq!(shared.pack().code(), 0);
    assert_eq!(shared.command("seal").code(), 0);
    for name in theirs {
        assert!(shared.out().join(".staging").join(name).is_file(), "{name} is gone");
    }
}

/// The folder for staging becomes a link and a folder again, as fast as can be, while datasets are packed.
#[test]
fn a_link_that_comes_and_goes_is_never_followed() {
    let shared = Shared::new();
    let (out, stop) = (shared.out(), AtomicBool::new(false));
    fs::create_dir_all(&out).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let [staging, aside, link] = [".staging", ".aside", ".link"].map(|name| out.join(name));
            while !stop.load(Ordering::Relaxed) {
                // The link takes the folder's name with the folder's content below the victim's names.
                let _ = fs::rename(&staging, &aside);
                let _ = symlink(shared.victim(), &link);
                let _ = fs::rename(&link, &staging);
                let _ = fs::remove_file(&staging);
                let _ = fs::rename(&aside, &staging);
            }
        });
        for _ in 0..30 {
            let ended = shared.pack();
            assert!(!ended.said.contains("panicked"), "{ended:?}");
            for entry in fs::read_dir(&out).unwrap().flatten() {
                if !entry.file_name().to_string_lossy().starts_with('.') {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_equal(&shared.before, &tree(&shared.victim()), "a race");
}

#[test]
fn inputs_that_are_being_staged_are_refused() {
    let shared = Shared::new();
    write(&shared.out().join(".staging/x/a.txt"), b"x");
    let [input, out] = [shared.out().join(".staging/x"), shared.out()].map(|path| path.to_str().unwrap().to_owned());
    let ended = packhorse(&["pack", &input, "--to", "webdataset", "--out", &out]).run();
    assert_eq!(ended.code(), 2, "{ended:?}");
}
