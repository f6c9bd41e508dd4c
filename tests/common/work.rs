//! A request for packhorse, and what it makes when nothing stops it.

use super::corpus;
use super::process::{Program, packhorse};
use super::tree::{Tree, assert_equal, assert_no_half_file, tree};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Pictures to pack, in shards of some samples, with labels and every index.
pub(crate) struct Work {
    dir: TempDir,
    /// The pictures.
    pub(crate) input: PathBuf,
    samples: u32,
    /// The dataset as an undisturbed run makes it.
    pub(crate) whole: Tree,
    /// How long that took.
    pub(crate) took: Duration,
}

impl Work {
    /// Packs `count` pictures into shards of `samples`, undisturbed.
    pub(crate) fn new(count: u32, samples: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut work = Self { dir, input: corpus::images(count), samples, whole: Tree::new(), took: Duration::ZERO };
        let out = work.dir("undisturbed");
        work.took = work.pack(&out, &[]).succeed().took;
        work.whole = tree(&out);
        let receipts = work.whole.keys().filter(|name| name.ends_with(".receipt.json")).count();
        assert_eq!(receipts, count.div_ceil(samples) as usize);
        assert!(work.whole.contains_key("dataset.json") && work.whole.contains_key(".nv-meta/index.sqlite"));
        work
    }

    /// A name in a folder that goes away with this.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `packhorse COMMAND INPUT --out OUT …`, for the commands that plan.
    pub(crate) fn planning(&self, command: &str, out: &Path, more: &[&str]) -> Program {
        self.planning_of(&self.input, command, out, more)
    }

    /// The same with the pictures under another path.
    pub(crate) fn planning_of(&self, input: &Path, command: &str, out: &Path, more: &[&str]) -> Program {
        let (input, out, samples) = (text(input), text(out), self.samples.to_string());
        let what = [command, input, "--to", "webdataset", "--out", out, "--labels", "folders", "--shuffle", "7"];
        packhorse(&[&what[..], &["--samples-per-shard", &samples, "--index", "wids,dali,energon"], more].concat())
    }

    /// The whole request: plan, pack and seal.
    pub(crate) fn pack(&self, out: &Path, more: &[&str]) -> Program {
        self.planning("pack", out, more)
    }

    /// The request again: it must end in the bytes of the undisturbed run.
    #[track_caller]
    pub(crate) fn finish(&self, out: &Path, when: &str) {
        let ended = self.pack(out, &[]).run();
        assert_eq!(ended.code(), 0, "{when}: {ended:?}");
        self.assert_whole(out, when);
    }

    /// The folder holds the dataset, and nothing else.
    #[track_caller]
    pub(crate) fn assert_whole(&self, out: &Path, when: &str) {
        assert_equal(&self.whole, &tree(out), when);
    }

    /// Nothing that has its final name is unfinished.
    #[track_caller]
    pub(crate) fn assert_no_half_file(&self, out: &Path, when: &str) {
        assert_no_half_file(&self.whole, out, when);
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
