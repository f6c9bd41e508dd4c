//! The flags of the commands that pack on a cluster.

use crate::planning::{Planning, Work};
use clap::{Arg, Args as ClapArgs, Subcommand, ValueHint, value_parser};
use std::path::PathBuf;

/// Pack with a Slurm job array.
#[derive(Subcommand)]
pub(crate) enum Slurm {
    /// Plan, pack a pilot shard, and print the script of a job array that packs the other shards and seals
    #[command(mut_arg("jobs", of_task), after_help = crate::examples::SLURM_EXAMPLES)]
    Pack(Box<ArrayPack>),
    /// Submit only the tasks whose shards are missing; if none is missing, seal
    #[command(mut_arg("jobs", of_task))]
    Resume(Box<ArrayResume>),
}

/// Pack with a PBS job array.
#[derive(Subcommand)]
pub(crate) enum Pbs {
    /// Plan, pack a pilot shard, and print the script of a job array that packs the other shards and seals
    #[command(mut_arg("jobs", of_task), after_help = crate::examples::PBS_EXAMPLES)]
    Pack(Box<ArrayPack>),
}

/// Pack with a Kubernetes Indexed Job.
#[derive(Subcommand)]
pub(crate) enum Kubernetes {
    /// Plan, pack a pilot shard, and print the manifest of a Job that packs the other shards and seals
    #[command(mut_arg("jobs", of_task), after_help = crate::examples::K8S_EXAMPLES)]
    Pack(Box<PodPack>),
}

/// The CPUs of a task where `--jobs` does not say.
pub(crate) const CPUS: usize = 4;

/// `--jobs` of the tasks, which run on other machines.
fn of_task(jobs: Arg) -> Arg {
    jobs.help(format!("Compute threads of a task, and CPUs that it requests [default: {CPUS}]"))
}

/// How the work is divided.
#[derive(ClapArgs)]
pub(crate) struct Division {
    /// The number of tasks: at most one per shard, and at most what the scheduler allows
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..))]
    pub(crate) tasks: u32,

    /// Skip the pilot shard, and request neither time nor memory
    #[arg(long)]
    pub(crate) no_pilot: bool,
}

/// The options of the scheduler.
#[derive(ClapArgs)]
pub(crate) struct SchedulerOptions {
    /// Options for the scheduler, such as --partition=cpu; each replaces the option of that name in the script
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

    /// Run the script's tasks here one after another, as the scheduler would
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

    /// On bad inputs: fail, or skip them. Give the policy that `packhorse slurm pack` got
    #[arg(long, value_name = "POLICY", default_value = "fail", value_parser = ["fail", "skip"])]
    pub(crate) on_error: String,

    /// Print the script instead of submitting it
    #[arg(long)]
    pub(crate) print: bool,

    /// Run the script's tasks here one after another, as the scheduler would
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

    /// The container image of the pods; it must contain packhorse
    #[arg(long, value_name = "IMAGE")]
    pub(crate) container: String,

    /// A persistent volume claim and the folder where pods mount it, which must also be its folder on this machine. Not
    /// needed if inputs and output are in an object store
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    #[test]
    fn the_help_says_the_threads_of_a_task() {
        let all = [Slurm::augment_subcommands, Pbs::augment_subcommands, Kubernetes::augment_subcommands];
        for commands in all.map(|augment| augment(Command::new("x"))) {
            for command in commands.get_subcommands() {
                let jobs = command.get_arguments().find(|arg| arg.get_id() == "jobs").unwrap();
                assert!(jobs.get_help().unwrap().to_string().ends_with("[default: 4]"), "{}", command.get_name());
            }
        }
    }
}
