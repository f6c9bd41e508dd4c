//! A request for packhorse, and what it makes when nothing stops it.

use super::process::{Program, command, packhorse};
use super::tree::{Tree, assert_equal, assert_no_half_file, tree};
use super::{bytes, corpus};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Pictures to pack, in shards of some samples, with labels and every index; or documents to tokenize.
pub(crate) struct Work {
    dir: TempDir,
    /// The folder of the pictures or documents.
    pub(crate) input: PathBuf,
    /// The wanted dataset.
    wanted: Vec<String>,
    /// The dataset as an undisturbed run makes it.
    pub(crate) whole: Tree,
    /// How long that took.
    pub(crate) took: Duration,
}

impl Work {
    /// Packs `count` pictures into shards of `samples`, undisturbed.
    pub(crate) fn new(count: u32, samples: u32) -> Self {
        let per_shard = samples.to_string();
        let to = ["--to", "webdataset", "--labels", "folders", "--shuffle", "7", "--samples-per-shard", &per_shard];
        let wanted = [&to[..], &["--index", "wids,dali,energon"]].concat();
        let work = Self::undisturbed(tempfile::tempdir().unwrap(), corpus::images(count), &wanted);
        assert_eq!(work.shards(), count.div_ceil(samples) as usize);
        assert!(work.whole.contains_key(".nv-meta/index.sqlite"));
        work
    }

    /// Makes tokens of `count` documents, undisturbed: in shards of about `size`, from plain and compressed files.
    pub(crate) fn tokens(count: u32, size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (input, tokenizer) = (dir.path().join("corpus"), dir.path().join("tokenizer.json"));
        std::fs::write(&tokenizer, bytes::tokenizer()).unwrap();
        corpus::documents(&input, count);
        let to = ["--to", "tokens", "--tokenizer", text(&tokenizer), "--append-eod", "--shard-size", size];
        let work = Self::undisturbed(dir, input, &to);
        assert!(work.shards() > 1, "{:?}", work.whole);
        work
    }

    /// Packs `count` files of 4 MiB into shards of three, undisturbed: large enough to be uploaded in parts.
    pub(crate) fn large(count: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let input = dir.path().join("large");
        std::fs::create_dir(&input).unwrap();
        for n in 0..count {
            let mut bytes = vec![0; 4 << 20];
            blake3::Hasher::new().update(&n.to_le_bytes()).finalize_xof().fill(&mut bytes);
            std::fs::write(input.join(format!("{n:04}.bin")), bytes).unwrap();
        }
        Self::undisturbed(dir, input, &["--to", "webdataset", "--samples-per-shard", "3"])
    }

    fn undisturbed(dir: TempDir, input: PathBuf, wanted: &[&str]) -> Self {
        let wanted = wanted.iter().map(|word| (*word).to_owned()).collect();
        let mut work = Self { dir, input, wanted, whole: Tree::new(), took: Duration::ZERO };
        let out = work.dir("undisturbed");
        work.took = work.pack(&out, &[]).succeed().took;
        work.whole = tree(&out);
        assert!(work.whole.contains_key("dataset.json"));
        work
    }

    fn shards(&self) -> usize {
        self.whole.keys().filter(|name| name.ends_with(".receipt.json")).count()
    }

    /// A name in a folder that goes away with this.
    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `packhorse COMMAND INPUT --out OUT …`, for the commands that plan.
    pub(crate) fn planning(&self, command: &str, out: &Path, more: &[&str]) -> Program {
        self.planning_of(&self.input, command, out, more)
    }

    /// The same with the inputs under another path.
    pub(crate) fn planning_of(&self, input: &Path, command: &str, out: &Path, more: &[&str]) -> Program {
        let wanted: Vec<&str> = self.wanted.iter().map(String::as_str).collect();
        packhorse(&[&[command, text(input), "--out", text(out)], &wanted[..], more].concat())
    }

    /// `packhorse SCHEDULER pack INPUT --out OUT …`.
    pub(crate) fn array(&self, scheduler: &str, out: &Path, more: &[&str]) -> Program {
        let mut program = command(env!("CARGO_BIN_EXE_packhorse"));
        program
            .args([scheduler, "pack", text(&self.input), "--quiet", "--out", text(out)])
            .args(&self.wanted)
            .args(more);
        Program(program)
    }

    /// Other names of the pictures, which a test may remove and make again.
    pub(crate) fn linked(&self) -> PathBuf {
        let link = self.dir("linked");
        std::os::unix::fs::symlink(&self.input, &link).unwrap();
        link
    }

    /// The whole request: plan, pack and seal.
    pub(crate) fn pack(&self, out: &Path, more: &[&str]) -> Program {
        self.planning("pack", out, more)
    }

    /// Adds the pictures once more, under other keys, to the dataset in `out`.
    pub(crate) fn append(&self, out: &Path, more: &[&str]) -> Program {
        let again = self.dir("more");
        if !again.exists() {
            std::fs::create_dir(&again).unwrap();
            std::os::unix::fs::symlink(&self.input, again.join("again")).unwrap();
        }
        packhorse(&[&["append", text(out), text(&again), "--labels", "parent"], more].concat())
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
