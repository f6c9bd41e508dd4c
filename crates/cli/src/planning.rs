//! The flags of `pack` and `plan`: the recipe, and the resources to use.

use crate::args::Verifying;
use crate::flags::RecipeFlags;
use crate::observe_args::Observe;
use clap::{Args as ClapArgs, ValueHint};
use packhorse_core::Result;
use packhorse_pack::{ByteSize, Part, Recipe, Session};
use packhorse_read::Demand;
use std::path::PathBuf;

/// The recipe, and how to treat an existing output.
#[derive(ClapArgs, Clone)]
pub(crate) struct Planning {
    #[command(flatten)]
    pub(crate) flags: RecipeFlags,

    /// If --out holds another dataset: start over. packhorse packs the new one in OUT/.replacing and keeps the old one
    /// until the new one is sealed. For `append`: drop the shards of another, unfinished append
    #[arg(long, hide_short_help = true)]
    pub(crate) replace: bool,

    /// Also encode this share of the documents with the reference implementation, and fail if a result differs. For a
    /// plan, give it to `pack --plan`
    #[arg(long, hide_short_help = true, value_name = "0..1", default_value_t = 0.0)]
    pub(crate) check_exact: f64,

    /// Use the listings that `packhorse scan` left in --out, instead of scanning the inputs
    #[arg(long, hide_short_help = true)]
    pub(crate) from_listings: bool,

    /// Show what would happen, and write nothing
    #[arg(long, hide_short_help = true)]
    pub(crate) dry_run: bool,
}

impl Planning {
    pub(crate) fn recipe(&self) -> &Recipe {
        &self.flags.0
    }
}

/// How many threads compute.
#[derive(ClapArgs)]
pub(crate) struct Threads {
    /// The number of compute threads [default: the CPUs that this process may use]
    #[arg(long, visible_alias = "threads", short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
}

impl Threads {
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

/// The resources to use.
#[derive(ClapArgs)]
pub(crate) struct Work {
    #[command(flatten)]
    pub(crate) threads: Threads,

    /// The number of threads for file I/O
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) io_threads: u16,

    /// The memory budget: the most input held at once, and four times the largest value that must be whole in memory
    /// (an array, a document). Larger values are refused or left out. Files that go into WebDataset unchanged are
    /// copied in pieces [default: 192MiB, and values of 2 GiB]
    #[arg(long, hide_short_help = true, value_name = "SIZE", value_parser = bytes_with_unit)]
    pub(crate) memory: Option<u64>,

    #[command(flatten)]
    pub(crate) verifying: Verifying,
}

/// Where the inputs of a plan are now.
#[derive(ClapArgs)]
pub(crate) struct Moved {
    /// Look below NEW for inputs that were below OLD when the plan was made, such as under another mount point
    /// (repeatable)
    #[arg(long, hide_short_help = true, value_name = "OLD=NEW", value_parser = moved)]
    pub(crate) moved: Vec<(PathBuf, PathBuf)>,
}

impl Moved {
    /// A session that finds them there.
    pub(crate) fn of(&self, session: Session) -> Session {
        self.moved.iter().fold(session, |session, (old, new)| session.moved(old, new))
    }
}

fn moved(text: &str) -> Result<(PathBuf, PathBuf), String> {
    // Paths may have the sign themselves, as in /data/year=2024=/mnt/year=2024.
    let at = text.find("=/").or_else(|| text.find('='));
    let places = at
        .and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?)))
        .filter(|(old, new)| !old.is_empty() && !new.is_empty());
    let (old, new) = places.ok_or("write it as OLD=NEW, two paths")?;
    Ok((old.into(), new.into()))
}

/// The flags that the plan has decided already: all that decide bytes, but what becomes of bad inputs.
fn planned() -> impl Iterator<Item = &'static str> {
    let settings = Recipe::SETTINGS.iter().map(|setting| setting.field).filter(|field| *field != "on_error");
    settings.chain(["replace", "dry_run", "from_listings"])
}

#[derive(ClapArgs)]
pub(crate) struct Pack {
    #[command(flatten)]
    pub(crate) planning: Planning,

    #[command(flatten)]
    pub(crate) work: Work,

    #[command(flatten)]
    pub(crate) observe: Observe,

