//! Which arguments may be URLs.

use clap::ArgMatches;
use packhorse_core::Result;
use packhorse_storage::Location;
use std::path::{Path, PathBuf};

/// The arguments that are locations: their commands read URLs too.
const LOCATIONS: [(&str, &str); 1] = [("stage", "dataset")];

/// The arguments that hold paths as text.
const TEXTS: [(&str, &str); 1] = [("order", "input")];

/// Refuses a URL wherever `matches`, those of the whole command line, hold a path. Every argument of type `PathBuf` is
/// one, so a new flag is covered without a word here.
///
/// Errors: `Unsupported`, naming the command and the argument.
pub(crate) fn check(matches: &ArgMatches) -> Result<()> {
    let mut names = Vec::new();
    let mut at = matches;
    while let Some((name, inner)) = at.subcommand() {
        names.push(name);
        at = inner;
        paths(name, at).map_err(|e| e.in_input(format!("packhorse {}", names.join(" "))))?;
    }
    Ok(())
}

fn paths(command: &str, matches: &ArgMatches) -> Result<()> {
    for id in matches.ids().map(clap::Id::as_str) {
        if LOCATIONS.contains(&(command, id)) {
            continue;
        }
        if let Ok(Some(values)) = matches.try_get_many::<PathBuf>(id) {
            values.into_iter().try_for_each(|path| Location::local(path).map(drop))?;
        }
        if TEXTS.contains(&(command, id))
            && let Ok(Some(values)) = matches.try_get_many::<String>(id)
        {
            values.into_iter().try_for_each(|text| Location::local(Path::new(text)).map(drop))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::code;

    fn checked(line: &str) -> Result<()> {
        let args = std::iter::once("packhorse").chain(line.split(' '));
        check(&crate::definition().try_get_matches_from(args).unwrap())
    }

    #[test]
    fn a_url_is_refused_where_a_path_is_needed() {
        for line in [
            "pack s3://b/x --to webdataset --out y",
            "pack x --to webdataset --out s3://b/y",
            "pack --plan gs://b/y",
            "pack x --to webdataset --out y --files-from http://h/list",
            "plan x --to webdataset --out y --metadata https://h/t.csv --key k",
            "seal s3://b/x",
            "status s3://b/x",
            "verify x s3://b/x",
            "merge s3://b/x --out y",
            "order 0.5 a 0.5 s3://b/x --out y",
            "repair x.idx --out s3://b/x",
            "stage s3://b/x --to s3://b/y",
            "ls s3://b/x.tar",
            "cat file:///x.tar a.jpg",
            "stat s3://b/x",
            "synth tiny --out s3://b/x",
        ] {
            let error = checked(line).unwrap_err();
            assert_eq!(code(error.kind()), 8, "{line}: {error}");
        }
        for line in ["pack x --to webdataset --out ./s3:/y", "stage s3://b/x --to y", "bench read s3://b/x"] {
            checked(line).unwrap();
        }
    }
}
