//! The flags of `packhorse diagnose`.

use crate::bench_args::BenchLoad;
use crate::picture_args::PictureFlags;
use clap::{Args as ClapArgs, ValueHint};
use std::path::PathBuf;

#[derive(ClapArgs)]
pub(crate) struct DiagnoseFlags {
    /// Milliseconds of a training step [default: 0, which names the slowest stage of the loader]
    #[arg(long, value_name = "MS", default_value_t = 0.0, hide_default_value = true)]
    pub(crate) step_ms: f64,

    /// Where steps are done: host, which sleeps, or cuda, cuda:N, whose steps are as much work as the idle GPU does in that time
    #[arg(long, value_name = "DEVICE", default_value = "host")]
    pub(crate) device: String,

    #[command(flatten)]
    pub(crate) pictures: PictureFlags,

    /// Drop the shards from the page cache before the loader is measured, as far as the system permits it
    #[arg(long)]
    pub(crate) cold: bool,

    /// Try the cheap remedies, take the best, and look again until it is not the data or nothing helps
    #[arg(long)]
    pub(crate) apply: bool,

    /// A way of packing whose gain is predicted too, as settings of packing with spaces between them, such as
    /// "compression=zstd level=1" or "to=hdf5 filter=lz4" (repeatable) [default: other codecs, where reading takes time]
    #[arg(long, value_name = "SETTINGS")]
    pub(crate) repack: Vec<String>,

    /// Compare the ranks of a job: each writes its result into this folder, which all see and which is empty at the
    /// start; the last one names the slow ones
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) ranks: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) load: BenchLoad,
}
