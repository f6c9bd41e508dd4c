//! The flags.

use crate::batch_args::BatchFlags;
use crate::bench_args::Bench;
use crate::cluster_args::{Kubernetes, Pbs, Slurm};
use crate::diagnose_args::DiagnoseFlags;
use crate::examples::{
    ADOPT_EXAMPLES, APPEND_EXAMPLES, BATCH_EXAMPLES, DIAGNOSE_EXAMPLES, INDEX_EXAMPLES, MERGE_EXAMPLES, ORDER_EXAMPLES,
    PACK_EXAMPLES, PLAN_EXAMPLES, REPAIR_EXAMPLES, SCAN_EXAMPLES, SHORT_HELP, STAGE_EXAMPLES, VERIFY_EXAMPLES,
    VIEW_EXAMPLES,
};
use crate::exit;
use crate::inspect_args::{Cat, Head, Ls, Stat};
use crate::planning::{Append, Moved, Pack, PlanArgs, ScanArgs, Threads, Work};
use crate::view_args::ViewFlags;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueHint};
use packhorse_core::Consumer;
use packhorse_pack::OnError;
use std::path::PathBuf;

/// Pack many small files into few large shards; check, copy and measure them
#[derive(Parser)]
#[command(name = "packhorse", version, arg_required_else_help = true, args_override_self = true, after_help = exit::HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Flags of every command.
#[derive(ClapArgs)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Common {
    /// Show only errors and warnings; --log json still writes its events
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,

    /// Write progress, warnings and errors, and nothing else, as JSON lines on standard error [default: a progress bar
    /// on a terminal, otherwise a line of text every 30 s]
    #[arg(long, global = true, hide_short_help = true, value_parser = ["json"])]
    pub(crate) log: Option<String>,

    /// Print the result as JSON on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Read flags from a TOML file: flag names are its keys, input stands for INPUT. Flags on the command line win
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Pack inputs into shards, or fill an existing plan
    #[command(after_help = SHORT_HELP, after_long_help = PACK_EXAMPLES)]
    Pack(Box<Pack>),
    /// List one part of the inputs, so that many nodes can list a large folder together; then run plan --from-listings
    #[command(after_help = SHORT_HELP, after_long_help = SCAN_EXAMPLES)]
    Scan(Box<ScanArgs>),
    /// Decide which sample goes to which shard, and write the plan
    #[command(after_help = SHORT_HELP, after_long_help = PLAN_EXAMPLES)]
    Plan(Box<PlanArgs>),
    /// Check that every shard of the plan exists, and write dataset.json
    Seal(Seal),
    /// Add samples to a sealed dataset, as new shards; the old ones stay as they are
    #[command(after_help = APPEND_EXAMPLES)]
    Append(Box<Append>),
    /// Show the progress of a dataset
    Status(StatusFlags),
    /// Remove what interrupted jobs left behind: staged files (including those of tasks that still run on other nodes)
    /// and unfinished uploads to an object store
    Clean(Clean),
    /// Check that a dataset is complete (with --full, check every byte), or report what other readers would fail on in
    /// any shards
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(Verify),
    /// Write index files for other readers beside third-party WebDataset shards
    #[command(after_help = INDEX_EXAMPLES)]
    Index(Index),
    /// Turn third-party WebDataset shards into a sealed dataset in place, by writing dataset.json beside them
    #[command(after_help = ADOPT_EXAMPLES)]
    Adopt(Adopt),
    /// Concatenate shards of tokens into one .bin and .idx pair
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(Merge),
    /// Write the training order of tokens: the index files of Megatron's cache, or whole documents packed into bins
    #[command(after_help = ORDER_EXAMPLES)]
    Order(Order),
    /// Repack the damaged shards of a dataset from its inputs, and keep the damaged files in DIR/.quarantine; or repair a damaged token index
    #[command(after_help = REPAIR_EXAMPLES)]
    Repair(Repair),
    /// Copy a dataset, or a part of its shards, to a local disk or to memory
    #[command(after_help = STAGE_EXAMPLES)]
    Stage(Stage),
    /// Choose samples and fields of a dataset by keys, values or folds. The result is a dataset of a few KB that uses
    /// the same shards
    #[command(after_help = VIEW_EXAMPLES)]
    View(ViewFlags),
    /// Pack with a Slurm job array: print its script, or submit it
    #[command(subcommand)]
    Slurm(Slurm),
    /// Pack with a PBS job array: print its script, or submit it
    #[command(subcommand)]
    Pbs(Pbs),
    /// Pack with a Kubernetes Indexed Job: print its manifest, or apply it
    #[command(subcommand)]
    K8s(Kubernetes),
    /// List the members of a shard
    Ls(Ls),
    /// Write one member of a shard to standard output
    #[command(after_help = "Examples:\n  packhorse cat shards/shard-000000.tar dress/0001.jpg > 0001.jpg")]
    Cat(Cat),
    /// Show the first samples of a dataset or a shard
    Head(Head),
    /// Show counts, sizes and fields of a dataset or a shard
    Stat(Stat),
    /// Write an HTML page about a dataset to look at before training: samples, classes, sizes and shapes, duplicates,
    /// extremes, skipped inputs
    #[command(
        after_help = "Examples:\n  packhorse report shards -o report.html\n  packhorse report 'third-party/*.tar' -o report.html"
    )]
    Report(Report),
    /// Name the samples of any batch of a training run by seed, step and rank: keys, positions, inputs, pictures
    #[command(after_help = BATCH_EXAMPLES)]
    Batch(Box<BatchFlags>),
    /// Generate a synthetic corpus for experiments
    #[command(subcommand)]
    Synth(Synth),
    /// Measure reading, packing and uploading this data on this machine, and the limits of the machine
    #[command(subcommand)]
    Bench(Bench),
    /// Find the bottleneck of a training loop (storage, decoding, copies, processors, or none), and what would help
    #[command(after_help = DIAGNOSE_EXAMPLES)]
    Diagnose(Box<DiagnoseFlags>),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages
    Man {
        /// The output folder
        #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
        out: PathBuf,
    },
}

