//! `--config FILE.toml`: a file with the same keys as the flags.

use clap::{Arg, Command};
use packhorse_core::{Context, Error, Kind, Result, nearest};
use packhorse_pack::as_request_error;
use packhorse_storage::Location;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use toml::Value;

/// Replaces `--config FILE` by the flags that the file holds. They come before the flags of the
/// command line, which therefore win. The key `input` holds the INPUTs. `program` is the definition
/// of the whole command line.
pub(crate) fn expand(mut args: Vec<OsString>, program: &Command) -> Result<Vec<OsString>> {
    let Some((at, path)) = find(&args) else { return Ok(args) };
    let taken = if args.get(at).is_some_and(|a| a == "--config") { 2 } else { 1 };
    args.drain(at..(at + taken).min(args.len()));
    let path = path.ok_or_else(|| Error::config("--config takes a file"))?;
    if find(&args).is_some() {
        return Err(Error::config("--config is given twice; put the keys of both files into one"));
    }
    let (end, command) = subcommand(&args, program)
        .ok_or_else(|| Error::config("--config needs a command, such as packhorse pack --config FILE.toml"))?;
    let flags = flags(&path, program, command).map_err(|e| e.in_input(path.to_string_lossy()))?;
    let given = args.get(end..).unwrap_or_default();
    // They are those that the plan was made with, and clap would refuse them beside it.
    let has_plan =
        given.iter().filter_map(|given| given.to_str()).any(|given| given == "--plan" || given.starts_with("--plan="));
    let planned = command.get_arguments().find(|arg| has_plan && named(arg, "plan"));
    let planned: Vec<&Arg> = planned.map(|plan| command.get_arg_conflicts_with(plan)).unwrap_or_default();
    let is_planned = |flag: &OsString| match flag.to_str().and_then(|flag| flag.strip_prefix("--")) {
        Some(flag) => planned.iter().any(|arg| named(arg, flag.split('=').next().unwrap_or(flag))),
        // INPUT.
        None => has_plan,
    };
    let flags = flags.into_iter().filter(|flag| !is_given(flag, given, command) && !is_planned(flag));
    let flags = flags.collect::<Vec<_>>();
    args.splice(end..end, flags);
    Ok(args)
}

/// The command that `args` name, and the place after its name.
fn subcommand<'a>(args: &[OsString], program: &'a Command) -> Option<(usize, &'a Command)> {
    let named = |(i, arg): (usize, &OsString)| Some((i + 1, program.find_subcommand(arg)?));
    let (end, command) = args.iter().enumerate().skip(1).find_map(named)?;
    // Flags may stand between the words of a command.
    let words = args.iter().enumerate().skip(end).filter(|(_, arg)| !arg.to_string_lossy().starts_with('-'));
    let deeper = words.filter_map(|(i, arg)| Some((i + 1, command.find_subcommand(arg)?))).next();
    Some(deeper.unwrap_or((end, command)))
}

/// What the file at `path` holds, as flags of `command`.
fn flags(path: &OsStr, program: &Command, command: &Command) -> Result<Vec<OsString>> {
    Location::local(Path::new(path))?;
    let text =
        std::fs::read_to_string(path).context("read").map_err(|e| as_request_error(e).with_kind(Kind::Config))?;
    let mut flags = Vec::new();
    for (key, value) in table(&text)? {
        // Of the arguments without a flag, only INPUT is a key.
        let is_key = |arg: &&Arg| named(arg, &key) && (!arg.is_positional() || key == "input");
        let known = |of: &Command| of.get_arguments().any(|arg| is_key(&arg));
        if key == "config" || !(known(command) || known(program)) {
            let name = command.get_name();
            let meant = nearest(&key, command.get_arguments().map(key_of));
            let meant = meant.map(|key| format!("did you mean {key}? ")).unwrap_or_default();
            let message = format!(
                "has the key {key}, but packhorse {name} has no flag --{key}; {meant}see packhorse {name} --help"
            );
            return Err(Error::config(message));
        }
        if key == "input" && command.get_name() == "append" {
            return Err(Error::config(
                "has the key input; of append, give INPUT on the command line, after the dataset",
            ));
        }
        let arg = [command, program].iter().find_map(|of| of.get_arguments().find(|arg| named(arg, &key)));
        push(&key, value, arg.is_some_and(is_switch), &mut flags)?;
    }
    Ok(flags)
}

