//! Matches names against globs, and finds one for groups that are alike.

use std::collections::BTreeMap;

/// Whether `text` matches `glob`: `*` matches any bytes, slashes included, and `?` one byte. There are no other wildcards
/// and no escapes. Takes no memory, and time of at most the product of both lengths.
pub fn glob_matches(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    // After a `*`: the rest of the glob, and the end of the bytes that the `*` matches so far.
    let (mut g, mut t, mut star) = (0, 0, None);
    while let Some(byte) = text.get(t) {
        match glob.get(g) {
            Some(b'*') => {
                g += 1;
                star = Some((g, t));
            }
            Some(c) if *c == b'?' || c == byte => (g, t) = (g + 1, t + 1),
            _ => {
                let Some((after, end)) = star else { return false };
                (g, t) = (after, end + 1);
                star = Some((g, t));
            }
        }
    }
    glob.get(g..).unwrap_or_default().iter().all(|c| *c == b'*')
}

/// The most paths that [`like_groups`] looks at.
const LOOKED_AT: usize = 1000;
/// Names of groups that are splits, not samples.
const SPLITS: [&str; 8] = ["train", "training", "val", "valid", "validation", "dev", "test", "testing"];

/// A glob of the groups around the paths that end with one name, of those with the fewest groups around them: `/data/*` for
/// `data/a/x` and `data/b/x`. The parts of paths are divided by `separator`. `None` if no two paths are so, or their groups are splits.
pub fn like_groups<'a>(paths: impl Iterator<Item = &'a str>, separator: char) -> Option<String> {
    let mut alike: BTreeMap<(usize, &str), Vec<Vec<&str>>> = BTreeMap::new();
    for path in paths.take(LOOKED_AT) {
        let mut parts: Vec<&str> = path.trim_start_matches(separator).split(separator).collect();
        let name = parts.pop().unwrap_or_default();
        if !parts.is_empty() {
            alike.entry((parts.len(), name)).or_default().push(parts);
        }
    }
    let groups = alike.into_values().find(|groups| groups.len() > 1)?;
    let (first, others) = groups.split_first()?;
    let differs = |at: usize| others.iter().any(|other| other.get(at) != first.get(at));
    let last = (0..first.len()).rfind(|at| differs(*at))?;
    let are_splits = |at: usize| groups.iter().all(|group| group.get(at).is_some_and(|name| SPLITS.contains(name)));
    if are_splits(last) {
        return None;
    }
    let parts = first.iter().enumerate().take(last + 1).map(|(at, part)| if differs(at) { "*" } else { part });
    Some(parts.fold(String::new(), |all, part| all + "/" + part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match() {
        for (glob, text, matches) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("?", "", false),
            ("*", "/a/b", true),
            ("a/*", "a/b/c", true),
            ("*/x?", "g/x1", true),
            ("*x", "g/x1", false),
            ("jet*", "jets.pt", true),
            ("*.pt", "jets.pt", true),
            ("j*s.?t", "jets.pt", true),
            ("jet", "jets", false),
            ("*a*b*c", "xxaxxbxxcxxc", true),
            ("*a*b*c", "xxaxxcxx", false),
            ("x[3]", "x[3]", true),
            ("a*?", "a*?", true),
        ] {
            assert_eq!(glob_matches(glob, text), matches, "{glob} {text}");
        }
    }

    #[test]
    fn groups_that_are_alike_have_a_glob() {
        for (paths, glob) in [
            ("data/a/x data/b/x", Some("/data/*")),
            ("/data/a/cam0/rgb /data/a/cam1/rgb /data/a/x /data/b/x", Some("/data/*")),
            ("data/a/obs/x data/b/obs/x", Some("/data/*")),
            ("s0/t0/x s0/t1/x s1/t0/x", Some("/*/*")),
            ("g0/x g1/x", Some("/*")),
            ("train/x test/x", None),
            ("a b", None),
            ("g/a g/b", None),
            ("", None),
        ] {
            assert_eq!(like_groups(paths.split(' '), '/').as_deref(), glob, "{paths}");
        }
    }
}
