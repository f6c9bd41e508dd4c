//! The flags of `packhorse batch`.

use clap::{Args as ClapArgs, ValueHint};
use packhorse_order::{OrderState, Shuffle};
use std::path::PathBuf;

#[derive(ClapArgs)]
pub(crate) struct BatchFlags {
    /// A dataset's folder, or third-party shards: a file, a folder, a pattern; s3:// and http:// too
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) dataset: String,

    /// The step, counted from 0 over all epochs; with --state, from that state
    #[arg(long, value_name = "N")]
    pub(crate) step: u64,

    /// Samples per batch and rank, as in the loader
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,

    /// The loader's seed [default: that of --state, or 0]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// The order of samples: sequential, blocks:N (shuffles N shards together), blocks:N:window:SAMPLES, full or
    /// nodes:N:blocks:N:epochs:N (each node reads its own shards) [default: that of --state, or of loaders]
    #[arg(long, value_name = "ORDER")]
    pub(crate) shuffle: Option<Shuffle>,

    /// What the loader does with the samples after the last full batch
    #[arg(long, value_name = "HOW", default_value = "drop")]
    pub(crate) remainder: Remainder,

    /// The rank
    #[arg(long, value_name = "R", default_value_t = 0)]
    pub(crate) rank: u32,

    /// The number of ranks
    #[arg(long, value_name = "W", default_value_t = 1)]
    pub(crate) world: u32,

    /// The split that the loader read, if any
    #[arg(long, value_name = "NAME")]
    pub(crate) split: Option<String>,

    /// The state that the loader resumed from, as JSON: `to_json()` of the state in Rust, `json.dumps(state_dict())` in
    /// Python
    #[arg(long, value_name = "JSON", value_parser = parse_state)]
    pub(crate) state: Option<OrderState>,

    /// A file with the keys that the loader left out, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) skip: Option<PathBuf>,

    /// Print only the keys, one per line: a list for --skip
    #[arg(long, conflicts_with = "json")]
    pub(crate) keys: bool,

    /// Also write a page with the samples: pictures, text, first values of arrays
    #[arg(short, long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

fn parse_state(text: &str) -> Result<OrderState, String> {
    OrderState::from_json(text).map_err(|e| e.to_string())
}

/// The words of `--remainder`.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Remainder {
    /// Drop them
    Drop,
    /// Fill the last batch with samples from the beginning of the epoch
    Pad,
    /// Give the last batches fewer rows
    Uneven,
}

impl From<Remainder> for packhorse_read::Remainder {
    fn from(remainder: Remainder) -> Self {
        match remainder {
            Remainder::Drop => Self::Drop,
            Remainder::Pad => Self::Pad,
            Remainder::Uneven => Self::Uneven,
        }
    }
}
