//! `packhorse slurm`, `pbs` and `k8s`: a plan, a pilot shard, and a script or manifest for the rest.

use super::{CommandContext, pack, trees};
use crate::cluster::{ArrayJob, Pilot, Pods, comment, manifest, pbs_most, pbs_script, slurm_most, slurm_script};
use crate::cluster_args::{ArrayPack, ArrayResume, CPUS, Division, Kubernetes, Pbs, PodPack, Slurm};
use crate::exit;
use crate::outcome::{counted, path_text, print, success};
use crate::planning::{Planning, Work};
use crate::settings::path_word;
use packhorse_core::{Error, Kind, Result};
use packhorse_pack::OnError;
use packhorse_storage::Location;
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

pub(super) fn slurm(context: &CommandContext<'_>, args: &Slurm) -> Result<ExitCode> {
    match args {
        Slurm::Pack(args) => array(context, &SLURM, args),
        Slurm::Resume(args) => resume(context, args),
    }
}

pub(super) fn pbs(context: &CommandContext<'_>, args: &Pbs) -> Result<ExitCode> {
    let Pbs::Pack(args) = args;
    array(context, &PBS, args)
}

pub(super) fn k8s(context: &CommandContext<'_>, args: &Kubernetes) -> Result<ExitCode> {
    let Kubernetes::Pack(args) = args;
    let PodPack { planning, work, division, container, claim, namespace, submit } = &**args;
    let out = plan(context, planning, work)?;
    let flags = flags(work, planning.check_exact, planning.recipe().on_error == OnError::Skip);
    let job = job(context, out, work, division, flags, u32::MAX)?;
    if job.tasks.is_empty() {
        return done(context, &job.out, false);
    }
    let text = manifest(&job, &Pods { container, claims: claim, namespace: namespace.as_deref() });
    match submit {
        true => submitted(context, &job, &text, &["kubectl", "apply", "-f", "-"]),
        false => printed(context, &job, &text),
    }
}

/// A scheduler of job arrays.
struct Scheduler {
    /// The script of a job, with these options.
    script: fn(&ArrayJob, &[String]) -> Result<String>,
    /// The most tasks of an array.
    most: fn() -> u32,
    /// The command that submits a script from its standard input.
    submit: &'static [&'static str],
    /// The variable with the number of a task.
    index: &'static str,
}

const SLURM: Scheduler = Scheduler {
    script: slurm_script,
    most: slurm_most,
    submit: &["sbatch", "--parsable"],
    index: "SLURM_ARRAY_TASK_ID",
};

const PBS: Scheduler = Scheduler { script: pbs_script, most: pbs_most, submit: &["qsub"], index: "PBS_ARRAY_INDEX" };

fn array(context: &CommandContext<'_>, scheduler: &Scheduler, args: &ArrayPack) -> Result<ExitCode> {
    let ArrayPack { planning, work, division, .. } = args;
    let out = plan(context, planning, work)?;
    let flags = flags(work, planning.check_exact, planning.recipe().on_error == OnError::Skip);
    let job = job(context, out, work, division, flags, (scheduler.most)())?;
    if job.tasks.is_empty() {
        return done(context, &job.out, !args.submit && !args.local);
    }
    let script = (scheduler.script)(&job, &args.scheduler.options)?;
    match (args.submit, args.local) {
        (true, _) => submitted(context, &job, &script, scheduler.submit),
        (_, true) => local(context, &job, &script, scheduler),
        _ => printed(context, &job, &script),
    }
}

fn resume(context: &CommandContext<'_>, args: &ArrayResume) -> Result<ExitCode> {
    let flags = flags(&args.work, 0.0, args.on_error == "skip");
    let job = job(context, &args.out, &args.work, &args.division, flags, slurm_most())?;
    if job.tasks.is_empty() {
        return done(context, &job.out, args.print);
    }
    let script = slurm_script(&job, &args.scheduler.options)?;
    match (args.print, args.local) {
        (true, _) => printed(context, &job, &script),
        (_, true) => local(context, &job, &script, &SLURM),
        _ => submitted(context, &job, &script, SLURM.submit),
    }
}

/// Stores the plan of a request in its folder.
fn plan<'a>(context: &CommandContext<'_>, planning: &'a Planning, work: &Work) -> Result<&'a Path> {
    let recipe = planning.recipe();
    if planning.dry_run {
        return Err(Error::config(
            "without --submit and --local nothing is packed but a pilot shard; `packhorse plan --dry-run` writes nothing",
        ));
    }
    if planning.replace {
        return Err(Error::config(
            "--replace exchanges two datasets, which one process alone must do; pack into a new folder",
        ));
    }
    if recipe.tree.as_deref() == Some(trees::ALL) {
        return Err(Error::config("each tree has a plan of its own; pack one with --tree NAME"));
    }
    let session = pack::session(context, planning, work)?;
    session.store_plan(recipe, &session.plan(recipe)?)?;
    context.progress.finish();
    recipe.folder()
}

/// The flags of a task that are not those of the plan.
fn flags(work: &Work, check_exact: f64, skips: bool) -> Vec<String> {
    let mut flags = Vec::new();
    let mut add = |name: &str, value: String| flags.extend([name.to_owned(), value]);
    if skips {
        add("--on-error", "skip".to_owned());
    }
    if work.io_threads != 32 {
        add("--io-threads", work.io_threads.to_string());
    }
    if let Some(bytes) = work.memory {
        add("--memory", format!("{bytes}B"));
    }
    if !work.verifying.on() {
        add("--verify", "off".to_owned());
    }
    if check_exact > 0.0 {
        add("--check-exact", check_exact.to_string());
    }
    flags
}