    /// Fill the existing plan in this folder, instead of scanning and planning
    #[arg(long, hide_short_help = true, value_name = "DIR", conflicts_with_all = planned(), value_hint = ValueHint::DirPath)]
    pub(crate) plan: Option<PathBuf>,

    /// Fill only this part of the plan's shards, such as 3/16 [default under a scheduler: from the task's environment]
    #[arg(long, hide_short_help = true, value_name = "i/n", requires = "plan")]
    pub(crate) part: Option<Part>,

    #[command(flatten)]
    pub(crate) moved: Moved,

    /// With --plan: seal the dataset if all its shards exist afterwards, so the last part to finish seals it
    #[arg(long, hide_short_help = true, requires = "plan")]
    pub(crate) seal: bool,
}

#[derive(ClapArgs)]
pub(crate) struct Append {
    /// The folder or URL of the sealed dataset
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,

    #[command(flatten)]
    pub(crate) planning: Planning,

    #[command(flatten)]
    pub(crate) work: Work,

    #[command(flatten)]
    pub(crate) observe: Observe,

    /// Only plan the new shards: `packhorse pack --plan DIR` fills them, in as many parts as you like
    #[arg(long, hide_short_help = true)]
    pub(crate) plan_only: bool,
}

#[derive(ClapArgs)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) flags: RecipeFlags,

    #[command(flatten)]
    pub(crate) work: Work,

    #[command(flatten)]
    pub(crate) observe: Observe,

    /// List only this part of the inputs, such as 3/64 [default under a scheduler: from the task's environment]
    #[arg(long, value_name = "i/n")]
    pub(crate) part: Option<Part>,
}

#[derive(ClapArgs)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) planning: Planning,

    #[command(flatten)]
    pub(crate) work: Work,

    #[command(flatten)]
    pub(crate) observe: Observe,

    #[command(flatten)]
    pub(crate) feed: FeedFlags,
}

/// What a job will take from the dataset.
#[derive(ClapArgs)]
#[command(next_help_heading = "Forecast")]
pub(crate) struct FeedFlags {
    /// Forecast the processors, storage, memory and shards for N GPUs that each read R samples per second. packhorse
    /// packs one shard in the temporary folder and loads it for 3 seconds on all processors
    #[arg(long, hide_short_help = true, value_name = "NxR/s")]
    pub(crate) feed: Option<Demand>,

    /// Decode pictures to N x N pixels [default: pictures stay bytes]
    #[arg(long, hide_short_help = true, value_name = "N", requires = "feed", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) size: Option<u32>,

    /// Take random crops of pictures and flip each with a probability of 0.5, as in training
    #[arg(long, hide_short_help = true, requires = "size")]
    pub(crate) augment: bool,

    /// GPUs per node
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 8, requires = "feed", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpus_per_node: u32,
}

/// A size, in which a small number without a unit is a slip.
fn bytes_with_unit(text: &str) -> Result<u64> {
    text.parse::<ByteSize>().map(|ByteSize(bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A flag that decides bytes is declared as a setting of the recipe; these decide none.
    #[test]
    fn every_flag_that_decides_bytes_is_a_setting() {
        const OTHERS: [&str; 14] = [
            "check_exact",
            "dry_run",
            "from_listings",
            "io_threads",
            "jobs",
            "memory",
            "metrics",
            "moved",
            "part",
            "plan",
            "replace",
            "seal",
            "trace",
            "verify",
        ];
        let flags = |command: clap::Command| -> BTreeSet<String> {
            command.get_arguments().map(|arg| arg.get_id().to_string()).collect()
        };
        let known: BTreeSet<String> =
            OTHERS.into_iter().chain(Recipe::SETTINGS.iter().map(|s| s.field)).map(str::to_owned).collect();
        assert_eq!(flags(Pack::augment_args(clap::Command::new("pack"))), known);
        let forecast = flags(FeedFlags::augment_args(clap::Command::new("plan")));
        let known = known.union(&forecast).cloned().collect();
        assert!(flags(PlanArgs::augment_args(clap::Command::new("plan"))).is_subset(&known));
        assert!(flags(ScanArgs::augment_args(clap::Command::new("scan"))).is_subset(&known));
    }
}