/// Whether the command line has the flag `flag` of the file too, so that it wins: a list of the file is not added to.
fn is_given(flag: &OsStr, given: &[OsString], command: &Command) -> bool {
    let Some(key) = flag.to_str().and_then(|flag| flag.strip_prefix("--")?.split('=').next()) else { return false };
    let arg = command.get_arguments().find(|arg| named(arg, key));
    given.iter().take_while(|given| *given != "--").filter_map(|given| given.to_str()).any(|given| {
        let long = given.strip_prefix("--").map(|given| given.split('=').next().unwrap_or(given));
        let short = given.strip_prefix('-').filter(|_| long.is_none()).unwrap_or_default();
        long.is_some_and(|long| arg.map_or(long == key, |arg| named(arg, long)))
            || short_flags(short, command).any(|letter| arg.is_some_and(|arg| arg.get_short() == Some(letter)))
    })
}

/// The flags of a word of letters, the last of which may have its value behind it: `qo` of `-qoDIR`.
fn short_flags<'w>(word: &'w str, command: &'w Command) -> impl Iterator<Item = char> + 'w {
    let takes_value = |letter: char| {
        let arg = command.get_arguments().find(|arg| arg.get_short() == Some(letter));
        arg.is_some_and(|arg| !is_switch(arg))
    };
    let mut ended = false;
    word.chars().take_while(move |letter| !std::mem::replace(&mut ended, takes_value(*letter)))
}

/// The keys and values of a file.
pub(crate) fn table(text: &str) -> Result<toml::Table> {
    text.parse().map_err(|e: toml::de::Error| Error::config(format!("is not valid TOML: {}", e.message())))
}

/// Whether the flag needs no value.
fn is_switch(arg: &Arg) -> bool {
    !arg.get_action().takes_values() || arg.get_num_args().is_some_and(|values| values.min_values() == 0)
}

fn named(arg: &Arg, key: &str) -> bool {
    key_of(arg) == key || arg.get_visible_aliases().is_some_and(|aliases| aliases.contains(&key))
}

fn key_of(arg: &Arg) -> &str {
    arg.get_long().unwrap_or(arg.get_id().as_str())
}

fn find(args: &[OsString]) -> Option<(usize, Option<OsString>)> {
    let end = args.iter().position(|a| a == "--").unwrap_or(args.len());
    args.iter().take(end).enumerate().find_map(|(i, arg)| {
        if arg == "--config" {
            return Some((i, args.get(i + 1).cloned()));
        }
        let value = arg.to_str()?.strip_prefix("--config=")?;
        Some((i, Some(OsString::from(value))))
    })
}

