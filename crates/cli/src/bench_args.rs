//! The flags of `bench`.

#[cfg(feature = "gpu")]
use crate::examples::BENCH_UPLOAD_EXAMPLES;
use crate::examples::{BENCH_LIMITS_EXAMPLES, BENCH_PACK_EXAMPLES, BENCH_READ_EXAMPLES};
use crate::flags::RecipeFlags;
use crate::observe_args::Observe;
use crate::picture_args::PictureFlags;
use crate::planning::{Threads, Work};
use clap::{Args as ClapArgs, Subcommand, ValueHint};
use packhorse_pack::{OnError, parse_bytes};
use std::path::PathBuf;

/// The benchmarks.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// Measure each stage of reading a dataset alone (raw bytes, parse, decode), then all of them together (batch)
    #[command(after_help = BENCH_READ_EXAMPLES)]
    Read(Box<BenchRead>),
    /// Measure packing by stage, against its floor: plainly reading the same files and writing the same bytes
    #[command(after_help = BENCH_PACK_EXAMPLES)]
    Pack(Box<BenchPack>),
    /// Measure the limits of this machine: reads, writes, opens, memory, decoding, digests, copies to a GPU
    #[command(after_help = BENCH_LIMITS_EXAMPLES)]
    Limits(BenchLimits),
    /// Measure batches to a GPU against the limits: copies alone, steps alone, and steps while batches arrive
    #[cfg(feature = "gpu")]
    #[command(after_help = BENCH_UPLOAD_EXAMPLES)]
    Upload(Box<BenchUpload>),
}

#[derive(ClapArgs)]
pub(crate) struct BenchRead {
    #[command(flatten)]
    pub(crate) pictures: PictureFlags,

    /// Also measure the limits of this machine for 3 seconds, and show each stage as a share of them. Test files go
    /// beside the dataset's folder, or into the temporary folder if that is not writable
    #[arg(long)]
    pub(crate) limits: bool,

    #[command(flatten)]
    pub(crate) load: BenchLoad,
}

#[derive(ClapArgs)]
pub(crate) struct BenchPack {
    #[command(flatten)]
    pub(crate) recipe: RecipeFlags,

    #[command(flatten)]
    pub(crate) work: Work,

    /// The number of rounds to measure
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,

    /// Keep the last dataset, in OUT
    #[arg(long, requires = "out")]
    pub(crate) keep: bool,
}

#[derive(ClapArgs)]
pub(crate) struct BenchLimits {
    /// A folder on the file system to measure [default: the temporary folder]
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// The size of the test file, at least 8MiB; other files take up to 16 MiB more
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_bytes)]
    pub(crate) size: u64,

    /// The approximate duration of all measurements, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub(crate) seconds: f64,

    /// The number of threads for cold reads
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) io_threads: u16,

    #[command(flatten)]
    pub(crate) threads: Threads,
}

#[cfg(feature = "gpu")]
#[derive(ClapArgs)]
pub(crate) struct BenchUpload {
    /// The GPU: cuda, cuda:N, or host, which simulates one with threads of this machine. Several GPUs are measured at
    /// once, each with the loader of its rank: cuda:all, or a list like cuda:0,cuda:1 or host,host
    #[arg(long, visible_alias = "devices", value_name = "DEVICE", default_value = "cuda")]
    pub(crate) device: String,

    /// Decode pictures to N x N pixels
    #[arg(long, value_name = "N", default_value_t = 224, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) size: u32,

    /// Take random crops of pictures and flip each with a probability of 0.5; on a GPU with kernels, also change
    /// colours and erase parts at random
    #[arg(long)]
    pub(crate) augment: bool,

    /// The length of a training step, in milliseconds
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

    /// Samples per batch
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: u32,

    /// Load only these fields
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) fields: Vec<String>,

    /// The order of samples: sequential, blocks:N (shuffles N shards together), blocks:N:window:SAMPLES, full or
    /// nodes:N:blocks:N:epochs:N (each node reads its own shards) [default: that of loaders]
    #[arg(long, value_name = "ORDER")]
    pub(crate) shuffle: Option<packhorse_order::Shuffle>,

    /// The seed of the order
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// The number of threads that read ahead of decoding
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) readers: u16,

    /// Memory-map shards instead of reading them; only for files that never change
    #[arg(long)]
    pub(crate) map: bool,

    /// On a sample that can't be read or decoded: fail, or skip it
    #[arg(long, value_name = "HOW", default_value = "fail")]
    pub(crate) on_error: OnError,

    /// Seconds per stage
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    pub(crate) seconds: f64,

    #[command(flatten)]
    pub(crate) threads: Threads,

    #[command(flatten)]
    pub(crate) observe: Observe,
}
