//! The flags of `packhorse view`.

use crate::args::Dir;
use clap::{ArgAction, Args as ClapArgs, ValueHint};
use packhorse_read::Condition;
use std::path::PathBuf;

#[derive(ClapArgs)]
pub(crate) struct ViewFlags {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// The folder or URL (s3://…, gs://…, az://…) of the view; it must be new or empty
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,

    /// Keep the samples of this split
    #[arg(long, value_name = "NAME")]
    pub(crate) split: Option<String>,

    /// Keep the samples with the keys in this file, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "numbers")]
    pub(crate) keys: Option<PathBuf>,

    /// Keep the samples with the numbers in this file, one per line, counted from 0, in that order
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) numbers: Option<PathBuf>,

    /// Add the columns of this table (.csv, .tsv, .jsonl, .json, .parquet, also .csv.gz and so on), or of the tables
    /// that a pattern matches, as fields, joined by the key of each sample
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, action = ArgAction::Append)]
    pub(crate) join: Vec<PathBuf>,

    /// The column of the table that identifies samples
    #[arg(long, value_name = "COLUMN", default_value = "key", requires = "join")]
    pub(crate) join_key: String,

    /// Add only these columns
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', requires = "join")]
    pub(crate) join_columns: Vec<String>,

    /// Fill nulls for samples without a row in the table; otherwise they are an error
    #[arg(long, requires = "join")]
    pub(crate) fill_missing: bool,

    /// Keep the samples whose fields meet a condition, such as 'cls == 3 and json.width >= 256'
    #[arg(long = "where", value_name = "CONDITION")]
    pub(crate) condition: Option<Condition>,

    /// Keep fold I of K, counted from 1: the samples to hold out. A sample's fold depends on its key and --seed
    #[arg(long, value_name = "I/K", conflicts_with = "without_fold", value_parser = parse_fold)]
    pub(crate) fold: Option<(u32, u32)>,

    /// Keep the samples outside fold I of K: those to train with
    #[arg(long, value_name = "I/K", value_parser = parse_fold)]
    pub(crate) without_fold: Option<(u32, u32)>,

    /// The seed of the folds
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Keep only these fields
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
