//! Corpora that tests pack: made by the program under test, once, and kept in the build folder.

use super::process::packhorse;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A folder of `count` pictures in class folders. Shared: change nothing in it.
pub(crate) fn images(count: u32) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-images-{count}", env!("CARGO_CRATE_NAME")));
    packhorse(&["synth", "images", "--count", &count.to_string(), "--out", dir.to_str().unwrap()]).succeed();
    dir
}
