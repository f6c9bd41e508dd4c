//! `--version`: the release, the commit, the formats and the features of the build.

use packhorse_core::Registry;
use std::sync::OnceLock;

/// The release, and the commit where the program is built from a repository.
pub(crate) const RELEASE: &str = env!("PACKHORSE_RELEASE");

static LONG: OnceLock<String> = OnceLock::new();

/// Sets the text of `--version`; the first call counts.
pub(crate) fn set(registry: &Registry, features: &[&str]) {
    let formats: Vec<&str> = registry.iter().map(|format| format.info().id).collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    LONG.get_or_init(|| format!("{RELEASE}\nformats: {}\nfeatures: {features}", formats.join(", ")));
}

/// The text of `--version`, after the name of the program.
pub(crate) fn long() -> &'static str {
    LONG.get().map_or(RELEASE, String::as_str)
}
