//! The flags.

use crate::exit;
use crate::planning::{Pack, PlanArgs, Threads, Work};
use clap::{Args as ClapArgs, Parser, Subcommand, ValueHint};
use packhorse_core::Consumer;
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

impl Args {
    pub(crate) fn log_json(&self) -> bool {
        self.common.log.is_some()
    }
}

/// Flags of every command.
#[derive(ClapArgs)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Common {
    /// Show only errors and warnings
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,

    /// Progress, warnings and errors as lines of JSON on standard error, and nothing else there [default: a bar on a
    /// terminal, elsewhere a line of text every 30 s]
    #[arg(long, global = true, hide_short_help = true, value_parser = ["json"])]
    pub(crate) log: Option<String>,

    /// The result as JSON on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// A TOML file with the names of flags as keys, and input for INPUT; flags on the command line win
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Pack inputs into shards, or fill a plan that was made before
    #[command(after_help = SHORT_HELP, after_long_help = PACK_EXAMPLES)]
    Pack(Box<Pack>),
    /// Decide which sample goes to which shard, and write the plan
    #[command(after_help = SHORT_HELP, after_long_help = PLAN_EXAMPLES)]
    Plan(Box<PlanArgs>),
    /// Check that every shard of the plan exists, and write dataset.json
    Seal(Seal),
    /// Show the progress of a dataset
    Status(Dir),
    /// Check every byte of a dataset, or what other readers would fail on in any shards
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(Verify),
    /// Concatenate shards of tokens into one .bin and .idx pair
    #[command(after_help = MERGE_EXAMPLES)]
    Merge(Merge),
    /// Write the training order of tokens: the index files of Megatron's cache, or bins of whole documents
    #[command(after_help = ORDER_EXAMPLES)]
    Order(Order),
    /// Repack the damaged shards of a dataset from its inputs; or repair a damaged token index
    #[command(after_help = REPAIR_EXAMPLES)]
    Repair(Repair),
    /// Copy a dataset, or a part of its shards, to a local disk or to memory
    #[command(after_help = STAGE_EXAMPLES)]
    Stage(Stage),
    /// List the members of a shard
    Ls(Ls),
    /// Write one member of a shard to standard output
    #[command(after_help = "Examples:\n  packhorse cat shards/shard-000000.tar dress/0001.jpg > 0001.jpg")]
    Cat(Cat),
    /// Show the first samples of a dataset or a shard
    Head(Head),
    /// Show counts, sizes and fields of a dataset or a shard
    Stat(Stat),
    /// Make a synthetic corpus for trials
    #[command(subcommand)]
    Synth(Synth),
    /// Measure reading and uploading on this machine with this data
    #[command(subcommand)]
    Bench(Bench),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages
    Man {
        /// The folder they go to
        #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
        out: PathBuf,
    },
}

const SHORT_HELP: &str = "--help shows all flags, with examples.";

