//! Matches names against globs.

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
}
