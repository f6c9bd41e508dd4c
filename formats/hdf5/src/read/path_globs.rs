//! Chooses objects of a file by globs of their paths.

use packhorse_core::glob_matches;
use std::borrow::Cow;
use std::cell::Cell;

/// What netCDF puts before the name of a variable that is called like a dimension and does not lie along it alone.
const NO_COORDINATE: &str = "_nc4_non_coord_";

/// Globs of paths, after a `!` of those to leave out; without one to take, all are.
pub(crate) struct PathGlobs<'a> {
    globs: &'a [String],
    /// Whether an object matched, for each of them.
    matched: Vec<Cell<bool>>,
}

impl<'a> PathGlobs<'a> {
    pub(crate) fn new(globs: &'a [String]) -> Self {
        Self { globs, matched: vec![Cell::new(false); globs.len()] }
    }

    /// Whether all objects are taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.globs.is_empty()
    }

    /// Whether the object at `path` is taken.
    pub(crate) fn wants(&self, path: &str) -> bool {
        let (mut taken, mut excluded) = (self.globs.iter().all(|glob| glob.starts_with('!')), false);
        for (glob, matched) in self.globs.iter().zip(&self.matched) {
            let (glob, fit) = glob.strip_prefix('!').map_or((&**glob, &mut taken), |glob| (glob, &mut excluded));
            let fits = path_matches(glob, path) || path_matches(glob, &shown_path(path));
            matched.set(matched.get() || fits);
            *fit |= fits;
        }
        taken && !excluded
    }

    /// Whether a glob after a `!` leaves `path` out.
    pub(crate) fn leaves_out(&self, path: &str) -> bool {
        self.globs.iter().filter_map(|glob| glob.strip_prefix('!')).any(|glob| path_matches(glob, path))
    }

    /// Whether one of them is `path` itself, without wildcards.
    pub(crate) fn name(&self, path: &str) -> bool {
        let exact = |glob: &String| {
            !glob.contains(['*', '?']) && (path_matches(glob, path) || path_matches(glob, &shown_path(path)))
        };
        self.globs.iter().any(exact)
    }

    /// Whether one of them asks for `path`, other than by taking all.
    pub(crate) fn asks_for(&self, path: &str) -> bool {
        let narrow = self.globs.iter().filter(|glob| !glob.starts_with('!') && !matches!(glob.as_str(), "*" | "/*"));
        narrow.into_iter().any(|glob| path_matches(glob, path))
    }

    /// Those that no object matched.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &str> {
        self.globs.iter().zip(&self.matched).filter(|(_, matched)| !matched.get()).map(|(glob, _)| glob.as_str())
    }

    /// The first that no object matched.
    pub(crate) fn unmatched(&self) -> Option<&str> {
        // Not every file has what a pattern leaves out.
        let may_lack = |glob: &str| glob.starts_with('!') && glob.contains(['*', '?']);
        self.idle().find(|glob| !may_lack(glob))
    }
}

/// The path of a dataset as netCDF shows it.
fn shown_path(path: &str) -> Cow<'_, str> {
    let parts = path.rsplit_once('/').and_then(|(group, name)| Some((group, name.strip_prefix(NO_COORDINATE)?)));
    parts.map_or(path.into(), |(group, name)| format!("{group}/{name}").into())
}

/// The field name of the dataset at `path`.
pub(crate) fn field_name(path: &str) -> String {
    shown_path(path).trim_start_matches('/').replace('/', ".")
}

/// Whether the path of an object matches `glob`; its leading slash is optional in globs.
fn path_matches(glob: &str, path: &str) -> bool {
    let path = if glob.starts_with('/') { path } else { path.strip_prefix('/').unwrap_or(path) };
    glob_matches(glob, path)
}

#[cfg(test)]
mod tests {
    use super::path_matches;

    #[test]
    fn the_leading_slash_is_optional() {
        for (glob, path, matches) in [
            ("/a/b", "/a/b", true),
            ("a/b", "/a/b", true),
            ("*", "/a/b", true),
            ("*/x?", "/g/x1", true),
            ("b", "/a/b", false),
        ] {
            assert_eq!(path_matches(glob, path), matches, "{glob} {path}");
        }
    }
}
