//! The defaults of a site: `/etc/packhorse/slurm.toml`, and `packhorse/slurm.toml` below `$XDG_CONFIG_HOME` or `~/.config`.

use super::directives::Directive;
use crate::config::table;
use packhorse_core::{Context, Error, Kind, Result};
use packhorse_pack::as_request_error;
use std::path::{Path, PathBuf};
use toml::Value;

/// Options of the scheduler, and lines of shell for before the command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) options: Vec<Directive>,
    /// Options that are not given, though scripts usually have them.
    pub(crate) without: Vec<String>,
    pub(crate) setup: Vec<String>,
}

/// The key with lines of shell.
const SETUP: &str = "setup";

impl Site {
    /// The defaults in the files `NAME.toml`; those of the user come last.
    pub(crate) fn read(name: &str) -> Result<Self> {
        let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = var("XDG_CONFIG_HOME").or_else(|| Some(var("HOME")?.join(".config")));
        let mut site = Self::default();
        for folder in [Some(PathBuf::from("/etc")), home].into_iter().flatten() {
            let path = folder.join("packhorse").join(format!("{name}.toml"));
            site.add_file(&path, name == "slurm").map_err(|e| e.in_input(path.display()))?;
        }
        Ok(site)
    }

    fn add_file(&mut self, path: &Path, joins: bool) -> Result<()> {
        match std::fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            text => self.add(&text.context("read").map_err(|e| as_request_error(e).with_kind(Kind::Config))?, joins),
        }
    }

    /// Adds the options of a file. `joins`: those of a list are one option, with commas.
    fn add(&mut self, text: &str, joins: bool) -> Result<()> {
        for (key, value) in table(text)? {
            let values = match value {
                Value::Array(values) if joins && key != SETUP => {
                    let values = values.iter().map(|value| line(&key, value)).collect::<Result<Vec<_>>>()?;
                    vec![Value::String(values.join(","))]
                }
                Value::Array(values) => values,
                value => vec![value],
            };
            if key == SETUP {
                self.setup = values.iter().map(|value| line(&key, value)).collect::<Result<_>>()?;
                continue;
            }
            for value in values {
                match value {
                    Value::Boolean(true) => self.options.push(Directive::flag(&key)),
                    Value::Boolean(false) => self.without.push(key.clone()),
                    value => self.options.push(Directive::new(&key, line(&key, &value)?)),
                }
            }
        }
        Ok(())
    }
}

/// A value as one line.
fn line(key: &str, value: &Value) -> Result<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        _ => return Err(Error::config(format!("the key {key} has a value that no option takes"))),
    };
    match text.contains('\n') {
        true => Err(Error::config(format!("the key {key} has a value of several lines; give a list"))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_lines_of_setup() {
        let mut site = Site::default();
        let text = "partition = \"cpu\"\nnice = 10\nexclusive = true\nrequeue = false\nsetup = [\"module load x\", \"umask 2\"]";
        site.add(text, false).unwrap();
        let options = [Directive::flag("exclusive"), Directive::new("nice", "10"), Directive::new("partition", "cpu")];
        assert_eq!(site.options, options);
        assert_eq!(
            (&site.without[..], &site.setup[..]),
            (&["requeue".to_owned()][..], &["module load x".to_owned(), "umask 2".into()][..])
        );
        for bad in ["x = 1.5", "x = \"a\\nb\"", "[x]\ny = 1", "x ="] {
            assert!(site.add(bad, false).is_err(), "{bad}");
        }
        let lists = |joins| {
            let mut site = Site::default();
            site.add("partition = [\"a\", \"b\"]", joins).unwrap();
            site.add("partition = \"c\"", joins).unwrap();
            site.options.into_iter().filter_map(|option| option.value).collect::<Vec<_>>()
        };
        assert_eq!(lists(true), ["a,b", "c"]);
        assert_eq!(lists(false), ["a", "b", "c"]);
    }
}
