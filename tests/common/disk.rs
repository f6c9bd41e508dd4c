//! A file system that is as large as a test wants it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A file system in memory, as large as it is told to be; unmounted when dropped.
pub(crate) struct Disk(pub(crate) PathBuf);

impl Disk {
    /// Mounts it with these options; `None`, and a word about it, where that is not permitted.
    pub(crate) fn mount(at: PathBuf, options: &str) -> Option<Self> {
        std::fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(at));
        }
        packhorse_testkit::external::skip("mounting a file system is not permitted");
        None
    }

    /// Gives it another size.
    pub(crate) fn resize(&self, options: &str) {
        let status = Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.0).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
