//! `--version`: the release, the formats and the features of the build.

use packhorse_core::Registry;
use std::sync::OnceLock;

static LONG: OnceLock<String> = OnceLock::new();

/// Sets the text of `--version`; the first call counts.
pub(crate) fn set(registry: &Registry, features: &[&str]) {
    let formats: Vec<&str> = registry.iter().map(|format| format.info().id).collect();
    let release = env!("CARGO_PKG_VERSION");
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    LONG.get_or_init(|| format!("{release}\nformats: {}\nfeatures: {features}", formats.join(", ")));
}

/// The text of `--version`, after the name of the program.
pub(crate) fn long() -> &'static str {
    LONG.get().map_or(env!("CARGO_PKG_VERSION"), String::as_str)
}
