//! The flags of `packhorse diagnose`.

use crate::bench_args::BenchLoad;
use crate::picture_args::PictureFlags;
use clap::{Args as ClapArgs, ValueHint};
use std::path::PathBuf;

#[derive(ClapArgs)]
pub(crate) struct DiagnoseFlags {
    /// The length of a training step, in milliseconds [default: 0, which names the slowest stage of the loader]
    #[arg(long, value_name = "MS", default_value_t = 0.0, hide_default_value = true)]
    pub(crate) step_ms: f64,

    /// Where steps run: host (sleeps), or cuda or cuda:N (does as much work as the idle GPU does in that time)
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    pub(crate) device: String,

    #[command(flatten)]
    pub(crate) pictures: PictureFlags,

    /// Drop the shards from the page cache before measuring the loader, as far as the system permits
    #[arg(long)]
    pub(crate) cold: bool,

    /// Try the cheap remedies, keep the best, and repeat until the data is not the bottleneck or nothing helps
    #[arg(long)]
    pub(crate) apply: bool,

    /// Also predict the gain of packing with these settings, separated by spaces, such as "compression=zstd level=1" or
    /// "to=hdf5 filter=lz4" (repeatable) [default: other codecs, if reading takes time]
    #[arg(long, value_name = "SETTINGS")]
    pub(crate) repack: Vec<String>,

    /// Compare the ranks of a job: each writes its result into this folder, and the last one names the slow ranks. All
    /// ranks must see the folder, and it must be empty at the start
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) ranks: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) load: BenchLoad,
}
