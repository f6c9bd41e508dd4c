//! Include and exclude globs.

use globset::{Glob, GlobSet, GlobSetBuilder};
use packhorse_core::{Error, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Globs of relative paths to include and to exclude; exclude wins. `*` matches `/` too.
pub(crate) struct Globs {
    include: Patterns,
    exclude: Patterns,
}

impl Globs {
    pub(crate) fn new(include: &[String], exclude: &[String]) -> Result<Self> {
        Ok(Self { include: Patterns::new(include)?, exclude: Patterns::new(exclude)? })
    }

    /// Whether a file is included.
    pub(crate) fn takes(&self, path: &Path) -> bool {
        (self.include.set.is_empty() || self.include.matches(path)) && !self.exclude.matches(path)
    }

    /// Whether a whole folder is excluded.
    pub(crate) fn prunes(&self, folder: &Path) -> bool {
        self.exclude.matches(folder)
    }

    /// The settings that matched no path so far.
    pub(crate) fn unused(&self) -> impl Iterator<Item = String> {
        let named = |name: &'static str| move |glob: &str| format!("`{name}={glob}`");
        self.include.unused().map(named("include")).chain(self.exclude.unused().map(named("exclude")))
    }
}

/// Globs, and which of them matched a path.
struct Patterns {
    texts: Vec<String>,
    set: GlobSet,
    matched: Vec<AtomicBool>,
}

impl Patterns {
    fn new(globs: &[String]) -> Result<Self> {
        let bad = |e: globset::Error| Error::config(format!("bad glob: {e}"));
        let mut builder = GlobSetBuilder::new();
        for glob in globs {
            // As people name folders.
            let plain = glob.strip_prefix("./").unwrap_or(glob);
            builder.add(Glob::new(plain.strip_suffix('/').unwrap_or(plain)).map_err(bad)?);
        }
        let set = builder.build().map_err(bad)?;
        Ok(Self { texts: globs.to_vec(), set, matched: globs.iter().map(|_| AtomicBool::new(false)).collect() })
    }

    fn matches(&self, path: &Path) -> bool {
        if self.matched.iter().all(|matched| matched.load(Ordering::Relaxed)) {
            return self.set.is_match(path);
        }
        let found = self.set.matches(path);
        found.iter().filter_map(|i| self.matched.get(*i)).for_each(|matched| matched.store(true, Ordering::Relaxed));
        !found.is_empty()
    }

    fn unused(&self) -> impl Iterator<Item = &str> {
        let unused = self.texts.iter().zip(&self.matched).filter(|(_, matched)| !matched.load(Ordering::Relaxed));
        unused.map(|(text, _)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_folders_too_and_exclude_wins() {
        let globs = Globs::new(&["*.jpg".into()], &["raw/**".into(), "tmp".into()]).unwrap();
        assert!(globs.takes(Path::new("a/b/c.jpg")));
        assert!(!globs.takes(Path::new("a/b/c.png")));
        assert!(!globs.takes(Path::new("raw/c.jpg")));
        assert!(globs.prunes(Path::new("tmp")) && !globs.prunes(Path::new("a")));
        assert!(Globs::new(&["a[".into()], &[]).is_err());
    }

    #[test]
    fn globs_that_match_nothing_are_known_and_folders_may_end_in_a_slash() {
        let globs =
            Globs::new(&["*.jpg".into(), "*.png".into()], &["tmp/".into(), "./raw/*".into(), "/x".into()]).unwrap();
        assert_eq!(globs.unused().count(), 5);
        assert!(globs.prunes(Path::new("tmp")) && !globs.takes(Path::new("raw/a.jpg")));
        assert_eq!(globs.unused().collect::<Vec<_>>(), ["`include=*.png`", "`exclude=/x`"]);
    }
}
