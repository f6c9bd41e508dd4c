//! Matches paths of datasets against globs.

/// Whether `path` matches `glob`: `*` matches any characters, also slashes, `?` one; a leading slash is optional.
pub(crate) fn matches(glob: &[u8], path: &[u8]) -> bool {
    let path = if glob.starts_with(b"/") { path } else { path.strip_prefix(b"/").unwrap_or(path) };
    let (mut g, mut p, mut back) = (0, 0, None);
    while p < path.len() {
        match glob.get(g) {
            Some(b'*') => {
                back = Some((g + 1, p));
                g += 1;
            }
            Some(c) if *c == b'?' || path.get(p) == Some(c) => (g, p) = (g + 1, p + 1),
            _ => match back {
                Some((after, start)) => {
                    back = Some((after, start + 1));
                    (g, p) = (after, start + 1);
                }
                None => return false,
            },
        }
    }
    glob.get(g..).unwrap_or_default().iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs() {
        for (glob, path, fits) in [
            ("/a/b", "/a/b", true),
            ("a/b", "/a/b", true),
            ("*", "/a/b", true),
            ("a/*", "/a/b/c", true),
            ("*/x?", "/g/x1", true),
            ("*x", "/g/x1", false),
            ("b", "/a/b", false),
        ] {
            assert_eq!(matches(glob.as_bytes(), path.as_bytes()), fits, "{glob} {path}");
        }
    }
}
