//! Parts of a test program that run in a process of their own, over libraries that pretend.

use crate::common::compiled::libraries;
use packhorse_testkit::cuda::FakeDriver;
use std::process::{Command, Output};

/// Which part a child shall run.
const PART: &str = "PACKHORSE_TEST_PART";

/// Runs a part of this program over the fake driver, with these words in its environment.
pub(crate) fn child(driver: &FakeDriver, part: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "part", "--nocapture"]).env(PART, part).env_remove("PACKHORSE_GPU");
    driver.drive(&mut command);
    command.env("FAKE_CUDA_KERNELS", std::env::join_paths(libraries().unwrap_or_default()).unwrap());
    command.envs(environment.iter().copied()).output().unwrap()
}

/// What a child does: the part of this name, none where nobody asked for one.
pub(crate) fn run(parts: &[(&str, fn())]) {
    let Ok(wanted) = std::env::var(PART) else { return };
    let (_, part) = parts.iter().find(|(name, _)| *name == wanted).unwrap();
    part();
    println!("{wanted} passed");
}

/// That a child ran its part to the end.
pub(crate) fn assert_passed(output: &Output) {
    assert!(output.status.success() && said(output).contains(" passed\n"), "{}", said(output));
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The driver, where there are compilers for it and for kernels.
pub(crate) fn driver() -> Option<FakeDriver> {
    FakeDriver::new().filter(|_| libraries().is_some())
}
