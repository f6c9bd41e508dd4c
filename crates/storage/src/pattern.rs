//! Patterns of file names: `{000..127}`, `{train,val}`, `*`, `?`, `[0-9]`.
//!
//! Braces are expanded without listing, so they work with HTTP; the others match the names in a folder.

use packhorse_core::{Error, FileKind, Result, Store};
use std::path::{Path, PathBuf};

/// More names than this are taken for a mistake.
const MOST: usize = 1 << 20;

/// Expands braces in order, like a shell: `{a,b}` and `{008..011}`, also nested. Text without braces is returned
/// unchanged.
///
/// Errors (kind `Config`): over a million names.
pub fn braces(text: &str) -> Result<Vec<String>> {
    let mut out = vec![String::new()];
    let mut rest = text;
    while let Some((before, inside, after)) = first_brace(rest) {
        let mut choices = Vec::new();
        let parts = commas(inside);
        match numbers(inside) {
            Some(numbers) => choices.extend(numbers?),
            // Braces without alternatives are a part of the name.
            None if parts.len() == 1 => choices.extend(braces(inside)?.into_iter().map(|one| format!("{{{one}}}"))),
            None => {
                for part in parts {
                    choices.extend(braces(part)?);
                }
            }
        }
        if out.len().saturating_mul(choices.len()) > MOST {
            return Err(Error::config(format!("{text} stands for over {MOST} names")));
        }
        out = out.iter().flat_map(|head| choices.iter().map(move |c| format!("{head}{before}{c}"))).collect();
        rest = after;
    }
    out.iter_mut().for_each(|name| name.push_str(rest));
    Ok(out)
}

/// The text before, inside and after the first pair of braces.
fn first_brace(text: &str) -> Option<(&str, &str, &str)> {
    let open = text.find('{')?;
    let mut depth = 0;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < open) {
        depth += match c {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some((text.get(..open)?, text.get(open + 1..at)?, text.get(at + 1..)?));
        }
    }
    None
}

/// The numbers of `008..011`, zero-padded to the wider end if one has a leading zero.
fn numbers(inside: &str) -> Option<Result<Vec<String>>> {
    let (from, to) = inside.split_once("..")?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(from) || !digits(to) {
        return None;
    }
    let padded = [from, to].iter().any(|end| end.len() > 1 && end.starts_with('0'));
    let width = if padded { from.len().max(to.len()) } else { 0 };
    let (Ok(a), Ok(b)) = (from.parse::<u64>(), to.parse::<u64>()) else { return None };
    if a.abs_diff(b) >= MOST as u64 {
        return Some(Err(Error::config(format!("{{{inside}}} stands for over {MOST} names"))));
    }
    let mut all: Vec<String> = (a.min(b)..=a.max(b)).map(|n| format!("{n:0width$}")).collect();
    if a > b {
        all.reverse();
    }
    Some(Ok(all))
}

/// The parts between commas outside of nested braces.
fn commas(inside: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.extend(inside.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(inside.get(from..));
    parts
}

/// The paths that `path` stands for: of braces each choice, of globs what matches them, in natural order. A path without a
/// pattern stands for itself, and so does one that exists, since names may look like patterns.
///
/// Errors (kind `Config`): over a million names, not a valid glob. Also: a folder that can't be listed.
pub fn paths_of(store: &dyn Store, path: &Path) -> Result<Vec<PathBuf>> {
    let itself = || Ok(vec![path.to_owned()]);
    let Some(text) = path.to_str().filter(|text| text.contains('{') || is_glob(text)) else { return itself() };
    match store.stat(path, true) {
        // What can't be asked for is told where it is opened. Braces need no listing.
        Err(error) if error.is_absent() || !is_glob(text) => {}
        _ => return itself(),
    }
    let mut found = Vec::new();
    for name in braces(text)? {
        match PathBuf::from(&name) {
            path if is_glob(&name) && store.stat(&path, true).is_err() => found.extend(glob(store, &path)?),
            path => found.push(path),
        }
    }
    Ok(found)
}

/// Whether a name has wildcards.
pub fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// The paths that match the globs in `path`, in natural order. A glob matches one part of a path, and no hidden name unless it
/// begins with a dot itself. A part that exists as it is stands for itself.
///
/// Errors (kind `Config`): not a valid glob, `**`, over a million names. Also: a folder that can't be listed.
pub fn glob(store: &dyn Store, path: &Path) -> Result<Vec<PathBuf>> {
    // Slices of the path, whose beginning may be that of a URL.
    let plain = |path: &&Path| !is_glob(&path.to_string_lossy());
    let base = path.ancestors().find(plain).unwrap_or(Path::new(""));
    let (mut found, mut listed) = (vec![base.to_owned()], false);
    for part in path.strip_prefix(base).unwrap_or(path).components() {
        let name = Path::new(part.as_os_str()).to_string_lossy();
        if is_glob(&name) {
            found = matching(store, &found, &name, listed)?;
            listed = true;
            continue;
        }
        let mut there = Vec::with_capacity(found.len());
        for path in found {
            let path = path.join(part);
            match store.stat(&path, true) {
                Err(error) if listed && error.is_absent() => {}
                Err(error) if listed => return Err(error),
                _ => there.push(path),
            }
        }
        found = there;
    }
    found.sort_by_cached_key(|path| natural(&path.to_string_lossy()));
    Ok(found)
}

/// The names in `folders` that match a glob. Of folders that were `listed`, files are passed over.
fn matching(store: &dyn Store, folders: &[PathBuf], name: &str, listed: bool) -> Result<Vec<PathBuf>> {
    if name.contains("**") {
        let message = "** would match folders of any depth; a folder as an input is walked whole, and `include` chooses its files";
        return Err(Error::config(message));
    }
    let glob = globset::Glob::new(&literal_braces(name));
    let matcher =
        glob.map_err(|error| Error::config(format!("{name} is not a valid pattern: {error}")))?.compile_matcher();
    let is_hidden = |path: &Path| path.as_os_str().as_encoded_bytes().starts_with(b".");
    let mut found = Vec::new();
    for folder in folders {
        let literal = folder.join(name);
        if store.stat(&literal, true).is_ok() {
            found.push(literal);
            continue;
        }
        let names = match store.list(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }) {
            Err(_) if listed && store.stat(folder, true).is_ok_and(|stat| stat.kind != FileKind::Directory) => continue,
            names => names?,
        };
        let fits = |path: &PathBuf| matcher.is_match(path) && (name.starts_with('.') || !is_hidden(path));
        found.extend(names.into_iter().filter(fits).map(|name| folder.join(name)));
        if found.len() > MOST {
            return Err(Error::config(format!("{name} matches over {MOST} names")));
        }
    }
    Ok(found)
}

