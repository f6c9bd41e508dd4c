//! The three steps of a request, each on its own: the faults of strace count by thread, and in one
//! process the threads that pack would hide the calls of the thread that plans and seals.

use super::process::{Program, packhorse};
use super::work::{Work, text};
use std::path::Path;

/// A step, and what has to be there before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Plan,
    Pack,
    Seal,
}

impl Step {
    pub(crate) const ALL: [Step; 3] = [Step::Plan, Step::Pack, Step::Seal];

    /// The step in the folder `out`, with as few threads as there can be.
    pub(crate) fn program(self, work: &Work, out: &Path) -> Program {
        let few = ["--jobs", "1", "--io-threads", "1"];
        match self {
            Step::Plan => work.planning("plan", out, &few),
            Step::Pack => packhorse(&[&["pack", "--plan", text(out)], &few[..]].concat()),
            Step::Seal => packhorse(&["seal", text(out)]),
        }
    }

    /// Makes `out` what this step finds: nothing, or what the steps before it leave.
    pub(crate) fn prepare(self, work: &Work, out: &Path) {
        let ready = work.dir(&format!("before {self:?}"));
        if !ready.exists() {
            std::fs::create_dir(&ready).unwrap();
            let before = Step::ALL.into_iter().take_while(|step| *step != self);
            before.for_each(|step| drop(step.program(work, &ready).succeed()));
        }
        let _ = std::fs::remove_dir_all(out);
        if self != Step::Plan {
            copy(&ready, out);
        }
    }

    /// Whether a file of this name is there when this step is done.
    pub(crate) fn leaves(self, name: &str) -> bool {
        match self {
            Step::Plan => name == "plan.jsonl.zst" || name == "tokenizer.json",
            Step::Pack => name.starts_with("shard-") || Step::Plan.leaves(name),
            Step::Seal => true,
        }
    }
}

/// The files of a folder without folders in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
