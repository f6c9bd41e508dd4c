//! The walls between the rooms: who may name whom is a list, and everything else fails here.
//!
//! Development dependencies are exempt: a test may know whom it likes.
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use serde_json::{Value, json};
use std::process::Command;

/// For each crate the crates of this workspace that it may depend on. `*` is any but `python`.
const WALLS: [(&str, &[&str]); 15] = [
    ("core", &[]),
    ("storage", &["core"]),
    ("dataset", &["core"]),
    ("transform", &["core"]),
    ("synth", &["core"]),
    ("order", &["core"]),
    ("machine", &["core", "synth", "transform"]),
    ("testkit", &["core", "synth"]),
    ("pack", &["core", "storage", "dataset", "transform"]),
    ("read", &["core", "storage", "dataset", "transform", "order"]),
    ("report", &["core", "dataset", "pack", "read", "transform"]),
    ("gpu", &["core", "order", "read", "transform"]),
    ("python", &["packhorse", "cli"]),
    ("cli", &["*"]),
    ("packhorse", &["*"]),
];

/// What a crate under `formats/` may depend on.
const FORMAT: &[&str] = &["core"];

/// The arrows that are on no list, as sentences.
fn violations(packages: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rooms: Vec<String> = packages.iter().map(|p| text(&p["name"])).collect();
    let mut found = Vec::new();
    for package in packages {
        let room = room(&text(&package["name"]));
        let allowed = match text(&package["manifest_path"]).contains("/formats/") {
            true => FORMAT,
            false => match WALLS.iter().find(|(name, _)| *name == room) {
                Some((_, allowed)) => allowed,
                None => {
                    found.push(format!("{room} is on no list: say in this test whom it may name"));
                    continue;
                }
            },
        };
        let named = package["dependencies"].as_array().unwrap().iter();
        for other in named.filter(|d| d["kind"] != "dev").map(|d| text(&d["name"])).filter(|n| rooms.contains(n)) {
            let other = self::room(&other);
            if !(allowed.contains(&other.as_str()) || allowed == ["*"] && other != "python") {
                found.push(format!("{room} may not depend on {other}"));
            }
        }
    }
    found
}

fn room(package: &str) -> String {
    package.strip_prefix("packhorse-").unwrap_or(package).to_owned()
}

fn metadata() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn every_arrow_is_on_the_list() {
    let packages = metadata();
    assert!(packages.len() > 8, "cargo sees only {} packages", packages.len());
    assert_eq!(violations(&packages), Vec::<String>::new());
}

#[test]
fn a_new_arrow_is_noticed() {
    let plant = |from: &str, kind: Value, to: &str| {
        let mut packages = metadata();
        let package = packages.iter_mut().find(|p| p["name"] == from).unwrap();
        package["dependencies"].as_array_mut().unwrap().push(json!({"name": to, "kind": kind}));
        violations(&packages)
    };
    for (from, kind, to) in [
        ("packhorse-core", Value::Null, "packhorse-storage"),
        ("packhorse-webdataset", Value::Null, "packhorse-files"),
        ("packhorse-webdataset", json!("build"), "packhorse-dataset"),
        ("packhorse-pack", Value::Null, "packhorse-webdataset"),
        ("packhorse-testkit", Value::Null, "packhorse-storage"),
    ] {
        assert_eq!(plant(from, kind, to), [format!("{} may not depend on {}", room(from), room(to))]);
    }
    assert!(plant("packhorse-webdataset", json!("dev"), "packhorse-testkit").is_empty());
    assert!(plant("packhorse-core", Value::Null, "bytes").is_empty());
}

#[test]
fn a_new_room_is_noticed() {
    let mut packages = metadata();
    packages.push(json!({"name": "packhorse-attic", "manifest_path": "/crates/attic/Cargo.toml", "dependencies": []}));
    assert_eq!(violations(&packages), ["attic is on no list: say in this test whom it may name"]);
}
