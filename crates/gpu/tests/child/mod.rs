//! Parts of a test program that run in child processes over fake libraries.

use crate::common::compiled::libraries;
use packhorse_testkit::cuda::FakeDriver;
use std::process::{Command, Output};

/// The name of the part that a child runs.
const PART: &str = "PACKHORSE_TEST_PART";

/// Runs a part of this program over the fake driver, with these environment variables.
pub(crate) fn child(driver: &FakeDriver, part: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "part", "--nocapture"]).env(PART, part).env_remove("PACKHORSE_GPU");
    driver.drive(&mut command);
    command.env("FAKE_CUDA_KERNELS", std::env::join_paths(libraries().unwrap_or_default()).unwrap());
    command.envs(environment.iter().copied()).output().unwrap()
}

/// In a child process, runs the requested part; does nothing in others.
pub(crate) fn run(parts: &[(&str, fn())]) {
    let Ok(wanted) = std::env::var(PART) else { return };
    let (_, part) = parts.iter().find(|(name, _)| *name == wanted).unwrap();
    part();
    println!("{wanted} passed");
}

/// Asserts that a child ran its part to the end.
pub(crate) fn assert_passed(output: &Output) {
    assert!(output.status.success() && said(output).contains(" passed\n"), "{}", said(output));
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The fake driver, if compilers for it and for kernels exist.
pub(crate) fn driver() -> Option<FakeDriver> {
    FakeDriver::new().filter(|_| libraries().is_some())
}
