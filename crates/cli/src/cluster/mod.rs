//! Scripts for schedulers: an array of tasks, each of which fills its part of a plan; the last one seals.

mod array_job;
mod directives;
mod kubernetes;
mod pbs;
mod pilot;
mod site;
mod slurm;

pub(crate) use array_job::{ArrayJob, comment};
pub(crate) use kubernetes::{Pods, manifest};
pub(crate) use pbs::{pbs_most, pbs_script};
pub(crate) use pilot::Pilot;
pub(crate) use slurm::{slurm_most, slurm_script};

#[cfg(test)]
pub(crate) use array_job::tests::job;