/// Braces are expanded before: those that are left are a part of the name.
fn literal_braces(name: &str) -> String {
    let literal = |c: char| match c {
        '{' | '}' => format!("[{c}]"),
        c => c.to_string(),
    };
    name.chars().map(literal).collect()
}

/// A sort key by which `shard-10` comes after `shard-9`. Names that differ have keys that differ.
pub fn natural(name: &str) -> Vec<(String, usize, String, usize)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (head, tail) = rest.split_at(text);
        let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(digits);
        let digits = number.trim_start_matches('0');
        // By their value, and equal ones by their leading zeros; a name that ends comes after its continuations.
        let rank = if number.is_empty() { usize::MAX } else { digits.len() };
        key.push((head.to_owned(), rank, digits.to_owned(), number.len()));
        rest = tail;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Local;

    #[test]
    fn braces_are_those_of_a_shell() {
        let all = |text: &str| braces(text).unwrap().join(" ");
        assert_eq!(
            all("s3://b/t-{008..011}.tar"),
            "s3://b/t-008.tar s3://b/t-009.tar s3://b/t-010.tar s3://b/t-011.tar"
        );
        assert_eq!(all("{a,b{1..2},}x{3..2}"), "ax3 ax2 b1x3 b1x2 b2x3 b2x2 x3 x2");
        assert_eq!((all("plain"), all("{open"), all("{9..11}")), ("plain".into(), "{open".into(), "9 10 11".into()));
        assert_eq!(all("s3://b/{run}/{a{1..2}}-{}.tar"), "s3://b/{run}/{a1}-{}.tar s3://b/{run}/{a2}-{}.tar");
        assert!(braces("{0..99999999}").is_err() && braces("{0..9999}{0..9999}").is_err());
    }

    #[test]
    fn globs_match_in_folders_too() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a1/x.csv", "a1/y.tar", "a2/x.csv", "a10/x.csv", "b/x.csv", ".a3/x.csv", "a1/.x.csv"] {
            std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::write(dir.path().join("a4"), "").unwrap();
        let found = |pattern: &str| {
            let found = glob(&Local, &dir.path().join(pattern)).unwrap();
            found.iter().map(|path| path.strip_prefix(dir.path()).unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found("a*/x.csv"), ["a1/x.csv", "a2/x.csv", "a10/x.csv"]);
        assert_eq!(found("?1/*"), ["a1/x.csv", "a1/y.tar"]);
        assert_eq!(found("[ab]*/*.csv"), ["a1/x.csv", "a2/x.csv", "a10/x.csv", "b/x.csv"]);
        assert_eq!((found(".a*/*"), found("a1/.*")), (vec![".a3/x.csv".to_owned()], vec!["a1/.x.csv".to_owned()]));
        assert!(found("c*/*").is_empty() && found("a*/z").is_empty() && found("a4*/*").is_empty());
        assert!(glob(&Local, &dir.path().join("**/x.csv")).unwrap_err().to_string().contains("any depth"));
        // Names that look like patterns.
        std::fs::create_dir(dir.path().join("a[1]")).unwrap();
        std::fs::write(dir.path().join("a[1]/z.csv"), "").unwrap();
        assert_eq!(found("a[1]/*.csv"), ["a[1]/z.csv"]);
        assert!(glob(&Local, &dir.path().join("none/*")).is_err());
    }

    #[test]
    fn numbers_sort_as_numbers() {
        let mut names = ["a-10.tar", "a-9.tar", "a-009.tar", "a.tar", "b-1.tar"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["a-9.tar", "a-009.tar", "a-10.tar", "a.tar", "b-1.tar"]);
        let mut names = ["t", "t1", "t0"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["t0", "t1", "t"]);
        let mut names = ["t-20240101123045123457", "t-20240101123045123456", "t-0"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["t-0", "t-20240101123045123456", "t-20240101123045123457"]);
    }
}
