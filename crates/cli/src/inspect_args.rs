//! The arguments of `packhorse ls`, `cat`, `head` and `stat`.

use clap::{Args as ClapArgs, ValueHint};
use packhorse_core::{Options, Result};
use std::path::PathBuf;

/// How files of others are read.
#[derive(ClapArgs)]
pub(crate) struct Reading {
    /// An option of the file's reader, where it needs one: tree=Events, datasets=/train/*, groups=/data/* (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    read: Vec<String>,
}

impl Reading {
    pub(crate) fn options(&self) -> Result<Options> {
        Ok(packhorse_pack::pairs("read", &self.read)?.into_iter().collect())
    }
}

#[derive(ClapArgs)]
pub(crate) struct Ls {
    /// The dataset's folder, a folder of third-party shards, or a file in either
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    /// Show lengths and offsets too
    #[arg(long, short)]
    pub(crate) long: bool,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(ClapArgs)]
pub(crate) struct Cat {
    /// The dataset's folder, a folder of third-party shards, or a file in either
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    /// The member, KEY.FIELD; of a list of bytes KEY.FIELD.NUMBER
    pub(crate) member: String,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(ClapArgs)]
pub(crate) struct Head {
    /// The dataset's folder, a folder of third-party shards, or a file in either
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    /// The number of samples to show
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5)]
    pub(crate) samples: u64,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(ClapArgs)]
pub(crate) struct Stat {
    /// The dataset's folder, a folder of third-party shards, or a file in either
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    #[command(flatten)]
    pub(crate) reading: Reading,
}
