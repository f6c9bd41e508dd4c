//! The bytes that packhorse writes for given inputs, as digests. Where one of these changes, the
//! revision of the format or of the transform must be raised, and CHANGELOG says **Bytes**.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::path::Path;
use std::process::Command;

/// Packs `photos` with `flags`; returns the root digest and the digest of all shards' companions.
fn root(photos: &Path, flags: &[&str]) -> String {
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhorse"));
    command
        .arg("pack")
        .arg(photos)
        .args(["--to", "webdataset", "--quiet", "--json", "--out"])
        .arg(out.path().join("o"));
    let output = command.args(flags).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["root"].as_str().unwrap().to_owned()
}

#[test]
fn digests() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    let synth = ["synth", "images", "--count", "60", "--seed", "1", "--quiet", "--out"];
    assert!(Command::new(env!("CARGO_BIN_EXE_packhorse")).args(synth).arg(&photos).status().unwrap().success());
    let table: [(&[&str], &str); 4] = [
        (&["--labels", "folders"], "96a26cc6ac9f033f7890a2b85083efee1d2e89a157df8b4f1002211af294d8d8"),
        (
            &["--labels", "folders", "--shuffle", "7", "--shard-count", "5"],
            "bd1e79735a64bf73da9a8b0fb05be8df7b6a9ce633570a7a86788f2836bd591c",
        ),
        (
            &["--shuffle", "7,block:8", "--split", "train=0.8,val=0.2", "--samples-per-shard", "20"],
            "0de12959f05aa048c41c0768bcbaab00b8b9b8e5cd248832a8b036f1c5ad20fd",
        ),
        (
            &["--image", "resize=128", "--quality", "80"],
            "1ba8924b0b0b36d676165b2cfe9e69b4e1c142cf952d67775d776ca7cdcbbfcd",
        ),
    ];
    for (flags, digest) in table {
        assert_eq!(root(&photos, flags), digest, "{flags:?}");
    }
}
