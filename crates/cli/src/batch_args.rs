//! The flags of `packhorse batch`.

use clap::{Args as ClapArgs, ValueHint};
use packhorse_order::{OrderState, Shuffle};
use std::path::PathBuf;

#[derive(ClapArgs)]
pub(crate) struct BatchFlags {
    /// A dataset's folder, or third-party shards: a file, a folder, a pattern; s3:// and http:// too
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) dataset: String,

    /// The step, counted from 0 over all epochs, or from --state
    #[arg(long, value_name = "N")]
    pub(crate) step: u64,

    /// Samples a batch and rank, as the loader had it
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,

    /// The seed of the loader [default: that of --state, or 0]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// The order of samples: sequential, blocks:N (shards that are shuffled together), full [default: that of --state, or of
    /// loaders]
    #[arg(long, value_name = "ORDER")]
    pub(crate) shuffle: Option<Shuffle>,

    /// What the loader does with samples that fill no last batch
    #[arg(long, value_name = "HOW", default_value = "drop")]
    pub(crate) remainder: Remainder,

    /// The rank
    #[arg(long, value_name = "R", default_value_t = 0)]
    pub(crate) rank: u32,

    /// The number of ranks
    #[arg(long, value_name = "W", default_value_t = 1)]
    pub(crate) world: u32,

    /// The samples of this split, if the loader read one
    #[arg(long, value_name = "NAME")]
    pub(crate) split: Option<String>,

    /// The state from which the loader went on, as JSON: `to_json()` of the state in Rust, `json.dumps(state_dict())` in Python
    #[arg(long, value_name = "JSON", value_parser = parse_state)]
    pub(crate) state: Option<OrderState>,

    /// The keys that the loader left out: a file with one on each line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) skip: Option<PathBuf>,

    /// Show only the keys, one on each line: a list for --skip
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
    /// They are dropped
    Drop,
    /// Samples from the beginning of the epoch fill the last batch
    Pad,
    /// The last batches have fewer rows
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
