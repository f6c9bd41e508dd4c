//! Which arguments may be URLs.

use clap::ArgMatches;
use packhorse_core::Result;
use packhorse_storage::Location;
use std::path::{Path, PathBuf};

/// The arguments that are locations: their commands take URLs too.
const LOCATIONS: [(&str, &str); 28] = [
    ("adopt", "shards"),
    ("append", "dir"),
    ("append", "input"),
    ("cat", "path"),
    ("clean", "dir"),
    ("head", "path"),
    ("index", "out"),
    ("index", "shards"),
    ("ls", "path"),
    ("pack", "input"),
    ("pack", "inventory"),
    ("pack", "out"),
    ("pack", "plan"),
    ("plan", "input"),
    ("plan", "inventory"),
    ("plan", "out"),
    ("repair", "path"),
    ("resume", "out"),
    ("scan", "input"),
    ("scan", "inventory"),
    ("scan", "out"),
    ("seal", "dir"),
    ("stage", "dataset"),
    ("stat", "path"),
    ("status", "dir"),
    ("verify", "paths"),
    ("view", "dir"),
    ("view", "out"),
];

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
        if let Ok(Some(mut values)) = matches.try_get_many::<PathBuf>(id) {
            let check = if LOCATIONS.contains(&(command, id)) { location } else { local };
            values.try_for_each(|path| check(path))?;
        }
        if TEXTS.contains(&(command, id))
            && let Ok(Some(values)) = matches.try_get_many::<String>(id)
        {
            values.into_iter().try_for_each(|text| Location::local(Path::new(text)).map(drop))?;
        }
    }
    Ok(())
}

fn local(path: &Path) -> Result<()> {
    Location::local(path).map(drop)
}

/// A path, or a URL of a scheme that packhorse knows. `file://…` would be a second name of a path.
fn location(path: &Path) -> Result<()> {
    match Location::url(path) {
        Some(url) if !url.to_ascii_lowercase().starts_with("file:") => Location::parse(url).map(drop),
        _ => local(path),
    }
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
            "pack file:///x --to webdataset --out y",
            "pack x --to webdataset --out ftp://b/y",
            "pack --plan hdfs://b/y",
            "pack x --to webdataset --out y --files-from http://h/list",
            "plan x --to webdataset --out y --metadata https://h/t.csv --key k",
            "seal gcs://b/x",
            "verify x file://x",
            "merge s3://b/x --out y",
            "order 0.5 a 0.5 s3://b/x --out y",
            "repair x.idx --out s3://b/x",
            "stage s3://b/x --to s3://b/y",
            "cat file:///x.tar a.jpg",
            "synth tiny --out s3://b/x",
            "pack x --to webdataset --out s3:/b/y",
            "stage x --to user@host:/scratch/x",
        ] {
            let error = checked(line).unwrap_err();
            assert_eq!(code(error.kind()), 8, "{line}: {error}");
        }
        for line in [
            "pack x --to webdataset --out ./s3:/y",
            "pack s3://b/x https://h/x.tar --to webdataset --out s3://b/y",
            "pack gs://b/x --to webdataset --out az://b/y",
            "pack x --to webdataset --out abfss://b@a.dfs.core.windows.net/y",
            "pack --plan s3://b/y",
            "plan s3://b/x --inventory s3://i/b/manifest.json --to webdataset --out y",
            "seal s3://b/x",
            "status s3://b/x",
            "clean s3://b/x",
            "adopt s3://b/x",
            "index http://h/x-{0..9}.tar --out s3://b/x",
            "append s3://b/x s3://b/y",
            "verify x s3://b/x",
            "repair s3://b/x",
            "ls s3://b/x.tar",
            "stat http://h/x.parquet",
            "stage s3://b/x --to y",
            "bench read s3://b/x",
        ] {
            checked(line).unwrap();
        }
    }
}