#[derive(ClapArgs)]
pub(crate) struct Dir {
    /// The dataset's folder or URL (s3://…, gs://…, az://…)
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

#[derive(ClapArgs)]
pub(crate) struct Clean {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Also remove the damaged files that repairs replaced and kept in DIR/.quarantine
    #[arg(long)]
    pub(crate) quarantine: bool,

    /// Also drop an unsealed append: its plan and the shards packed for it
    #[arg(long)]
    pub(crate) append: bool,
}

#[derive(ClapArgs)]
pub(crate) struct StatusFlags {
    #[command(flatten)]
    pub(crate) dir: Dir,

    /// Refresh every SECONDS seconds until the dataset is sealed, with rate and remaining time [default: 10]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) watch: Option<u32>,

    /// With --watch: divide the plan among N tasks and show how many shards each one lacks
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tasks: Option<u32>,
}

#[derive(ClapArgs)]
pub(crate) struct Seal {
    #[command(flatten)]
    pub(crate) dir: Dir,
}

/// Facts about tokens that their files do not record.
#[derive(ClapArgs)]
pub(crate) struct TokenFlags {
    /// For third-party tokens: the vocabulary size; larger ids count as damage
    #[arg(long, value_name = "N")]
    pub(crate) vocabulary: Option<u64>,

    /// For third-party tokens: the id that ends each non-empty document
    #[arg(long, value_name = "ID")]
    pub(crate) eod_id: Option<u64>,
}

#[derive(ClapArgs)]
pub(crate) struct Index {
    /// Tars, patterns ('x-{000..127}.tar', '*.tar'), or folders (including all subfolders); also in a bucket or at
    /// https://
    #[arg(value_name = "TARS", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) shards: Vec<PathBuf>,

    /// The indexes to write: wids, wids:md5 (reads every byte), dali, energon
    #[arg(long, value_name = "A,B", default_value = "wids,dali,energon")]
    pub(crate) index: String,

    /// Write the indexes into this folder, which may be in a bucket, instead of beside the tars
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,

    /// On a bad tar: fail, or skip it
    #[arg(long, value_name = "HOW", default_value = "fail")]
    pub(crate) on_error: OnError,

    /// Overwrite indexes that another program wrote or changed
    #[arg(long)]
    pub(crate) replace: bool,

    #[command(flatten)]
    pub(crate) threads: Threads,
}

#[derive(ClapArgs)]
pub(crate) struct Adopt {
    /// The tars of one folder: the folder, the tars, or patterns of them ('x-{000..127}.tar', '*.tar'); also in a bucket
    #[arg(value_name = "TARS", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) shards: Vec<PathBuf>,

    /// On a bad tar: fail, or skip it
    #[arg(long, value_name = "HOW", default_value = "fail")]
    pub(crate) on_error: OnError,

    #[command(flatten)]
    pub(crate) threads: Threads,
}

#[derive(ClapArgs)]
pub(crate) struct Merge {
    /// Sealed datasets, and shards (.idx)
    #[arg(value_name = "INPUT", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) input: Vec<PathBuf>,

    /// The name of the merged pair, without .bin
    #[arg(long, value_name = "NAME", value_hint = ValueHint::FilePath)]
    pub(crate) out: PathBuf,

    /// For datasets: merge only the shards of this split
    #[arg(long, value_name = "NAME")]
    pub(crate) split: Option<String>,

    /// Replace an existing pair of that name
    #[arg(long)]
    pub(crate) replace: bool,

