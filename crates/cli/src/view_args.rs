//! The flags of `packhorse view`.

use crate::args::Dir;
use clap::{ArgAction, Args as ClapArgs, ValueHint};
use packhorse_read::Condition;
use std::path::PathBuf;

#[derive(ClapArgs)]
pub(crate) struct ViewFlags {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// The folder or URL (s3://…, gs://…, az://…) of the view: a new or an empty one
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,

    /// Take the samples of this split
    #[arg(long, value_name = "NAME")]
    pub(crate) split: Option<String>,

    /// Take the samples with these keys: a file with one on each line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "numbers")]
    pub(crate) keys: Option<PathBuf>,

    /// Take the samples with these numbers, counted from 0, in this order: a file with one on each line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) numbers: Option<PathBuf>,

    /// Add the columns of this table (.csv, .tsv, .jsonl, .parquet), or of several that a pattern matches, as fields, by the
    /// key of each sample
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, action = ArgAction::Append)]
    pub(crate) join: Vec<PathBuf>,

    /// The column of the table that names samples
    #[arg(long, value_name = "COLUMN", default_value = "key", requires = "join")]
    pub(crate) join_key: String,

    /// Add only these columns
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', requires = "join")]
    pub(crate) join_columns: Vec<String>,

    /// Give samples without a row in the table nulls; without it they are an error
    #[arg(long, requires = "join")]
    pub(crate) fill_missing: bool,

    /// Take the samples whose fields meet a condition, such as 'cls == 3 and json.width >= 256'
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) condition: Option<Condition>,

    /// Take fold I of K, counted from 1: the samples to hold out. The fold of a sample depends on its key and --seed
    #[arg(long, value_name = "I/K", conflicts_with = "without_fold", value_parser = parse_fold)]
    pub(crate) fold: Option<(u32, u32)>,

    /// Take the samples that are not in fold I of K: those to train with
    #[arg(long, value_name = "I/K", value_parser = parse_fold)]
    pub(crate) without_fold: Option<(u32, u32)>,

    /// Seeds the folds
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Take only these fields
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',')]
    pub(crate) select: Vec<String>,
}

fn parse_fold(text: &str) -> Result<(u32, u32), String> {
    let fold = text.split_once('/').and_then(|(i, folds)| Some((i.parse().ok()?, folds.parse().ok()?)));
    fold.filter(|(i, folds)| *folds >= 2 && (1..=*folds).contains(i))
        .ok_or_else(|| "write I/K, such as 1/5: a fold from 1 to K of at least 2".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_numbered_from_one() {
        assert_eq!(parse_fold("5/5"), Ok((5, 5)));
        for bad in ["0/5", "6/5", "1/1", "1", "a/b", "-1/5"] {
            assert!(parse_fold(bad).is_err(), "{bad}");
        }
    }
}
