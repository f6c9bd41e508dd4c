//! Include and exclude globs.

use globset::{Glob, GlobSet, GlobSetBuilder};
use packhorse_core::{Error, Result};
use std::path::Path;

/// Globs of relative paths to include and to exclude; exclude wins. `*` matches `/` too.
pub(crate) struct Globs {
    include: GlobSet,
    exclude: GlobSet,
}

impl Globs {
    pub(crate) fn new(include: &[String], exclude: &[String]) -> Result<Self> {
        Ok(Self { include: set(include)?, exclude: set(exclude)? })
    }

    /// Whether a file is included.
    pub(crate) fn takes(&self, path: &Path) -> bool {
        (self.include.is_empty() || self.include.is_match(path)) && !self.exclude.is_match(path)
    }

    /// Whether a whole folder is excluded.
    pub(crate) fn prunes(&self, folder: &Path) -> bool {
        self.exclude.is_match(folder)
    }
}

fn set(globs: &[String]) -> Result<GlobSet> {
    let bad = |e: globset::Error| Error::config(format!("bad glob: {e}"));
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        builder.add(Glob::new(glob).map_err(bad)?);
    }
    builder.build().map_err(bad)
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
}
