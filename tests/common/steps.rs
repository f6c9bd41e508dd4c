//! The steps of a request, each on its own: the faults of strace count by thread, and in one process the threads that
//! pack would hide the calls of the thread that plans and seals.

use super::process::{Program, packhorse};
use super::tree::{Tree, assert_equal, is_final, tree};
use super::work::{Work, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Plan,
    Pack,
    Seal,
    /// Plans the append of samples to the sealed dataset.
    Append,
    /// Packs them.
    Fill,
    /// Makes them part of the dataset.
    Join,
    /// Makes a view of the sealed dataset.
    View,
}

/// As few threads as there can be.
const FEW: [&str; 4] = ["--jobs", "1", "--io-threads", "1"];

impl Step {
    pub(crate) const PACK: [Step; 3] = [Step::Plan, Step::Pack, Step::Seal];
    pub(crate) const APPEND: [Step; 3] = [Step::Append, Step::Fill, Step::Join];

    /// All steps of its request.
    fn request(self) -> &'static [Step] {
        match self {
            Step::Plan | Step::Pack | Step::Seal => &Self::PACK,
            Step::Append | Step::Fill | Step::Join => &Self::APPEND,
            Step::View => &[Step::View],
        }
    }

    /// The step in the folder `out`.
    pub(crate) fn program(self, work: &Work, out: &Path) -> Program {
        match self {
            Step::Plan => work.planning("plan", out, &FEW),
            Step::Pack | Step::Fill => packhorse(&[&["pack", "--plan", text(out)], &FEW[..]].concat()),
            Step::Seal | Step::Join => packhorse(&["seal", text(out)]),
            Step::Append => work.append(out, &[&FEW[..], &["--plan-only"]].concat()),
            Step::View => {
                packhorse(&["view", text(&work.dir("undisturbed")), "--where", "cls == 1", "--out", text(out)])
            }
        }
    }

    /// All steps of its request at once.
    fn whole(self, work: &Work, out: &Path) -> Program {
        match self {
            Step::Plan | Step::Pack | Step::Seal => work.pack(out, &[]),
            Step::Append | Step::Fill | Step::Join => work.append(out, &[]),
            Step::View => self.program(work, out),
        }
    }

    /// The folder that this step finds: made by the step before it, or where a request starts.
    fn before(self, work: &Work) -> PathBuf {
        match self.request().iter().take_while(|step| **step != self).last() {
            Some(step) => step.after(work),
            None if self == Step::Append => work.dir("undisturbed"),
            None => work.dir("nothing"),
        }
    }

    /// The folder that this step leaves undisturbed.
    fn after(self, work: &Work) -> PathBuf {
        let after = work.dir(&format!("after {self:?}"));
        if !after.exists() {
            copy(&self.before(work), &after);
            self.program(work, &after).succeed();
        }
        after
    }

    /// Makes `out` what this step finds.
    pub(crate) fn prepare(self, work: &Work, out: &Path) {
        let _ = std::fs::remove_dir_all(out);
        copy(&self.before(work), out);
    }

    /// The folder `out` holds what this step leaves.
    #[track_caller]
    pub(crate) fn assert_done(self, work: &Work, out: &Path, names: impl Fn(&str) -> bool, when: &str) {
        let now = tree(out).into_iter().filter(|(name, _)| names(name));
        assert_equal(&tree(&self.after(work)), &now.collect(), when);
    }

    /// Asks for the whole request again: it must end in the bytes of an undisturbed one.
    #[track_caller]
    pub(crate) fn finish(self, work: &Work, out: &Path, when: &str) {
        let ended = self.whole(work, out).run();
        assert_eq!(ended.code(), 0, "{when}: {ended:?}");
        assert_equal(&self.wanted(work), &tree(out), when);
    }

    /// What the request makes.
    fn wanted(self, work: &Work) -> Tree {
        self.request().last().map_or_else(Tree::new, |last| tree(&last.after(work)))
    }

    /// Whatever has its final name is as before the request or as after it. The manifest comes last: where it is not that of
    /// a grown dataset yet, but another file is, then all shards are there.
    #[track_caller]
    pub(crate) fn assert_old_or_new(self, work: &Work, out: &Path, when: &str) {
        if !out.exists() {
            return;
        }
        let start = self.request().first().map_or_else(Tree::new, |first| first.found(work));
        let (wanted, now) = (self.wanted(work), tree(out));
        for (name, digest) in now.iter().filter(|(name, _)| is_final(name)) {
            let known = [&start, &wanted].iter().any(|tree| tree.get(name) == Some(digest));
            assert!(known, "{when}: {name} is neither as before nor as in the finished dataset");
        }
        let lost: Vec<_> = start.keys().filter(|name| !now.contains_key(*name)).collect();
        assert!(lost.is_empty(), "{when}: {lost:?} of the dataset are gone");
        let is_shard = |name: &str| name.starts_with("shard-");
        let grown = |name: &String| start.contains_key(name) && start.get(name) != wanted.get(name);
        if now.iter().any(|(name, digest)| grown(name) && wanted.get(name) == Some(digest)) {
            let missing: Vec<_> = wanted.keys().filter(|name| is_shard(name) && !now.contains_key(*name)).collect();
            assert!(missing.is_empty(), "{when}: files of a grown dataset are there, but {missing:?} are not");
        }
    }

    /// What lies in the folder that this step finds.
    fn found(self, work: &Work) -> Tree {
        let before = self.before(work);
        if before.exists() { tree(&before) } else { Tree::new() }
    }
}

/// Copies a folder, if there is one.
fn copy(from: &Path, to: &Path) {
    if from.exists() {
        assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
    }
}
