//! The script of a PBS array.

use super::ArrayJob;
use super::array_job::{clock, comment};
use super::directives::{Directive, parse, replace, throttle};
use super::site::Site;
use packhorse_core::Result;

/// The most tasks of an array: the default `max_array_size` of PBS.
pub(crate) fn pbs_most() -> u32 {
    10_000
}

/// The script of `job`, with the options of the site's `pbs.toml`, and these `options` of the command line.
///
/// The numbers of a PBS array have no gaps: the array has all parts of the plan, and those without missing shards end
/// at once.
pub(crate) fn pbs_script(job: &ArrayJob, options: &[String]) -> Result<String> {
    script(job, &Site::read("pbs")?, options)
}

fn script(job: &ArrayJob, site: &Site, options: &[String]) -> Result<String> {
    let memory = job.mebibytes().map_or_else(String::new, |mebibytes| format!(":mem={mebibytes}mb"));
    let mut directives = vec![
        Directive::new("N", "packhorse"),
        Directive::new("r", "y"),
        Directive::new("j", "oe"),
        Directive::new("l", format!("select=1:ncpus={}{memory}", job.jobs)),
    ];
    directives.extend(job.seconds().map(|seconds| Directive::new("l", format!("walltime={}", clock(seconds)))));
    directives.retain(|directive| !site.without.contains(&directive.name));
    let mut at_once = String::new();
    for new in site.options.iter().cloned().chain(parse(options)?) {
        if new.name == "J" {
            at_once = throttle(&new, &format!("1-{}", job.parts))?;
            continue;
        }
        let key = key(&new);
        replace(&mut directives, new, |old| self::key(old) == key);
    }
    let wait = "a job with -W depend=afterok finds it";
    let again = "Submit the script again: tasks whose shards are there end at once.";
    let mut lines = vec!["#!/bin/bash".to_owned()];
    lines.extend(job.heading(again, wait).iter().map(|line| comment(line)));
    lines.push(String::new());
    // An array of one task is refused.
    let array = job.parts > 1;
    lines.extend(array.then(|| format!("#PBS -J 1-{}{at_once}", job.parts)));
    lines.extend(directives.iter().map(|d| match &d.value {
        Some(value) => format!("#PBS -{} {value}", d.name),
        None => format!("#PBS -{}", d.name),
    }));
    lines.push("\ncd \"$PBS_O_WORKDIR\" || exit".to_owned());
    lines.extend(site.setup.iter().cloned());
    let index = if array { "$PBS_ARRAY_INDEX" } else { "1" };
    lines.push(format!("exec {}\n", job.command(index, &job.jobs.to_string())));
    Ok(lines.join("\n"))
}

/// What a directive sets: a resource of `-l` is one of its own.
fn key(directive: &Directive) -> String {
    match (directive.name.as_str(), &directive.value) {
        ("l" | "W", Some(value)) => {
            format!("{} {}", directive.name, value.split_once('=').map_or(value.as_str(), |(name, _)| name))
        }
        _ => directive.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::job;

    #[test]
    fn the_script_has_all_parts() {
        let site = Site { options: vec![Directive::new("l", "filesystems=home:eagle")], ..Site::default() };
        let options = ["-q", "prod", "-A", "proj", "-l", "walltime=2:00:00"].map(str::to_owned);
        let script = script(&job(&[1, 9, 17, 19]), &site, &options).unwrap();
        for line in [
            "#PBS -J 1-8",
            "#PBS -l select=1:ncpus=4:mem=2048mb",
            "#PBS -l walltime=2:00:00",
            "#PBS -l filesystems=home:eagle",
            "#PBS -q prod",
            "#PBS -A proj",
            "cd \"$PBS_O_WORKDIR\" || exit",
        ] {
            assert!(script.lines().any(|found| found == line), "{line}\n{script}");
        }
        assert!(!script.contains("00:15:00"), "{script}");
        assert!(script.ends_with("--part \"$PBS_ARRAY_INDEX/8\" --seal --jobs 4 --on-error skip\n"), "{script}");
    }

    #[test]
    fn an_array_of_one_task_is_a_plain_job() {
        let mut one = job(&[0]);
        one.parts = 1;
        let script = script(&one, &Site::default(), &[]).unwrap();
        assert!(!script.contains("-J") && script.contains("--part \"1/1\""), "{script}");
        assert!(super::script(&one, &Site::default(), &["-J".to_owned(), "1-9".into()]).is_err());
    }
}
