//! Settings as flags: libraries name settings in backticks (`` `on-error=skip` ``), people here type `--on-error skip`.

use clap::Command;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The long flags of all commands.
static FLAGS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut found = BTreeSet::new();
    collect(&crate::definition(), &mut found);
    found
});

fn collect(command: &Command, found: &mut BTreeSet<String>) {
    found.extend(command.get_arguments().filter_map(|argument| argument.get_long()).map(str::to_owned));
    command.get_subcommands().for_each(|command| collect(command, found));
}

/// The setting without a flag: a positional argument.
pub(crate) const POSITIONAL: &str = "input";

/// The settings of readers that have flags of their own where files are packed.
const OF_READERS: [&str; 5] = ["attributes", "branches", "datasets", "groups", "tree"];

/// Whether the command takes options of readers by its flag `read` alone.
static NAMES_READ: AtomicBool = AtomicBool::new(false);

/// From now on messages name options of readers by the flag `read`.
pub(crate) fn name_read() {
    NAMES_READ.store(true, Ordering::Relaxed);
}

/// [`flags_of`] a message, with the flags of all commands.
pub(crate) fn flags(text: &str) -> Cow<'_, str> {
    if !text.contains('`') {
        return Cow::Borrowed(text);
    }
    let text = if NAMES_READ.load(Ordering::Relaxed) { Cow::Owned(by_read(text)) } else { Cow::Borrowed(text) };
    flags_of(&text, &|name| FLAGS.contains(name)).into()
}

/// `text` with the settings of readers as values of `read`.
fn by_read(text: &str) -> String {
    OF_READERS.iter().fold(text.to_owned(), |text, name| {
        let text = text.replace(&format!("`{name}="), &format!("`read={name}="));
        text.replace(&format!("`{name}`"), &format!("`read={name}=NAME`"))
    })
}

/// `text` with each setting in backticks as a flag, and within a command in backticks (`` `packhorse verify full` ``)
/// too. Other text in backticks stays.
pub(crate) fn flags_of(text: &str, is_flag: &dyn Fn(&str) -> bool) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((before, code, after)) = quoted(rest) {
        shown.push_str(before);
        match flag(code, is_flag) {
            Some(flag) => shown.push_str(&flag),
            None => shown.extend(["`", &within(code, is_flag), "`"]),
        }
        rest = after;
    }
    shown + rest
}

/// Splits `text` at its first part in backticks: before, inside, after.
fn quoted(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
}

/// A command with flags in the place of settings.
fn within<'a>(code: &'a str, is_flag: &dyn Fn(&str) -> bool) -> Cow<'a, str> {
    let Some(rest) = code.strip_prefix("packhorse ") else { return Cow::Borrowed(code) };
    let mut words = rest.split(' ');
    let verb = words.next().unwrap_or_default();
    let words = words.map(|word| format!(" {}", flag(word, is_flag).unwrap_or_else(|| word.to_owned())));
    Cow::Owned(format!("packhorse {verb}{}", words.collect::<String>()))
}

/// `name` or `name=value` as a flag, if one has the name.
fn flag(setting: &str, is_flag: &dyn Fn(&str) -> bool) -> Option<String> {
    let (name, value) = match setting.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (setting, None),
    };
    if name == POSITIONAL {
        return Some("INPUT".to_owned());
    }
    is_flag(name).then(|| match value {
        Some(value) => format!("--{name} {}", word(value)),
        None => format!("--{name}"),
    })
}

/// `value` as a shell reads one word.
pub(crate) fn word(value: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "_-./:,=+%@".contains(c);
    match !value.is_empty() && value.chars().all(plain) {
        true => Cow::Borrowed(value),
        false => Cow::Owned(format!("'{}'", value.replace('\'', r"'\''"))),
    }
}

/// A path as an argument in a command that is shown: one word, and no flag.
pub(crate) fn path_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let sign = if text.starts_with('-') { "./" } else { "" };
    word(&format!("{sign}{text}")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_single_words() {
        for (path, shown) in [("a/b-1", "a/b-1"), ("it's a", r"'it'\''s a'"), ("-o", "./-o"), ("s3://b/x", "s3://b/x")]
        {
            assert_eq!(path_word(Path::new(path)), shown);
        }
    }

    #[test]
    fn options_of_readers_are_named_by_read_where_that_is_the_flag() {
        let text = "choose with `datasets` or `tree=NAME`, or pack with `packhorse pack tree=*`, `jobs=2`";
        let shown =
            "choose with `read=datasets=NAME` or `read=tree=NAME`, or pack with `packhorse pack tree=*`, `jobs=2`";
        assert_eq!(by_read(text), shown);
    }

    #[test]
    fn settings_are_shown_as_flags() {
        for (text, shown) in [
            ("pass `on-error=skip` to go on", "pass --on-error skip to go on"),
            ("see `shard-size` and `shard-count`", "see --shard-size and --shard-count"),
            ("`from=hdf5` `read=scale=apply`", "--from hdf5 --read scale=apply"),
            ("or `tree=*`", "or --tree '*'"),
            ("`name=it's`", r"--name 'it'\''s'"),
            ("below `input` (with `from=text`)", "below INPUT (with --from text)"),
            ("run `packhorse seal`", "run `packhorse seal`"),
            ("`packhorse verify full` shows", "`packhorse verify --full` shows"),
            ("the feature `remote`", "the feature `remote`"),
            ("`no-such-setting=1`", "`no-such-setting=1`"),
            ("a lone ` stays, `shuffle", "a lone ` stays, `shuffle"),
            ("an odd `jobs` one `", "an odd --jobs one `"),
            ("", ""),
        ] {
            assert_eq!(flags(text), shown);
        }
    }
}
