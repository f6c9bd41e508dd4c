//! What the tests of this crate share.

use packhorse_core::Options;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Settings from pairs.
pub(crate) fn options(pairs: &[(&str, &str)]) -> Options {
    pairs.iter().copied().collect()
}

/// Runs `oracle.py`; its output.
pub(crate) fn oracle(python: &PathBuf, arguments: &[String]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py");
    let mut command = Command::new(python);
    command.env("HF_HUB_OFFLINE", "1").env("HF_DATASETS_OFFLINE", "1").arg(script).args(arguments);
    let ran = packhorse_testkit::program::run(&mut command, Duration::from_secs(300));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    ran.stdout
}
