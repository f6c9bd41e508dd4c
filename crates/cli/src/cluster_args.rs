//! The flags of the commands that pack on a cluster.

use crate::planning::{Planning, Work};
use clap::{Args as ClapArgs, Subcommand, ValueHint, value_parser};
use std::path::PathBuf;

/// Pack by a job array of Slurm.
#[derive(Subcommand)]
pub(crate) enum Slurm {
    /// Plan, pack a pilot shard, and print the script of a job array that packs the other shards and seals
    #[command(after_help = crate::examples::SLURM_EXAMPLES)]
    Pack(Box<ArrayPack>),
    /// Submit the tasks whose shards are missing; seal if none is missing
    Resume(Box<ArrayResume>),
}

/// Pack by a job array of PBS.
#[derive(Subcommand)]
pub(crate) enum Pbs {
    /// Plan, pack a pilot shard, and print the script of a job array that packs the other shards and seals
    #[command(after_help = crate::examples::PBS_EXAMPLES)]
    Pack(Box<ArrayPack>),
}

/// Pack by an Indexed Job of Kubernetes.
#[derive(Subcommand)]
pub(crate) enum Kubernetes {
    /// Plan, pack a pilot shard, and print the manifest of a Job that packs the other shards and seals
    #[command(after_help = crate::examples::K8S_EXAMPLES)]
    Pack(Box<PodPack>),
}

/// How the work is divided.
#[derive(ClapArgs)]
pub(crate) struct Division {
    /// Tasks; at most one for each shard, and at most as many as the scheduler allows
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..))]
    pub(crate) tasks: u32,

    /// Pack no pilot shard here, and ask for neither time nor memory
    #[arg(long)]
    pub(crate) no_pilot: bool,
}

/// The options of the scheduler.
#[derive(ClapArgs)]
pub(crate) struct SchedulerOptions {
    /// Options of the scheduler, such as --partition=cpu; each replaces one of the script
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) options: Vec<String>,
}

#[derive(ClapArgs)]
pub(crate) struct ArrayPack {
    #[command(flatten)]
    pub(crate) planning: Planning,

    #[command(flatten)]
    pub(crate) work: Work,

    #[command(flatten)]
    pub(crate) division: Division,

    /// Submit the script instead of printing it
    #[arg(long)]
    pub(crate) submit: bool,

    /// Run the script's tasks here, one after the other, as the scheduler would
    #[arg(long, conflicts_with = "submit")]
    pub(crate) local: bool,

    #[command(flatten)]
    pub(crate) scheduler: SchedulerOptions,
}

#[derive(ClapArgs)]
pub(crate) struct ArrayResume {
    /// The dataset's folder
    #[arg(value_name = "OUT", value_hint = ValueHint::DirPath)]
    pub(crate) out: PathBuf,

    #[command(flatten)]
    pub(crate) work: Work,

    #[command(flatten)]
    pub(crate) division: Division,

    /// Leave bad inputs out (skip) or fail: the policy that `packhorse slurm pack` was given
    #[arg(long, value_name = "POLICY", default_value = "fail", value_parser = ["fail", "skip"])]
    pub(crate) on_error: String,

    /// Print the script instead of submitting it
    #[arg(long)]
    pub(crate) print: bool,

    /// Run the script's tasks here, one after the other, as the scheduler would
    #[arg(long, conflicts_with = "print")]
    pub(crate) local: bool,

    #[command(flatten)]
    pub(crate) scheduler: SchedulerOptions,
}

#[derive(ClapArgs)]
pub(crate) struct PodPack {
    #[command(flatten)]
    pub(crate) planning: Planning,

    #[command(flatten)]
    pub(crate) work: Work,

    #[command(flatten)]
    pub(crate) division: Division,

    /// The container image of the pods, which has packhorse
    #[arg(long, value_name = "IMAGE")]
    pub(crate) container: String,

    /// A persistent volume claim, and the folder where pods mount it; the same one where this command runs. None is needed
    /// where inputs and output are in an object store
    #[arg(long, value_name = "NAME=FOLDER", value_parser = claim)]
    pub(crate) claim: Vec<(String, String)>,

    /// The Job's namespace
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Apply the manifest with kubectl instead of printing it
    #[arg(long)]
    pub(crate) submit: bool,
}

fn claim(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, folder)) if !name.is_empty() && folder.starts_with('/') => Ok((name.to_owned(), folder.to_owned())),
        _ => Err("write it like scratch=/data".to_owned()),
    }
}
