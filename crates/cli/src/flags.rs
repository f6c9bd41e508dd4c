//! Flags from the declaration of a recipe's settings: same names, values and defaults.

use crate::settings::{POSITIONAL, flags_of};
use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint, value_parser};
use packhorse_pack::{Recipe, Setting, Takes};
use std::ffi::OsStr;
use std::path::PathBuf;

/// The settings of a recipe as flags.
#[derive(Clone)]
pub(crate) struct RecipeFlags(pub(crate) Recipe);

impl Args for RecipeFlags {
    fn augment_args(command: Command) -> Command {
        command.args(Recipe::SETTINGS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RecipeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut recipe = Recipe::default();
        let is_given = |setting: &&Setting| matches.value_source(setting.field) != Some(ValueSource::DefaultValue);
        for setting in Recipe::SETTINGS.iter().filter(is_given) {
            let given: Vec<&OsStr> = matches.get_raw(setting.field).into_iter().flatten().collect();
            if takes_one_path(setting) && given.len() > 1 {
                let text = format!("--{} is given {} times, and takes one value\n", setting.name, given.len());
                return Err(Error::raw(clap::error::ErrorKind::ArgumentConflict, text));
            }
            // A list may be given in several flags.
            let joined = (is_list(setting) && given.len() > 1).then(|| given.join(OsStr::new(",")));
            for text in joined.as_deref().map_or(given, |joined| vec![joined]) {
                // Checked before, by the flag's own parser.
                let taken = recipe.take(setting.name, text);
                taken.map_err(|e| Error::raw(clap::error::ErrorKind::ValueValidation, format!("{e}\n")))?;
            }
        }
        Ok(Self(recipe))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The settings that `-h` shows; `--help` shows all.
const COMMON: [&str; 10] =
    ["input", "to", "out", "on-error", "labels", "shuffle", "shard-size", "split", "image", "tokenizer"];

fn flag(setting: &'static Setting) -> Arg {
    let about =
        flags_of(setting.about.trim_start(), &|name| Recipe::SETTINGS.iter().any(|setting| setting.name == name));
    let first = about.split_once(". ").map_or(about.as_str(), |(first, _)| first).to_owned();
    let arg = Arg::new(setting.field).help(first).long_help(about);
    let arg = arg.hide_short_help(!COMMON.contains(&setting.name));
    let arg = match setting.name {
        POSITIONAL => arg.num_args(1..),
        name => arg.long(name).help_heading(setting.group),
    };
    let arg = match setting.takes {
        Takes::Switch => return arg.action(ArgAction::SetTrue),
        Takes::Text | Takes::Texts | Takes::Number(..) => {
            arg.value_parser(move |text: &str| setting.check(text.as_ref()))
        }
        Takes::OneOf(words) => arg.value_parser(PossibleValuesParser::new(words)),
        Takes::File => path(arg, ValueHint::FilePath),
        Takes::Folder => path(arg, ValueHint::DirPath),
        Takes::Path => path(arg, ValueHint::AnyPath),
    };
    let several = setting.repeats || is_list(setting) || takes_one_path(setting);
    let arg = arg.value_name(setting.value).action(if several { ArgAction::Append } else { ArgAction::Set });
    let arg = setting.short.into_iter().fold(arg, Arg::short);
    setting.default.into_iter().fold(arg, Arg::default_value)
}

/// Whether it takes one file or folder: of two that are given the first would be left out in silence.
fn takes_one_path(setting: &Setting) -> bool {
    matches!(setting.takes, Takes::File | Takes::Folder) && !setting.repeats
}

/// Whether a value is a list with commas.
fn is_list(setting: &Setting) -> bool {
    setting.value == "A,B"
}

fn path(arg: Arg, hint: ValueHint) -> Arg {
    arg.value_parser(value_parser!(PathBuf)).value_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Recipe, Error> {
        let command = RecipeFlags::augment_args(Command::new("pack"));
        RecipeFlags::from_arg_matches(&command.try_get_matches_from(line.split(' '))?).map(|flags| flags.0)
    }

    #[test]
    fn no_flag_is_the_default() {
        assert_eq!(parsed("pack").unwrap(), Recipe { ..Recipe::default() });
    }

    #[test]
    fn flags_are_settings() {
        let recipe =
            parsed("pack a b --to hdf5 -o out --shuffle 7 --shard-size 20MB --rows --include x --include y").unwrap();
        let wanted = Recipe::new("a", "hdf5", "out").and("b").shuffle(7).shard_size(20_000_000);
        let wanted = wanted.with("rows", "true").unwrap().with("include", "x").unwrap().with("include", "y").unwrap();
        assert_eq!(recipe, wanted);
        let recipe = parsed("pack --metadata t.csv --key k --columns a,b").unwrap();
        assert_eq!(recipe.columns, ["a", "b"]);
        for line in ["pack --datasets a --datasets b,c", "pack --datasets a,b,c"] {
            assert_eq!(parsed(line).unwrap().datasets.as_deref(), Some("a,b,c"));
        }
        for bad in ["--shuffle x", "--quality 0", "--on-error perhaps", "--shard-size 20", "--limit 0"] {
            assert!(parsed(&format!("pack a {bad}")).is_err(), "{bad}");
        }
    }
}