/// Adds the flag of a key and its value. `is_switch`: whether the flag takes no value.
fn push(key: &str, value: Value, is_switch: bool, flags: &mut Vec<OsString>) -> Result<()> {
    let text = match value {
        Value::Array(list) => return list.into_iter().try_for_each(|value| push(key, value, is_switch, flags)),
        Value::Boolean(is_on) if is_switch => {
            flags.extend(is_on.then(|| format!("--{key}").into()));
            return Ok(());
        }
        // The next word would be taken for the value.
        Value::Boolean(is_on) => {
            let hint = if is_on { "give it one" } else { "give it one, or leave the key out" };
            return Err(Error::config(format!("has {key} = {is_on}, and --{key} takes a value; {hint}")));
        }
        Value::String(text) => text,
        Value::Integer(n) => n.to_string(),
        Value::Float(n) => n.to_string(),
        Value::Table(_) | Value::Datetime(_) => {
            return Err(Error::config(format!("the key {key} has a value that no flag takes")));
        }
    };
    flags.push(match key {
        "input" => OsString::from(text),
        _ => OsStr::new(&format!("--{key}={text}")).to_owned(),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(toml: &str, args: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, toml).unwrap();
        let args = args.iter().map(|a| OsString::from(a.replace("FILE", file.to_str().unwrap()))).collect();
        expand(args, &crate::definition()).unwrap().into_iter().map(|a| a.into_string().unwrap()).collect()
    }

    #[test]
    fn flags_of_the_command_line_take_the_place_of_those_of_the_file() {
        let toml = "input = [\"a\", \"b\"]\nto = \"webdataset\"\njobs = 3\norient = true\nquiet = false\n";
        let args = ["packhorse", "pack", "--config", "FILE", "--jobs", "1"];
        let wanted = ["packhorse", "pack", "a", "b", "--to=webdataset", "--orient", "--jobs", "1"];
        let mut got = expanded(toml, &args);
        assert_eq!(got.len(), wanted.len());
        got.sort();
        let mut sorted = wanted.map(String::from).to_vec();
        sorted.sort();
        assert_eq!(got, sorted);
        assert_eq!(expanded(toml, &args).last().map(String::as_str), Some("1"));
    }

    /// One file serves `plan` and the tasks that fill the plan.
    #[test]
    fn what_a_plan_has_decided_is_left_out_beside_it() {
        let toml = "input = \"a\"\nto = \"webdataset\"\ninclude = [\"*.jpg\"]\njobs = 3\non-error = \"skip\"\n";
        let mut got = expanded(toml, &["packhorse", "pack", "--config", "FILE", "--plan", "out"]);
        got.sort();
        assert_eq!(got, ["--jobs=3", "--on-error=skip", "--plan", "out", "pack", "packhorse"]);
    }

    #[test]
    fn they_come_after_the_command_wherever_it_stands() {
        let deep =
            expanded("count = 3\n", &["packhorse", "--log", "json", "synth", "tiny", "--config=FILE", "--out", "x"]);
        assert_eq!(deep, ["packhorse", "--log", "json", "synth", "tiny", "--count=3", "--out", "x"]);
        let between = expanded("to = \"hdf5\"\n", &["packhorse", "slurm", "--json", "pack", "--config=FILE", "x"]);
        assert_eq!(between, ["packhorse", "slurm", "--json", "pack", "--to=hdf5", "x"]);
        let alias = expanded("threads = 3\nquiet = true\n", &["packhorse", "--config", "FILE", "verify", "x"]);
        assert_eq!(alias, ["packhorse", "verify", "--quiet", "--threads=3", "x"]);
    }

    #[test]
    fn letters_of_joined_flags_win_over_the_file() {
        let args = ["packhorse", "pack", "--config", "FILE", "a", "-qo", "y"];
        assert_eq!(expanded("out = \"x\"\n", &args), ["packhorse", "pack", "a", "-qo", "y"]);
        // Here o is a part of the value.
        let args = ["packhorse", "pack", "--config", "FILE", "a", "-j1o"];
        assert_eq!(expanded("out = \"xy\"\n", &args), ["packhorse", "pack", "--out=xy", "a", "-j1o"]);
    }

    #[test]
    fn arguments_that_are_no_flags_are_no_keys() {
        let program = crate::definition();
        let verify = program.find_subcommand("verify").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, "paths = [\"x\"]\n").unwrap();
        let error = flags(file.as_os_str(), &program, verify).unwrap_err();
        assert!(error.message().contains("has the key paths"), "{error}");
    }

    #[test]
    fn a_table_is_refused() {
        assert!(push("x", Value::Table(toml::Table::new()), false, &mut Vec::new()).is_err());
    }

    #[test]
    fn true_is_no_value_of_a_flag_that_takes_one() {
        let mut flags = Vec::new();
        push("progress", Value::Boolean(true), true, &mut flags).unwrap();
        assert_eq!(flags, ["--progress"]);
        push("progress", Value::Boolean(false), true, &mut flags).unwrap();
        assert_eq!(flags.len(), 1);
        let error = push("name", Value::Boolean(true), false, &mut flags).unwrap_err();
        assert_eq!(error.message(), "has name = true, and --name takes a value; give it one");
        assert!(push("shuffle", Value::Boolean(false), false, &mut flags).is_err());
    }
}