    #[command(flatten)]
    pub(crate) verifying: Verifying,
}

/// Whether digests of sealed datasets are checked.
#[derive(ClapArgs)]
pub(crate) struct Verifying {
    /// Check files of sealed datasets against their recorded digests, and stop at damage
    #[arg(long, hide_short_help = true, value_name = "WHETHER", default_value = "on", value_parser = ["on", "off"])]
    verify: String,
}

impl Verifying {
    pub(crate) fn on(&self) -> bool {
        self.verify != "off"
    }
}

#[derive(ClapArgs)]
pub(crate) struct Order {
    /// PREFIX of a .bin and .idx pair as Megatron takes it, or WEIGHT PREFIX WEIGHT PREFIX …; or a sealed dataset,
    /// whose shards are weighted by their tokens
    #[arg(value_name = "[WEIGHT] PREFIX", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) input: Vec<String>,

    /// The output folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,

    /// Tokens per sample
    #[arg(long, value_name = "N", default_value_t = 2048, conflicts_with = "pack")]
    pub(crate) seq_length: u32,

    /// The number of samples for train, valid and test (0 for none) [default: one epoch of each]
    #[arg(long, value_name = "N,N,N", value_delimiter = ',', conflicts_with = "pack")]
    pub(crate) samples: Option<Vec<u64>>,

    /// The shares of train, valid and test, as Megatron takes them
    #[arg(long, value_name = "SHARES", default_value = "969,30,1", conflicts_with = "pack")]
    pub(crate) split: String,

    /// The seed of the shuffles
    #[arg(long, value_name = "N", default_value_t = 1234)]
    pub(crate) seed: u32,

    /// Keep the last sample of valid even if it is not full
    #[arg(long, conflicts_with = "pack")]
    pub(crate) keep_last: bool,

    /// A JSON file that identifies the tokenizer, like "tokenizer" in any description.txt of Megatron's cache
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "pack")]
    pub(crate) tokenizer_id: Option<PathBuf>,

    /// Pack whole documents of all datasets into bins of N tokens (best fit) instead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pack: Option<u32>,

    #[command(flatten)]
    pub(crate) verifying: Verifying,

    #[command(flatten)]
    pub(crate) threads: Threads,
}

#[derive(ClapArgs)]
pub(crate) struct Repair {
    /// The dataset's folder; or a file of tokens (.idx)
    #[arg(value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    /// For a .idx file: the name of the repaired file, without .idx
    #[arg(long, value_name = "NAME", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) known: TokenFlags,

    #[command(flatten)]
    pub(crate) work: Work,

    #[command(flatten)]
    pub(crate) moved: Moved,
}

#[derive(ClapArgs)]
pub(crate) struct Verify {
    /// The dataset's folder; with --for, shards or folders of shards; or token files (.idx)
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,

    /// Read and hash every byte, parse every member
    #[arg(long)]
    pub(crate) full: bool,

    /// Report what would fail in these readers: webdataset, wids, hf, dali, energon
    #[arg(long = "for", value_name = "A,B", value_delimiter = ',')]
    pub(crate) readers: Vec<Consumer>,

    #[command(flatten)]
    pub(crate) known: TokenFlags,

    #[command(flatten)]
    pub(crate) threads: Threads,
}

#[derive(ClapArgs)]
pub(crate) struct Stage {
    /// The dataset's folder or URL (s3://…, gs://…, az://…, http://…), or a third-party folder, of which all files are
    /// copied
    #[arg(value_name = "DATASET", value_hint = ValueHint::AnyPath)]
    pub(crate) dataset: PathBuf,

    /// The folder to copy to
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) to: PathBuf,

    /// The fraction of the shards to copy, from 0 to 1. The choice is always the same, and a larger fraction contains
    /// every smaller one
    #[arg(long, value_name = "PART", default_value_t = 1.0)]
    pub(crate) fraction: f64,

    /// Also check the digests of existing copies, and replace wrong ones
    #[arg(long)]
    pub(crate) verify: bool,

    /// The number of reads in flight
    #[arg(long, visible_alias = "threads", short = 'j', value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: u16,
}

#[derive(ClapArgs)]
pub(crate) struct Report {
    /// A dataset's folder, or third-party shards: a file, a folder, a pattern; s3:// and http:// too
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) dataset: String,

    /// The HTML page to write
    #[arg(short, long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,

    /// Include this diagnosis of a training loop: the output of `packhorse diagnose --json`
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub(crate) diagnosis: Option<PathBuf>,
}

/// A corpus to make.
#[derive(Subcommand)]
pub(crate) enum Synth {
    /// JPEGs of 10 to 25 KB in class folders; to a codec they look like photographs
    Images(Corpus),
    /// Documents as JSON lines
    Text(Corpus),
    /// NumPy archives with a fixed, a scalar and a jagged member
    Npz(Corpus),
    /// Text files of 1 KB
    Tiny(Corpus),
}

#[derive(ClapArgs)]
pub(crate) struct Corpus {
    /// The number of files (for text: documents)
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) count: u64,

    /// The output folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,

    /// The seed: equal seeds give equal bytes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) threads: Threads,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }
}
