//! The options of a scheduler in the head of a script.

use packhorse_core::{Error, Result};

/// An option of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Directive {
    /// Without dashes.
    pub(crate) name: String,
    pub(crate) value: Option<String>,
}

impl Directive {
    pub(crate) fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: Some(value.into()) }
    }

    pub(crate) fn flag(name: &str) -> Self {
        Self { name: name.to_owned(), value: None }
    }
}

/// Options as a command line has them: `--name=value`, `--name value`, `-n value`, `-nvalue`, `--flag`.
pub(crate) fn parse(words: &[String]) -> Result<Vec<Directive>> {
    let mut found: Vec<Directive> = Vec::new();
    // Whether the last option may still get its value.
    let mut open = false;
    for word in words {
        let (name, value) = match (word.strip_prefix("--"), word.strip_prefix('-')) {
            (Some(long), _) => match long.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (long.to_owned(), None),
            },
            (None, Some(short)) => {
                let (name, value) = short.split_at(short.chars().next().map_or(0, char::len_utf8));
                (name.to_owned(), (!value.is_empty()).then(|| value.to_owned()))
            }
            (None, None) => {
                let Some(last) = found.last_mut().filter(|_| open) else {
                    return Err(Error::config(format!(
                        "after --, options of the scheduler follow, and \"{word}\" is none"
                    )));
                };
                last.value = Some(word.clone());
                open = false;
                continue;
            }
        };
        if name.is_empty() || word.contains('\n') {
            return Err(Error::config(format!("{word:?} is not an option of a scheduler")));
        }
        open = value.is_none();
        found.push(Directive { name, value });
    }
    Ok(found)
}

/// The most tasks that run at a time, as the value of the array's option says it: `%10`, also behind the tasks that the array has,
/// which are `tasks`.
///
/// Errors: `Config` for other tasks.
pub(crate) fn throttle(array: &Directive, tasks: &str) -> Result<String> {
    let value = array.value.as_deref().unwrap_or_default();
    let parted = value.split_once('%').filter(|(those, _)| those.is_empty() || *those == tasks);
    match parted.and_then(|(_, most)| most.parse::<u32>().ok()) {
        Some(most) if most > 0 => Ok(format!("%{most}")),
        _ => Err(Error::config(
            "packhorse says which tasks the array has; give --tasks N, and %N here for N tasks at a time",
        )),
    }
}

/// Puts `new` in the place of the directive that is the `same`, or at the end of `directives`.
pub(crate) fn replace(directives: &mut Vec<Directive>, new: Directive, same: impl Fn(&Directive) -> bool) {
    match directives.iter_mut().find(|old| same(old)) {
        Some(old) => *old = new,
        None => directives.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_all_forms() {
        let words = ["--partition=cpu", "--time", "1:00:00", "-Aproj", "-q", "debug", "--exclusive", "--mem=0"];
        let found = parse(&words.map(str::to_owned)).unwrap();
        let wanted = [
            Directive::new("partition", "cpu"),
            Directive::new("time", "1:00:00"),
            Directive::new("A", "proj"),
            Directive::new("q", "debug"),
            Directive::flag("exclusive"),
            Directive::new("mem", "0"),
        ];
        assert_eq!(found, wanted);
        for bad in [&["cpu"][..], &["--a=1", "b"], &["-"], &["--a=x\n#SBATCH"]] {
            assert!(parse(&bad.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).is_err(), "{bad:?}");
        }
    }
}
