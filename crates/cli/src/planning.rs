//! The flags of what is packed, how that is decided, and how hard the work is done.

use crate::args::Verifying;
use crate::size;
use crate::tokenizing::Tokenizing;
use crate::typed::{Fielding, Reading, Writing};
use clap::{Args as ClapArgs, ValueHint};
use packhorse_core::Limits;
use packhorse_pack::{KeyEnds, Labels, LongKeys, Part, Policy, Shuffle, SplitBy, Splits, Symlinks};
use std::path::PathBuf;

/// What to pack, and how it is decided.
#[derive(ClapArgs, Clone)]
pub(crate) struct Planning {
    /// Folders and files to pack; keys are relative to them. A tar (also .gz, .zst) counts as what is in it
    #[arg(value_name = "INPUT", value_hint = ValueHint::AnyPath)]
    pub(crate) input: Vec<PathBuf>,

    /// The format of the shards: webdataset (wds, tar), hdf5 (h5), parquet, arrow (feather), tfrecord, tokens
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,

    /// The folder of the dataset
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,

    /// Where --out holds another dataset, packed by another request: start over. The old one stays as it is until the new
    /// one, which is packed in OUT/.replacing, is sealed and takes its place
    #[arg(long)]
    pub(crate) replace: bool,

    /// Take the files of this list (newline or NUL after each; - is standard input) instead of walking INPUT. Its
    /// paths are relative to the first INPUT, or to here without one
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    pub(crate) files_from: Option<PathBuf>,

    /// Take only paths that match this glob (again for more; * matches / too)
    #[arg(long, value_name = "GLOB")]
    pub(crate) include: Vec<String>,

    /// Leave out paths that match this glob (again for more)
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,

    /// Symbolic links: follow or skip
    #[arg(long, value_name = "HOW", default_value = "follow")]
    pub(crate) symlinks: Symlinks,

    /// Where a key ends in the name of a file: first-dot (as WebDataset's readers see it), last-dot, or
    /// regex:EXPRESSION, whose first group is the key and whose second the field
    #[arg(long, value_name = "RULE", default_value = "first-dot")]
    pub(crate) key_ends: KeyEnds,

    /// Labels from folder names: folders (the first below INPUT) or parent (the one that holds the file)
    #[arg(long, value_name = "WHICH")]
    pub(crate) labels: Option<Labels>,

    /// The classes in the order of their numbers, one a line: packed apart, train and val then have the same numbers. A
    /// class that is not in it is a bad input
    #[arg(long, value_name = "FILE", requires = "labels", value_hint = ValueHint::FilePath)]
    pub(crate) classes: Option<PathBuf>,

    /// The class list of another dataset of packhorse
    #[arg(long, value_name = "DIR", requires = "labels", conflicts_with = "classes", value_hint = ValueHint::DirPath)]
    pub(crate) classes_from: Option<PathBuf>,

    /// Inputs of rows may lack columns that others have: their samples have nulls there
    #[arg(long)]
    pub(crate) fill_missing: bool,

    /// A table (.csv, .tsv, .jsonl, .parquet) whose rows become the json field of the samples, one for each
    #[arg(long, value_name = "FILE", requires = "key", value_hint = ValueHint::FilePath)]
    pub(crate) metadata: Option<PathBuf>,

    /// The column of --metadata that names the sample: its key, or its file
    #[arg(long, value_name = "COLUMN", requires = "metadata")]
    pub(crate) key: Option<String>,

    /// The columns of --metadata to take (default: all)
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "metadata")]
    pub(crate) columns: Vec<String>,

    /// Keep only the first of samples with equal content (reads all inputs)
    #[arg(long)]
    pub(crate) dedup: bool,

    /// Shuffle: SEED, block:N or SEED,block:N (blocks of N samples stay together). Off: sorted by key
    #[arg(long, value_name = "SEED")]
    pub(crate) shuffle: Option<Shuffle>,

    /// The most bytes of a shard's data file, with a unit such as MB or MiB. Where transforms or compression change sizes,
    /// a little is packed ahead to know how [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse_shard)]
    pub(crate) shard_size: Option<u64>,

    /// How many shards (in each split)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) shard_count: Option<u32>,

    /// The most samples in a shard
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) samples_per_shard: Option<u64>,

    /// Splits by shares, such as train=0.9,val=0.1; folders (train/ val/ test/); none; keep, those that sealed datasets
    /// among the inputs have [default: keep]
    #[arg(long, value_name = "SHARES")]
    pub(crate) split: Option<Splits>,

    /// What decides a sample's split: hash (of its key: stable when data is added) or order
    #[arg(long, value_name = "HOW", default_value = "hash")]
    pub(crate) split_by: SplitBy,

    /// The most samples, from the start of the order
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,

    /// The name of shards without splits, and of the dataset
    #[arg(long, value_name = "NAME", default_value = "shard")]
    pub(crate) name: String,

    /// Keys longer than readers carry: refuse or hash
    #[arg(long, value_name = "HOW", default_value = "refuse")]
    pub(crate) long_keys: LongKeys,

    /// Indexes for other readers: wids, wids:md5, dali, energon, none
    #[arg(long, value_name = "A,B")]
    pub(crate) index: Option<String>,

    /// check (every picture is whole; check=lenient: it decodes), resize=256[,short|long|exact], resize=WxH,
    /// keep=icc|exif,icc|none (metadata that rewritten pictures keep) (repeatable)
    #[arg(long, value_name = "WHAT")]
    pub(crate) image: Vec<String>,

    /// JPEG quality of pictures that are rewritten
    #[arg(long, value_name = "Q", default_value_t = 90, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) quality: u8,

    /// Turn pictures as their EXIF orientation says
    #[arg(long)]
    pub(crate) orient: bool,

    #[command(flatten)]
    pub(crate) reading: Reading,

    #[command(flatten)]
    pub(crate) fielding: Fielding,

    #[command(flatten)]
    pub(crate) tokenizing: Tokenizing,

    #[command(flatten)]
    pub(crate) writing: Writing,

    /// Bad inputs: fail, or skip and record them
    #[arg(long, value_name = "HOW", default_value = "fail", help_heading = "Options")]
    pub(crate) on_error: Policy,

    /// Decide and say what would happen; write nothing
    #[arg(long, help_heading = "Options")]
    pub(crate) dry_run: bool,
}