const PACK_EXAMPLES: &str = "\
Examples:
  packhorse pack photos --to webdataset --out shards
  packhorse pack photos --to webdataset --out shards --labels folders --shuffle 7 --shard-size 500MB
  packhorse pack photos --to webdataset --out shards --image resize=256 --split train=0.9,val=0.1
  packhorse pack old-shards/*.tar --to webdataset --out shards --index wids,dali,energon
  find photos -name '*.jpg' -print0 | packhorse pack --files-from - --to webdataset --out shards
  packhorse pack --plan shards --part 3/16

Stopped or failed? Run the same command again: finished shards stay.";

const PLAN_EXAMPLES: &str = "\
Examples:
  packhorse plan photos --to webdataset --out shards --labels folders --dry-run
  packhorse plan photos --to webdataset --out shards --labels folders
  sbatch --array=1-16 --wrap 'exec packhorse pack --plan shards'
  packhorse seal shards";

const VERIFY_EXAMPLES: &str = "\
Examples:
  packhorse verify shards
  packhorse verify shards --full
  packhorse verify others/*.tar --for webdataset,hf,dali
  packhorse verify other.idx --vocabulary 50257 --eod-id 50256";

const MERGE_EXAMPLES: &str = "\
Examples:
  packhorse merge tokens --out data/corpus          data/corpus.bin and data/corpus.idx
  packhorse merge a.idx b.idx c.idx --out all
  packhorse merge tokens --split train --out train";

const ORDER_EXAMPLES: &str = "\
Examples:
  packhorse order data/corpus --seq-length 4096 --samples 100000,1000,1000 --seed 1234 --out cache
  packhorse order 0.7 data/web 0.3 data/code --seq-length 4096 --samples 500000 --out cache
  packhorse order data/corpus --pack 8192 --out packed

Megatron looks for its cache in --data-cache-path, under a name that --tokenizer-id is a part of.";

const REPAIR_EXAMPLES: &str = "\
Examples:
  packhorse verify shards --full
  packhorse repair shards                           packs what is damaged again, and seals to the same digest
  packhorse verify corpus.idx
  packhorse repair corpus.idx --out fixed           writes fixed.idx, for the same .bin";

const STAGE_EXAMPLES: &str = "\
Examples:
  packhorse stage shards --to /dev/shm/shards
  packhorse stage shards --to $SLURM_TMPDIR/shards --fraction 0.5
  packhorse stage shards --to /dev/shm/shards --verify
  packhorse stage s3://bucket/shards --to /scratch/shards --jobs 32

Every file is checked by its digest and has its name when it is whole. Stopped or failed? Run the same command
again: finished copies stay. Several at once, such as the tasks of a node, share the work.";

#[derive(ClapArgs)]
pub(crate) struct Dir {
    /// The dataset's folder
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
}

#[derive(ClapArgs)]
pub(crate) struct Seal {
    #[command(flatten)]
    pub(crate) dir: Dir,
}

/// Facts about tokens that their files do not record.
#[derive(ClapArgs)]
pub(crate) struct TokenFlags {
    /// Of third-party tokens: the size of the vocabulary; larger ids are damage
    #[arg(long, value_name = "N")]
    pub(crate) vocabulary: Option<u64>,

    /// Of third-party tokens: the id that ends each non-empty document
    #[arg(long, value_name = "ID")]
    pub(crate) eod_id: Option<u64>,
}

#[derive(ClapArgs)]
pub(crate) struct Merge {
    /// Sealed datasets, and shards (.idx)
    #[arg(value_name = "INPUT", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) input: Vec<PathBuf>,

    /// The name of the merged pair, without .bin
    #[arg(long, value_name = "NAME", value_hint = ValueHint::FilePath)]
    pub(crate) out: PathBuf,

    /// Of datasets, only the shards of this split
    #[arg(long, value_name = "NAME")]
    pub(crate) split: Option<String>,

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
    /// PREFIX of .bin and .idx as it is given to Megatron, or WEIGHT PREFIX WEIGHT PREFIX …; or a sealed dataset:
    /// its shards, weighted by their tokens
    #[arg(value_name = "[WEIGHT] PREFIX", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) input: Vec<String>,

    /// The folder that the files go to
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,

    /// Tokens in a sample
    #[arg(long, value_name = "N", default_value_t = 2048, conflicts_with = "pack")]
    pub(crate) seq_length: u32,

    /// Samples wanted of train, valid and test (0 for none) [default: one epoch of each]
    #[arg(long, value_name = "N,N,N", value_delimiter = ',')]
    pub(crate) samples: Option<Vec<u64>>,

    /// The shares of train, valid and test, as Megatron takes them
    #[arg(long, value_name = "SHARES", default_value = "969,30,1")]
    pub(crate) split: String,

    /// Seeds the shuffles
    #[arg(long, value_name = "N", default_value_t = 1234)]
    pub(crate) seed: u32,

    /// Keep the last sample of valid, though it is not full
    #[arg(long)]
    pub(crate) keep_last: bool,

    /// JSON that identifies the tokenizer, as under "tokenizer" in any description.txt of Megatron's cache
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) tokenizer_id: Option<PathBuf>,

    /// Instead: whole documents into bins of N tokens, best fit
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

    /// Of a file: the name of the repaired file, without .idx
    #[arg(long, value_name = "NAME", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) known: TokenFlags,

    #[command(flatten)]
    pub(crate) work: Work,
}

#[derive(ClapArgs)]
pub(crate) struct Verify {
    /// The dataset's folder; with --for, shards or folders of shards; or files of tokens (.idx)
    #[arg(value_name = "DIR", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,

    /// Read and hash every byte, parse every member
    #[arg(long)]
    pub(crate) full: bool,

    /// Report what these readers would fail on: webdataset, wids, hf, dali, energon
    #[arg(long = "for", value_name = "A,B", value_delimiter = ',')]
    pub(crate) readers: Vec<Consumer>,

    #[command(flatten)]
    pub(crate) known: TokenFlags,

    #[command(flatten)]
    pub(crate) threads: Threads,
}

#[derive(ClapArgs)]
pub(crate) struct Stage {
    /// The dataset's folder or URL (s3://…, http://…); of a third-party folder all files are copied
    #[arg(value_name = "DATASET", value_hint = ValueHint::AnyPath)]
    pub(crate) dataset: PathBuf,

    /// The folder that the copies go to
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) to: PathBuf,

    /// The part of the shards, from 0 to 1: always the same ones, and among those of every larger part
    #[arg(long, value_name = "PART", default_value_t = 1.0)]
    pub(crate) fraction: f64,

    /// Check the digests of existing copies too, and replace wrong ones
    #[arg(long)]
    pub(crate) verify: bool,

    /// Reads in flight
    #[arg(long, visible_alias = "threads", short = 'j', value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: u16,
}

#[derive(ClapArgs)]
pub(crate) struct Ls {
    /// The dataset's folder, or one of its files
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    /// Show lengths and offsets too
    #[arg(long, short)]
    pub(crate) long: bool,
}

#[derive(ClapArgs)]
pub(crate) struct Cat {
    /// The dataset's folder, or one of its files
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    /// The member, KEY.FIELD
    pub(crate) member: String,
}

#[derive(ClapArgs)]
pub(crate) struct Head {
    /// The dataset's folder, or one of its files
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,

    /// How many samples
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5)]
    pub(crate) samples: u64,
}

#[derive(ClapArgs)]
pub(crate) struct Stat {
    /// The dataset's folder, or a shard
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) path: PathBuf,
}

/// A corpus to make.
#[derive(Subcommand)]
pub(crate) enum Synth {
    /// JPEGs of 10 to 25 KB that look like photographs to a codec, in class folders
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
    /// How many files (of text: documents)
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) count: u64,

    /// The output folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,

    /// Equal seeds, equal bytes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) threads: Threads,
}

/// The benchmarks.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Each stage of reading a dataset on its own, and all of them together: raw bytes, parse, decode, batch
    #[command(after_help = BENCH_READ_EXAMPLES)]
    Read(Box<BenchRead>),
    /// Batches to a GPU, against the limits: copies alone, steps alone, steps with arriving batches
    #[cfg(feature = "gpu")]
    #[command(after_help = BENCH_UPLOAD_EXAMPLES)]
    Upload(Box<BenchUpload>),
}

#[derive(ClapArgs)]
pub(crate) struct BenchRead {
    /// Decode pictures to N x N pixels: the shorter side is brought to N and the centre cut out [default: pictures stay
    /// bytes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) size: Option<u32>,

    /// Random parts of pictures, and every other one mirrored, as training has it; with --size
    #[arg(long, requires = "size")]
    pub(crate) augment: bool,

    #[command(flatten)]
    pub(crate) load: BenchLoad,
}

#[cfg(feature = "gpu")]
#[derive(ClapArgs)]
pub(crate) struct BenchUpload {
    /// The GPU: cuda, cuda:N, or host, which simulates one by threads of this machine
    #[arg(long, value_name = "DEVICE", default_value = "cuda")]
    pub(crate) device: String,

    /// Decode pictures to N x N pixels
    #[arg(long, value_name = "N", default_value_t = 224, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) size: u32,

    /// Random parts of pictures, and every other one mirrored, as training has it
    #[arg(long)]
    pub(crate) augment: bool,

    /// Milliseconds of a training step
    #[arg(long, value_name = "MS", default_value_t = 20.0)]
    pub(crate) step: f64,

    #[command(flatten)]
    pub(crate) load: BenchLoad,
}

/// The dataset, and how to load it.
#[derive(ClapArgs)]
pub(crate) struct BenchLoad {
    /// A dataset's folder, or third-party shards: a file, a folder, a pattern like 'shard-{000..127}.tar'; s3:// and
    /// http:// too
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) dataset: String,

    /// Samples a batch
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,

    /// Only these fields
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,

    /// The order of samples: sequential, blocks:N (shards that are shuffled together), full
    #[arg(long, value_name = "ORDER", default_value = "blocks:16")]
    pub(crate) shuffle: packhorse_order::Shuffle,

    /// What decides the order
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Threads that read ahead of decoding
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) readers: usize,

    /// Memory-map shards instead of reading them; only for files that are never written again
    #[arg(long)]
    pub(crate) map: bool,

    /// Seconds a stage
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    pub(crate) seconds: f64,

    #[command(flatten)]
    pub(crate) threads: Threads,
}

#[cfg(feature = "gpu")]
const BENCH_UPLOAD_EXAMPLES: &str = "\
Examples:
  packhorse bench upload shards --batch 256
  packhorse bench upload shards --batch 256 --augment --step 50 --jobs 16 --json
  packhorse bench upload shards --device host                 without a GPU: what the loader gives

A step computes nothing for --step milliseconds. device is the limit: steps on a batch that is on the GPU already. cached sends
one batch repeatedly, loader all of them: the distance to the limit is the cost of the copies, and of the loader.";

const BENCH_READ_EXAMPLES: &str = "\
Examples:
  packhorse bench read shards
  packhorse bench read shards --size 224 --augment --jobs 8
  packhorse bench read 'others/shard-{000..127}.tar' --json

Look at the slowest stage: raw is the storage, parse finds samples, decode is the CPU, batch is all of them.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }
}