/// The memory that packing uses for input where `--memory` does not say, in bytes.
const BUDGET: u64 = 192 << 20;

/// The tasks for the missing shards of the plan in `out`, sized by a pilot; none if no shard is missing.
fn job(
    context: &CommandContext<'_>,
    out: &Path,
    work: &Work,
    division: &Division,
    flags: Vec<String>,
    most: u32,
) -> Result<ArrayJob> {
    let program = program()?;
    let out = Location::absolute(out);
    let mut watch = context.session().watch(&out)?;
    let mut plan = watch.look()?;
    let mut job = ArrayJob {
        program: program.to_string_lossy().into_owned(),
        out,
        shards: plan.shards,
        samples: plan.samples,
        parts: 1,
        tasks: Vec::new(),
        most: 0,
        jobs: work.threads.jobs.map_or(CPUS, usize::from),
        flags,
        budget: work.memory.unwrap_or(BUDGET),
        pilot: None,
    };
    if !division.no_pilot {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from).min(job.jobs);
        let flags = [&["--jobs".to_owned(), cpus.to_string()][..], &job.flags].concat();
        job.pilot = Pilot::pack(&job.program, &job.out, &plan.missing(), plan.shards, &flags)?;
        plan = watch.look()?;
    }
    job.divide(&plan, division.tasks.min(most));
    Ok(job)
}

/// Seals the dataset in `out`, of which no shard is missing. Where a script is wanted it does nothing, so that it can be submitted.
fn done(context: &CommandContext<'_>, out: &Path, as_script: bool) -> Result<ExitCode> {
    let (value, text) = pack::seal_beside_others(context, out)?;
    match as_script && !context.style.json {
        true => {
            let lines = text.lines().map(|line| comment(line) + "\n").collect::<String>();
            print(&format!("#!/bin/bash\n# Nothing is left to pack.\n{lines}")).map(|()| success())
        }
        false => context.style.show(&value, &text),
    }
}

/// The path of packhorse for tasks. Within Python it is that of the command `packhorse` in `PATH`.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|e| Error::io("find packhorse's own path", e))?;
    if own.file_stem().is_some_and(|name| name == "packhorse") {
        return Ok(own);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join("packhorse")).find(|path| path.is_file());
    found.ok_or_else(|| Error::config("the command packhorse is not in PATH, so tasks could not be given its path"))
}

fn described(job: &ArrayJob) -> serde_json::Value {
    let pilot = job.pilot.as_ref().map(|pilot| {
        json!({"shard": pilot.shard, "input_bytes": pilot.bytes, "seconds": pilot.seconds, "peak_memory": pilot.memory})
    });
    json!({
        "out": path_text(&job.out), "shards": job.shards, "samples": job.samples, "parts": job.parts, "tasks": job.tasks,
        "seconds": job.seconds(), "mebibytes": job.mebibytes(), "pilot": pilot,
    })
}

fn printed(context: &CommandContext<'_>, job: &ArrayJob, text: &str) -> Result<ExitCode> {
    let mut value = described(job);
    value["script"] = text.into();
    // Written as it is: in a script, backticks are not those of settings.
    match context.style.json {
        true => context.style.show(&value, ""),
        false => print(text).map(|()| success()),
    }
}

/// Gives `text` to the command that submits it.
fn submitted(context: &CommandContext<'_>, job: &ArrayJob, text: &str, command: &[&str]) -> Result<ExitCode> {
    let Some((program, args)) = command.split_first() else { return Err(Error::bug("a scheduler without a command")) };
    let failed = |e| {
        Error::io(&format!("start {program}"), e).hint("run it where the scheduler's commands are, or print the script")
    };
    let mut child =
        Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(text.as_bytes()) {
            // A scheduler that refuses may not read to the end; its exit status says so.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.map_err(|e| Error::io(&format!("write to {program}"), e))?,
        }
    }
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(Error::new(Kind::Environment, format!("{program} refused the job")));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let id = said.trim();
    let mut value = described(job);
    value["job"] = id.into();
    let tasks = counted(job.tasks.len() as u64, "task");
    let out = path_word(&job.out);
    let text = format!("submitted {id}: {tasks}\n  look at it with: packhorse status {out} --watch\n");
    context.style.show(&value, &text)
}

/// Runs each task of the script here.
fn local(context: &CommandContext<'_>, job: &ArrayJob, script: &str, scheduler: &Scheduler) -> Result<ExitCode> {
    let mut failed = Vec::new();
    for task in &job.tasks {
        context.cancel.check()?;
        let mut shell = Command::new("bash");
        shell.args(["-c", script]).env(scheduler.index, task.to_string()).env("PBS_O_WORKDIR", ".");
        let status = shell.stdin(Stdio::null()).status().map_err(|e| Error::io("start bash", e))?;
        if !status.success() {
            failed.push((*task, status.code()));
        }
    }
    let Some((task, code)) = failed.first() else { return Ok(success()) };
    let kind = code.and_then(exit::kind).unwrap_or(Kind::Environment);
    Err(Error::new(
        kind,
        format!("{} of {} failed, the first is task {task}", failed.len(), counted(job.tasks.len() as u64, "task")),
    ))
}