/// How many threads compute.
#[derive(ClapArgs)]
pub(crate) struct Threads {
    /// Threads that compute [default: the CPUs that this process may use]
    #[arg(long, visible_alias = "threads", short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
}

impl Threads {
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

/// How hard to work.
#[derive(ClapArgs)]
pub(crate) struct Work {
    #[command(flatten)]
    pub(crate) threads: Threads,

    /// Threads that wait for the file system
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) io_threads: u16,

    /// The memory to do with: the most input held at once, and four times the largest value that must be whole (an array,
    /// a document); larger ones are refused, or left out. Files that go unchanged into WebDataset are copied in pieces
    /// [default: 192MiB, and values of 2 GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) memory: Option<u64>,

    #[command(flatten)]
    pub(crate) verifying: Verifying,
}

impl Work {
    /// Bounds on what single values take up.
    pub(crate) fn limits(&self) -> Limits {
        self.memory.map_or_else(Limits::default, Limits::of_memory)
    }
}

/// The flags that the plan has decided already.
const PLANNED: [&str; 67] = [
    "input",
    "to",
    "out",
    "replace",
    "files_from",
    "include",
    "exclude",
    "symlinks",
    "key_ends",
    "labels",
    "classes",
    "classes_from",
    "fill_missing",
    "metadata",
    "key",
    "columns",
    "dedup",
    "shuffle",
    "shard_size",
    "shard_count",
    "samples_per_shard",
    "split",
    "split_by",
    "limit",
    "name",
    "long_keys",
    "index",
    "image",
    "quality",
    "orient",
    "dry_run",
    "from",
    "decode",
    "ragged",
    "rows",
    "arrays",
    "tree",
    "branches",
    "datasets",
    "select",
    "schema",
    "unsupported",
    "record",
    "read",
    "skip_header",
    "field",
    "drop",
    "cast",
    "stack",
    "text_field",
    "id_field",
    "document",
    "tokenizer",
    "special",
    "append_eod",
    "eod",
    "empty",
    "parse_special",
    "pattern",
    "chunk",
    "filter",
    "byte_shuffle",
    "compression",
    "level",
    "row_group",
    "tensor_ext",
    "set",
];

#[derive(ClapArgs)]
pub(crate) struct Pack {
    #[command(flatten)]
    pub(crate) planning: Planning,

    #[command(flatten)]
    pub(crate) work: Work,

    /// Fill the plan in this folder, instead of scanning and planning
    #[arg(long, value_name = "DIR", conflicts_with_all = PLANNED, value_hint = ValueHint::DirPath)]
    pub(crate) plan: Option<PathBuf>,

    /// Only this part of the plan's shards, such as 3/16 [default under Slurm: from the task's environment]
    #[arg(long, value_name = "i/n", requires = "plan")]
    pub(crate) part: Option<Part>,
}

#[derive(ClapArgs)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) planning: Planning,

    #[command(flatten)]
    pub(crate) work: Work,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new flag of a plan must not be taken, and then ignored, beside `--plan`.
    #[test]
    fn only_policy_and_checks_go_with_a_plan() {
        let planning = Planning::augment_args(clap::Command::new("planning"));
        let flags: Vec<&str> = planning.get_arguments().map(|arg| arg.get_id().as_str()).collect();
        let missing: Vec<_> = flags.iter().filter(|flag| !PLANNED.contains(flag)).collect();
        assert_eq!(missing, [&"check_exact", &"on_error"]);
        assert_eq!(flags.len(), PLANNED.len() + 2);
    }
}
